-- apply.lua: make newer terms the ones that decide.
--
-- KEYS:    1 sale hash
-- ARGV:    1 epoch, 2 now in ms or '' for this server's clock, 3 the cooldown of a reopened sale, in ms,
--          4 version, 5 total, 6 max_buyer, 7 max_orders (-1: no limit), 8 opens, 9 closes (0: none), 10 paused,
--          11 max_unpaid (0: no limit)
-- Returns: 1 when applied, 2 when the ledger's version is as high already, 0 when the sale is not loaded,
--          -1 when the ledger holds another epoch, or the total would be lowered while the sale is fenced,
--          -2 when the total is below the units taken
-- Keeps:   I1 (never a total below taken), I4 (a reopened sale is in cooldown until no server repeats the old refusal)
-- Cost:    two to four commands
-- Resend:  safe: the version is as high already

local NOT_OPEN = 5
local CLOSED = 6
local PAUSED = 7
local SOLD_OUT = 9

local sale = redis.call('HMGET', KEYS[1], 'epoch', 'terms', 'taken', 'total', 'opens', 'closes', 'paused', 'fence')
if not sale[1] then
  return 0
end
if sale[1] ~= ARGV[1] then
  return -1
end
if tonumber(ARGV[4]) <= tonumber(sale[2]) then
  return 2
end
local taken, total, had = tonumber(sale[3]), tonumber(ARGV[5]), tonumber(sale[4])
if sale[8] ~= '' and total >= 0 and (had < 0 or total < had) then
  return -1
end
if total >= 0 and total < taken then
  return -2
end

local at = ARGV[2]
if at == '' then
  local t = redis.call('TIME')
  at = t[1] .. string.sub('000000' .. t[2], -6, -4)
end
local now = tonumber(at)

local function refusal(opens, closes, paused)
  if now < tonumber(opens) then
    return NOT_OPEN
  elseif closes ~= '0' and now >= tonumber(closes) then
    return CLOSED
  elseif paused == '1' then
    return PAUSED
  end
end

local before, after = refusal(sale[5], sale[6], sale[7]), refusal(ARGV[8], ARGV[9], ARGV[10])
if not before and had >= 0 and taken >= had then
  before = SOLD_OUT
end
local cooldown -- as Terms.Reopens
if after == NOT_OPEN then
  local opens = tonumber(ARGV[8])
  if before and opens < now + tonumber(ARGV[3]) and not (before == NOT_OPEN and opens >= tonumber(sale[5])) then
    cooldown = NOT_OPEN
  end
elseif not after and not (before == SOLD_OUT and total >= 0 and taken >= total) then
  cooldown = before
end

redis.call('HSET', KEYS[1], 'terms', ARGV[4], 'total', ARGV[5], 'max_buyer', ARGV[6], 'max_orders', ARGV[7],
  'opens', ARGV[8], 'closes', ARGV[9], 'paused', ARGV[10], 'max_unpaid', ARGV[11])
if cooldown then
  redis.call('HSET', KEYS[1], 'calm_until', now + tonumber(ARGV[3]), 'calm_code', cooldown)
end
return 1
