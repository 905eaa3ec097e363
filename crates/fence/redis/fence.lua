-- Fencepost's rule inside Redis (5 or later). The check and the write are one step: nothing can
-- come between them.
--
--     EVAL <this file> 2 {accounts}:fence {accounts} 11 exclusive repeat  SET {accounts} 95
--
-- KEYS[1]   where the mark is kept: a hash. Give it the same {tag} as the data in a cluster.
-- KEYS[2..] every key that the command touches.
-- ARGV[1]   the token.
-- ARGV[2]   exclusive, shared or permit.
-- ARGV[3]   repeat: a token may write as often as it likes. strict: an exclusive one only once.
--           With -evictable behind it (repeat-evictable, strict-evictable), a policy that lets Redis
--           evict marks is accepted. Without it the script refuses to make a mark then: one that is
--           evicted lets a stale token in.
-- ARGV[4..] the command and its arguments. Without it the token is checked and remembered, and the
--           answer is OK; the write must then follow in another way, and can be overtaken.
--
-- To take over what an operator took away: ARGV[2] is floor, ARGV[1] the floor (0 if there is none),
-- and ARGV[3..] are single tokens. They are taken under every policy: a floor that may be evicted is
-- better than none.
--
-- Errors begin with one word: STALE, REUSED, FLOOR, EVICTION, NOTOKEN. Any other error is the command's own,
-- and then the mark stays as it was.
--
-- Tokens are compared as text. A number of Lua is a double, and above 2^53 two tokens would look
-- the same.

local mark = KEYS[1]

local function is_number(text)
  return text == '0' or (string.find(text, '^[1-9]%d*$') ~= nil
    and (#text < 20 or (#text == 20 and text <= '18446744073709551615')))
end

-- Both are decimal and without leading zeros, so the longer one is the larger one.
local function is_less(left, right)
  if #left ~= #right then
    return #left < #right
  end
  return left < right
end

local function keep_only_from(least)
  for _, field in ipairs(redis.call('HKEYS', mark)) do
    local token = string.match(field, '^taken:(%d+)$')
    if token and is_less(token, least) then
      redis.call('HDEL', mark, field)
    end
  end
end

-- Why no mark can be made here, if Redis may evict it. An evicted mark looks like one that was never
-- made, so this is asked whenever there is none.
local function eviction_refusal()
  local info = redis.pcall('INFO', 'memory')
  local policy = type(info) == 'string' and string.match(info, 'maxmemory_policy:([%w-]+)')
  if not policy then
    return 'EVICTION the maxmemory-policy cannot be read: allow INFO, or add -evictable to the third argument'
  end
  if string.sub(policy, 1, 8) == 'allkeys-' then
    return 'EVICTION Redis may evict marks (maxmemory-policy ' .. policy
      .. '): set it to noeviction, or add -evictable to the third argument'
  end
end

local token, mode = ARGV[1] or '', ARGV[2] or ''
if not is_number(token) then
  return redis.error_reply('NOTOKEN a token is a whole number in decimal digits, at most 64 bits')
end
local highest = redis.call('HGET', mark, 'highest') or '0'
local below = redis.call('HGET', mark, 'below') or '0'

if mode == 'floor' then
  for at = 3, #ARGV do
    if not is_number(ARGV[at]) or ARGV[at] == '0' then
      return redis.error_reply('NOTOKEN a token is a whole number in decimal digits, at least 1')
    end
  end
  if is_less(below, token) then
    below = token
    redis.call('HSET', mark, 'below', below)
  end
  for at = 3, #ARGV do
    redis.call('HSET', mark, 'taken:' .. ARGV[at], '1')
  end
  keep_only_from(is_less(highest, below) and below or highest)
  return redis.status_reply('OK')
end

if token == '0' then
  return redis.error_reply('NOTOKEN a token is at least 1')
end
if mode ~= 'exclusive' and mode ~= 'shared' and mode ~= 'permit' then
  return redis.error_reply('NOTOKEN the mode is none of exclusive, shared and permit')
end
local repeats, suffix = string.match(ARGV[3] or '', '^(%l+)(.*)$')
if (repeats ~= 'repeat' and repeats ~= 'strict') or (suffix ~= '' and suffix ~= '-evictable') then
  return redis.error_reply('NOTOKEN the third argument is neither repeat nor strict')
end
if suffix == '' and highest == '0' then
  local refusal = eviction_refusal()
  if refusal then
    return redis.error_reply(refusal)
  end
end
if is_less(token, highest) then
  return redis.error_reply('STALE Token ' .. token .. ' is stale, last seen was ' .. highest)
end
if is_less(token, below) then
  return redis.error_reply('FLOOR Token ' .. token .. ' is below the fence floor ' .. below
    .. ': its lock was released by force')
end
if redis.call('HEXISTS', mark, 'taken:' .. token) == 1 then
  return redis.error_reply('FLOOR Token ' .. token
    .. ' was taken away: its lock was released by force')
end
if token == highest and repeats == 'strict' then
  return redis.error_reply('REUSED Token ' .. token .. ' already used')
end

local answer = redis.status_reply('OK')
if ARGV[4] then
  answer = redis.pcall(unpack(ARGV, 4))
  if type(answer) == 'table' and answer.err then
    return answer
  end
end
if mode == 'exclusive' and is_less(highest, token) then
  redis.call('HSET', mark, 'highest', token)
  keep_only_from(token)
end
return answer
