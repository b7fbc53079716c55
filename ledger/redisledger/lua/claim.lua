-- claim.lua: decide a batch of claims of one sale, in order, in one step.
--
-- KEYS:    1 sale hash, 2 buyers hash, 3 journal stream
-- ARGV:    1 name of the asking server, 2 its field in the sale hash ('told:' and the name);
--          3 epoch and 4 sequence it last received there, 5 highest sequence it has seen there (0 0 0: none);
--          6 now in ms, or '' for this server's clock; 7 the cooldown of a reopened sale, in ms,
--          8 '1' if WAIT follows, else '';
--          9 name of this batch, which no other has; 10 n, the number of claims,
--          11 '1' if all of them ask for one unit, else '', 12 '1' if a buyer occurs more than once, else '';
--          13 the claims as the journal has them (lines buyer TAB key TAB order TAB quantity TAB meta LF);
--          14.. n pairs: buyer, and the record of a buyer who has this claim alone; then n quantities (unless 11)
-- Returns: {state, epoch, sequence after, now in ms, opens in ms, version of the terms, answers...}; state 0:
--          decided, 1: not loaded, 2: fenced, 3: has lost data, now fenced,
--          6: of a format that this version does not know.
--          When decided, no answers if all were accepted, one if all were refused by the same code, else one per
--          claim: its sequence if accepted; minus the code if refused; 'R' and the line on record if the key has
--          an accepted claim, with LF and what is kept of its batch if the line points there; 'L' and the buyer's
--          record as it was before the batch, and LF and the line of each further claim from the newest on, if the
--          buyer's limit refuses (minus the code if there is none, or the batch's answers have it already; without the
--          lines if they are too many)
-- Keeps:   I1 (taken <= total), I3 (limits), I4 (a key on record answers first), I5 (record and journal entry
--          in one step), I7 (sold out only when nothing is available), I8 (window and pause by one clock);
--          loss is visible: a missing sale, record, journal entry or received sequence is never a refusal, nor is a
--          field of the sale or a record that no program of ours writes so; and an entry too many, of a torn
--          transaction (docs/redis-keys.md), is none either. A batch that
--          was accepted or repeated in part counts as received up to the sequence after it, and under WAIT it writes:
--          from Redis 7.2 on WAIT covers nothing but the writes of its own connection
-- Cost:    6 to 8 commands a call whatever n is, and whatever buyers have, and one for each of at most 250 claims that
--          refused buyers have; of a claim at most three fields are read and two are written. Of a buyer without
--          a record all text comes from the caller: no string is made for the claim
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

