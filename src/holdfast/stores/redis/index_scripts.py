"""The heads index in scripts: rows, their places, and statistics (see `holdfast.heads`).

Each change of a row is part of the script that appends the entry. A run's keys are in the order of
`keys.Keys.of_run`; `k` is the first of them.
"""

from __future__ import annotations

from typing import Final

from holdfast.stores.redis.script import script

ROWS: Final = """
local ZERO = '09223372036854775808'
-- A row is a list: opened, changed, status, flow, thread, owner, parent, holder, due, questions,
-- labels, seq, and when the run may expire. Numbers are texts of one length, `false` is nothing.
local function row_of(k, run)
    local packed = redis.call('HGET', KEYS[k + 5], run)
    local fine, row = pcall(cmsgpack.unpack, packed or '')
    if packed and fine and type(row) == 'table' and type(row[11]) == 'table' then return row end
end

-- Where a row is found: all in one sorted set, behind a letter for each kind of question.
local function places_of(run, row)
    local place = row[1] .. run
    local found = {'o' .. place, 's' .. row[3] .. '\\0' .. place}
    local function add(letter, text)
        if text then found[#found + 1] = letter .. text .. '\\0' .. place end
    end
    add('f', row[4])
    add('t', row[5])
    add('w', row[6])
    add('h', row[8])
    for _, label in ipairs(row[11]) do add('l', label) end
    if row[10] > ZERO then add('q', '') end
    if row[9] then found[#found + 1] = 'd' .. row[9] .. run end
    if row[13] then found[#found + 1] = 'x' .. row[13] .. run end
    return found
end

local function count(k, row, by)
    local what = (row[4] and '=' .. row[4] or '') .. '\\0' .. row[3]
    local left = redis.call('HINCRBY', KEYS[k + 7], what, by)
    if left <= 0 then redis.call('HDEL', KEYS[k + 7], what) end
end

local function replace_row(k, run, old, new)
    local missing = {}
    for _, place in ipairs(new and places_of(run, new) or {}) do missing[place] = true end
    for _, place in ipairs(old and places_of(run, old) or {}) do
        if not missing[place] then redis.call('ZREM', KEYS[k + 6], place) end
    end
    for place in pairs(missing) do redis.call('ZADD', KEYS[k + 6], 0, place) end
    if old then count(k, old, -1) end
    if new then
        count(k, new, 1)
        redis.call('HSET', KEYS[k + 5], run, cmsgpack.pack(new))
    else
        redis.call('HDEL', KEYS[k + 5], run)
    end
end

local function in_milliseconds(milliseconds)
    local now = redis.call('TIME')
    return string.format('%020.0f', now[1] * 1000 + now[2] / 1000 + milliseconds)
end

local function lives_until(k)
    local left = redis.call('PTTL', KEYS[k + 1])
    return left > 0 and in_milliseconds(left)
end
"""

CHANGES: Final = """
local KEPT = 34560000  -- seconds that statistics are kept: 400 days
local TOLD = {completed = 1, failed = 1, cancelled = 1, paused = 0}  -- 1 if it took its time

-- The run's row before, which is nobody's if the run has expired, and what becomes of it.
local function begun(k, run, head)
    redis.call('ZCARD', KEYS[k + 6])
    redis.call('HLEN', KEYS[k + 7])
    local stored = row_of(k, run)
    local row = head ~= '' and stored or nil
    return {stored = stored, before = row, row = row}
end

-- As `heads.applied`; a change is: whether the row before is removed, whether its holder, due and
-- questions stay, and a row or `false`.
local function change_row(its, packed)
    local change = cmsgpack.unpack(packed)
    local row, new = its.row, change[5]
    if not new or change[1] then its.before, row = nil, nil end
    its.row = new or nil
    if not new then return end
    if not row then
        its.first = new[12]
        return
    end
    new[1], new[7], new[11] = row[1], row[7], row[11]
    if change[2] then new[8] = row[8] end
    if change[3] then new[9] = row[9] end
    if change[4] then new[10] = row[10] end
end

-- Numbers of so many digits are not exact here, but differences of them are.
local function minus(a, b)
    local high = tonumber(string.sub(a, 1, 10)) - tonumber(string.sub(b, 1, 10))
    return high * 1e10 + tonumber(string.sub(a, 11)) - tonumber(string.sub(b, 11))
end

local function hour_of(time)
    return math.max(0, math.floor(minus(time, ZERO) / 3.6e9))
end

-- As `heads.differences`: add to the statistics what was done to a row.
local function tally(k, day, its)
    local row, before = its.row, its.before
    if not row then return end
    local hour, flow = hour_of(row[2]), row[4] or ''
    local function add(hour, what, bucket, n, total)
        local field = string.format('%d', hour) .. '\\0' .. what .. '\\0' .. bucket .. '\\0' .. flow
        redis.call('HINCRBY', KEYS[day], 'n' .. field, n)
        if total > 0 then redis.call('HINCRBY', KEYS[day], 't' .. field, string.format('%.0f', total)) end
    end
    if not before then add(hour_of(row[1]), 'started', 0, 1, 0) end
    local saves = before and minus(row[12], before[12]) or minus(row[12], its.first) + 1
    if saves > 0 then add(hour, 'saves', 0, saves, 0) end
    local total = TOLD[row[3]]
    if total and not (before and before[3] == row[3]) then
        total = math.max(0, total * minus(row[2], row[1]))
        local bucket, left = 0, math.floor(total / 1000)
        while left > 0 do bucket, left = bucket + 1, math.floor(left / 2) end
        add(hour, row[3], bucket, 1, total)
    end
    redis.call('EXPIRE', KEYS[day], KEPT)
    redis.call('HSET', KEYS[k + 7], string.match(KEYS[day], '%d+$'), 1)
end

local function settle_row(k, day, run, its, fate)
    if its.row then its.row[13] = fate == 'E' and in_milliseconds(TTL) end
    replace_row(k, run, its.stored, its.row)
    tally(k, day, its)
end
"""

