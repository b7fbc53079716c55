-- What commit.lua and release.lua begin with: the sale is what the server takes it for, or nothing is done, and the
-- server reads why. held has fields of the buyers hash, the first of which is the sentinel.
local s = redis.call('HMGET', KEYS[1], 'format', 'epoch', 'fence', 'terms', 'paused', 'calm_code', 'seq', 'taken',
  'total', 'entries', 'opens', 'closes', 'calm_until', ARGV[2])
local sound = s[1] == '1' and s[2] == ARGV[3] and held[1] == s[2] and s[3] == '' and
  (ARGV[9] == '' or s[4] == ARGV[9]) and (s[5] == '0' or s[5] == '1') and
  match(s[6] or '', '^[1-9]?%d$') and tonumber(s[6]) <= 12
s[14] = s[14] or '0' -- it has received nothing
for i = 7, 14 do -- beyond the last number Lua cannot count, but for moments
  local text = s[i] or ''
  local number = (text == '0' or match(text, '^%-?[1-9]%d*$')) and tonumber(text)
  sound = sound and number and
    (i == 11 or i == 12 or (number >= (i == 9 and -1 or 0) and number <= 9007199254740991))
  s[i] = number
end
local length = redis.call('XLEN', KEYS[3])
local seq, taken, total, told = s[7], s[8], s[9], s[14]
if not sound or length ~= s[10] or (length == 0 and redis.call('EXISTS', KEYS[3]) == 0) then
  return {1}
end
if told < tonumber(ARGV[4]) or seq < tonumber(ARGV[5]) then -- a later reading may not show it
  return {1, seq, told}
end

-- I8: one moment for the whole batch. A cooldown that ends later than one that begins now is over: the clock has been
-- set back since.
local at = ARGV[6]
if at == '' then
  local t = redis.call('TIME')
  at = t[1] .. sub('000000' .. t[2], -6, -4)
end
local now, opens, closes = tonumber(at), s[11], s[12]
local selling = now >= opens and (closes == 0 or now < closes) and s[5] == '0'
local left = s[13] - now
local calm = left > 0 and left <= tonumber(ARGV[7])
