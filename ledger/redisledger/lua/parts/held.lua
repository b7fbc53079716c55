-- What claim.lua and release.lua begin with, behind their HMGET of the sale hash: the sale is there, of this format and
-- not fenced. The first six fields are format, epoch, seq, taken, fence and the last sequence that this server received
-- (field told:NODE).
local epoch = match(sale[2] or '', '^[1-9]%d*$') and tonumber(sale[2])
if not sale[1] or not epoch or epoch > 1125899906842624 then -- gone, or damaged: no server counts that far
  return {1}
end
if sale[1] ~= '1' and match(sale[1], '^[1-9]%d?%d?%d?$') and tonumber(sale[1]) <= 1000 then -- other values are damage
  return {6}
end
if sale[5] ~= '' then
  return {2, epoch, tonumber(sale[3]) or 0, 0, 0, 0}
end

-- A field that no program of ours writes so is damage, and is not guessed at; nor is a number
-- too large to be exact, except for moments.
local damaged
local function number(i, name, least)
  local text = sale[i] or ''
  local n = (text == '0' or match(text, '^%-?[1-9]%d*$')) and tonumber(text)
  if not n or (least and (n < least or n > 9007199254740991)) then
    damaged = name
  end
  return n
end
local seq, taken, received = number(3, 'seq', 0), number(4, 'taken', 0), 0
if sale[6] then received = number(6, 'told', 0) end -- a server that has received nothing has no field
if sale[1] ~= '1' then damaged = 'format' end
