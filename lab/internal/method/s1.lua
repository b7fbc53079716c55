-- s1.lua: stock in a hash, called by its digest.
--
-- KEYS:    1 <itemID>: total, orderedNum (missing: 0)
-- ARGV:    1 units
-- Returns: orderedNum after this purchase; 0: too few units. An error if there is no total
-- Unlike Sluice: no limit per buyer, no order, and a repeat buys again

local counts = redis.call('HMGET', KEYS[1], 'total', 'orderedNum')
local total, ordered, n = tonumber(counts[1]), tonumber(counts[2] or 0), tonumber(ARGV[1])
if ordered + n <= total then
  return redis.call('HINCRBY', KEYS[1], 'orderedNum', n)
end
return 0
