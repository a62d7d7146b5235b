-- A lease: the key holds the id of the holder.
-- 'take', holder, ttl_ms: takes or renews the lease; 1 if the holder has it now.
-- 'let_go', holder: releases the lease; 1 if the holder had it.
local holder = redis.call('GET', KEYS[1])
if ARGV[1] == 'take' then
    if holder and holder ~= ARGV[2] then return 0 end
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    return 1
end
return holder == ARGV[2] and redis.call('DEL', KEYS[1]) or 0
