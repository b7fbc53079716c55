-- The check of the buyers' records (docs/redis-keys.md) for claim.lua and release.lua. A record that no server writes
-- so decides nothing. Of a repeat the server checks the rest.

local damage = 'lost: the record of a buyer is damaged' -- whose, the rebuild says: a fence is kept and shown

-- What follows buyer TAB in a line: key, order, quantity, meta, place and what remains. A class of its own is quicker
-- than a set; meta may have DEL.
local line_pattern = '^(%C+)\t%C-%.%x+\t([1-9]%d*)\t[^\t\n]*\t([%w:]+)\t(%d+)(u?)()'

-- Returns key, quantity, whether it is live, where it ends and its place, of the line that begins here, or nothing.
local function line_at(text, from, begin)
  if sub(text, from, from + #begin - 1) ~= begin then return nil end
  local key, quantity, place, rest, unpaid, after = match(text, line_pattern, from + #begin)
  if not key or (rest ~= '0' and (rest ~= quantity or unpaid ~= '')) or (byte(text, after) or 10) ~= 10 then
    return nil
  end
  return key, tonumber(quantity), rest ~= '0', after, place
end

-- Returns a buyer's record: {live units, accepted claims, unpaid endings, the first claim's line, its key, key of the
-- newest claim or '', the first claim's place}; or nothing if it is damaged.
local function record_of(buyer, text)
  local units, count, from = match(text, '^(%d+)\t([1-9]%d*)()')
  if not units or (byte(units) == 48 and units ~= '0') then return nil end
  units, count = tonumber(units), tonumber(count)
  local unpaid = match(text, '^\t([1-9]%d*)', from)
  if unpaid then from = from + 1 + #unpaid end
  if byte(text, from) ~= 10 then return nil end
  local key, quantity, live, after, place = line_at(text, from + 1, buyer .. '\t')
  if not key then return nil end
  local newest = match(text, '^\n(%C+)$', after) or ''
  if count == 1 then
    if after <= #text or units ~= (live and quantity or 0) then return nil end
  elseif newest == '' or (live and quantity > units) then
    return nil
  end
  return {units, count, tonumber(unpaid or '0'), sub(text, from + 1, after - 1), key, newest, place}
end

local function text_of(record)
  return record[1] .. '\t' .. record[2] .. (record[3] > 0 and '\t' .. record[3] or '') .. '\n' .. record[4] ..
    (record[6] ~= '' and '\n' .. record[6] or '')
end
