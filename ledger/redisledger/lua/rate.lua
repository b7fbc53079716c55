-- rate.lua: count tries against the rates of a sale, in order: each by all of the rates, or by none.
--
-- KEYS:    1.. per try one key for each rate, of its buyer or its address; a key may occur more than once
-- ARGV:    1 now in µs, or '' for this server's clock, 2.. for each rate: what one try costs in µs, what all together
--          may cost ahead in µs, how long a key is kept in ms
-- Returns: per key 0 if the try is within that rate, else the µs until the next one would be; a try with nothing
--          but 0 is counted
-- Keeps:   no invariant; a denied try writes nothing; a key that holds something else counts as absent, and is replaced
-- Cost:    2 commands a key of a counted try, 1 of a denied one: under 1 ms for 250 keys
-- Resend:  counts again; a try without an answer does not pass, so a lost reply gains nothing

local KEYS = KEYS
local now = tonumber(ARGV[1])
if not now then
  local t = redis.call('TIME')
  now = tonumber(t[1]) * 1000000 + tonumber(t[2])
end
local rates, cost, full, keep = 0, {}, {}, {}
for a = 2, #ARGV, 3 do
  rates = rates + 1
  cost[rates], full[rates], keep[rates] = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), ARGV[a + 2]
end

local out, paid = {}, {}
for first = 0, #KEYS - 1, rates do
  local within = true
  for r = 1, rates do
    local i = first + r
    local kept = redis.pcall('GET', KEYS[i])
    if type(kept) == 'table' and not string.find(kept.err, 'WRONGTYPE', 1, true) then
      return kept
    end
    local p = tonumber(kept)
    if not p or not (p >= now and p <= now + full[r]) then -- Meter.Try in ratelimit.go says why; 'nan' is a number
      p = now
    end
    local wait = p + cost[r] - full[r] - now
    if wait > 0 then
      out[i], within = wait, false
    else
      out[i] = 0
    end
    paid[r] = p + cost[r]
  end
  if within then
    for r = 1, rates do
      local i = first + r
      redis.call('SET', KEYS[i], string.format('%.0f', paid[r]), 'PX', keep[r])
    end
  end
end
return out
