-- The check of the buyers' records, behind what claim.lua and release.lua have read of them: heads and stored, where
-- their buyers are in ARGV, and whether the layout is split. A record that no server writes so decides nothing. A
-- repeat needs its line alone, which the server checks.

-- What follows LF buyer TAB in a line, as docs/redis-keys.md has it: its quantity and life, and where it ends.
-- claim.lua writes the sequences from 1 to 9 with two digits. A class of its own is quicker than a set; meta may have
-- DEL.
local line_pattern = '^%C+\t%C-%.%x+\t([1-9]%d*)\t[^\t\n]*\t0?[1-9]%d*\t[1-9]%d*\t%d+\t[1-9]%d*\t([012]0?)()'

-- Of a field of more bytes only the first line and the last are checked, and those that a release ends: other calls
-- wait for the script. The others are counted if all are here. Reconciliation reads all.
local long_field = 2048

local sound = {} -- places in stored that were checked

local damage = 'lost: the record of a buyer is damaged' -- whose, the rebuild says: a fence is kept and shown

-- Returns quantity, life and end of the line that begins here with LF buyer TAB, or nothing.
local function line_at(record, from, begin)
  if find(record, begin, from, true) ~= from then return nil end
  local quantity, life, after = match(record, line_pattern, from + #begin)
  if quantity and life ~= '2' and life ~= '10' and life ~= '00' and (byte(record, after) or 10) == 10 then
    return tonumber(quantity), life, after
  end
end

-- Returns live units, accepted claims and the end of a buyer's head, or nothing.
local function head_of(head)
  local units, count, from = match(head or '', '^(%d+)\t([1-9]%d*)()')
  if not units or (byte(units) == 48 and units ~= '0') then return nil end
  return tonumber(units), tonumber(count), match(head, '^\t[1-9]%d*()', from) or from -- perhaps unpaid endings
end

-- Returns what is wrong with the record of the i-th buyer, of whom something is on record, or nothing.
local function wrong(i, head, record)
  local place, buyer = stored_at[i], ARGV[buyers + i]
  if sound[place] then return nil end
  if head and (find(head, '\n', 1, true) ~= nil) == split then
    return 'lost: the records of the buyers are not laid out as ' .. sale[6]
  end
  local units, count, from = head_of(head)
  if not units or (split and from <= #head) then return damage end
  if split then from = 1 end -- of the lines, some of which are elsewhere
  local begin, size, lines, live = '\n' .. buyer .. '\t', #(record or ''), 0, 0
  local long = size > long_field
  while from <= size do
    local quantity, life, after = line_at(record, from, begin)
    if not quantity then return damage end
    if life == '1' then live = live + quantity end
    lines, from = lines + 1, after
    if long and lines == 1 then
      local last = match(sub(record, -1024), '.*()\n')
      if not last then return damage end
      from = size - 1024 + last
    end
  end
  local some = split or long
  if (record and lines == 0) or lines > count or live > units or not some and (lines < count or live < units) then
    return damage
  end
  if long and not split then
    local at = 0
    for _ = 1, count do
      at = find(record, begin, at + 1, true)
      if not at then return damage end
    end
    if find(record, begin, at + 1, true) then return damage end
  end
  sound[place] = true
end
