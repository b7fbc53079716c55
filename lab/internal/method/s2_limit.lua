-- s2_limit.lua: begins s2.lua, where there is a limit per user.
--
-- KEYS:    4 user:limit:<userId>: tries in this second. The article says no window: a second is our reading
-- ARGV:    4 tries
-- Returns: 3 too many tries; else s2.lua goes on

local tries = redis.call('INCR', KEYS[4])
if tries == 1 then
  redis.call('EXPIRE', KEYS[4], 1)
end
if tries > tonumber(ARGV[4]) then
  return 3
end

