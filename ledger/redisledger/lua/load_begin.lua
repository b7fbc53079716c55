-- load_begin.lua: take a sale over for a load, under a higher epoch than any before, fenced as loading.
--
-- KEYS:    1 sale hash, 2 buyers hash, 3 journal stream, 4 where the journal is kept if it is not empty
-- ARGV:    1 epoch, 2 consumer group, 3.. fields and values of the new sale hash
-- Returns: 1 when done, 0 when the ledger holds this epoch or a higher one; an error when the format of what it holds
--          is a later one
-- Keeps:   I5 (unacknowledged entries are set aside, not deleted); a live sale is never refilled;
--          without load_records.lua's last call no claim can be accepted
-- Cost:    a handful of commands; the old buyers hash is freed in the background
-- Resend:  not safe: the same epoch is refused the second time; load again under a higher one

-- What has another type is nothing that a load wrote.
local hash = redis.call('TYPE', KEYS[1]).ok == 'hash'
local sale = hash and redis.call('HMGET', KEYS[1], 'format', 'epoch') or {}
local format = string.find(sale[1] or '', '^[1-9]%d?%d?%d?$') and tonumber(sale[1]) or 0
if format > 1 and format <= 1000 then
  return redis.error_reply('ERR format ' .. sale[1] .. ' of the sale is unknown to this version')
end
local text = sale[2] or ''
local held = string.find(text, '^[1-9]%d*$') and tonumber(text)
-- Without one, or with one that no server counts up to, the sale is damaged.
if held and held <= 1125899906842624 and held >= tonumber(ARGV[1]) then
  return 0
end
if redis.call('TYPE', KEYS[3]).ok == 'stream' and redis.call('XLEN', KEYS[3]) > 0 then
  redis.call('RENAME', KEYS[3], KEYS[4])
else
  redis.call('DEL', KEYS[3])
end
redis.call('XGROUP', 'CREATE', KEYS[3], ARGV[2], '0', 'MKSTREAM')
redis.call('UNLINK', KEYS[2])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], (table.unpack or unpack)(ARGV, 3))
return 1
