-- drop.lua: forget a sale, unless entries wait in its journal.
--
-- KEYS:    1 sale hash, 2 buyers hash, 3 journal stream
-- ARGV:    1 epoch
-- Returns: 1 when removed, 0 when the sale was not loaded (what was left of it is removed), -1 when the ledger
--          holds another epoch, -2 when entries wait; -1 and -2 change nothing
-- Keeps:   I5 (an entry leaves only after its orders are stored)
-- Cost:    five commands; the memory is freed in the background
-- Resend:  safe

-- What has another type is nothing that a load wrote.
local hash = redis.call('TYPE', KEYS[1]).ok == 'hash'
local sale = hash and redis.call('HMGET', KEYS[1], 'format', 'epoch') or {}
local format = string.find(sale[1] or '', '^[1-9]%d?%d?%d?$') and tonumber(sale[1]) or 0
if format > 1 and format <= 1000 then
  return redis.error_reply('ERR format ' .. sale[1] .. ' of the sale is unknown to this version')
end
if sale[2] and sale[2] ~= ARGV[1] then
  return -1
end
if redis.call('TYPE', KEYS[3]).ok == 'stream' and redis.call('XLEN', KEYS[3]) > 0 then
  return -2
end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
return sale[1] and 1 or 0
