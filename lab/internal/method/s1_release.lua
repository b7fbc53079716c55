-- s1_release.lua: gives a lock back, if it is still its holder's.
--
-- KEYS:    1 product:<id>
-- ARGV:    1 client id of the holder
-- Returns: 1 given back; 0: it had ended, and may be another's now

if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
