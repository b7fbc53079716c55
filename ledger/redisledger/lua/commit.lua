-- commit.lua: accept those of a batch of claims that the server has decided to accept, as far as all that it decided
-- by is so. No rule of a claim is here: what was decided wrongly comes back, and the server decides again.
--
-- KEYS:    1 sale hash, 2 buyers hash, 3 journal stream
-- ARGV:    1 name of the server, 2 its field in the sale hash ('told:' and the name); 3 epoch and 4 sequence that it
--          last received there, 5 highest sequence it has seen there; 6 now in ms, or '' for this server's clock;
--          7 the cooldown of a reopened sale, in ms; 8 '1' if WAIT follows, else ''; 9 version of the terms;
--          10 name of the batch, which no other has; 11 n, the number of claims, each of another buyer; 12 a digit
--          for each: 1 if its buyer has a record, 2 if it must come back, for its buyer may not have it, else 0;
--          13 the units of each claim, seven digits each, or '' if all ask for one;
--          14 the claims as the journal has them (lines buyer TAB key TAB order TAB quantity TAB meta LF),
--          15 where each of these lines ends, six digits each; 16 the counters of claims (lines position TAB name
--          TAB most LF), nearly always '';
--          17.. the records of buyers as the server has seen them, of each 1 in ARGV 12; then fields of the buyers
--          hash and what they become: of each claim the buyer's, and behind it, of each 1, the claim's own
-- Returns: {1}: the sale is not what the server takes it for; nothing is done; {1, sequence, the one that this server
--          received}: these show it. {2, sequence, now in ms, end and code
--          of the cooldown, taken}: nothing is accepted, and every buyer is as believed. Else {0, the same after the
--          batch, where it stopped, and of each claim that is not accepted its position, and the units taken at its
--          turn and counted in each of its counters, with spaces; or, if its buyer is not as believed, what is
--          counted, NUL, the buyer's record, NUL, the further claim of this key, NUL, what is kept of the batch of
--          the claim with this key; record and claim behind a '+' where there is one}.
--          The others have the sequences up to the one after, in order. Where units, or what its counters have left,
--          may not be enough for the whole batch, all claims behind the first one that may be accepted at its turn, as
--          soon as the server knows of its buyer, come back
-- Keeps:   I1 (taken + units <= total, claim by claim, and likewise in each counter), I3 and I4 (a claim is accepted
--          beside the record that it was decided by, and where its key is not on record, or comes back), I5 (record
--          and journal entry in one step),
--          I8 (window and pause by one clock); loss is visible: a missing key, record, entry or received sequence
--          lets nothing pass. A batch of which a claim is accepted, or is on record, counts as received up to the
--          sequence after it, and under WAIT it writes: from Redis 7.2 on WAIT covers nothing but the writes of its
--          own connection
-- Cost:    6 to 12 commands whatever n is, and whatever buyers have: of a claim at most three fields are read and two
--          are written, and those of its counters. All text that is written is the server's
-- Resend:  safe: what was accepted the first time is on record and comes back

local ARGV = ARGV
local unpack = table.unpack or unpack
local find, sub, match, byte = string.find, string.sub, string.match, string.byte
local n, flags, ones = tonumber(ARGV[11]), ARGV[12], ARGV[13] == ''
local _, k = string.gsub(flags, '1', '')
local before, p = 16 + k, n + k -- field j is at before + 2j - 1, and what it becomes behind it
local names = {unpack(ARGV, 1, p + 2)} -- as long as it will be: growing costs more than these values
names[1], names[2] = '\n', '\n' .. ARGV[10]
for j = 1, p do
  names[j + 2] = ARGV[before + 2 * j - 1]
end
local held = redis.call('HMGET', KEYS[2], unpack(names))
-- part: guards.lua
if held[2] then
  return redis.error_reply('ERR the name ' .. ARGV[10] .. ' of the batch is taken')
end
local open = selling and not calm
local function units_of(i) -- where not all ask for one
  return tonumber(sub(ARGV[13], 7 * i - 6, 7 * i))
end

-- Whether there may be too little for the whole batch: then each claim waits for its turn.
local bounded, turns = open and total >= 0, false
if bounded and taken < total then
  local units = n
  for i = 1, ones and 0 or n do
    units = units + units_of(i) - 1
  end
  turns = taken + units > total
end

-- Further claims of buyers who are not believed to have a record: with them the answer is complete.
local keys, lines, fields, field = {}, {}, {}, 1 -- by position; the last are those of the claims
local further, whose, f = {}, {}, 0
for i = 1, n do
  fields[i] = field
  local first, known = held[field + 2], byte(flags, i) == 49
  if first and not known then
    keys[i] = match(ARGV[before + 2 * field], '\n[^\t]*(\t[^\t]*\t)')
    if not find(first, keys[i], 1, true) then
      f = f + 1
      further[f], whose[f] = names[field + 2] .. '\n' .. sub(keys[i], 2, -2), i
    end
  end
  field = field + (known and 2 or 1)
end
if f > 0 then
  local found = redis.call('HMGET', KEYS[2], unpack(further))
  for j = 1, f do
    lines[whose[j]] = found[j]
  end
end

