-- Who holds a name. 'take', holder, ttl_ms: 1 if it is the holder's now. 'let_go', holder: 1 if it was.
local holder = redis.call('GET', KEYS[1])
if ARGV[1] == 'take' then
    if holder and holder ~= ARGV[2] then return 0 end
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    return 1
end
return holder == ARGV[2] and redis.call('DEL', KEYS[1]) or 0
