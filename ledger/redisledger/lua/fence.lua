-- fence.lua: make every claim of a sale unavailable, for a reason; the first reason stands.
--
-- KEYS:    1 sale hash
-- ARGV:    1 epoch, 2 reason, not empty
-- Returns: 1 when the sale is fenced, 0 when it is not loaded, -1 when the ledger holds another epoch
-- Keeps:   nothing is decided while it is in doubt whether all that was accepted is on record (I1, I4). It always
--          writes: WAIT may follow, which from Redis 7.2 on covers nothing but the writes of its own connection
-- Cost:    two commands
-- Resend:  safe

local sale = redis.call('HMGET', KEYS[1], 'epoch', 'fence')
if not sale[1] then
  return 0
end
if sale[1] ~= ARGV[1] then
  return -1
end
redis.call('HSET', KEYS[1], 'fence', (sale[2] or '') == '' and ARGV[2] or sale[2])
return 1