-- Counters: the field of each claim's, and the most units; by field the live units, and what the batch asks for; and
-- whether the claim waits for its turn. A counter that is damaged is full.
local counters, counts, wanted, changed, turn = {}, {}, {}, {}, {}
if ARGV[16] ~= '' then
  local asked, c = {}, 0
  for position, name, most in string.gmatch(ARGV[16], '(%d+)\t(%C+)\t(%d+)\n') do
    local i, field_of = tonumber(position), '\n' .. name
    counters[i] = counters[i] or {}
    table.insert(counters[i], {field_of, tonumber(most)})
    if not counts[field_of] then
      c = c + 1
      asked[c], counts[field_of], wanted[field_of] = field_of, 0, 0
    end
    wanted[field_of] = wanted[field_of] + (ones and 1 or units_of(i))
  end
  local found = redis.call('HMGET', KEYS[2], unpack(asked))
  for j = 1, c do
    local count = tonumber(match(found[j] or '0', '^%d+$') or '')
    counts[asked[j]] = count and count < 9007199254740991 and count or 9007199254740991
  end
  for i, all in pairs(counters) do
    for _, counter in ipairs(all) do
      turn[i] = turn[i] or open and counts[counter[1]] + wanted[counter[1]] > counter[2]
    end
  end
end

local skipped, m, stopped = {}, 0, 0 -- positions that are not accepted
local gone, g = {}, 0                -- fields that are not written
local out = {0, 0, now, s[13], tonumber(s[6]), 0, 0}
local shown, again = false, false    -- whether a record is in the answer, and a claim that is on record
local of, batches, b = {}, {}, 0     -- answers that need what is kept of a batch
local seen = 16                      -- before what the server has seen of the buyer
for i = 1, n do
  local at_field, flag, units = fields[i], byte(flags, i), ones and 1 or units_of(i)
  local record, line, key, differs = held[at_field + 2], lines[i], keys[i], flag == 50
  if flag == 49 then
    line, seen = held[at_field + 3], seen + 1
    differs = line or record ~= ARGV[seen]
    key = differs and match(ARGV[before + 2 * at_field + 2], '^[^\t]*(\t[^\t]*\t)')
  elseif record then
    differs = true
  end
  local repeats = line or (key and record and find(record, key, 1, true))
  local counted, full = '', false
  if counters[i] then
    for _, counter in ipairs(counters[i]) do
      counted = counted .. string.format(' %.0f', counts[counter[1]])
      full = full or counts[counter[1]] + units > counter[2]
    end
  end
  if (turns or turn[i]) and stopped == 0 and differs and not full and flag ~= 50 and not repeats then stopped = i end
  if differs or not open or stopped > 0 or full or (bounded and taken + units > total) then
    m = m + 1
    skipped[m], out[6 + 2 * m], out[7 + 2 * m] = i, i, taken
    if counted ~= '' then
      shown, out[7 + 2 * m] = true, string.format('%.0f', taken) .. counted
    end
    if differs and (record or line or flag == 49) then
      shown = true
      out[7 + 2 * m] = counted .. '\0' .. (record and '+' .. record or '') .. '\0' ..
        (line and '+' .. line or '') .. '\0'
      if repeats then
        again = true
        local batch = match((line or record) .. '\n', '\t(%w+):%d+\t%d+u?\n')
        if batch then
          b = b + 1
          of[b], batches[b] = 7 + 2 * m, '\n' .. batch
        end
      end
    end
    g = g + 1
    gone[g] = at_field
    if flag == 49 then
      g = g + 1
      gone[g] = at_field + 1
    end
  else
    taken = taken + units
    if counters[i] then
      for _, counter in ipairs(counters[i]) do
        counts[counter[1]], changed[counter[1]] = counts[counter[1]] + units, true
      end
    end
  end
end
if b > 0 then
  local kept = redis.call('HMGET', KEYS[2], unpack(batches))
  for j = 1, b do
    out[of[j]] = out[of[j]] .. (kept[j] or '')
  end
end

if m < n then -- I5; the journal first: what a torn transaction leaves of the batch shows there (ADR 7)
  local entry, batch = ARGV[14], string.format('%.0f', seq + 1) .. '\t' .. s[2] .. '\t' .. at .. '\t' .. s[4]
  if m > 0 then
    batch = batch .. '\t' .. table.concat(skipped, ',')
    local parts, from = {}, 1
    for j = 1, m do
      local i = skipped[j]
      parts[j] = sub(entry, from, i > 1 and tonumber(sub(ARGV[15], 6 * i - 11, 6 * i - 6)) or 0)
      from = tonumber(sub(ARGV[15], 6 * i - 5, 6 * i)) + 1
    end
    parts[m + 1] = sub(entry, from)
    entry = table.concat(parts)
  end
  redis.call('XADD', KEYS[3], '*', 'v', '1', 'e', s[2], 'n', ARGV[1], 't', s[4], 'at', at, 's', seq + 1, 'c', entry)
  seq = seq + n - m
  local last = before + 2 * p
  for j = g, 1, -1 do -- the last fields take the places of those that are gone
    local to = before + 2 * gone[j]
    ARGV[to - 1], ARGV[to] = ARGV[last - 1], ARGV[last]
    last = last - 2
  end
  redis.call('HSET', KEYS[2], names[2], batch, unpack(ARGV, before + 1, last))
  if next(changed) then
    local fields_of, c = {}, 0
    for field_of in pairs(changed) do
      fields_of[c + 1], fields_of[c + 2], c = field_of, counts[field_of], c + 2
    end
    redis.call('HSET', KEYS[2], unpack(fields_of))
  end
  redis.call('HSET', KEYS[1], 'seq', seq, 'taken', taken, 'entries', length + 1, ARGV[2], seq)
elseif again and (ARGV[8] == '1' or told ~= seq) then -- I4: a replay is an acceptance too
  redis.call('HSET', KEYS[1], ARGV[2], seq)
end
out[2], out[6], out[7] = seq, taken, stopped
if m == n and not shown then
  return {2, unpack(out, 2, 6)}
end
return out
