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
-- Reply {"members", cut, id, age, document, id, age, document, ...}
--                   cut is 1 if there is somebody who is not told: beyond `most`, or for want of room; else 0
--                   age in ms since the heartbeat, never below 0: a server that took over may have another clock
--                   document is empty where it is longer than `longest`
--
-- Invariants: the end of a document is what counts, not the index: that one may be behind. Who is in the index for a time
-- more than a life away is nobody, and takes nobody's place: the next heartbeat of anybody takes him out. No key is searched
-- for.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local most, longest, room, life = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function whole(number)
  return string.format('%.0f', number)
end

-- One more than is told, to know whether that is all.
local listed = redis.call('ZRANGE', KEYS[1], whole(now + life), whole(now - life), 'BYSCORE', 'REV',
  'LIMIT', 0, whole(most + 1), 'WITHSCORES')
local cut = 0
if #listed > 2 * most then
  cut = 1
end
local keys = {}
for index = 1, math.min(#listed, 2 * most), 2 do
  keys[#keys + 1] = ARGV[1] .. listed[index]
end
local reply = { 'members', cut }
if #keys > 0 then
  -- What is of another type is nil here, as what has ended.
  for index, document in ipairs(redis.call('MGET', unpack(keys))) do
    if document and #document > longest then
      document = ''
    end
    -- Others wait for their answers behind this one.
    if document and #document > room then
      reply[2] = 1
    elseif document then
      room = room - #document
      reply[#reply + 1] = listed[2 * index - 1]
      reply[#reply + 1] = math.max(0, now - tonumber(listed[2 * index]))
      reply[#reply + 1] = document
    end
  end
end
return reply
