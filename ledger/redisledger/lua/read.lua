-- read.lua: read a sale in one step; changes nothing, so it may run on a replica.
--
-- KEYS:    1 sale hash, 2 buyers hash, 3 journal stream
-- ARGV:    1 now in ms, or '' for this server's clock; 2 field of the asking server in the sale hash ('told:' and
--          its name)
-- Returns: {now in ms} when the sale is not loaded, else {now in ms, why data is missing or '', length of the
--          journal, format, epoch, seq, taken, terms, total, max_buyer, max_orders, opens, closes, paused,
--          fence, calm_until, sequence the server last received, sequence of the journal's first claim or 0,
--          max_unpaid, calm_code}
-- Keeps:   a reading describes one moment; missing records, and a journal with other entries than were written, are
--          reported as loss; a key of another type counts as missing
-- Cost:    five to seven commands
-- Resend:  safe

local at = ARGV[1]
if at == '' then
  local t = redis.call('TIME')
  at = t[1] .. string.sub('000000' .. t[2], -6, -4)
end

-- What a key of another type held is gone, as if the key were. Every other error ends the script.
local function got(reply)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  elseif not string.find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err)
  end
  return {}
end

local sale = got(redis.pcall('HMGET', KEYS[1], 'format', 'epoch', 'seq', 'taken', 'terms', 'total', 'max_buyer',
  'max_orders', 'opens', 'closes', 'paused', 'fence', 'calm_until', ARGV[2]))
if not sale[1] then
  return {at}
end
local length = tonumber(got(redis.pcall('XLEN', KEYS[3])))
local entries = length or 0
local more = redis.call('HMGET', KEYS[1], 'entries', 'max_unpaid', 'calm_code')
local expected = more[1]
local lost = ''
if got(redis.pcall('HGET', KEYS[2], '\n')) ~= sale[2] then
  lost = 'lost: the records of the buyers are gone'
elseif not length or length == 0 and redis.call('EXISTS', KEYS[3]) == 0 then
  lost = 'lost: the journal is gone'
elseif entries .. '' ~= expected then
  lost = 'lost: the journal has ' .. entries .. ' entries, where ' .. (expected or 'none') .. ' are on record'
end
sale[14] = sale[14] or '0'
sale[15] = '0'
if entries > 0 then
  local first = redis.call('XRANGE', KEYS[3], '-', '+', 'COUNT', 1)[1][2]
  for i = 1, #first, 2 do
    if first[i] == 's' and string.find(first[i + 1], '^%d+$') then
      sale[15] = first[i + 1]
    end
  end
end
sale[16], sale[17] = more[2], more[3]
return {at, lost, entries, (table.unpack or unpack)(sale)}
