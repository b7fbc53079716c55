-- claim.lua: decide a batch of claims of one sale, in order, in one step.
--
-- KEYS:    1 sale hash, 2 buyers hash, 3 journal stream
-- ARGV:    1 layout the caller assumes, 'whole' or 'split';
--          2 name of the asking server, 3 its field in the sale hash ('told:' and the name);
--          4 epoch and 5 sequence it last received there, 6 highest sequence it has seen there (0 0 0: none);
--          7 now in ms, or '' for this server's clock; 8 the cooldown of a reopened sale, in ms,
--          9 '1' if WAIT follows, else '';
--          10 n, the number of claims, 11 '1' if all of them ask for one unit, else '',
--          12 '1' if a buyer occurs more than once, else '';
--          13.. n buyers, n lines (buyer TAB key TAB order TAB quantity TAB meta),
--          n fields of the buyers hash (layout split only), n quantities (unless 11)
-- Returns: {state, epoch, sequence after, now in ms, opens in ms, version of the terms, answers...}; state 0:
--          decided, 1: not loaded, 2: fenced, 3: has lost data, now fenced, 4: the layout is the other one,
--          6: of a format that this version does not know.
--          When decided, no answers if all were accepted, one if all were refused by the same code, else one per
--          claim: its sequence if accepted; minus the code if refused; 'R' and the line on record if the key has
--          an accepted claim; 'L' and the buyer's record as it was before the batch, of layout split its head, if
--          the buyer's limit refuses (minus the code if there is none, or the batch's answers have it already)
-- Keeps:   I1 (taken <= total), I3 (limits), I4 (a key on record answers first), I5 (record and journal entry
--          in one step), I7 (sold out only when nothing is available), I8 (window and pause by one clock);
--          loss is visible: a missing sale, record, journal entry or received sequence is never a refusal, nor is a
--          field of the sale or a record that no program of ours writes so, nor is another layout than the records
--          have; and an entry too many, of a torn transaction (docs/redis-keys.md), is none either. A batch that
--          was accepted or repeated in part counts as received up to the sequence after it, and under WAIT it writes:
--          from Redis 7.2 on WAIT covers nothing but the writes of its own connection
-- Cost:    5 to 7 commands a call whatever n is; each field is read once, searched once for each of its claims,
--          and put together and written once: under 1 ms for 250, unless fields are long (docs/redis-keys.md)
-- Resend:  safe: what was accepted the first time is on record and answers 'R'

local NOT_OPEN = 5
local CLOSED = 6
local PAUSED = 7
local BUYER_LIMIT = 8
local SOLD_OUT = 9
local INSUFFICIENT = 10

-- The last two digits of a sequence: Lua takes long to write a number, and there are many.
local DIGITS = {[0] = '00',
  '01', '02', '03', '04', '05', '06', '07', '08', '09', '10',
  '11', '12', '13', '14', '15', '16', '17', '18', '19', '20',
  '21', '22', '23', '24', '25', '26', '27', '28', '29', '30',
  '31', '32', '33', '34', '35', '36', '37', '38', '39', '40',
  '41', '42', '43', '44', '45', '46', '47', '48', '49', '50',
  '51', '52', '53', '54', '55', '56', '57', '58', '59', '60',
  '61', '62', '63', '64', '65', '66', '67', '68', '69', '70',
  '71', '72', '73', '74', '75', '76', '77', '78', '79', '80',
  '81', '82', '83', '84', '85', '86', '87', '88', '89', '90',
  '91', '92', '93', '94', '95', '96', '97', '98', '99'}

local ARGV = ARGV
local unpack = table.unpack or unpack
local find, sub, match, byte = string.find, string.sub, string.match, string.byte
local n = tonumber(ARGV[10])

local sale = redis.call('HMGET', KEYS[1], 'format', 'epoch', 'seq', 'taken', 'fence', 'layout', ARGV[3], 'terms',
  'total', 'max_buyer', 'max_orders', 'opens', 'closes', 'paused', 'calm_until', 'calm_code', 'entries',
  'max_unpaid')
-- part: held.lua

