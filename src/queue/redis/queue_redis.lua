-- The queue as a script. Each call runs one verb, atomically. docs/REDIS.md describes the keys.
--
--   d:ID          the stored form of a task: its channel, a line feed, the message. Expires, so that lost entries go
--   c:CHANNEL     waiting tasks, scored by urgency
--   channels      all channels, scored by the time of their last push
--   to:CHANNEL    groups of workers that may take from the channel
--   groups, seen  the filter of each group; when a worker of the group called last
--   g:GROUP       channels that may have tasks for the group; the score is at most the urgency of the first task there
--   g:GROUP:wait  waiting workers of the group, longest wait first; g:GROUP:wait:CLASS: those without a place for lower
--                 classes
--   waiters       until when each worker waits, and its room
--   w:WORKER      list that a waiting worker blocks on: WAKE, or UNBLOCK if its take is to return
--   w:WORKER:aborts  deliveries that it is asked to abort; w:WORKER:wanted: to return unless they have started
--   delivered     deliveries, scored by the end of their visibility in ms; the fraction of a ms is the worker's number
--   workers       the number of each worker, and the worker of each number: after NUMBERS workers, numbers are reused
--   lapsing       timed out deliveries, scored by when to report them next; unfired: those that no worker had
--   state         epoch, run (run id of the server), since (when the epoch began), last (last urgency), waiting (count)
--
-- A call has a deadline in the server's time: until then its caller waits for the reply. After a stall of the server, calls
-- whose callers have given up are still in its sockets. They must not be executed: the caller of a push may have run the
-- task elsewhere meanwhile, under a higher fence, and a take would deliver tasks to nobody.
--
-- Urgency is the time of the push in microseconds, minus PRIORITY_US for each priority above the lowest. Within a
-- channel it only rises: a push goes behind all tasks that wait there, and so the score in g:GROUP stays a lower bound.
--
-- A worker has places, and keeps some for a class (core/sharing/class_slots.h). Classes are 0 low, 1 normal, 2 high.

local P, verb, run_id, new_epoch = KEYS[1] .. ':', ARGV[1], ARGV[2], ARGV[3]
local deadline_us = tonumber(ARGV[4])
local call = redis.call
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)
if now_us > deadline_us then return redis.error_reply('LATE the caller does not wait for this call any more') end

local PRIORITY_US = 10000000
local HIGH = 2
local WAKE, UNBLOCK = '1', '2'
local DATA_TTL = 7 * 86400000
local GROUP_GONE, CHANNEL_IDLE, TOKEN_TTL, ABORT_TTL = 60000, 3600000, 5000, 3600000
local NUMBERS = 4096 -- milliseconds since 1970 and a number below this fit into the 53 bits of a score
local RENEW_US = 2000000 -- workers renew the tasks that they run within this time (node/fleet/reconcile.h)
local CHANNELS_MAX, BATCH, BYTES_MAX, CHANNEL_BYTES, WAITERS = 64, 64, 4194304, 4096, 16

-- ---- helpers and state ----

local function in_pieces(list, size, f) -- calls f for pieces of the list that unpack can handle
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
if state[2] ~= run_id then -- a new queue, or one restored from disk or from a replica
    state[1], state[3] = new_epoch, string.format('%.0f', now_us)
    call('HSET', P .. 'state', 'epoch', new_epoch, 'run', run_id, 'since', state[3])
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
    return { suspect = string.sub(flags, 1, 1) == 's', at_most_once = string.sub(flags, 2, 2) == 'm',
             priority = priority, class = priority >= 7 and HIGH or priority >= 4 and 1 or 0,
             ahead_us = priority * PRIORITY_US, cpu = tonumber(cpu), memory = tonumber(memory), tenant = tenant,
             queue = queue, requires = requires }
end

-- Pushed before the epoch began: it may have been delivered since the state was saved.
local function is_uncertain(urgency, c)
    return tonumber(urgency) + c.ahead_us < since
end

local function list_has(list, text)
    return string.find(list, ',' .. text .. ',', 1, true) ~= nil
end

local function lets_through(filter, c)
    local low, high, queues, tenants, labels = string.match(filter, '^(%d+)|(%d+)|([^|]*)|([^|]*)|([^|]*)$')
    if c.priority < tonumber(low) or c.priority > tonumber(high) then return false end
    if queues ~= '' and not list_has(queues, c.queue) then return false end
    if tenants ~= '' and not list_has(tenants, c.tenant) then return false end
    for label in string.gmatch(c.requires, '[^,]+') do
        if not list_has(labels, label) then return false end
    end
    return true
