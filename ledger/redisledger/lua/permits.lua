-- permits.lua: note how many permits of a sale a server uses, and lease it more, as far as there are more.
--
-- KEYS:    1 sale hash, 2 permits
-- ARGV:    1 name of the asking server, 2 number of its call, which grows; 3 permits that it uses, 4 how many more it
--          wants; 5 permits in use for each unit available; 6 the lease, in ms; 7 the cooldown of a reopened sale, in
--          ms; 8 now in ms, or '' for this server's clock
-- Returns: {state, permits leased}; state 0: done, 1: not loaded, 2: fenced; nothing has changed but with 0
-- Keeps:   when permits are leased, those in use over all servers are at most ratio x available, and at least one; what
--          is not named again within the lease is void, and so is what was leased under another epoch, or would last
--          longer than the lease, since the clock has been set back
-- Cost:    three or four commands, and one line for each server that uses permits
-- Resend:  safe: a call whose number is not higher than the last changes nothing

local me, used, want, lease = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[6])

local sale = redis.call('HMGET', KEYS[1], 'format', 'epoch', 'taken', 'fence', 'total', 'calm_until')
if not sale[1] or not tonumber(sale[2]) then -- gone, or damaged
  return {1, 0}
end
if sale[1] ~= '1' then
  return redis.error_reply('ERR format ' .. sale[1] .. ' of the sale is unknown to this version')
end
if sale[4] ~= '' then
  return {2, 0}
end
local taken, total, calm_until = tonumber(sale[3]), tonumber(sale[5]), tonumber(sale[6])
if not taken or not total or not calm_until or total < 0 then -- no total; or damage, which claim.lua reports
  return {0, want}
end
local at = ARGV[8]
if at == '' then
  local t = redis.call('TIME')
  at = t[1] .. string.sub('000000' .. t[2], -6, -4)
end
local now = tonumber(at)

local left = calm_until - now
local available = total - taken
if left > 0 and left <= tonumber(ARGV[7]) then
  available = 0
end
local share = tonumber(ARGV[5]) * available
local most = 1
if share >= 1000000000 then
  most = 1000000000
elseif share > 1 then
  most = tonumber(string.format('%.0f', share - share % 1)) -- whole, and written as such by every Lua
end

-- The epoch, and a line for each server: name TAB number of its last call TAB permits TAB when they are void (ms).
-- What another program has put there holds no permit, and is replaced.
local kept = redis.pcall('GET', KEYS[2])
if type(kept) == 'table' then
  if not string.find(kept.err, 'WRONGTYPE', 1, true) then
    return kept
  end
  kept = ''
end
local lines, others = {sale[2]}, 0
for line in string.gmatch(kept or '', '[^\n]+') do
  local name, number, permits, ends = string.match(line, '^([^\t]+)\t(%d+)\t(%d+)\t(%d+)$')
  if not name then
    if line ~= sale[2] then -- of another epoch
      break
    end
  elseif tonumber(ends) > now and tonumber(ends) <= now + lease then
    if name ~= me then
      others = others + tonumber(permits)
      lines[#lines + 1] = line
    elseif tonumber(number) >= tonumber(ARGV[2]) then
      return {0, 0}
    end
  end
end

local leased = most - others - used
if leased > want then
  leased = want
elseif leased < 0 then
  leased = 0
end
if used + leased > 0 then
  lines[#lines + 1] = table.concat({me, ARGV[2], used + leased, now + lease}, '\t')
end
if #lines > 1 then
  redis.call('SET', KEYS[2], table.concat(lines, '\n'), 'PX', 10 * lease)
elseif kept then
  redis.call('DEL', KEYS[2])
end
return {0, leased}
