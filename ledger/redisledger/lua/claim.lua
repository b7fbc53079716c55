-- claim.lua: decide a batch of claims of one sale, in order, in one step.
--
-- KEYS:    1 sale hash, 2 buyers hash, 3 journal stream
-- ARGV:    1 name of the asking server, 2 its field in the sale hash ('told:' and the name);
--          3 epoch and 4 sequence it last received there, 5 highest sequence it has seen there (0 0 0: none);
--          6 now in ms, or '' for this server's clock; 7 the cooldown of a reopened sale, in ms,
--          8 '1' if WAIT follows, else '';
--          9 name of this batch, which no other has; 10 n, the number of claims,
--          11 the units that they ask for together and 12 the most that one of them does,
--          13 the positions of claims whose buyer occurs more than once, separated by commas;
--          14 the claims as the journal has them (lines buyer TAB key TAB order TAB quantity TAB meta LF),
--          15 where each of these lines ends, six digits for each;
--          16.. n pairs: buyer, and the record of a buyer who has this claim alone; then n quantities, unless all are 1
-- Returns: {state, epoch, sequence after, now in ms, opens in ms, version of the terms, answers...}; state 0:
--          decided, 1: not loaded, 2: fenced, 3: has lost data, now fenced,
--          6: of a format that this version does not know.
--          When decided, one answer if all were refused by the same code: minus the code. Else two for each claim
--          that was not accepted now: its position, and minus the code if it was refused; 'R' and the line on record
--          if the key has an accepted claim, with LF and what is kept of its batch if the line points there; 'L' and
--          the buyer's record as it was before the batch, and LF and the line of each further claim from the newest
--          on, if the buyer's limit refuses (minus the code if there is none, or the batch's answers have it already;
--          without the lines if they are too many). The others have the sequences up to the one after, in order
-- Keeps:   I1 (taken <= total), I3 (limits), I4 (a key on record answers first), I5 (record and journal entry
--          in one step), I7 (sold out only when nothing is available), I8 (window and pause by one clock);
--          loss is visible: a missing sale, record, journal entry or received sequence is never a refusal, nor is a
--          field of the sale or a record that no program of ours writes so; and an entry too many, of a torn
--          transaction (docs/redis-keys.md), is none either. A batch that
--          was accepted or repeated in part counts as received up to the sequence after it, and under WAIT it writes:
--          from Redis 7.2 on WAIT covers nothing but the writes of its own connection
-- Cost:    6 to 8 commands a call whatever n is, and whatever buyers have, and one for each of at most 250 claims that
--          refused buyers have; of a claim at most three fields are read and two are written. A claim of a buyer
--          without a record is not looked at while there is enough for the whole batch: all its text is the caller's
-- Resend:  safe: what was accepted the first time is on record and answers 'R'

local NOT_OPEN = 5
local CLOSED = 6
local PAUSED = 7
local BUYER_LIMIT = 8
local SOLD_OUT = 9
local INSUFFICIENT = 10

local ARGV = ARGV
local unpack = table.unpack or unpack
local find, sub, match, byte = string.find, string.sub, string.match, string.byte
local n = tonumber(ARGV[10])

local sale = redis.call('HMGET', KEYS[1], 'format', 'epoch', 'seq', 'taken', 'fence', ARGV[2], 'terms',
  'total', 'max_buyer', 'max_orders', 'opens', 'closes', 'paused', 'calm_until', 'calm_code', 'entries',
  'max_unpaid')
-- part: held.lua

local entries, terms = number(16, 'entries', 0), number(7, 'terms', 0)
local total, max_buyer, max_orders = number(8, 'total', -1), number(9, 'max_buyer', -1), number(10, 'max_orders', -1)
local opens, closes = number(11, 'opens'), number(12, 'closes')
local calm_until, calm_code = number(14, 'calm_until', 0), number(15, 'calm_code', 0)
local max_unpaid = number(17, 'max_unpaid', 0)
if sale[13] ~= '0' and sale[13] ~= '1' then damaged = 'paused' end

-- Buyers' records before the loss check: a key of the wrong type must stop the script before anything is written.
local batch, pairs_at = '\n' .. ARGV[9], 15 -- a buyer is at pairs_at + 2i - 1, their record at pairs_at + 2i
local names = {unpack(ARGV, 1, n + 2)} -- as long as it will be: growing costs more than these values
names[1], names[2] = '\n', batch
for i = 1, n do
  names[i + 2] = ARGV[pairs_at + 2 * i - 1]
end
local held = redis.call('HMGET', KEYS[2], unpack(names))
-- part: loss.lua

-- The same for what is found later, while nothing is written yet.
local function lose(why)
  redis.call('HSET', KEYS[1], 'fence', why)
  return {3, epoch, seq, 0, 0, 0}
