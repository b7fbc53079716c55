-- The loss check of claim.lua and release.lua. The script has read entries, n and again; the name of the asking server
-- is ARGV 2, the epoch and the sequences that it has received are ARGV 4 to 6.

-- Buyers' records before the loss checks: a key of the wrong type must stop the script before anything is written.
-- Each is read once, however often its buyer occurs; unless again is set, none does.
local function read(from, names)
  local at, seen = {}, {}
  for i = 1, n do
    local name = ARGV[from + i]
    local place = again and seen[name]
    if not place then
      place = #names + 1
      names[place] = name
      if again then seen[name] = place end
    end
    at[i] = place
  end
  return redis.call('HMGET', KEYS[2], unpack(names)), at
end
local heads, head_at = read(12, {'\n'})

local known = tonumber(ARGV[4])
local lost
if damaged then
  lost = 'lost: the sale\'s field "' .. damaged .. '" is gone or damaged'
elseif epoch < known then
  lost = 'lost: epoch ' .. sale[2] .. ', where ' .. ARGV[2] .. ' knew epoch ' .. ARGV[4]
elseif epoch == known and received < tonumber(ARGV[5]) then
  lost = 'lost: ' .. ARGV[2] .. ' received sequence ' .. ARGV[5] .. ', on record is ' .. (sale[7] or 'none')
elseif epoch == known and seq < tonumber(ARGV[6]) then
  lost = 'lost: sequence ' .. sale[3] .. ', where ' .. ARGV[2] .. ' saw ' .. ARGV[6]
elseif heads[1] ~= sale[2] then
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
