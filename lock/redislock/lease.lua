-- Takes or renews a lock. One step, so that no other owner comes between the look and the write.
-- KEYS[1]: the lock, a hash of owner, fence and ttl that expires. KEYS[2]: the last fencing number of its name.
-- ARGV: owner, fence (0: take), ttl in milliseconds.
-- Returns the fencing number, as text, or '0': another owner holds the lock, or this one does not any more.
local owner, want, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local held = redis.call('HMGET', KEYS[1], 'owner', 'fence', 'ttl')
local fence

if held[1] == owner then
  fence = math.max(tonumber(held[2]), want)
elseif held[1] or want > 0 then
  -- Expiry is a moment of the clock. If it lies farther ahead than the ttl, the clock has stepped back: the lock
  -- lasts one ttl from now, which is more than its holder was promised, and not the step besides.
  if held[1] and redis.call('PTTL', KEYS[1]) > tonumber(held[3]) then
    redis.call('PEXPIRE', KEYS[1], held[3])
  end
  return '0'
else
  -- The time in microseconds, so that numbers rise also when Redis has lost its data; the last number, so
  -- that they rise when its clock steps back by less than a day.
  local now = redis.call('TIME')
  local last = tonumber(redis.call('GET', KEYS[2]) or '0')
  fence = math.max(now[1] * 1000000 + now[2], last + 1)
end

local text = string.format('%.0f', fence)
redis.call('HSET', KEYS[1], 'owner', owner, 'fence', text, 'ttl', ttl)
redis.call('PEXPIRE', KEYS[1], ttl)
redis.call('SET', KEYS[2], text, 'PX', math.max(86400000, ttl))
return text
