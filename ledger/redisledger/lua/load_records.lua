-- load_records.lua: add records to a sale that is being loaded.
--
-- KEYS:    1 sale hash, 2 buyers hash
-- ARGV:    1 epoch of the load, 2.. fields and values of the buyers hash; the last call of a load adds the
--          sentinel (LF), whose value is the epoch, and thereby makes the load complete
-- Returns: 1 when done, 0 when the sale is not being loaded under this epoch any more
-- Keeps:   I4 (what was accepted before the load is on record after it)
-- Cost:    one command of as many fields as given; the caller keeps it under a few hundred
-- Resend:  safe, it writes the same again

local sale = redis.call('HMGET', KEYS[1], 'epoch', 'fence')
if sale[1] ~= ARGV[1] or sale[2] ~= 'loading' then
  return 0
end
redis.call('HSET', KEYS[2], (table.unpack or unpack)(ARGV, 2))
return 1
