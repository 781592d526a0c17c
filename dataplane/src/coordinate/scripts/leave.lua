#!lua flags=allow-oom
-- Takes a process out of the list at once: it stops. allow-oom: it only frees.
--
-- KEYS  1  member   see beat.lua
--       2  members  see beat.lua
-- ARGV  1  id       see beat.lua
--
-- Reply {"left"}    also if it was not in the list
--
-- Invariant: nobody else's place is touched.

redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return { 'left' }