end

local function channel_of(member) -- the channel of a stored task
    local text = call('GETRANGE', P .. 'd:' .. member, 0, CHANNEL_BYTES)
    return string.match(text, '^([^\n]*)\n')
end

-- ---- workers of deliveries ----

local function number_of(worker)
    local number = call('HGET', P .. 'workers', worker)
    if number then return tonumber(number) end
    number = call('HINCRBY', P .. 'state', 'worker', 1) % NUMBERS
    local before = call('HGET', P .. 'workers', '#' .. number)
    if before then call('HDEL', P .. 'workers', before) end
    call('HSET', P .. 'workers', worker, number, '#' .. number, worker)
    return number
end

-- The score in `delivered`. Returned as text, which is cheaper to pass for each of many members.
local function visibility_score(visibility, worker)
    return string.format('%.17g', now + tonumber(visibility) + number_of(worker) / NUMBERS)
end

local function worker_of(member)
    local score = call('ZSCORE', P .. 'delivered', member)
    return score and call('HGET', P .. 'workers', '#' .. tonumber(score) % 1 * NUMBERS)
end

-- ---- places of a worker ----

-- How many tasks of a class fit: kept[d] of the free places are for class d and those above it.
local function places_for(places, class)
    local n = places.free
    for d = class + 1, HIGH do n = math.max(n - places.kept[d], 0) end
    return n
end

local function use_places(places, class, n)
    places.free = places.free - n
    places.kept[class] = math.max(places.kept[class] - n, 0)
end

-- The lowest class that fits, of a worker that has a place at all.
local function lowest_class(places)
    local class = 0
    while places_for(places, class) == 0 do class = class + 1 end
    return class
end

-- ---- waiting workers ----

local function send_token(worker, token)
    local key = P .. 'w:' .. worker
    if token == UNBLOCK then call('DEL', key) end
    if call('LLEN', key) == 0 then call('RPUSH', key, token) end -- one is enough, and WAKE does not replace UNBLOCK
    call('PEXPIRE', key, TOKEN_TTL)
end

-- The workers that wait with places for this class and those above it.
local function wait_key(group, class)
    return P .. 'g:' .. group .. ':wait' .. (class > 0 and ':' .. class or '')
end

local function wake_one_of(key, c)
    for _, worker in ipairs(call('ZRANGE', key, 0, WAITERS - 1)) do
        local room = call('HGET', P .. 'waiters', worker)
        local till, cpu, memory, alone = string.match(room or '', '^(%d+)|(-?%d+)|(-?%d+)|(%d)$')
        if not till or tonumber(till) < now then
            call('ZREM', key, worker)
            call('HDEL', P .. 'waiters', worker)
        elseif (tonumber(cpu) < 0 or c.cpu <= tonumber(cpu)) and
            (tonumber(memory) < 0 or c.memory <= tonumber(memory)) and (alone == '1' or not c.suspect) then
            call('ZREM', key, worker)
            call('HDEL', P .. 'waiters', worker)
            send_token(worker, WAKE)
            return true
        end
    end
    return false
end

local function wake_one(group, c) -- first of those that have places for everything: they are the least busy
    for class = 0, c.class do
        if wake_one_of(wait_key(group, class), c) then return true end
    end
    return false
end

-- Wakes one worker that may take from the channel. If that worker leaves a task, it wakes the next one.
local function wake(channel, c)
    for _, group in ipairs(call('SMEMBERS', P .. 'to:' .. channel)) do
        if wake_one(group, c) then return true end
    end
    return false
end

-- Tells the groups that tasks wait in the channel. score: urgency of the first added task.
local function notify_groups(channel, c, score)
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

-- ---- delivery timeouts ----

