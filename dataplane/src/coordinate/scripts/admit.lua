#!lua
-- Answers who may ask the model about one instrument: nobody need, not now, the caller, or nobody with this budget.
-- Without flags the server runs it as a whole or not at all: out of memory and read-only roles are refused up front.
--
-- KEYS  1  budget      hash: current, next (blocks; next is '' if none), next_at (Redis ms)
--       2  leases      sorted set: token -> Redis ms at which its lease ends
--       3  admissions  string: "<Redis second> <admissions in it>"
--       4  cooldown    hash, see fail.lua
--       5  lease       string: "<token> <Redis ms of the admission>"; its key holds version and identity
--       6  score       string: payload of the assessment or refusal; its key holds version and identity
-- ARGV  1  block       "<generation> <lease ms> <in flight> <per second>": decimal, one space between;
--                      generation 0: an explicitly shared namespace, which has none
--       2  token       new for this attempt, never used before, without spaces
--       3  ttl         longest life of a score in ms
--       4  least       a score is a hit if more than this is left of its life, in ms; 0 but for a refresh
--
-- Reply {"hit", payload, life}        life in ms, 1..ttl
--       {"owner"}                     the lease is the caller's, for the lease ms of its block
--       {"wait", "cooldown", ms}      asking failed: nobody asks for so long
--       {"wait", "lease", ms}         somebody is asking about this instrument, for at most so long
--       {"wait", "in_flight", 0}      all leases are taken
--       {"wait", "second", ms}        this Redis second has no admission left
--       {"wait", "pending", ms, current, next}   a new block waits until the old one's leases are over
--       {"wait", "superseded", 0, block}         a block of a higher generation is in force, or will be
--       {"mismatch", block}           that block is in force, and the caller's contradicts it
--
-- Invariants
-- - At most <in flight> tokens in `leases` have not ended; at most <per second> admissions fall into one Redis second,
--   whatever becomes of them: an admission is counted once and never given back.
-- - A lease is held by one token. Its score there ends no earlier than its key does.
-- - A block comes into force when none is, or twice the old block's lease after it was first seen ("pending"). From then
--   on until it is in force nobody is admitted, so no lease of the old budget is left. A still higher one takes its
--   place without a new wait, for nobody was admitted meanwhile.
-- - The record lives twice its lease from its last use. Only callers whose block is in force, or pending, use it: a
--   block that nobody has any more goes by itself, whatever the others ask.
-- - Every write has its expiry in the same run. All times are of Redis' clock.

local LONGEST_PAUSE = 60000

local block, token = ARGV[1], ARGV[2]
local ttl, least = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local second = tonumber(time[1])
local now = second * 1000 + math.floor(tonumber(time[2]) / 1000)

local function whole(number)
  return string.format('%.0f', number)
end

local function numbers(text)
  local generation, lease, in_flight, per_second = string.match(text, '^(%d+) (%d+) (%d+) (%d+)$')
  return tonumber(generation), tonumber(lease), tonumber(in_flight), tonumber(per_second)
end

local generation, lease, in_flight, per_second = numbers(block)

local function write(key, milliseconds, ...)
  -- Tried first: who has no right to set an expiry must not leave a key without one.
  redis.call('PEXPIRE', key, milliseconds)
  redis.call(...)
  redis.call('PEXPIRE', key, milliseconds)
end

-- The budget record: what is in force, what is to come.

local current = redis.call('HGET', KEYS[1], 'current') or ''
local upcoming = redis.call('HGET', KEYS[1], 'next') or ''
local next_at = tonumber(redis.call('HGET', KEYS[1], 'next_at') or 0)
local changed = false

if current == '' then
  current, upcoming, next_at, changed = block, '', 0, true
elseif upcoming ~= '' then
  -- A clock that was set back must not make the wait longer.
  local _, old_lease = numbers(current)
  next_at = math.min(next_at, now + 2 * old_lease)
  if now >= next_at then
    current, upcoming, next_at, changed = upcoming, '', 0, true
  end
end

local function use_record()
  local _, shown_lease = numbers(current)
  local life = 2 * shown_lease
  if upcoming ~= '' then
    local _, next_lease = numbers(upcoming)
    life = math.max(next_at - now, 0) + 2 * next_lease
  end
  write(KEYS[1], life, 'HSET', KEYS[1], 'current', current, 'next', upcoming, 'next_at', whole(next_at))
end

if changed then
  use_record()
end

local function contradicts(other)
  if other == '' or other == block then
    return false
  end
  local theirs = numbers(other)
  return theirs == generation or theirs == 0 or generation == 0
end

for _, other in ipairs({ current, upcoming }) do
  if contradicts(other) then
    return { 'mismatch', other }
  end
end

-- A score needs no budget. One without an end, or with a later one than any of ours, is none of ours: written anew.

local life = redis.call('PTTL', KEYS[6])
if life > least and life <= ttl then
  local text = redis.pcall('GET', KEYS[6])
  if type(text) ~= 'table' then
    return { 'hit', text, life }
  end
  -- What somebody else has put there is as good as nothing: publish.lua writes over it.
  if not string.find(text.err, 'WRONGTYPE', 1, true) then
    error(text.err)
  end
end

-- Generations.

local current_generation, current_lease = numbers(current)
if generation < current_generation then
  return { 'wait', 'superseded', 0, current }
end
if upcoming ~= '' then
  local next_generation = numbers(upcoming)
  if generation > next_generation then
    upcoming = block
  elseif generation < next_generation and generation > current_generation then
    return { 'wait', 'superseded', 0, upcoming }
  end
  -- Its life ends at a fixed time until then, whoever asks.
  use_record()
  return { 'wait', 'pending', next_at - now, current, upcoming }
end
if generation > current_generation then
  upcoming, next_at = block, now + 2 * current_lease
  use_record()
  return { 'wait', 'pending', next_at - now, current, upcoming }
end
use_record()

-- The budget. What holds for all callers comes first, so that one answer can spare a process the next ones.

local pause = tonumber(redis.call('HGET', KEYS[4], 'until') or 0) - now
-- Longer than twice the longest: the clock was set back since.
if pause > 0 and pause <= 2 * LONGEST_PAUSE then
  return { 'wait', 'cooldown', pause }
end

local counted_second, counted = string.match(redis.call('GET', KEYS[3]) or '', '^(%d+) (%d+)$')
local admissions = tonumber(counted_second) == second and tonumber(counted) or 0
if admissions >= per_second then
  return { 'wait', 'second', 1000 - now % 1000 }
end

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. whole(now))
-- A lease that ends so late was given before the clock was set back.
redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. whole(now + 2 * lease), '+inf')
if redis.call('ZCARD', KEYS[2]) >= in_flight then
  return { 'wait', 'in_flight', 0 }
end

if redis.call('EXISTS', KEYS[5]) == 1 then
  return { 'wait', 'lease', redis.call('PTTL', KEYS[5]) }
end

write(KEYS[2], 2 * lease, 'ZADD', KEYS[2], whole(now + lease), token)
redis.call('SET', KEYS[3], whole(second) .. ' ' .. whole(admissions + 1), 'PX', 2000)
redis.call('SET', KEYS[5], token .. ' ' .. whole(now), 'PX', lease)
return { 'owner' }
