-- release.lua: end accepted claims of one sale, each once: their units are for sale again, they stay on record.
--
-- KEYS:    1 sale hash, 2 buyers hash, 3 journal stream
-- ARGV:    1 layout the caller assumes, 'whole' or 'split';
--          2 name of the asking server, 3 its field in the sale hash ('told:' and the name);
--          4 epoch and 5 sequence it last received there, 6 highest sequence it has seen there (0 0 0: none);
--          7 now in ms, or '' for this server's clock; 8 the cooldown of a reopened sale, in ms,
--          9 '1' if WAIT follows, else '';
--          10 epoch of these releases, 11 highest epoch of all that the caller gives; 12 n, their number;
--          13.. n buyers, n beginnings of lines (LF buyer TAB key TAB order TAB),
--          n fields of the buyers hash (layout split only), n digits in one: 1 if the order ended unpaid, else 0
-- Returns: {state, epoch, sequence, ended now, ended before, positions (from 1) of the unknown...}; state 0: done,
--          1: not loaded, 2: fenced, 3: has lost data, now fenced, 4: the layout is the other one, 5: a release
--          is of a later epoch than the sale, 6: of a format that this version does not know. Nothing has changed but
--          with 0, and the fence with 3
-- Keeps:   I6 (a line ends once, and its units return with it, in one step), I4 (the line stays), I2, I3 (taken
--          and the buyer's units fall by what the line holds, and an unpaid ending is counted), I7 (returned units
--          can be sold; a sale that was sold out has a cooldown first, until no server repeats that); loss is visible,
--          and WAIT finds a write, as in claim.lua
-- Cost:    4 to 7 commands a call whatever n is; each field is read once, searched once for each of its
--          releases, and put together and written once: under 1 ms for 250, unless fields are long (docs/redis-keys.md)
-- Resend:  safe: what ended the first time has ended before

local SOLD_OUT = 9

local ARGV = ARGV
local unpack = table.unpack or unpack
local find, sub, match, byte = string.find, string.sub, string.match, string.byte
local n = tonumber(ARGV[12])

local sale = redis.call('HMGET', KEYS[1], 'format', 'epoch', 'seq', 'taken', 'fence', 'layout', ARGV[3],
  'total', 'opens', 'closes', 'paused', 'entries')
-- part: held.lua

local entries = number(12, 'entries', 0)
local total, opens, closes = number(8, 'total', -1), number(9, 'opens'), number(10, 'closes')
if sale[11] ~= '0' and sale[11] ~= '1' then damaged = 'paused' end

local again = true
-- part: loss.lua

if tonumber(ARGV[11]) > epoch then
  return {5, epoch, seq, 0, 0}
end
if tonumber(ARGV[10]) < epoch then -- I6: counted when the sale was loaded
  return {0, epoch, seq, 0, n}
end
if sale[6] ~= ARGV[1] then
  return {4, epoch, seq, 0, 0}
end

local buyers, lines, fields = 12, 12 + n, 12 -- positions before the first one
local split = sale[6] == 'split'
local stored, stored_at = heads, head_at
if split then
  fields = 12 + 2 * n
  stored, stored_at = read(fields, {})
end
-- part: record.lua

local left, who, b = {}, {}, 0         -- by buyer: the units that stay; and the buyers, by the first release of each
local ends, changed, c = {}, {}, 0     -- by field: where lines end, as a list, and as a set by the negative; fields
local ended, units, before = 0, 0, 0
local marks, unpaid = ARGV[#ARGV], {}  -- which endings are unpaid; by buyer: how many of this call
local out = {0, epoch, seq, 0, 0}

for i = 1, n do
  local field, line, record = ARGV[fields + i], ARGV[lines + i], stored[stored_at[i]]
  local head = heads[head_at[i]]
  local buyer, from, quantity, life, after = ARGV[buyers + i], record and find(record, line, 1, true)
  if from then
    quantity, life, after = line_at(record, from, '\n' .. buyer .. '\t')
    lost = not (quantity and head_of(head)) and damage
  else
    lost = (head or record) and wrong(i, head, record)
  end
  if lost then -- nothing is written yet
    redis.call('HSET', KEYS[1], 'fence', lost)
    return {3, epoch, seq, 0, 0}
  end
  if not from then
    out[#out + 1] = i
  else
    local live = after - 1
    if life ~= '1' or (ends[field] and ends[field][-live]) then
      before = before + 1
    else
      if not left[buyer] then
        b = b + 1
        who[b], left[buyer] = i, (head_of(head))
      end
      left[buyer] = left[buyer] - quantity
      ended = ended + 1
      units = units + quantity
      if left[buyer] < 0 or units > taken then -- nothing is written yet
        lost = 'lost: more units of buyer ' .. buyer .. ' end than are on record'
        redis.call('HSET', KEYS[1], 'fence', lost)
        return {3, epoch, seq, 0, 0}
      end
      if not ends[field] then
        c = c + 1
        changed[c], ends[field] = i, {}
      end
      local all = ends[field]
      all[#all + 1] = live
      all[-live] = '0'
      if sub(marks, i, i) == '1' then
        all[-live], unpaid[buyer] = '20', (unpaid[buyer] or 0) + 1
      end
    end
  end
end
out[4], out[5] = ended, before
if ended == 0 then
  if before > 0 and ARGV[9] == '1' then
    redis.call('HSET', KEYS[1], 'taken', taken)
  end
  return out
end

-- A buyer's head as it is then, and where it has ended in what is stored.
local function headed(buyer, stored)
  local count, had, rest = match(stored, '^%d+(\t%d+)\t?(%d*)()')
  local all = (tonumber(had) or 0) + (unpaid[buyer] or 0)
  return left[buyer] .. count .. (all > 0 and '\t' .. all or ''), rest
end

local writes, w = {}, 0
if split then
  for j = 1, b do
    local buyer = ARGV[buyers + who[j]]
    writes[w + 1], writes[w + 2] = buyer, (headed(buyer, heads[head_at[who[j]]]))
    w = w + 2
  end
end
for j = 1, c do -- each field is put together once
  local field, record = ARGV[fields + changed[j]], stored[stored_at[changed[j]]]
  local parts, from, all = {}, 1, ends[field]
  if not split then
    parts[1], from = headed(field, record)
  end
  table.sort(all)
  for k = 1, #all do
    parts[#parts + 1] = sub(record, from, all[k] - 1)
    parts[#parts + 1] = all[-all[k]]
    from = all[k] + 1
  end
  parts[#parts + 1] = sub(record, from)
  writes[w + 1], writes[w + 2] = field, table.concat(parts)
  w = w + 2
end
redis.call('HSET', KEYS[2], unpack(writes))

local at = ARGV[7]
if at == '' then
  local t = redis.call('TIME')
  at = t[1] .. sub('000000' .. t[2], -6, -4)
end
local now = tonumber(at)
local open = now >= opens and (closes == 0 or now < closes) and sale[11] ~= '1'
if open and total >= 0 and taken >= total and taken - units < total then
  redis.call('HSET', KEYS[1], 'taken', taken - units, 'calm_until', now + tonumber(ARGV[8]), 'calm_code', SOLD_OUT)
else
  redis.call('HSET', KEYS[1], 'taken', taken - units)
end
return out