end
if held[2] then
  return redis.error_reply('ERR the name ' .. ARGV[9] .. ' of the batch is taken')
end

-- I8: one moment for the whole batch.
local at = ARGV[6]
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
elseif sale[13] == '1' then
  refusal = PAUSED
end
-- A sale that has just reopened is in cooldown: its old refusal goes on, at its place in the precedence. One that
-- ends later than one that begins now is over: the clock has been set back since.
local cooling = false
local left = calm_until - now
if left > 0 and left <= tonumber(ARGV[7]) then
  if calm_code == SOLD_OUT then
    cooling = true
  elseif not refusal or calm_code < refusal then
    refusal = calm_code
  end
end

-- part: record.lua

-- Returns up to 16 texts as one. Lua looks at each byte of a new text, and table.concat makes many on its way.
local function joined(p)
  for j = #p + 1, 16 do
    p[j] = ''
  end
  return p[1] .. p[2] .. p[3] .. p[4] .. p[5] .. p[6] .. p[7] .. p[8] ..
    p[9] .. p[10] .. p[11] .. p[12] .. p[13] .. p[14] .. p[15] .. p[16]
end

-- Who is looked at apart: buyers who have a record, or occur again (whose record, if they have none, is true here).
for position in string.gmatch(ARGV[13], '%d+') do
  local i = tonumber(position) + 2
  held[i] = held[i] or true
end
local apart, a = {}, 0               -- positions
local keys, records = {}, {}         -- by position; by buyer, as the batch changes them
local further, newest, m = {}, {}, 0 -- fields of further claims, and the buyers whose newest claim that is
for i = 1, n do
  local text = held[i + 2]
  if text then
    local buyer, key = names[i + 2], match(ARGV[pairs_at + 2 * i], '\n[^\t]*\t([^\t]*)')
    a = a + 1
    apart[a], keys[i] = i, key
    local record = records[buyer]
    if not record and text ~= true then
      record = record_of(buyer, text)
      if not record then
        return lose(damage)
      end
      records[buyer] = record
      if record[6] ~= '' then
        m = m + 1
        further[m], newest[m] = buyer .. '\n' .. record[6], buyer
      end
    end
    if record and key ~= record[5] then
      m = m + 1
      further[m] = buyer .. '\n' .. key
    end
  end
end
local lines = {} -- by field: the claims that are not their buyer's first
if m > 0 then
  local found = redis.call('HMGET', KEYS[2], unpack(further))
  for j = 1, m do
    if newest[j] and not (found[j] and line_at(found[j], 1, newest[j] .. '\t')) then
      return lose(damage)
    end
    lines[further[j]] = found[j]
  end
end

-- If all can have what they ask for, whatever those apart are answered, then the others have it.
local units, largest = tonumber(ARGV[11]), tonumber(ARGV[12])
local ones, quantities = units == n, pairs_at + 2 * n
local enough = not refusal and not cooling and (total < 0 or taken + units <= total) and
  (max_buyer < 0 or largest <= max_buyer) and max_orders ~= 0
if enough then
  taken = taken + units
  for j = 1, a do
    taken = taken - (ones and 1 or tonumber(ARGV[quantities + apart[j]]))
  end
end

local touched, t = {}, 0         -- buyers apart who have a claim more
local writes, w = {}, 0          -- arguments of HSET for them
local repeats, of, r = {}, {}, 0 -- where their answers are, and the batches that their lines point to
local skipped, s = {}, 0         -- positions that are not accepted now
local gone, g = {}, 0            -- positions whose pairs are not written as they are
local shown, links = {}, 250     -- buyers whose record is in the answer; so many further claims may be there
local refused, code = 0, nil     -- how many refusals there are of the code that came last
local out = {0, epoch, seq, now, opens, terms}

