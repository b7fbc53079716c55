-- Gives a lock back if its owner is the one who asks: a late release must not free the lock of the next holder.
-- KEYS[1]: the lock. ARGV: owner. Returns 1, or 0 if the lock is not its.
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
