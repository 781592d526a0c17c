#!lua
-- Says that a process is alive: its document, and its place in the index.
-- Without flags the server refuses it up front when out of memory or in a read-only role.
--
-- KEYS  1  member    string: the document; its key holds the id
--       2  members   sorted set: id -> Redis ms of its latest heartbeat
--       3  left      see leave.lua
-- ARGV  1  id        new for each process, the same as in the key
--       2  document  what readers get
--       3  life      in ms: without another heartbeat the process counts as gone after that
--
-- Reply {"beating"}
--       {"left"}     this process has left: nothing was written
--
-- Invariants: every write has its expiry in the same run. Who has not said anything for a life leaves the index with the
-- next heartbeat of anybody, and so does who will have said something in a life: the clock was set back since, or it is
-- nobody of ours. The index itself ends with its last member. Who has left does not come back: a heartbeat may arrive late, over
-- a connection that was given up. All times are of Redis' clock.

local id, document, life = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function whole(number)
  return string.format('%.0f', number)
end

if redis.call('EXISTS', KEYS[3]) == 1 then
  return { 'left' }
end

redis.call('SET', KEYS[1], document, 'PX', life)
-- Tried first: who has no right to set an expiry must not leave a key without one.
redis.call('PEXPIRE', KEYS[2], life)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', whole(now - life))
redis.call('ZREMRANGEBYSCORE', KEYS[2], whole(now + life), '+inf')
redis.call('ZADD', KEYS[2], whole(now), id)
redis.call('PEXPIRE', KEYS[2], life)
return { 'beating' }
