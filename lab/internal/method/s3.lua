-- s3.lua: the third layer, stock in a hash.
--
-- KEYS:    1 <id>: Total, Booked
-- ARGV:    1 units
-- Returns: the units; 0: too few, none asked for, or a field is missing
-- Unlike Sluice: the order goes into its queue by another command, which a crash may prevent

local n = tonumber(ARGV[1])
if not n or n == 0 then
  return 0
end
local counts = redis.call('HMGET', KEYS[1], 'Total', 'Booked')
local total, booked = tonumber(counts[1]), tonumber(counts[2])
if not total or not booked then
  return 0
end
if booked + n <= total then
  redis.call('HINCRBY', KEYS[1], 'Booked', n)
  return n
end
return 0
