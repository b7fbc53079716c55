-- ack.lua: take entries out of the journal, from the pending list and from the stream in one step.
--
-- KEYS:    1 journal stream, 2 sale hash
-- ARGV:    1 consumer group, 2 epoch of the entries, '' if they are damaged, 3.. ids of entries
-- Returns: how many entries were there
-- Keeps:   I5 (an entry leaves only after its orders are stored or it is set aside; the caller sees to that. One of
--          another epoch stays: ids are moments, and where the clock was set back two journals may share one)
-- Cost:    four commands, two of them of as many ids as given; the caller keeps it under a thousand
-- Resend:  safe: ids that are not there are ignored

local unpack = table.unpack or unpack
local epoch = redis.call('HGET', KEYS[2], 'epoch')
if not epoch or (ARGV[2] ~= '' and ARGV[2] ~= epoch) then
  return 0
end
redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 3))
local n = redis.call('XDEL', KEYS[1], unpack(ARGV, 3))
if n > 0 then
  redis.call('HINCRBY', KEYS[2], 'entries', -n)
end
return n
