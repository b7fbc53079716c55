-- release.lua: end accepted claims of one sale: their units are for sale again, they stay on record.
--
-- KEYS:    1 sale hash, 2 buyers hash, 3 journal stream
-- ARGV:    1 name of the server, 2 its field in the sale hash ('told:' and the name); 3 epoch and 4 sequence that it
--          last received there, 5 highest sequence it has seen there; 6 now in ms, or '' for this server's clock;
--          7 the cooldown of a reopened sale, in ms; 8 '1' if WAIT follows, else ''; 9 version of the terms, '' for
--          any; 10 the units that return, 11 n, the number of fields of the buyers hash that change; 12 how
--          many of the units each counter has (lines name TAB units LF), nearly always ''; 13.. these fields, n
--          values that they have, n pairs of a field and what it becomes
-- Returns: {1}: the sale is not what the server takes it for, or a field has another value; nothing is done; {1,
--          sequence, the one that this server received}: these show it. {0, sequence}: done
-- Keeps:   I6 (a line that has ended has another value, so it ends once, and its units return with it, in one step),
--          I4 (the line stays), I2, I3 (taken and the buyer's units fall by what the line holds, and an unpaid ending
--          is counted), I7 (returned units can be sold; a sale that was sold out has a cooldown first, until no
--          server repeats that); loss is visible, as in commit.lua
-- Cost:    6 to 9 commands whatever n is, and whatever buyers have
-- Resend:  safe: the fields have other values

local SOLD_OUT = 9

local unpack = table.unpack or unpack
local sub, match = string.sub, string.match
local units, n = tonumber(ARGV[10]), tonumber(ARGV[11])

local held = redis.call('HMGET', KEYS[2], '\n', unpack(ARGV, 13, 12 + n))
-- part: guards.lua
for j = 1, n do
  if held[1 + j] ~= ARGV[12 + n + j] then
    return {1}
  end
end
if units > taken then
  return {1}
end
if n > 0 then
  redis.call('HSET', KEYS[2], unpack(ARGV, 13 + 2 * n))
end
local names, counts, c = {}, {}, 0
for name, less in string.gmatch(ARGV[12], '(%C+)\t(%d+)\n') do
  c = c + 1
  names[c], counts[2 * c - 1], counts[2 * c] = '\n' .. name, '\n' .. name, tonumber(less)
end
if c > 0 then -- one that is damaged stays full
  local found = redis.call('HMGET', KEYS[2], unpack(names))
  for j = 1, c do
    local count, less = tonumber(match(found[j] or '0', '^%d+$') or ''), counts[2 * j]
    counts[2 * j] = count and (count > less and count - less or 0) or found[j]
  end
  redis.call('HSET', KEYS[2], unpack(counts))
end
if selling and units > 0 and total >= 0 and taken >= total and taken - units < total then
  redis.call('HSET', KEYS[1], 'taken', taken - units, 'calm_until', now + tonumber(ARGV[7]), 'calm_code', SOLD_OUT)
else
  redis.call('HSET', KEYS[1], 'taken', taken - units)
end
return {0, seq}
