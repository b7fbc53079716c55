-- The loss check of claim.lua and release.lua. The script has read entries, and held: fields of the buyers hash, the
-- first of which is the sentinel. The name of the asking server is ARGV 1, the epoch and the sequences that it has
-- received are ARGV 3 to 5.
local known = tonumber(ARGV[3])
local lost
if damaged then
  lost = 'lost: the sale\'s field "' .. damaged .. '" is gone or damaged'
elseif epoch < known then
  lost = 'lost: epoch ' .. sale[2] .. ', where ' .. ARGV[1] .. ' knew epoch ' .. ARGV[3]
elseif epoch == known and received < tonumber(ARGV[4]) then
  lost = 'lost: ' .. ARGV[1] .. ' received sequence ' .. ARGV[4] .. ', on record is ' .. (sale[6] or 'none')
elseif epoch == known and seq < tonumber(ARGV[5]) then
  lost = 'lost: sequence ' .. sale[3] .. ', where ' .. ARGV[1] .. ' saw ' .. ARGV[5]
elseif held[1] ~= sale[2] then
  lost = 'lost: the records of the buyers are gone'
else
  local length = redis.call('XLEN', KEYS[3])
  if length == 0 and redis.call('EXISTS', KEYS[3]) == 0 then
    lost = 'lost: the journal is gone'
  elseif length ~= entries then
    lost = 'lost: the journal has ' .. length .. ' entries, where ' .. entries .. ' are on record'
  end
end
if lost then
  redis.call('HSET', KEYS[1], 'fence', lost)
  return {3, epoch, seq or 0, 0, 0, 0}
end
