#!lua flags=allow-oom
-- Notes that asking the model failed: nobody in the namespace asks for a while. Gives the lease back.
-- allow-oom: without it a full server would make the group ask on without a pause. It writes one small key.
--
-- KEYS  1  leases    see admit.lua
--       2  cooldown  hash: step (pauses since the last success, 0..5), begun and until (Redis ms of the last pause)
--       3  lease     see admit.lua
-- ARGV  1  token     of the admission
--       2  wait      ms for which the model's server wants to be left alone; 0 if it did not say
--       3  kind      "passing", or "configuration": only a change by people helps, so the longest pause at once
--
-- Reply {"cooling", ms}  nobody is admitted for so long from now
--       {"late"}         the lease is over or another's: nothing was changed
--
-- Invariants: pauses are 1, 2, 4, 8, 16, 32 s, then 32 s on; a longer `wait` wins, up to 60 s. What was admitted before
-- the pause began belongs to the same incident: it may lengthen the pause and does not double it. The record outlives
-- its pause by two minutes: a failure after that is the first one again.

local FIRST_PAUSE = 1000
local DOUBLINGS = 5
local LONGEST_PAUSE = 60000
local MEMORY = 120000

local function whole(number)
  return string.format('%.0f', number)
end

local token = ARGV[1]
local held = redis.call('GET', KEYS[3])
local holder, admitted = string.match(held or '', '^(%S+) (%d+)$')
if holder ~= token then
  return { 'late' }
end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local step = tonumber(redis.call('HGET', KEYS[2], 'step') or 0)
local begun = tonumber(redis.call('HGET', KEYS[2], 'begun') or -1)
local ends = tonumber(redis.call('HGET', KEYS[2], 'until') or 0)
local same_incident = tonumber(admitted) <= begun

local pause = 0
if ARGV[3] == 'configuration' then
  step = DOUBLINGS
  pause = FIRST_PAUSE * 2 ^ DOUBLINGS
elseif not same_incident then
  pause = FIRST_PAUSE * 2 ^ step
  step = math.min(step + 1, DOUBLINGS)
end
local new_ends = now + math.max(pause, math.min(tonumber(ARGV[2]), LONGEST_PAUSE))
if same_incident then
  ends = math.max(ends, new_ends)
else
  begun, ends = now, new_ends
end

local left = math.max(ends - now, 0)
-- Tried first: who has no right to set an expiry must not leave a key without one.
redis.call('PEXPIRE', KEYS[2], left + MEMORY)
redis.call('HSET', KEYS[2], 'step', whole(step), 'begun', whole(begun), 'until', whole(ends))
redis.call('PEXPIRE', KEYS[2], left + MEMORY)
redis.call('DEL', KEYS[3])
redis.call('ZREM', KEYS[1], token)
return { 'cooling', left }