HEADS: Final = script(
    ROWS
    + """
-- KEYS: those of each run; ARGV: the runs. Returns the last member and the row of each. A run that
-- has expired is taken out of the lists here, where nobody can begin it meanwhile; one that should
-- have, and was saved to since, is looked at again later.
local found = {}
for n, run in ipairs(ARGV) do
    local k = (n - 1) * 8 + 1
    local last, row = redis.call('ZREVRANGE', KEYS[k + 1], 0, 0)[1], row_of(k, run)
    if not last then
        redis.call('ZREM', KEYS[k], run)
        if row then replace_row(k, run, row, nil) end
        row = nil
    elseif row and row[13] and row[13] < in_milliseconds(0) then
        local new = row_of(k, run)
        new[13] = lives_until(k)
        replace_row(k, run, row, new)
    end
    found[#found + 1] = last or false
    found[#found + 1] = row and cmsgpack.pack(row) or false
end
return found
"""
)

REPAIR: Final = script(
    ROWS
    + """
-- KEYS: those of a run; ARGV: the run, its head, the row it should have or '', and whether to write.
-- Returns whether the row was wrong, or -1 for another head.
local run = ARGV[1]
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0)[1]
if (last and string.sub(last, 1, 19) or '') ~= ARGV[2] then return -1 end
local old, new = row_of(1, run), nil
if ARGV[3] ~= '' then
    new = cmsgpack.unpack(ARGV[3])
    if old then new[13] = old[13] else new[13] = lives_until(1) end
end
local wrong = (old and cmsgpack.pack(old)) ~= (new and cmsgpack.pack(new))
for _, place in ipairs(new and places_of(run, new) or {}) do
    wrong = wrong or not redis.call('ZSCORE', KEYS[7], place)
end
if wrong and ARGV[4] == '1' then replace_row(1, run, old, new) end
return wrong and 1 or 0
"""
)

TIDY: Final = script(
    ROWS
    + """
-- KEYS: as of a run; ARGV: whether to write. Returns how many of the shard's places and counts do
-- not belong to its rows, and with writing, makes them anew.
local places, counts, wrong = {}, {}, 0
for _, run in ipairs(redis.call('HKEYS', KEYS[6])) do
    local row = row_of(1, run)
    if row then
        for _, place in ipairs(places_of(run, row)) do places[place] = true end
        local what = (row[4] and '=' .. row[4] or '') .. '\\0' .. row[3]
        counts[what] = (counts[what] or 0) + 1
    end
end
for _, place in ipairs(redis.call('ZRANGE', KEYS[7], 0, -1)) do
    if not places[place] then
        wrong = wrong + 1
        if ARGV[1] == '1' then redis.call('ZREM', KEYS[7], place) end
    end
end
local stored = redis.call('HGETALL', KEYS[8])
for i = 1, #stored, 2 do
    local what = stored[i]
    if tonumber(stored[i + 1]) == counts[what] then
        counts[what] = nil
    elseif not counts[what] and not string.match(what, '^%d+$') then  -- those are days
        counts[what] = 0
    end
end
for what, n in pairs(counts) do
    wrong = wrong + 1
    if ARGV[1] == '1' then
        if n > 0 then redis.call('HSET', KEYS[8], what, n) else redis.call('HDEL', KEYS[8], what) end
    end
end
return wrong
"""
)
