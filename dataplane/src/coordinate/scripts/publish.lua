#!lua
-- Stores what the model said about one instrument, if the caller still holds its lease, and gives the lease back.
-- Without flags the server refuses it up front when out of memory or in a read-only role.
--
-- KEYS  1  leases    see admit.lua
--       2  cooldown  see fail.lua
--       3  lease     see admit.lua
--       4  score     the assessment's key
-- ARGV  1  token     of the admission
--       2  payload   what lookups and hits will read
--       3  ttl       its life in ms
--       4  kind      "answers", or "refusal": the model refused this instrument
--
-- Reply {"published"}
--       {"late"}     the lease is over or another's: nothing was changed
--
-- Invariants: only the token that holds the lease writes, so a late owner never overwrites a newer answer. Answers to a
-- question that was admitted after the pause began end the cooldown; a refusal says nothing about the others.

local token = ARGV[1]
local held = redis.call('GET', KEYS[3])
local holder, admitted = string.match(held or '', '^(%S+) (%d+)$')
if holder ~= token then
  return { 'late' }
end

redis.call('SET', KEYS[4], ARGV[2], 'PX', ARGV[3])
redis.call('DEL', KEYS[3])
redis.call('ZREM', KEYS[1], token)
if ARGV[4] == 'answers' then
  local begun = redis.call('HGET', KEYS[2], 'begun')
  if begun and tonumber(admitted) > tonumber(begun) then
    redis.call('DEL', KEYS[2])
  end
end
return { 'published' }
