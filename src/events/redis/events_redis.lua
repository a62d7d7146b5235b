-- Assigns streams to updaters. An updater owns a stream for a time that its polls renew.
--
--   own:N      the updater that owns stream N; expires
--   updaters   the updaters that poll, scored by when they expire
--
-- 'own', updater, ttl_ms, streams: renews the streams that the updater owns and takes free ones, up to its share.
-- Returns the share, then the streams that it owns.
-- 'leave', updater, N …: releases these streams; without any N, removes the updater.
local P, verb, me = KEYS[1] .. ':', ARGV[1], ARGV[2]
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local verbs = {}

function verbs.own()
    local ttl, streams = tonumber(ARGV[3]), tonumber(ARGV[4])
    call('ZADD', P .. 'updaters', now + ttl, me)
    call('ZREMRANGEBYSCORE', P .. 'updaters', '-inf', now)
    local share = math.ceil(streams / call('ZCARD', P .. 'updaters'))
    local mine, free = {}, {}
    for i = 0, streams - 1 do
        local owner = call('GET', P .. 'own:' .. i)
        if owner == me then
            call('PEXPIRE', P .. 'own:' .. i, ttl)
            mine[#mine + 1] = i
        elseif not owner then
            free[#free + 1] = i
        end
    end
    for _, i in ipairs(free) do
        if #mine >= share then break end
        call('SET', P .. 'own:' .. i, me, 'PX', ttl)
        mine[#mine + 1] = i
    end
    return { share, mine }
end

function verbs.leave()
    for i = 3, #ARGV do
        if call('GET', P .. 'own:' .. ARGV[i]) == me then call('DEL', P .. 'own:' .. ARGV[i]) end
    end
    if #ARGV == 2 then call('ZREM', P .. 'updaters', me) end
    return 1
end

return verbs[verb]()
