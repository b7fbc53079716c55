-- rate.lua: count one try of each buyer against the rate of a sale, in order.
--
-- KEYS:    1.. one key per try, of its buyer; a buyer may occur more than once
-- ARGV:    1 what one try costs in µs, 2 what all together may cost ahead in µs, 3 how long a key is kept in ms;
--          4 now in µs, or '' for this server's clock
-- Returns: per try 0 if it is within the rate and counted, else the µs until the buyer's next one would be
-- Keeps:   no invariant; a denied try writes nothing
-- Cost:    2 commands a counted try, 1 a denied one: under 1 ms for 250
-- Resend:  counts again; a buyer without an answer does not pass, so a lost reply gains nothing

local KEYS = KEYS
local cost, full, keep = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local now = tonumber(ARGV[4])
if not now then
  local t = redis.call('TIME')
  now = tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local out = {}
for i = 1, #KEYS do
  local paid = tonumber(redis.call('GET', KEYS[i]) or 0)
  if not paid then
    return redis.error_reply('ERR the rate of a buyer holds no number')
  end
  if paid < now or paid > now + full then -- Meter.Try in ratelimit.go says why
    paid = now
  end
  local wait = paid + cost - full - now
  if wait > 0 then
    out[i] = wait
  else
    redis.call('SET', KEYS[i], string.format('%.0f', paid + cost), 'PX', keep)
    out[i] = 0
  end
end
return out
