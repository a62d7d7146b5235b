-- The queue, as scripts: each call is one verb, and what it does is done whole or not at all. docs/REDIS.md says what lies where.
--
--   d:ID          what is delivered: its channel, a line feed, the message. It has a time to live: what is forgotten goes by itself
--   c:CHANNEL     what waits there, by urgency
--   channels      all channels, by when something was pushed last
--   to:CHANNEL    the groups of workers that may have what waits there
--   groups, seen  the filter of each group of workers, and when one of them was here last
--   g:GROUP       channels where something may wait for that group; the score is no higher than the urgency of the first there
--   g:GROUP:wait  its workers that wait, the longest first; waiters: until when each does, and its room
--   w:WORKER      a worker waits for this list; w:WORKER:aborts what it is asked to end
--   delivered     by the end of its visibility, and who has it: milliseconds, and as a fraction of one the worker's number
--   workers       the number of each worker, and who has it: the latest, when there were more than NUMBERS of them
--   lapsing       by when it is reported next; unfired: those of them that no worker had
--   state         epoch, run (of the server), since (when the epoch began), last (urgency given), waiting (how many)
--
-- Urgency is the time of the push in microseconds, a class earlier for each class. It only rises within a channel: so whatever is
-- pushed stands behind what waits there, and the score in g:GROUP stays a lower bound.

local P, verb, run, fresh = KEYS[1] .. ':', ARGV[1], ARGV[2], ARGV[3]
local call = redis.call
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

local CLASS_US = 30000000
local DATA_TTL = 7 * 86400000
local GROUP_GONE, CHANNEL_IDLE, TOKEN_TTL, ABORT_TTL = 60000, 3600000, 5000, 3600000
local NUMBERS = 4096 -- milliseconds since 1970 and these fit into a score's 53 bits
local RENEW_US = 2000000 -- in which a worker renews what it runs (reconcile.h)
local LOOKS, BATCH, BYTES, HEADER, WAITERS = 64, 64, 4194304, 4096, 16

-- ---- small things ----

