-- release.lua: end accepted claims of one sale, each once: their units are for sale again, they stay on record.
--
-- KEYS:    1 sale hash, 2 buyers hash, 3 journal stream
-- ARGV:    1 name of the asking server, 2 its field in the sale hash ('told:' and the name);
--          3 epoch and 4 sequence it last received there, 5 highest sequence it has seen there (0 0 0: none);
--          6 now in ms, or '' for this server's clock; 7 the cooldown of a reopened sale, in ms,
--          8 '1' if WAIT follows, else '';
--          9 epoch of these releases, 10 highest epoch of all that the caller gives; 11 n, their number;
--          12.. n buyers, n fields that have the claim if it is not the buyer's first (buyer LF key),
--          n beginnings of lines (buyer TAB key TAB order TAB), n digits in one: 1 if the order ended unpaid, else 0
-- Returns: {state, epoch, sequence, ended now, ended before, positions (from 1) of the unknown...}; state 0: done,
--          1: not loaded, 2: fenced, 3: has lost data, now fenced, 5: a release
--          is of a later epoch than the sale, 6: of a format that this version does not know. Nothing has changed but
--          with 0, and the fence with 3
-- Keeps:   I6 (a line ends once, and its units return with it, in one step), I4 (the line stays), I2, I3 (taken
--          and the buyer's units fall by what the line holds, and an unpaid ending is counted), I7 (returned units
--          can be sold; a sale that was sold out has a cooldown first, until no server repeats that); loss is visible,
--          and WAIT finds a write, as in claim.lua
-- Cost:    5 to 7 commands a call whatever n is, and whatever buyers have: of a release two fields are read, and at
--          most two are written
-- Resend:  safe: what ended the first time has ended before

local SOLD_OUT = 9

local ARGV = ARGV
local unpack = table.unpack or unpack
local find, sub, match, byte = string.find, string.sub, string.match, string.byte
local n = tonumber(ARGV[11])

local sale = redis.call('HMGET', KEYS[1], 'format', 'epoch', 'seq', 'taken', 'fence', ARGV[2],
  'total', 'opens', 'closes', 'paused', 'entries')
-- part: held.lua

local entries = number(11, 'entries', 0)
local total, opens, closes = number(7, 'total', -1), number(8, 'opens'), number(9, 'closes')
if sale[10] ~= '0' and sale[10] ~= '1' then damaged = 'paused' end

local held = redis.call('HMGET', KEYS[2], '\n', unpack(ARGV, 12, 11 + 2 * n))
-- part: loss.lua

if tonumber(ARGV[10]) > epoch then
  return {5, epoch, seq, 0, 0}
end
if tonumber(ARGV[9]) < epoch then -- I6: counted when the sale was loaded
  return {0, epoch, seq, 0, n}
end

-- part: record.lua

local records, touched, t = {}, {}, 0   -- by buyer, as they become; and the buyers of whom a claim ends
local writes, w = {}, 0                 -- arguments of HSET
local over = {}                         -- what ends in this call, by the beginnings of lines
local ended, units, before = 0, 0, 0
local marks = ARGV[#ARGV]               -- which endings are unpaid
local out = {0, epoch, seq, 0, 0}

-- Returns the line that begins here, ended.
local function ending(line, after, unpaid)
  local rest = match(sub(line, 1, after - 1), '()%d+u?$')
  return sub(line, 1, rest - 1) .. (unpaid and '0u' or '0') .. sub(line, after)
end

for i = 1, n do
  local buyer, begin, unpaid = ARGV[11 + i], ARGV[11 + 2 * n + i], sub(marks, i, i) == '1'
  local head, further = held[1 + i], held[1 + n + i]
  local record = records[buyer]
  if not record and head then
    record = record_of(buyer, head)
    records[buyer] = record
    lost = not record and damage
  elseif further and not head then
    lost = damage
  end
  local quantity, live, after, _ = nil, nil, nil, nil
  local first = record and sub(record[4], 1, #begin) == begin
  if first then
    _, quantity, live, after = line_at(record[4], 1, buyer .. '\t')
  elseif further and not lost then
    _, quantity, live, after = line_at(further, 1, buyer .. '\t')
    lost = not quantity and damage
    if sub(further, 1, #begin) ~= begin then
      quantity = nil
    end
  end
  if lost then -- nothing is written yet
    redis.call('HSET', KEYS[1], 'fence', lost)
    return {3, epoch, seq, 0, 0}
  end
  if not quantity then
    out[#out + 1] = i
  elseif not live or over[begin] then
    before = before + 1
  else
    over[begin] = true
    ended, units = ended + 1, units + quantity
    record[1] = record[1] - quantity
    if unpaid then
      record[3] = record[3] + 1
    end
    if record[1] < 0 or units > taken then -- nothing is written yet
      lost = 'lost: more units of a buyer end than are on record'
      redis.call('HSET', KEYS[1], 'fence', lost)
      return {3, epoch, seq, 0, 0}
    end
    if first then
      record[4] = ending(record[4], after, unpaid)
    else
      writes[w + 1], writes[w + 2] = ARGV[11 + n + i], ending(further, after, unpaid)
      w = w + 2
    end
    t = t + 1
    touched[t] = buyer
  end
end
out[4], out[5] = ended, before
if ended == 0 then
  if before > 0 and ARGV[8] == '1' then
    redis.call('HSET', KEYS[1], 'taken', taken)
  end
  return out
end
for j = 1, t do
  local buyer = touched[j]
  if records[buyer] then
    writes[w + 1], writes[w + 2] = buyer, text_of(records[buyer])
    w = w + 2
    records[buyer] = nil -- each is written once
  end
end
redis.call('HSET', KEYS[2], unpack(writes))

local at = ARGV[6]
if at == '' then
  local t = redis.call('TIME')
  at = t[1] .. sub('000000' .. t[2], -6, -4)
end
local now = tonumber(at)
local open = now >= opens and (closes == 0 or now < closes) and sale[10] ~= '1'
if open and total >= 0 and taken >= total and taken - units < total then
  redis.call('HSET', KEYS[1], 'taken', taken - units, 'calm_until', now + tonumber(ARGV[7]), 'calm_code', SOLD_OUT)
else
  redis.call('HSET', KEYS[1], 'taken', taken - units)
end
return out
