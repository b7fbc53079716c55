-- s2.lua: the method of source S2, one claim of one buyer, as it is compared with.
--
-- KEYS:    1 seckill:stock:<voucher>, 2 seckill:order:<voucher> (set of buyers), 3 stream.order
-- ARGV:    1 voucher, 2 user, 3 order id
-- Returns: 0 accepted, 1 sold out, 2 this buyer has bought already; an error when the stock is missing
-- Cost:    5 commands a claim
-- Resend:  not safe: the same buyer is answered 2, without the order id

local stock = redis.call('GET', KEYS[1])
if tonumber(stock) <= 0 then
  return 1
end
if redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 1 then
  return 2
end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('XADD', KEYS[3], '*', 'userId', ARGV[2], 'voucherId', ARGV[1], 'id', ARGV[3])
return 0
