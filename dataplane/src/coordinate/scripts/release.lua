#!lua flags=allow-oom
-- Gives a lease back unused: the question was cancelled, the process stops, or the admission's answer never came.
-- allow-oom: it only frees.
--
-- KEYS  1  leases  see admit.lua
--       2  lease   see admit.lua
-- ARGV  1  token   of the admission, which may never have happened
--
-- Reply {"released"}
--       {"late"}     the token holds no lease: over, published, never given
--
-- Invariants: nobody else's lease is touched. The admission stays counted in its Redis second.

local token = ARGV[1]
local holder = string.match(redis.call('GET', KEYS[2]) or '', '^(%S+) %d+$')
redis.call('ZREM', KEYS[1], token)
if holder ~= token then
  return { 'late' }
end
redis.call('DEL', KEYS[2])
return { 'released' }