local entries, terms = number(17, 'entries', 0), number(8, 'terms', 0)
local total, max_buyer, max_orders = number(9, 'total', -1), number(10, 'max_buyer', -1), number(11, 'max_orders', -1)
local opens, closes = number(12, 'opens'), number(13, 'closes')
local calm_until, calm_code = number(15, 'calm_until', 0), number(16, 'calm_code', 0)
local max_unpaid = 0 -- absent: as older versions load a sale
if sale[18] then max_unpaid = number(18, 'max_unpaid', 0) end
if sale[14] ~= '0' and sale[14] ~= '1' then damaged = 'paused' end

local ones, again = ARGV[11] == '1', ARGV[12] == '1'
-- part: loss.lua

if sale[6] ~= ARGV[1] then
  return {4, epoch, seq, 0, 0, 0}
end

-- I8: one moment for the whole batch.
local at = ARGV[7]
if at == '' then
  local t = redis.call('TIME')
  at = t[1] .. sub('000000' .. t[2], -6, -4)
end
local now = tonumber(at)
local refusal
if now < opens then
  refusal = NOT_OPEN
elseif closes ~= 0 and now >= closes then
  refusal = CLOSED
elseif sale[14] == '1' then
  refusal = PAUSED
end
-- A sale that has just reopened is in cooldown: its old refusal goes on, at its place in the precedence. One that
-- ends later than one that begins now is over: the clock has been set back since.
local cooling = false
local left = calm_until - now
if left > 0 and left <= tonumber(ARGV[8]) then
  if calm_code == SOLD_OUT then
    cooling = true
  elseif not refusal or calm_code < refusal then
    refusal = calm_code
  end
end

local buyers, lines = 12, 12 + n
local fields, quantities = 12, 12 + 2 * n -- positions before the first one
local split = sale[6] == 'split'
local stored, stored_at = heads, head_at
if split then
  fields = 12 + 2 * n
  quantities = 12 + 3 * n
  stored, stored_at = read(fields, {})
end
-- part: record.lua

local stamp = '\t' .. sale[2] .. '\t' .. at .. '\t' .. sale[8] .. '\t1'
local start = seq
local low = seq % 100
local high = '\t' .. (sub(sale[3], 1, -3))
local writes, w = {}, 0         -- arguments of HSET
local made, tops = {}, {}       -- if a buyer occurs again: this batch's lines by claim, and heads by buyer
local grown, more, g = {}, {}, 0 -- and the fields that get lines: of which claim first, and the lines
local shown = {}                -- buyers whose record is in the answer
local refused, code = 0, nil    -- how many refusals there are of the code that came last
local repeated = false
local out = {0, epoch, seq, now, opens, terms}

