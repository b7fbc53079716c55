-- apply.lua: make newer terms the ones that decide, if the sale is as the server has read it.
--
-- KEYS:    1 sale hash
-- ARGV:    1 epoch, 2 now in ms or '' for this server's clock, 3 until when what was read decides alike, in ms, or '';
--          4 version of the terms that was read, 5 '1' if that left no units, else ''; 6 '1' if the total becomes
--          lower, else ''; 7 the cooldown that begins, in ms, and 8 its code, '0' for none; 9 version, 10 total,
--          11 max_buyer, 12 max_orders (-1: no limit), 13 opens, 14 closes (0: none), 15 paused, 16 max_unpaid (0: no
--          limit)
-- Returns: 1 when applied, 2 when the sale is not as it was read, 0 when it is not loaded, -1 when the ledger holds
--          another epoch, or the total would be lowered while the sale is fenced, -2 when the total is below the units
--          taken
-- Keeps:   I1 (never a total below taken), I4 (a reopened sale is in cooldown until no server repeats the old refusal)
-- Cost:    two to four commands
-- Resend:  safe: the version is another one already

local sale = redis.call('HMGET', KEYS[1], 'epoch', 'terms', 'taken', 'total', 'fence')
if not sale[1] then
  return 0
end
if sale[1] ~= ARGV[1] or (sale[5] ~= '' and ARGV[6] == '1') then
  return -1
end
local at = ARGV[2]
if at == '' then
  local t = redis.call('TIME')
  at = t[1] .. string.sub('000000' .. t[2], -6, -4)
end
local now, taken, had, total = tonumber(at), tonumber(sale[3]), tonumber(sale[4]), tonumber(ARGV[10])
local full = had >= 0 and taken >= had
if sale[2] ~= ARGV[4] or full ~= (ARGV[5] == '1') or (ARGV[3] ~= '' and now >= tonumber(ARGV[3])) then
  return 2
end
if total >= 0 and total < taken then
  return -2
end
redis.call('HSET', KEYS[1], 'terms', ARGV[9], 'total', ARGV[10], 'max_buyer', ARGV[11], 'max_orders', ARGV[12],
  'opens', ARGV[13], 'closes', ARGV[14], 'paused', ARGV[15], 'max_unpaid', ARGV[16])
if ARGV[8] ~= '0' then
  redis.call('HSET', KEYS[1], 'calm_until', now + tonumber(ARGV[7]), 'calm_code', ARGV[8])
end
return 1
