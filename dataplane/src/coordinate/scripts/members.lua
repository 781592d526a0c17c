#!lua flags=no-writes
-- Tells who is alive: those of the index whose document has not ended. The server itself refuses any write here.
--
-- KEYS  1  members  see beat.lua
-- ARGV  1  prefix   of the keys of documents: an id behind it is a key. They have the hash tag of KEYS 1
--       2  most     how many are told, those with the latest heartbeats
--       3  longest  bytes that a document may have
--       4  all      bytes that all of them may have
--       5  life     see beat.lua
--
-- Reply {"members", id, age, document, id, age, document, ...}
--                   age in ms since the heartbeat, never below 0: a server that took over may have another clock
--                   document is empty where it is too long, or where there is no room left
--
-- Invariants: the end of a document is what counts, not the index: that one may be behind. Who is in the index for a time
-- more than a life away is nobody, and takes nobody's place: the next heartbeat of anybody takes him out. No key is searched
-- for.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local longest, room, life = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function whole(number)
  return string.format('%.0f', number)
end

local listed = redis.call('ZRANGE', KEYS[1], whole(now + life), whole(now - life), 'BYSCORE', 'REV',
  'LIMIT', 0, ARGV[2], 'WITHSCORES')
local keys = {}
for index = 1, #listed, 2 do
  keys[#keys + 1] = ARGV[1] .. listed[index]
end
local reply = { 'members' }
if #keys > 0 then
  -- What is of another type is nil here, as what has ended.
  for index, document in ipairs(redis.call('MGET', unpack(keys))) do
    if document then
      -- Others wait for their answers behind this one.
      if #document > math.min(longest, room) then
        document = ''
      end
      room = room - #document
      reply[#reply + 1] = listed[2 * index - 1]
      reply[#reply + 1] = math.max(0, now - tonumber(listed[2 * index]))
      reply[#reply + 1] = document
    end
  end
end
return reply
