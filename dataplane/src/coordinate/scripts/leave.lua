#!lua flags=allow-oom
-- Takes a process out of the list at once, and for good: it stops. allow-oom: it frees a document
-- and writes one small key that ends.
--
-- KEYS  1  member   see beat.lua
--       2  members  see beat.lua
--       3  left     string: no heartbeat of this process is taken any more
-- ARGV  1  id       see beat.lua
--       2  life     see beat.lua
--
-- Reply {"left"}    also if it was not in the list
--
-- Invariants: nobody else's place is touched. The mark ends by itself after a life: a heartbeat that was on its way for longer
-- would be listed until its own end.

redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('SET', KEYS[3], '1', 'PX', ARGV[2])
return { 'left' }