for i = 1, n do
  local line, head, record = ARGV[lines + i], heads[head_at[i]], stored[stored_at[i]]
  local id, from
  if record or again then
    id = sub(line, 1, find(line, '\t', find(line, '\t', 1, true) + 1, true))
    from = record and find(record, '\n' .. id, 1, true)
  end
  lost = not from and (head or record) and wrong(i, head, record)
  if lost then -- nothing is written yet
    redis.call('HSET', KEYS[1], 'fence', lost)
    return {3, epoch, start, 0, 0, 0}
  end
  if from then -- I4
    repeated = true
    out[6 + i] = 'R' .. sub(record, from + 1, (find(record, '\n', from + 1, true) or 0) - 1)
  elseif again and made[id] then
    repeated = true
    out[6 + i] = 'R' .. made[id]
  else
    local buyer = ARGV[buyers + i]
    local top = tops[buyer]
    local quantity, units, count, unpaid, no = 1, 0, 0, '', refusal -- unpaid as in the head: with its tab, or nothing
    if not no then
      if not ones then quantity = tonumber(ARGV[quantities + i]) end
      if top then
        units, count, unpaid = top[1], top[2], top[3]
      elseif head then
        units, count, unpaid = match(head, '^(%d+)\t(%d+)(\t?%d*)')
        units, count = tonumber(units), tonumber(count)
      end
      if (max_buyer >= 0 and units + quantity > max_buyer) or (max_orders >= 0 and count >= max_orders) or
        (max_unpaid > 0 and unpaid ~= '' and tonumber(sub(unpaid, 2)) >= max_unpaid) then -- I3
        no = BUYER_LIMIT
      elseif cooling or (total >= 0 and taken >= total) then -- I7
        no = SOLD_OUT
      elseif total >= 0 and taken + quantity > total then -- I1
        no = INSUFFICIENT
      end
    end
    if no == BUYER_LIMIT and head and not shown[buyer] then
      shown[buyer] = again
      out[6 + i] = 'L' .. head
    elseif no then
      out[6 + i] = -no
      if no ~= code then
        refused, code = 0, no
      end
      refused = refused + 1
    else
      seq = seq + 1
      taken = taken + quantity
      out[6 + i] = seq
      low = low + 1
      if low == 100 then
        low = 0
        high = '\t' .. sub('' .. seq, 1, -3)
      end
      local text = line .. high .. DIGITS[low] .. stamp
      if again then -- each field is written once, after all claims are decided
        local field = ARGV[fields + i]
        made[id] = text
        if not top then
          top = {}
          tops[buyer] = top
          if split then
            writes[w + 1], writes[w + 2] = buyer, top
            w = w + 2
          end
        end
        top[1], top[2], top[3] = units + quantity, count + 1, unpaid
        if not more[field] then
          g = g + 1
          grown[g], more[field] = i, {}
        end
        more[field][#more[field] + 1] = text
      elseif split then
        writes[w + 1], writes[w + 2] = buyer, (units + quantity) .. '\t' .. (count + 1) .. unpaid
        writes[w + 3], writes[w + 4] = ARGV[fields + i], (record or '') .. '\n' .. text
        w = w + 4
      else
        local body = record and sub(record, find(record, '\n', 1, true), -1) or ''
        writes[w + 1] = buyer
        writes[w + 2] = (units + quantity) .. '\t' .. (count + 1) .. unpaid .. body .. '\n' .. text
        w = w + 2
      end
    end
  end
end
if again then -- only heads are in it
  for i = 2, w, 2 do
    writes[i] = writes[i][1] .. '\t' .. writes[i][2] .. writes[i][3]
  end
end
for j = 1, g do
  local i = grown[j]
  local field, record = ARGV[fields + i], stored[stored_at[i]] or ''
  if not split then
    local top = tops[field]
    record = top[1] .. '\t' .. top[2] .. top[3] .. sub(record, find(record, '\n', 1, true) or 1, -1)
  end
  writes[w + 1], writes[w + 2] = field, record .. '\n' .. table.concat(more[field], '\n')
  w = w + 2
end

if seq > start then -- I5; the journal first, since it alone may still be of the wrong type
  local entry
  if seq - start == n then
    entry = table.concat(ARGV, '\n', lines + 1, lines + n)
  else
    local accepted = {}
    for i = 1, n do
      local answer = out[6 + i]
      if type(answer) == 'number' and answer > 0 then
        accepted[answer - start] = ARGV[lines + i]
      end
    end
    entry = table.concat(accepted, '\n')
  end
  local added = redis.pcall('XADD', KEYS[3], '*', 'v', '1', 'e', sale[2], 'n', ARGV[2], 't', sale[8], 'at', at,
    's', start + 1, 'c', entry .. '\n')
  if type(added) == 'table' and added.err then -- nothing is written yet
    if not find(added.err, 'last possible ID', 1, true) and not find(added.err, 'equal or smaller', 1, true) then
      return added
    end
    redis.call('HSET', KEYS[1], 'fence', 'lost: the ids of the journal are used up')
    return {3, epoch, start, 0, 0, 0}
  end
  redis.call('HSET', KEYS[2], unpack(writes))
  redis.call('HSET', KEYS[1], 'seq', seq, 'taken', taken, 'entries', entries + 1, ARGV[3], seq)
elseif repeated and (ARGV[9] == '1' or received ~= seq) then -- I4: a replay is an acceptance too
  redis.call('HSET', KEYS[1], ARGV[3], seq)
end
if seq - start == n then
  return {0, epoch, seq, now, opens, terms}
elseif refused == n then
  return {0, epoch, seq, now, opens, terms, -code}
end
out[3] = seq
return out