local function each(list, size, f) -- in pieces that unpack can take
    for i = 1, #list, size do
        f(unpack(list, i, math.min(i + size - 1, #list)))
    end
end

local function data_keys(members)
    local keys = {}
    for i, m in ipairs(members) do keys[i] = P .. 'd:' .. m end
    return keys
end

local state = call('HMGET', P .. 'state', 'epoch', 'run', 'since', 'last', 'waiting')
if state[2] ~= run then -- a new queue, or one that came back: from its disk, from a replica
    state[1], state[3] = fresh, string.format('%.0f', now_us)
    call('HSET', P .. 'state', 'epoch', fresh, 'run', run, 'since', state[3])
end
local since = tonumber(state[3])

local function count_waiting(n)
    if n ~= 0 then call('HINCRBY', P .. 'state', 'waiting', n) end
end

-- ---- channels ----

local function read_channel(c)
    local flags, priority, cpu, memory, tenant, queue, requires =
        string.match(c, '^(..)|(%d+)|(%d+)|(%d+)|([^|]*)|([^|]*)|([^|]*)$')
    priority = tonumber(priority)
    return { suspect = string.sub(flags, 1, 1) == 's', once = string.sub(flags, 2, 2) == 'm', priority = priority,
             ahead = (priority >= 7 and 2 or priority >= 4 and 1 or 0) * CLASS_US, cpu = tonumber(cpu),
             memory = tonumber(memory), tenant = tenant, queue = queue, requires = requires }
end

-- It was pushed before the queue came back.
local function is_doubtful(urgency, c)
    return tonumber(urgency) + c.ahead < since
end

local function among(list, text)
    return string.find(list, ',' .. text .. ',', 1, true) ~= nil
end

local function lets_through(filter, c)
    local low, high, queues, tenants, labels = string.match(filter, '^(%d+)|(%d+)|([^|]*)|([^|]*)|([^|]*)$')
    if c.priority < tonumber(low) or c.priority > tonumber(high) then return false end
    if queues ~= '' and not among(queues, c.queue) then return false end
    if tenants ~= '' and not among(tenants, c.tenant) then return false end
    for label in string.gmatch(c.requires, '[^,]+') do
        if not among(labels, label) then return false end
    end
    return true
end

local function header(member) -- the channel that it was pushed to
    local text = call('GETRANGE', P .. 'd:' .. member, 0, HEADER)
    return string.match(text, '^([^\n]*)\n')
end

-- ---- who has it ----

local function number_of(worker)
    local number = call('HGET', P .. 'workers', worker)
    if number then return tonumber(number) end
    number = call('HINCRBY', P .. 'state', 'worker', 1) % NUMBERS
    local before = call('HGET', P .. 'workers', '#' .. number)
    if before then call('HDEL', P .. 'workers', before) end
    call('HSET', P .. 'workers', worker, number, '#' .. number, worker)
    return number
end

-- The score of what that worker has for so long: as text, which is cheaper to pass on for each of many.
local function held_until(visibility, worker)
    return string.format('%.17g', now + tonumber(visibility) + number_of(worker) / NUMBERS)
end

local function holder(member)
    local score = call('ZSCORE', P .. 'delivered', member)
    return score and call('HGET', P .. 'workers', '#' .. tonumber(score) % 1 * NUMBERS)
end

-- ---- who waits ----

local function wake_one(group, c)
    for _, worker in ipairs(call('ZRANGE', P .. 'g:' .. group .. ':wait', 0, WAITERS - 1)) do
        local room = call('HGET', P .. 'waiters', worker)
        local till, cpu, memory, alone = string.match(room or '', '^(%d+)|(-?%d+)|(-?%d+)|(%d)$')
        if not till or tonumber(till) < now then
            call('ZREM', P .. 'g:' .. group .. ':wait', worker)
            call('HDEL', P .. 'waiters', worker)
        elseif (tonumber(cpu) < 0 or c.cpu <= tonumber(cpu)) and (tonumber(memory) < 0 or c.memory <= tonumber(memory)) and
            (alone == '1' or not c.suspect) then
            call('ZREM', P .. 'g:' .. group .. ':wait', worker)
            call('HDEL', P .. 'waiters', worker)
            call('DEL', P .. 'w:' .. worker)
            call('RPUSH', P .. 'w:' .. worker, '1')
            call('PEXPIRE', P .. 'w:' .. worker, TOKEN_TTL)
            return true
        end
    end
    return false
end

-- One worker of all that may have what waits there; it wakes the next when it leaves something.
local function wake(channel, c)
    for _, group in ipairs(call('SMEMBERS', P .. 'to:' .. channel)) do
        if wake_one(group, c) then return true end
    end
    return false
end

-- The groups learn that something waits there. The score: of the first that was added.
local function announce(channel, c, score)
    for _, group in ipairs(call('SMEMBERS', P .. 'to:' .. channel)) do
        if call('ZSCORE', P .. 'seen', group) then
            call('ZADD', P .. 'g:' .. group, 'LT', score, channel)
        else
            call('SREM', P .. 'to:' .. channel, group)
        end
    end
    wake(channel, c)
end

local function open_channel(channel, c)
    if call('ZADD', P .. 'channels', now, channel) == 1 then
        local groups = call('HGETALL', P .. 'groups')
        for i = 1, #groups, 2 do
            if lets_through(groups[i + 1], c) then call('SADD', P .. 'to:' .. channel, groups[i]) end
        end
    end
end

-- ---- lapses ----

local function lapse(members, fired)
    if #members == 0 then return end
    local args, unfired = {}, {}
    for i, m in ipairs(members) do
        args[2 * i - 1], args[2 * i] = 0, m
        if not fired then unfired[#unfired + 1] = m end
    end
    each(args, 1000, function(...) call('ZADD', P .. 'lapsing', ...) end)
    each(unfired, 1000, function(...) call('SADD', P .. 'unfired', ...) end)
end

-- ---- verbs ----

local verbs = {}

-- epoch (0: any), channel count, channels, then for each task: the number of its channel, its id, what d:ID is to hold. Returns the epoch
-- and how many wait; -1: it is another than that, and nothing was done.
function verbs.push()
    if ARGV[4] ~= '0' and ARGV[4] ~= state[1] then return { state[1], -1 } end
    local channels, added, first = tonumber(ARGV[5]), {}, {}
    local at, members = 6 + channels, {}
    for i = at, #ARGV, 3 do members[#members + 1] = ARGV[i + 1] end
    local delivered = call('ZMSCORE', P .. 'delivered', unpack(members))
    local lapsing = call('ZMSCORE', P .. 'lapsing', unpack(members))
    local last, infos, here, total = math.max(tonumber(state[4] or '0'), now_us - 1), {}, {}, 0
    for i, member in ipairs(members) do
        local number, data = tonumber(ARGV[at + 3 * i - 3]), ARGV[at + 3 * i - 1]
        local channel = ARGV[5 + number]
        local c = infos[number] or read_channel(channel)
        infos[number] = c
        local is_new = not delivered[i] and not lapsing[i] and not here[member]
        if is_new and not call('SET', P .. 'd:' .. member, data, 'NX', 'PX', DATA_TTL) then
            local before = header(member)
            is_new = not (before and call('ZSCORE', P .. 'c:' .. before, member))
            if is_new then call('SET', P .. 'd:' .. member, data, 'PX', DATA_TTL) end
        end
        if is_new then
            here[member] = true
            last = last + 1
            local list = added[number] or {}
            added[number], first[number] = list, first[number] or last - c.ahead
            list[#list + 1], list[#list + 2] = last - c.ahead, member
            total = total + 1
        end
    end
    call('HSET', P .. 'state', 'last', string.format('%.0f', last))
    for number, list in pairs(added) do
        local channel = ARGV[5 + number]
        call('ZADD', P .. 'c:' .. channel, unpack(list))
        open_channel(channel, infos[number])
        announce(channel, infos[number], first[number])
    end
    count_waiting(total)
    return { state[1], math.max(tonumber(state[5] or '0') + total, 0) }
end

-- group, filter: its workers have it. Channels that are there already are looked up by scan.
function verbs.join()
    call('HSET', P .. 'groups', ARGV[4], ARGV[5])
    call('ZADD', P .. 'seen', now, ARGV[4])
    for _, group in ipairs(call('ZRANGE', P .. 'seen', '-inf', now - GROUP_GONE, 'BYSCORE', 'LIMIT', 0, 10)) do
        call('ZREM', P .. 'seen', group)
        call('HDEL', P .. 'groups', group)
        call('DEL', P .. 'g:' .. group, P .. 'g:' .. group .. ':wait')
    end
    return 1
end

-- group, filter, cursor. Returns the next cursor, '0' at the end. What nobody has used for long is forgotten on the way.
function verbs.scan()
    local group, filter = ARGV[4], ARGV[5]
    local page = call('ZSCAN', P .. 'channels', ARGV[6], 'COUNT', 200)
    for i = 1, #page[2], 2 do
        local channel = page[2][i]
        local head = call('ZRANGE', P .. 'c:' .. channel, 0, 0, 'WITHSCORES')
        if #head == 0 and tonumber(page[2][i + 1]) < now - CHANNEL_IDLE then
            call('ZREM', P .. 'channels', channel)
            call('DEL', P .. 'to:' .. channel)
        elseif lets_through(filter, read_channel(channel)) then
            call('SADD', P .. 'to:' .. channel, group)
            if #head > 0 then call('ZADD', P .. 'g:' .. group, 'LT', head[2], channel) end
        end
    end
    return page[1]
end

local function take_aborts(worker)
    local told = {}
    for _, member in ipairs(call('SMEMBERS', P .. 'w:' .. worker .. ':aborts')) do
        if holder(member) == worker then
            told[#told + 1] = member
        end
    end
    call('DEL', P .. 'w:' .. worker .. ':aborts')
    return told
end

-- What waited when a queue came back may have been delivered before, by the queue as it was then, and have run: only the store knows. It is
-- left alone until whoever runs it has renewed it, and lapses then. Returns the urgency from which on things are as they seem.
local function certain_from(channel, c, first)
    if not is_doubtful(first, c) then return '-inf' end
    local bound = string.format('%.0f', since - c.ahead)
    if now_us < since + RENEW_US then return bound end
    local old = call('ZRANGE', P .. 'c:' .. channel, '-inf', '(' .. bound, 'BYSCORE', 'LIMIT', 0, BATCH)
    if #old > 0 then
        call('ZREM', P .. 'c:' .. channel, unpack(old))
        lapse(old, c.once) -- what may run only once counts as run
        count_waiting(-#old)
    end
    return bound
end

-- Up to n of those that are as urgent as the next channel's first may be. Appends id, urgency, data of each; returns how many, their bytes.
local function take_from(channel, n, from, bound, score, out)
    local key = P .. 'c:' .. channel
    local found = call('ZRANGE', key, from, bound, 'BYSCORE', 'LIMIT', 0, n, 'WITHSCORES')
    if #found == 0 then return 0, 0 end
    local members, ends, lost, bytes = {}, {}, {}, 0
    for i = 1, #found, 2 do members[#members + 1] = found[i] end
    local data = call('MGET', unpack(data_keys(members)))
    for i, member in ipairs(members) do
        if data[i] then
            bytes = bytes + #data[i]
            ends[#ends + 1], ends[#ends + 2] = score, member
            out[#out + 1], out[#out + 2], out[#out + 3] = member, found[2 * i], data[i]
        else
            lost[#lost + 1] = member
        end
    end
    call('ZREM', key, unpack(members))
    if #ends > 0 then call('ZADD', P .. 'delivered', unpack(ends)) end
    lapse(lost, false)
    count_waiting(-#members)
    return #ends / 2, bytes
end

-- group, worker, max, visibility_ms, wait_ms, alone, cpu, memory, offset. Returns time, where to go on (-1: nowhere), how many wait,
-- what to abort, then id, urgency and data of each. 'join': nobody knows this group.
function verbs.take()
    local group, worker, max = ARGV[4], ARGV[5], tonumber(ARGV[6])
    local wait = tonumber(ARGV[8])
    local alone, cpu, memory, at = ARGV[9] == '1', tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
    local seen, g = call('ZSCORE', P .. 'seen', group), P .. 'g:' .. group
    if not seen then return 'join' end
    if tonumber(seen) < now - 1000 then call('ZADD', P .. 'seen', now, group) end
    call('ZREM', g .. ':wait', worker)
    call('HDEL', P .. 'waiters', worker)
    local woken = call('DEL', P .. 'w:' .. worker) == 1
    local score = held_until(ARGV[7], worker)
    local out, taken, bytes, looks = {}, 0, 0, 0
    local aborts = take_aborts(worker)
    while taken < max and looks < LOOKS and bytes < BYTES do
        local next = call('ZRANGE', g, at, at + 1, 'WITHSCORES')
        if #next == 0 then at = -1 break end
        looks = looks + 1
        local channel, c = next[1], read_channel(next[1])
        local n = math.min(max - taken, BATCH)
        if c.suspect then n = (alone and taken == 0) and 1 or 0 end
        if c.cpu > 0 and cpu >= 0 then n = math.min(n, math.floor(cpu / c.cpu)) end
        if c.memory > 0 and memory >= 0 then n = math.min(n, math.floor(memory / c.memory)) end
        local from = n > 0 and certain_from(channel, c, tonumber(next[2]))
        if n <= 0 then
            at = at + 1
        else
            local doubt = from ~= '-inf'
            local bound = not doubt and next[4] or '+inf'
            local got, size = take_from(channel, n, from, bound, score, out)
            local head = call('ZRANGE', P .. 'c:' .. channel, 0, 0, 'WITHSCORES')
            if doubt and got == 0 and #head > 0 and now_us < since + RENEW_US then at = at + 1 end
            if #head == 0 then call('ZREM', g, channel) else call('ZADD', g, head[2], channel) end
            taken, bytes = taken + got, bytes + size
            if cpu >= 0 then cpu = cpu - got * c.cpu end
            if memory >= 0 then memory = memory - got * c.memory end
            if c.suspect and got > 0 then at = -1 break end
        end
    end
    if max == 0 then at = -1 end
    if woken or taken > 0 then -- others may have what is left
        for _, rest in ipairs(call('ZRANGE', g, 0, 3)) do
            if wake(rest, read_channel(rest)) then break end
        end
    end
    if taken == 0 and #aborts == 0 and at < 0 and max > 0 and wait > 0 then
        call('ZADD', g .. ':wait', now, worker)
        call('HSET', P .. 'waiters', worker,
            string.format('%.0f|%s|%s|%s', now + wait, ARGV[10], ARGV[11], alone and '1' or '0'))
    end
    return { string.format('%.0f', now_us), at, tonumber(call('HGET', P .. 'state', 'waiting') or '0'), aborts, out }
end

-- id, urgency …: the worker could not hold them, and they wait again where they were.
function verbs.back()
    for i = 4, #ARGV, 2 do
        local member, score = ARGV[i], ARGV[i + 1]
        local channel = call('ZREM', P .. 'delivered', member) == 1 and header(member)
        if channel then
            local c = read_channel(channel)
            call('ZADD', P .. 'c:' .. channel, score, member)
            count_waiting(1)
            open_channel(channel, c)
            announce(channel, c, score)
        end
    end
    return 1
end

-- ids: nobody can read them.
function verbs.spoil()
    local members = {}
    for i = 4, #ARGV do
        if call('ZREM', P .. 'delivered', ARGV[i]) == 1 then members[#members + 1] = ARGV[i] end
    end
    lapse(members, false)
    return 1
end

-- worker, visibility_ms, ids. Returns the numbers of those whose contents are lost: revive them.
function verbs.renew()
    local score, lost = held_until(ARGV[5], ARGV[4]), {}
    for i = 6, #ARGV do
        local member = ARGV[i]
        if call('ZSCORE', P .. 'delivered', member) then
            call('ZADD', P .. 'delivered', 'XX', score, member)
        elseif not call('ZSCORE', P .. 'lapsing', member) then
            local channel = header(member)
            local urgency = channel and call('ZSCORE', P .. 'c:' .. channel, member)
            if not channel then
                lost[#lost + 1] = i - 6
            elseif not urgency then
                call('ZADD', P .. 'delivered', score, member)
            elseif is_doubtful(urgency, read_channel(channel)) then -- it waits as of a time before it was taken
                call('ZREM', P .. 'c:' .. channel, member)
                count_waiting(-1)
                call('ZADD', P .. 'delivered', score, member)
            end
        end
    end
    return lost
end

-- worker, visibility_ms, then id and data of each.
function verbs.revive()
    local score = held_until(ARGV[5], ARGV[4])
    for i = 6, #ARGV, 2 do
        local member = ARGV[i]
        if not call('ZSCORE', P .. 'lapsing', member) and
            call('SET', P .. 'd:' .. member, ARGV[i + 1], 'NX', 'PX', DATA_TTL) then
            call('ZADD', P .. 'delivered', score, member)
        end
    end
    return 1
end

-- ids, up to 1000
function verbs.ack()
    local members, gone = {}, {}
    for i = 4, #ARGV do members[#members + 1] = ARGV[i] end
    local delivered = call('ZMSCORE', P .. 'delivered', unpack(members))
    local lapsing = call('ZMSCORE', P .. 'lapsing', unpack(members))
    local any = false
    for i, m in ipairs(members) do
        if delivered[i] or lapsing[i] then gone[#gone + 1] = m end
        any = any or lapsing[i]
    end
    if #gone == 0 then return 0 end
    call('ZREM', P .. 'delivered', unpack(gone))
    if any then
        call('ZREM', P .. 'lapsing', unpack(gone))
        call('SREM', P .. 'unfired', unpack(gone))
    end
    call('DEL', unpack(data_keys(gone)))
    return #gone
end

-- max, again_ms. Returns id, whether it fired, data (false: lost) of each.
function verbs.lapsed()
    local max, out, bytes = tonumber(ARGV[4]), {}, 0
    local over = call('ZRANGE', P .. 'delivered', '-inf', now, 'BYSCORE', 'LIMIT', 0, max)
    if #over > 0 then
        call('ZREM', P .. 'delivered', unpack(over))
        lapse(over, true)
    end
    for _, member in ipairs(call('ZRANGE', P .. 'lapsing', '-inf', now, 'BYSCORE', 'LIMIT', 0, max)) do
        if bytes >= BYTES then break end
        local data = call('GET', P .. 'd:' .. member)
        bytes = bytes + (data and #data or 0)
        call('ZADD', P .. 'lapsing', now + tonumber(ARGV[5]), member)
        out[#out + 1], out[#out + 2], out[#out + 3] = member, 1 - call('SISMEMBER', P .. 'unfired', member), data
    end
    return out
end

-- ids: whoever was told of them could not hold them; they are reported again at once.
function verbs.untold()
    for i = 4, #ARGV do call('ZADD', P .. 'lapsing', 'XX', 0, ARGV[i]) end
    return 1
end

function verbs.recall()
    local member, channel = ARGV[4], header(ARGV[4])
    local urgency = channel and call('ZSCORE', P .. 'c:' .. channel, member)
    if not urgency or is_doubtful(urgency, read_channel(channel)) then return 0 end
    call('ZREM', P .. 'c:' .. channel, member)
    call('DEL', P .. 'd:' .. member)
    count_waiting(-1)
    return 1
end

function verbs.abort()
    local worker = holder(ARGV[4])
    if worker then
        call('SADD', P .. 'w:' .. worker .. ':aborts', ARGV[4])
        call('PEXPIRE', P .. 'w:' .. worker .. ':aborts', ABORT_TTL)
        call('DEL', P .. 'w:' .. worker)
        call('RPUSH', P .. 'w:' .. worker, '1')
        call('PEXPIRE', P .. 'w:' .. worker, TOKEN_TTL)
    end
    return 1
end

-- ids. Returns 1 or 0 for each.
function verbs.known()
    local members, out = {}, {}
    for i = 4, #ARGV do members[#members + 1] = ARGV[i] end
    local delivered = call('ZMSCORE', P .. 'delivered', unpack(members))
    local lapsing = call('ZMSCORE', P .. 'lapsing', unpack(members))
    for i, member in ipairs(members) do
        local known = delivered[i] or lapsing[i]
        if not known then
            local channel = header(member)
            known = channel and call('ZSCORE', P .. 'c:' .. channel, member)
        end
        out[i] = known and 1 or 0
    end
    return out
end

function verbs.look()
    return { state[1], tonumber(state[5] or '0'), call('ZCARD', P .. 'delivered') }
end

return verbs[verb]()