local function mark_timed_out(members, fired)
    if #members == 0 then return end
    local args, unfired = {}, {}
    for i, m in ipairs(members) do
        args[2 * i - 1], args[2 * i] = 0, m
        if not fired then unfired[#unfired + 1] = m end
    end
    in_pieces(args, 1000, function(...) call('ZADD', P .. 'lapsing', ...) end)
    in_pieces(unfired, 1000, function(...) call('SADD', P .. 'unfired', ...) end)
end

-- ---- verbs ----

local verbs = {}

-- Arguments: epoch (0: any), channel count, channels; then for each task the number of its channel, its id and its
-- stored form. Returns the epoch and how many tasks wait; -1: the epoch is another one, and nothing was pushed.
function verbs.push()
    if ARGV[5] ~= '0' and ARGV[5] ~= state[1] then return { state[1], -1 } end
    local channels, added, first = tonumber(ARGV[6]), {}, {}
    local at, members = 7 + channels, {}
    for i = at, #ARGV, 3 do members[#members + 1] = ARGV[i + 1] end
    local delivered = call('ZMSCORE', P .. 'delivered', unpack(members))
    local lapsing = call('ZMSCORE', P .. 'lapsing', unpack(members))
    local last, infos, here, total = math.max(tonumber(state[4] or '0'), now_us - 1), {}, {}, 0
    for i, member in ipairs(members) do
        local number, data = tonumber(ARGV[at + 3 * i - 3]), ARGV[at + 3 * i - 1]
        local channel = ARGV[6 + number]
        local c = infos[number] or read_channel(channel)
        infos[number] = c
        local is_new = not delivered[i] and not lapsing[i] and not here[member]
        if is_new and not call('SET', P .. 'd:' .. member, data, 'NX', 'PX', DATA_TTL) then
            local before = channel_of(member)
            is_new = not (before and call('ZSCORE', P .. 'c:' .. before, member))
            if is_new then call('SET', P .. 'd:' .. member, data, 'PX', DATA_TTL) end
        end
        if is_new then
            here[member] = true
            last = last + 1
            local list = added[number] or {}
            added[number], first[number] = list, first[number] or last - c.ahead_us
            list[#list + 1], list[#list + 2] = last - c.ahead_us, member
            total = total + 1
        end
    end
    call('HSET', P .. 'state', 'last', string.format('%.0f', last))
    for number, list in pairs(added) do
        local channel = ARGV[6 + number]
        call('ZADD', P .. 'c:' .. channel, unpack(list))
        open_channel(channel, infos[number])
        notify_groups(channel, infos[number], first[number])
    end
    count_waiting(total)
    return { state[1], math.max(tonumber(state[5] or '0') + total, 0) }
end

-- Arguments: group, filter. Registers a group of workers. scan then finds the channels that exist already.
function verbs.join()
    call('HSET', P .. 'groups', ARGV[5], ARGV[6])
    call('ZADD', P .. 'seen', now, ARGV[5])
    for _, group in ipairs(call('ZRANGE', P .. 'seen', '-inf', now - GROUP_GONE, 'BYSCORE', 'LIMIT', 0, 10)) do
        call('ZREM', P .. 'seen', group)
        call('HDEL', P .. 'groups', group)
        call('DEL', P .. 'g:' .. group, wait_key(group, 0), wait_key(group, 1), wait_key(group, HIGH))
    end
    return 1
end

-- Arguments: group, filter, cursor. Returns the next cursor, '0' at the end. Also removes channels that were idle for
-- long.
function verbs.scan()
    local group, filter = ARGV[5], ARGV[6]
    local page = call('ZSCAN', P .. 'channels', ARGV[7], 'COUNT', 200)
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

local function take_requests(worker, list) -- 'aborts' or 'wanted'
    local key, members = P .. 'w:' .. worker .. ':' .. list, {}
    for _, member in ipairs(call('SMEMBERS', key)) do
        if worker_of(member) == worker then
            members[#members + 1] = member
        end
    end
    call('DEL', key)
    return members
end

local function request_of_worker(member, list) -- if a worker has it; returns whether one does
    local worker = worker_of(member)
    if not worker then return false end
    local key = P .. 'w:' .. worker .. ':' .. list
    call('SADD', key, member)
    call('PEXPIRE', key, ABORT_TTL)
    send_token(worker, WAKE)
    return true
end

-- When a queue is restored, tasks that wait in it may have been delivered and run since the state was saved; only the
-- store knows. They are not delivered. After RENEW_US, in which workers renew those that they run, the others time out.
-- Returns the urgency from which on tasks are certain.
local function first_certain_urgency(channel, c, first)
    if not is_uncertain(first, c) then return '-inf' end
    local bound = string.format('%.0f', since - c.ahead_us)
    if now_us < since + RENEW_US then return bound end
    local old = call('ZRANGE', P .. 'c:' .. channel, '-inf', '(' .. bound, 'BYSCORE', 'LIMIT', 0, BATCH)
    if #old > 0 then
        call('ZREM', P .. 'c:' .. channel, unpack(old))
        mark_timed_out(old, c.at_most_once) -- an AT_MOST_ONCE task counts as run
        count_waiting(-#old)
    end
    return bound
end

-- Takes up to n tasks with an urgency between `from` and `bound`, the urgency that the next channel may have. Appends
-- id, urgency and data of each to `out`. Returns how many, and their bytes.
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
    mark_timed_out(lost, false)
    count_waiting(-#members)
    return #ends / 2, bytes
end

-- Arguments: group, worker, max, visibility_ms, wait_ms, alone, cpu, memory, offset, the places kept for each class.
-- Returns the time, where to continue (-1: nothing left), how many tasks wait, the aborts, id, urgency and data of each
-- task, whether the take is not to wait, and the tasks wanted back. Returns 'join' if the group is not registered.
function verbs.take()
    local group, worker, max = ARGV[5], ARGV[6], tonumber(ARGV[7])
    local wait = tonumber(ARGV[9])
    local alone, cpu, memory, at = ARGV[10] == '1', tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
    local seen, g = call('ZSCORE', P .. 'seen', group), P .. 'g:' .. group
    if not seen then return 'join' end
    if tonumber(seen) < now - 1000 then call('ZADD', P .. 'seen', now, group) end
    for class = 0, HIGH do call('ZREM', wait_key(group, class), worker) end
    call('HDEL', P .. 'waiters', worker)
    local places = { free = max, kept = { [0] = tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16]) } }
    local token = call('LPOP', P .. 'w:' .. worker)
    local woken, unblocked = token ~= false, token == UNBLOCK
    local score = visibility_score(ARGV[8], worker)
    local out, taken, bytes, channels_read = {}, 0, 0, 0
    local aborts, wanted = take_requests(worker, 'aborts'), take_requests(worker, 'wanted')
    while taken < max and channels_read < CHANNELS_MAX and bytes < BYTES_MAX do
        local next = call('ZRANGE', g, at, at + 1, 'WITHSCORES')
        if #next == 0 then at = -1 break end
        channels_read = channels_read + 1
        local channel, c = next[1], read_channel(next[1])
        local n = math.min(places_for(places, c.class), BATCH)
        if c.suspect then n = (alone and taken == 0) and 1 or 0 end
        if c.cpu > 0 and cpu >= 0 then n = math.min(n, math.floor(cpu / c.cpu)) end
        if c.memory > 0 and memory >= 0 then n = math.min(n, math.floor(memory / c.memory)) end
        local from = n > 0 and first_certain_urgency(channel, c, tonumber(next[2]))
        if n <= 0 then
            at = at + 1
        else
            local uncertain = from ~= '-inf'
            local bound = not uncertain and next[4] or '+inf'
            local got, size = take_from(channel, n, from, bound, score, out)
            local head = call('ZRANGE', P .. 'c:' .. channel, 0, 0, 'WITHSCORES')
            if uncertain and got == 0 and #head > 0 and now_us < since + RENEW_US then at = at + 1 end
            if #head == 0 then call('ZREM', g, channel) else call('ZADD', g, head[2], channel) end
            taken, bytes = taken + got, bytes + size
            use_places(places, c.class, got)
            if cpu >= 0 then cpu = cpu - got * c.cpu end
            if memory >= 0 then memory = memory - got * c.memory end
            if c.suspect and got > 0 then at = -1 break end
        end
    end
    if max == 0 then at = -1 end
    if woken or taken > 0 then -- wake another worker for what is left
        for _, rest in ipairs(call('ZRANGE', g, 0, 3)) do
            if wake(rest, read_channel(rest)) then break end
        end
    end
    if taken == 0 and #aborts == 0 and #wanted == 0 and at < 0 and max > 0 and wait > 0 and not unblocked then
        call('ZADD', wait_key(group, lowest_class(places)), now, worker)
        call('HSET', P .. 'waiters', worker,
            string.format('%.0f|%s|%s|%s', now + wait, ARGV[11], ARGV[12], alone and '1' or '0'))
    end
    return { string.format('%.0f', now_us), at, tonumber(call('HGET', P .. 'state', 'waiting') or '0'), aborts, out,
             unblocked and 1 or 0, wanted }
end

-- Arguments: id, urgency …. The worker had no room for these: they wait again at their old places.
function verbs.back()
    for i = 5, #ARGV, 2 do
        local member, score = ARGV[i], ARGV[i + 1]
        local channel = call('ZREM', P .. 'delivered', member) == 1 and channel_of(member)
        if channel then
            local c = read_channel(channel)
            call('ZADD', P .. 'c:' .. channel, score, member)
            count_waiting(1)
            open_channel(channel, c)
            notify_groups(channel, c, score)
        end
    end
    return 1
end

-- Arguments: ids of unreadable tasks. They time out, and count as not run.
function verbs.spoil()
    local members = {}
    for i = 5, #ARGV do
        if call('ZREM', P .. 'delivered', ARGV[i]) == 1 then members[#members + 1] = ARGV[i] end
    end
    mark_timed_out(members, false)
    return 1
end

-- Arguments: worker, visibility_ms, ids. Returns the indexes of those whose contents are lost, for revive.
function verbs.renew()
    local score, lost = visibility_score(ARGV[6], ARGV[5]), {}
    for i = 7, #ARGV do
        local member = ARGV[i]
        if call('ZSCORE', P .. 'delivered', member) then
            call('ZADD', P .. 'delivered', 'XX', score, member)
        elseif not call('ZSCORE', P .. 'lapsing', member) then
            local channel = channel_of(member)
            local urgency = channel and call('ZSCORE', P .. 'c:' .. channel, member)
            if not channel then
                lost[#lost + 1] = i - 7
            elseif not urgency then
                call('ZADD', P .. 'delivered', score, member)
            elseif is_uncertain(urgency, read_channel(channel)) then -- restored from before it was taken
                call('ZREM', P .. 'c:' .. channel, member)
                count_waiting(-1)
                call('ZADD', P .. 'delivered', score, member)
            end
        end
    end
    return lost
end

-- Arguments: worker, visibility_ms, then id and data of each.
function verbs.revive()
    local score = visibility_score(ARGV[6], ARGV[5])
    for i = 7, #ARGV, 2 do
        local member = ARGV[i]
        if not call('ZSCORE', P .. 'lapsing', member) and
            call('SET', P .. 'd:' .. member, ARGV[i + 1], 'NX', 'PX', DATA_TTL) then
            call('ZADD', P .. 'delivered', score, member)
        end
    end
    return 1
end

-- Arguments: up to 1000 ids.
function verbs.ack()
    local members, gone = {}, {}
    for i = 5, #ARGV do members[#members + 1] = ARGV[i] end
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

-- Arguments: max, again_ms. Returns for each: id, whether a worker had it, data (false: lost).
function verbs.lapsed()
    local max, out, bytes = tonumber(ARGV[5]), {}, 0
    local over = call('ZRANGE', P .. 'delivered', '-inf', now, 'BYSCORE', 'LIMIT', 0, max)
    if #over > 0 then
        call('ZREM', P .. 'delivered', unpack(over))
        mark_timed_out(over, true)
    end
    for _, member in ipairs(call('ZRANGE', P .. 'lapsing', '-inf', now, 'BYSCORE', 'LIMIT', 0, max)) do
        if bytes >= BYTES_MAX then break end
        local data = call('GET', P .. 'd:' .. member)
        bytes = bytes + (data and #data or 0)
        call('ZADD', P .. 'lapsing', now + tonumber(ARGV[6]), member)
        out[#out + 1], out[#out + 2], out[#out + 3] = member, 1 - call('SISMEMBER', P .. 'unfired', member), data
    end
    return out
end

-- Arguments: ids. The caller had no room for these: they are reported again at once.
function verbs.untold()
    for i = 5, #ARGV do call('ZADD', P .. 'lapsing', 'XX', 0, ARGV[i]) end
    return 1
end

function verbs.recall()
    local member, channel = ARGV[5], channel_of(ARGV[5])
    local urgency = channel and call('ZSCORE', P .. 'c:' .. channel, member)
    if not urgency or is_uncertain(urgency, read_channel(channel)) then return 0 end
    call('ZREM', P .. 'c:' .. channel, member)
    call('DEL', P .. 'd:' .. member)
    count_waiting(-1)
    return 1
end

function verbs.abort()
    request_of_worker(ARGV[5], 'aborts')
    return 1
end

-- Returns 0 if its worker is told or it has timed out, 1 if it waits, 2 if it is not known (enum want_back_answer).
function verbs.want_back()
    local member = ARGV[5]
    if request_of_worker(member, 'wanted') or call('ZSCORE', P .. 'lapsing', member) then return 0 end
    local channel = channel_of(member)
    return channel and call('ZSCORE', P .. 'c:' .. channel, member) and 1 or 2
end

-- Arguments: worker.
function verbs.unblock()
    send_token(ARGV[5], UNBLOCK)
    return 1
end

-- Arguments: ids. Returns 1 or 0 for each.
function verbs.known()
    local members, out = {}, {}
    for i = 5, #ARGV do members[#members + 1] = ARGV[i] end
    local delivered = call('ZMSCORE', P .. 'delivered', unpack(members))
    local lapsing = call('ZMSCORE', P .. 'lapsing', unpack(members))
    for i, member in ipairs(members) do
        local known = delivered[i] or lapsing[i]
        if not known then
            local channel = channel_of(member)
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