local sale = redis.call('HMGET', KEYS[1], 'format', 'epoch', 'seq', 'taken', 'fence', 'items', ARGV[2], 'terms',
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

-- Buyers' records before the loss check: a key of the wrong type must stop the script before anything is written.
local batch, pairs_at = '\n' .. ARGV[9], 13 -- a buyer is at pairs_at + 2i - 1, their record at pairs_at + 2i
local names = {'\n', batch}
for i = 1, n do
  names[i + 2] = ARGV[pairs_at + 2 * i - 1]
end
local held = redis.call('HMGET', KEYS[2], unpack(names))
-- part: loss.lua

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
elseif sale[14] == '1' then
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

-- Of buyers who have a record, or occur again: the key of the claim, and its field if it is not the buyer's first.
local ones, again = ARGV[11] == '1', ARGV[12] == '1'
local keys, fields, more, m = {}, {}, {}, 0
for i = 1, n do
  local record = held[i + 2]
  if record or again then
    keys[i] = match(ARGV[pairs_at + 2 * i], '\n[^\t]*\t([^\t]*)')
    fields[i] = names[i + 2] .. '\n' .. keys[i]
    if record then
      more[m + 1], more[m + 2] = fields[i], names[i + 2] .. '\n' .. (match(record, '\n(%C+)$') or '')
      m = m + 2
    end
  end
end
local lines = {} -- by field: the claims that are not their buyer's first
if m > 0 then
  local found = redis.call('HMGET', KEYS[2], unpack(more))
  for j = 1, m do
    lines[more[j]] = found[j]
  end
end

local records, touched, t = {}, {}, 0   -- by buyer, as they become; and the buyers with a claim more
local writes, w = {}, 0                 -- arguments of HSET
local repeats, r = {}, 0                -- positions, and what their answers point to
local skipped, s = {}, 0                -- positions that are not accepted
local shown, links = {}, 250            -- buyers whose record is in the answer; so many further claims may be there
local refused, code = 0, nil            -- how many refusals there are of the code that came last
local quantities, start = pairs_at + 2 * n, seq
local out = {0, epoch, seq, now, opens, terms}

for i = 1, n do
  local buyer, quantity = names[i + 2], 1
  local key, record, line = keys[i], nil, nil
  if key then
    record = records[buyer]
    if not record and held[i + 2] then
      record = record_of(buyer, held[i + 2])
      local last = record and record[6] ~= '' and lines[buyer .. '\n' .. record[6]]
      if not record or (record[6] ~= '' and not (last and line_at(last, 1, buyer .. '\t'))) then -- nothing is written
        redis.call('HSET', KEYS[1], 'fence', damage)
        return {3, epoch, start, 0, 0, 0}
      end
      records[buyer] = record
    end
    if record then
      line = record[5] == key and record[4] or lines[fields[i]]
    end
  end
  if line then -- I4
    line = match(line, '^[^\n]*')
    r = r + 1
    repeats[r] = i
    out[6 + i] = 'R' .. line
    s = s + 1
    skipped[s] = i
  else
    local no = refusal
    if not no then
      if not ones then quantity = tonumber(ARGV[quantities + i]) end
      local units, count, unpaid = quantity, 0, 0
      if record then
        units, count, unpaid = record[1] + quantity, record[2], record[3]
      end
      if (max_buyer >= 0 and units > max_buyer) or (max_orders >= 0 and count >= max_orders) or
        (max_unpaid > 0 and unpaid >= max_unpaid) then -- I3
        no = BUYER_LIMIT
      elseif cooling or (total >= 0 and taken >= total) then -- I7
        no = SOLD_OUT
      elseif total >= 0 and taken + quantity > total then -- I1
        no = INSUFFICIENT
      end
    end
    if no then
      if no == BUYER_LIMIT and held[i + 2] and not shown[buyer] then
        shown[buyer] = true
        local text, newest = {'L', held[i + 2]}, match(held[i + 2], '\n(%C+)$')
        local more_lines = tonumber(match(held[i + 2], '^%d+\t(%d+)')) - 1
        if more_lines <= links then
          links = links - more_lines
          for j = 1, more_lines do
            local further = newest and redis.call('HGET', KEYS[2], buyer .. '\n' .. newest) or ''
            text[2 + j] = '\n' .. match(further, '^[^\n]*')
            newest = match(further, '\n(%C+)$')
          end
        end
        out[6 + i] = table.concat(text)
      else
        out[6 + i] = -no
        if no ~= code then
          refused, code = 0, no
        end
        refused = refused + 1
      end
      s = s + 1
      skipped[s] = i
    else
      seq = seq + 1
      taken = taken + quantity
      out[6 + i] = seq
      local text = ARGV[pairs_at + 2 * i]
      if not key then
        writes[w + 1], writes[w + 2] = buyer, text
        w = w + 2
      else
        line = sub(text, find(text, '\n', 1, true) + 1)
        if not record then
          record = {quantity, 1, 0, line, key, ''}
          records[buyer] = record
        else
          lines[fields[i]] = line .. '\n' .. record[6]
          writes[w + 1], writes[w + 2] = fields[i], lines[fields[i]]
          w = w + 2
          record[1], record[2], record[6] = record[1] + quantity, record[2] + 1, key
        end
        t = t + 1
        touched[t] = buyer
      end
    end
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

local kept = string.format('%.0f', start + 1) .. '\t' .. sale[2] .. '\t' .. at .. '\t' .. sale[8]
if s > 0 then
  kept = kept .. '\t' .. table.concat(skipped, ',')
end
if r > 0 then -- what their lines point to
  local of = {}
  for j = 1, r do
    of[j] = '\n' .. (match(out[6 + repeats[j]], '\t(%w+):%d+\t%d+u?$') or '')
  end
  local batches = redis.call('HMGET', KEYS[2], unpack(of))
  for j = 1, r do
    if of[j] ~= '\n' then
      out[6 + repeats[j]] = out[6 + repeats[j]] .. '\n' .. (of[j] == batch and kept or batches[j] or '')
    end
  end
end

if seq > start then -- I5; the journal first, since it alone may still be of the wrong type
  local entry = ARGV[13]
  if s > 0 then
    local parts, from, line = {}, 1, 1
    local k = 1
    for i = 1, n do
      local after = find(entry, '\n', line, true) + 1
      if i == skipped[k] then
        parts[k] = sub(entry, from, line - 1)
        from, k = after, k + 1
      end
      line = after
    end
    parts[k] = sub(entry, from)
    entry = table.concat(parts)
  end
  local added = redis.pcall('XADD', KEYS[3], '*', 'v', '1', 'e', sale[2], 'n', ARGV[1], 't', sale[8], 'at', at,
    's', start + 1, 'c', entry)
  if type(added) == 'table' and added.err then -- nothing is written yet
    if not find(added.err, 'last possible ID', 1, true) and not find(added.err, 'equal or smaller', 1, true) then
      return added
    end
    redis.call('HSET', KEYS[1], 'fence', 'lost: the ids of the journal are used up')
    return {3, epoch, start, 0, 0, 0}
  end
  if w == 2 * n and t == 0 then -- all as the caller gave it
    redis.call('HSET', KEYS[2], batch, kept, unpack(ARGV, pairs_at + 1, pairs_at + 2 * n))
  else
    redis.call('HSET', KEYS[2], batch, kept, unpack(writes))
  end
  redis.call('HSET', KEYS[1], 'seq', seq, 'taken', taken, 'entries', entries + 1, ARGV[2], seq)
elseif r > 0 and (ARGV[8] == '1' or received ~= seq) then -- I4: a replay is an acceptance too
  redis.call('HSET', KEYS[1], ARGV[2], seq)
end
if seq - start == n then
  return {0, epoch, seq, now, opens, terms}
elseif refused == n then
  return {0, epoch, seq, now, opens, terms, -code}
end
out[3] = seq
return out
