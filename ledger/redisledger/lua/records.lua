-- records.lua: read records of a sale and what is kept of the batches that they point to, in one step; changes nothing.
--
-- KEYS:    1 sale hash, 2 buyers hash
-- ARGV:    1 field of the asking server in the sale hash ('told:' and its name); 2 what to read: 'sale' nothing more,
--          'fields' these fields (3..), 'scan' a part of the buyers hash, 'buyer' the claims of a buyer; 3 the
--          cursor, or the buyer; 4 how many (scan), or the key to go on with, '' for all (buyer); 5 how many (buyer)
-- Returns: {format, epoch, fence, sequence, the sequence that the server received, sentinel (each '' if it
--          is absent), cursor or key to go on with, or units taken (fields), {field, value, ...},
--          {name, what is kept of the batch, ...}}
-- Keeps:   records, batches and what the sale says of them describe one moment (I4: a record that a load has
--          taken away meanwhile is no "no such claim"); a key of another type counts as missing
-- Cost:    three or four commands (scan), or one for each claim read (buyer)
-- Resend:  safe

local unpack = table.unpack or unpack
local match = string.match

local function got(reply)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  elseif not string.find(reply.err, 'WRONGTYPE', 1, true) then
    error(reply.err)
  end
  return {}
end

local sale = got(redis.pcall('HMGET', KEYS[1], 'format', 'epoch', 'fence', 'seq', ARGV[1]))
local out = {}
for i = 1, 5 do
  out[i] = sale[i] or ''
end
local epoch = got(redis.pcall('HGET', KEYS[2], '\n'))
local whole = type(epoch) == 'string'
out[6], out[7], out[8], out[9] = whole and epoch or '', '', {}, {}
if not whole or ARGV[2] == 'sale' then
  return out
end

local fields, n = {}, 0
local function add(field, value)
  fields[n + 1], fields[n + 2] = field, value
  n = n + 2
end
if ARGV[2] == 'fields' then
  local values = redis.call('HMGET', KEYS[2], unpack(ARGV, 3))
  for i = 1, #ARGV - 2 do
    if values[i] then add(ARGV[2 + i], values[i]) end
  end
  local taken = redis.pcall('HGET', KEYS[1], 'taken')
  out[7] = type(taken) == 'string' and taken or ''
elseif ARGV[2] == 'scan' then
  local page = redis.call('HSCAN', KEYS[2], ARGV[3], 'COUNT', ARGV[4])
  out[7], fields = page[1], page[2]
  n = #fields
else
  local key = ARGV[4]
  if key == '' then
    local value = redis.call('HGET', KEYS[2], ARGV[3])
    if value then
      add(ARGV[3], value)
      key = match(value, '\n(%C+)$') or ''
    end
  end
  for _ = 1, tonumber(ARGV[5]) do
    if key == '' then break end
    local field = ARGV[3] .. '\n' .. key
    local value = redis.call('HGET', KEYS[2], field)
    add(field, value or '')
    key = match(value or '', '\n(%C+)$') or ''
  end
  out[7] = key
end
out[8] = fields

local names, seen, m = {}, {}, 0
for i = 2, n, 2 do
  local name = match(fields[i] .. '\n', '\t(%w+):%d+\t%d+u?\n')
  if name and not seen[name] then
    m = m + 1
    names[m], seen[name] = '\n' .. name, true
  end
end
local batches = out[9]
for from = 1, m, 1000 do
  local to = from + 999
  if to > m then to = m end
  local values = redis.call('HMGET', KEYS[2], unpack(names, from, to))
  for j = from, to do
    batches[2 * j - 1], batches[2 * j] = string.sub(names[j], 2), values[j - from + 1] or ''
  end
end
return out
