-- s0.lua: stock in a hash, several units per request.
--
-- KEYS:    1 seckill:goodsStock:<goodsId>: totalCount, initStatus, seckillCount
-- ARGV:    1 units
-- Returns: seckillCount after this purchase, as a string; "0": too few units, or no such hash
-- Unlike Sluice: no limit per buyer, no order, and a repeat buys again

local counts = redis.call('HMGET', KEYS[1], 'totalCount', 'seckillCount')
local total, sold, n = tonumber(counts[1]), tonumber(counts[2]) or 0, tonumber(ARGV[1])
if not total then
  return '0'
end
if total >= sold + n then
  return tostring(redis.call('HINCRBY', KEYS[1], 'seckillCount', n))
end
return '0'
