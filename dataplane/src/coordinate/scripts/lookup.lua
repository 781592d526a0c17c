#!lua flags=no-writes
-- Reads shared assessments, many in one round trip. The server itself refuses any write here.
--
-- KEYS  1     budget    the namespace's budget record, see admit.lua
--       2..   scores    assessments and refusals; their keys hold version and identity
-- ARGV  1     block     the caller's budget block, see admit.lua
--
-- Reply {"found", payload, life, payload, life, ...}  two entries for each of KEYS 2.., in their order:
--                       payload as it was published, or nil; life in ms as PTTL tells it
--       {"mismatch", block}  that block is in force, and the caller's contradicts it
--
-- Invariants: neither budget nor leases are looked at: a block that is behind or ahead by its generation still reads.
-- Reading is no use of the budget record: it lives no longer for it.

local block = ARGV[1]

local function contradicts(other)
  if not other or other == '' or other == block then
    return false
  end
  local mine = string.match(block, '^%d+')
  local theirs = string.match(other, '^%d+')
  return mine == theirs or mine == '0' or theirs == '0'
end

for _, field in ipairs({ 'current', 'next' }) do
  local other = redis.call('HGET', KEYS[1], field)
  if contradicts(other) then
    return { 'mismatch', other }
  end
end

-- What somebody else has put there is as good as nothing: publish.lua writes over it.
local function text_at(key)
  local text = redis.pcall('GET', key)
  if type(text) == 'table' and text.err then
    if string.find(text.err, 'WRONGTYPE', 1, true) then
      return false
    end
    error(text.err)
  end
  return text
end

local reply = { 'found' }
for index = 2, #KEYS do
  -- false becomes nil in the reply; nil itself would end it.
  reply[#reply + 1] = text_at(KEYS[index])
  reply[#reply + 1] = redis.call('PTTL', KEYS[index])
end
return reply