for j = 1, enough and a or n do
  local i = enough and apart[j] or j
  local buyer, key, quantity = names[i + 2], keys[i], 1
  local record, line = nil, nil
  if key then
    record = records[buyer]
    if record then
      line = record[5] == key and record[4] or lines[buyer .. '\n' .. key]
    end
  end
  if not ones then quantity = tonumber(ARGV[quantities + i]) end
  local answer
  if line then -- I4
    local place = record[5] == key and record[7]
    if not place then
      line = match(line, '^[^\n]*')
      place = match(line, '\t([%w:]+)\t%d+u?$') or ''
    end
    answer = 'R' .. line
    r = r + 1
    repeats[r], of[r] = 8 + 2 * s, '\n' .. (match(place, '^(%w+):%d+$') or '')
  else
    local no = refusal
    if not no then
      local has, count, unpaid = quantity, 0, 0
      if record then
        has, count, unpaid = record[1] + quantity, record[2], record[3]
      end
      if (max_buyer >= 0 and has > max_buyer) or (max_orders >= 0 and count >= max_orders) or
        (max_unpaid > 0 and unpaid >= max_unpaid) then -- I3
        no = BUYER_LIMIT
      elseif cooling or (total >= 0 and taken >= total) then -- I7
        no = SOLD_OUT
      elseif total >= 0 and taken + quantity > total then -- I1
        no = INSUFFICIENT
      end
    end
    local text = held[i + 2]
    if no == BUYER_LIMIT and text and text ~= true and not shown[buyer] then
      shown[buyer] = true
      local parts, link = {'L', text}, match(text, '\n(%C+)$')
      local more = tonumber(match(text, '^%d+\t(%d+)')) - 1
      if more <= links then
        links = links - more
        for k = 1, more do
          local value = link and redis.call('HGET', KEYS[2], buyer .. '\n' .. link) or ''
          parts[2 + k] = '\n' .. match(value, '^[^\n]*')
          link = match(value, '\n(%C+)$')
        end
      end
      answer = table.concat(parts)
    elseif no then
      answer = -no
      if no ~= code then
        refused, code = 0, no
      end
      refused = refused + 1
    end
  end
  if answer then
    out[7 + 2 * s], out[8 + 2 * s] = i, answer
    s = s + 1
    skipped[s] = i
  else
    taken = taken + quantity
    if key then
      local given = ARGV[pairs_at + 2 * i]
      line = sub(given, find(given, '\n', 1, true) + 1)
      if not record then
        records[buyer] = {quantity, 1, 0, line, key, ''}
      else
        local field = buyer .. '\n' .. key
        lines[field] = line .. '\n' .. record[6]
        writes[w + 1], writes[w + 2] = field, lines[field]
        w = w + 2
        record[1], record[2], record[6] = record[1] + quantity, record[2] + 1, key
      end
      t = t + 1
      touched[t] = buyer
    end
  end
  if answer or key then
    g = g + 1
    gone[g] = i
  end
end
for j = 1, t do
  local buyer = touched[j]
  if records[buyer] then
    writes[w + 1], writes[w + 2] = buyer, text_of(records[buyer])
    w = w + 2
    records[buyer] = nil -- each is written once
  end
end

local kept = string.format('%.0f', seq + 1) .. '\t' .. sale[2] .. '\t' .. at .. '\t' .. sale[7]
if s > 0 then
  kept = kept .. '\t' .. table.concat(skipped, ',')
end
if r > 0 then
  local batches = redis.call('HMGET', KEYS[2], unpack(of))
  for j = 1, r do
    if of[j] ~= '\n' then
      out[repeats[j]] = out[repeats[j]] .. '\n' .. (of[j] == batch and kept or batches[j] or '')
    end
  end
end

if s < n then -- I5; the journal first, since it alone may still be of the wrong type
  local entry, ends = ARGV[14], ARGV[15]
  if s > 0 then
    local parts, p, from = {}, 0, 1
    for k = 1, s do
      local i = skipped[k]
      local to = i > 1 and tonumber(sub(ends, 6 * i - 11, 6 * i - 6)) or 0
      if to >= from then
        p = p + 1
        parts[p] = sub(entry, from, to)
        if p == 15 then
          parts, p = {joined(parts)}, 1
        end
      end
      from = tonumber(sub(ends, 6 * i - 5, 6 * i)) + 1
    end
    parts[p + 1] = sub(entry, from)
    entry = joined(parts)
  end
  local added = redis.pcall('XADD', KEYS[3], '*', 'v', '1', 'e', sale[2], 'n', ARGV[1], 't', sale[7], 'at', at,
    's', seq + 1, 'c', entry)
  if type(added) == 'table' and added.err then -- nothing is written yet
    if not find(added.err, 'last possible ID', 1, true) and not find(added.err, 'equal or smaller', 1, true) then
      return added
    end
    return lose('lost: the ids of the journal are used up')
  end
  seq = seq + n - s
  -- The last pairs take the places of those that are gone, and what is written instead follows.
  local last = quantities
  for j = g, 1, -1 do
    local to = pairs_at + 2 * gone[j]
    ARGV[to - 1], ARGV[to] = ARGV[last - 1], ARGV[last]
    last = last - 2
  end
  for j = 1, w do
    ARGV[last + j] = writes[j]
  end
  redis.call('HSET', KEYS[2], batch, kept, unpack(ARGV, pairs_at + 1, last + w))
  redis.call('HSET', KEYS[1], 'seq', seq, 'taken', taken, 'entries', entries + 1, ARGV[2], seq)
elseif r > 0 and (ARGV[8] == '1' or received ~= seq) then -- I4: a replay is an acceptance too
  redis.call('HSET', KEYS[1], ARGV[2], seq)
end
out[3] = seq
if refused == n then
  return {0, epoch, seq, now, opens, terms, -code}
end
return out
