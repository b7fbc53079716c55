-- s4.lua: one unit per buyer, sale and item.
--
-- KEYS:    1 <good>:<activity>:stock, 2 <good>:<activity>:uids (set of buyers)
-- ARGV:    1 uid
-- Returns: 1 accepted, 0 this buyer has bought already, -1 sold out, or no stock
-- Unlike Sluice: no order; a repeat of an accepted claim is answered 0

if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then
  return 0
end
local stock = tonumber(redis.call('GET', KEYS[1]))
if not stock or stock <= 0 then
  return -1
end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[1])
return 1
