-- unfence.lua: let the claims of a sale be decided again, whatever the fence was.
--
-- KEYS:    1 sale hash, 2 buyers hash
-- ARGV:    1 epoch
-- Returns: 1 when the sale is not fenced, 0 when it is not loaded, -1 when the ledger holds another epoch,
--          -2 when its records are not complete (the load did not end, or they are gone): it stays fenced
-- Keeps:   I4 (no claim is decided while records are missing)
-- Cost:    three commands
-- Resend:  safe

local sale = redis.call('HMGET', KEYS[1], 'epoch', 'fence')
if not sale[1] then
  return 0
end
if sale[1] ~= ARGV[1] then
  return -1
end
if redis.call('HGET', KEYS[2], '\n') ~= sale[1] then
  return -2
end
if sale[2] ~= '' then
  redis.call('HSET', KEYS[1], 'fence', '')
end
return 1
