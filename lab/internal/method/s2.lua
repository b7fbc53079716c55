-- s2.lua: one unit of one buyer, with a message for who stores the order.
--
-- KEYS:    1 seckill:stock:<voucherId>, 2 seckill:order:<voucherId> (set of buyers), 3 stream.order
-- ARGV:    1 voucherId, 2 userId, 3 orderId
-- Returns: 0 accepted, 1 sold out, 2 this buyer has bought already; an error if there is no stock
-- Cost:    5 commands a claim
-- Unlike Sluice: a repeat of an accepted claim is answered 2 or 1, without the order id

if tonumber(redis.call('GET', KEYS[1])) <= 0 then
  return 1
end
if redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 1 then
  return 2
end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('XADD', KEYS[3], '*', 'userId', ARGV[2], 'voucherId', ARGV[1], 'id', ARGV[3])
return 0
