"""Scripts that a Redis server runs atomically.

A script that fails halfway is not rolled back. So each one first reads every key that could have a
wrong type, and only then writes; `PUBLISH`, for which the user may lack the right, may fail. The
server checks its memory limit before a script's first write only.

Seqs are texts of one length and compared as such: numbers in Lua are not exact.
"""

from __future__ import annotations

from typing import Final

from holdfast.stores.redis.index_scripts import CHANGES, ROWS
from holdfast.stores.redis.script import script

KEYS_OF_A_RUN: Final = 8
"""The shard's runs, the run's entries and bodies, those of its companion, then the heads index:
the shard's rows, places and counts."""

EXPIRES: Final = b"E"  # the run and its companion, when nothing was saved for so long
STAYS: Final = b"S"
FOLLOWS: Final = b"F"  # as long as its companion does

_COMMON: Final = (
    """
local WIDTH, CHANNEL, TTL = 19, ARGV[1], ARGV[2]
"""
    + ROWS
    + CHANGES
    + """
local function head_of(k)
    redis.call('ZCARD', KEYS[k])
    redis.call('HLEN', KEYS[k + 2])
    local last = redis.call('ZREVRANGE', KEYS[k + 1], 0, 0)[1]
    return last and string.sub(last, 1, WIDTH) or ''
end

-- Behind the seq come the digest's length, in hexadecimal, and the digest.
local function digest_of(k)
    local last = redis.call('ZREVRANGE', KEYS[k + 1], 0, 0)[1]
    if not last then return '' end
    local length = tonumber(string.sub(last, WIDTH + 1, WIDTH + 4), 16) or 0
    return string.sub(last, WIDTH + 5, WIDTH + 4 + length)
end

local function put(k, seq, member, body)
    redis.call('ZADD', KEYS[k + 1], 0, member)
    if body ~= '' then redis.call('HSET', KEYS[k + 2], seq, body) end
end

-- With a ttl, a run without entries has expired, and only a new one may begin there.
local function expired(head)
    return head == '' and TTL ~= '0'
end

-- Behind the letter of its fate comes the status of the run.
local function settle(k, run, seq, told)
    local fate, status = string.sub(told, 1, 1), string.sub(told, 2)
    redis.call('ZADD', KEYS[k], 0, run)
    local left = TTL
    if fate == 'F' then
        local companions = redis.call('PTTL', KEYS[k + 3])
        if companions ~= -2 then left = companions end
    end
    local last = fate == 'F' and k + 2 or k + 4
    for key = k + 1, last do
        if fate == 'S' or tonumber(left) <= 0 then
            redis.call('PERSIST', KEYS[key])
        else
            redis.call('PEXPIRE', KEYS[key], left)
        end
    end
    if string.byte(run) ~= 31 then  -- of a hidden journal
        redis.pcall('PUBLISH', CHANNEL, seq .. ' ' .. status .. ' ' .. run)
    end
    return fate
end
"""
)

APPEND: Final = script(
    _COMMON
    + """
-- KEYS: those of each run, then those of days. ARGV: channel, ttl, the number of runs, for each run
-- its name and '=' and the digest that its head must have, or '*'; for each entry: its run's first
-- key, seq, member, body, fate, the seq before it, whether it may begin a journal, how it changes the
-- run's row, and the key of its day. Returns an outcome for each, or the run that has expired.
local runs, heads, lost, fates, won = {}, {}, {}, {}, {}
local rows, days = {}, {}
local at = 4
for k = 1, ARGV[3] * 8, 8 do
    runs[k], heads[k] = ARGV[at], head_of(k)
    lost[k] = ARGV[at + 1] ~= '*' and ARGV[at + 1] ~= '=' .. digest_of(k)
    at = at + 2
end
for i = at, #ARGV, 9 do
    local k = tonumber(ARGV[i])
    local begins, change = ARGV[i + 6] == '1', ARGV[i + 7]
    if not begins and expired(heads[k]) then return runs[k] end
    local follows = heads[k] == ARGV[i + 5] or (begins and ARGV[i + 1] > heads[k])
    local wins = follows and not lost[k]
    if wins then
        if change ~= '' then
            rows[k] = rows[k] or begun(k, runs[k], heads[k])
            days[k] = tonumber(ARGV[i + 8])
            redis.call('HLEN', KEYS[days[k]])
            change_row(rows[k], change)
        end
        heads[k], fates[k] = ARGV[i + 1], ARGV[i + 4]
    else
        lost[k] = true
    end
    won[#won + 1] = wins and 1 or 0
end
for n = 1, #won do
    local i = at + (n - 1) * 9
    if won[n] == 1 then put(tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) end
end
for k, told in pairs(fates) do
    local fate = settle(k, runs[k], heads[k], told)
    if rows[k] then settle_row(k, days[k], runs[k], rows[k], fate) end
end
return won
"""
)

_MARKED: Final = """
local function begun_if_changed(head)
    if ARGV[5] ~= '' then
        redis.call('HLEN', KEYS[9])
        return begun(1, ARGV[3], head)
    end
end

local function marked(its)
    local fate = settle(1, ARGV[3], ARGV[6], ARGV[4])
    if its then
        change_row(its, ARGV[5])
        settle_row(1, 9, ARGV[3], its, fate)
    end
    return 1
end
"""

TRIM: Final = script(
    _COMMON
    + _MARKED
    + """
-- KEYS: those of the run, and that of a day. ARGV: channel, ttl, run, fate, the marker's change of the
-- row, its seq, member and body, and the head it was prepared for; then for each entry to change: seq,
-- member, body. Returns 1, 0 when taken or expired, -1 for another head.
local head = head_of(1)
if expired(head) or ARGV[6] <= head then return 0 end
if ARGV[9] ~= head then return -1 end
local its = begun_if_changed(head)
for i = 10, #ARGV, 3 do
    local low, high = '[' .. ARGV[i], '(' .. ARGV[i] .. '\\255'
    redis.call('ZREMRANGEBYLEX', KEYS[2], low, high)
    redis.call('HDEL', KEYS[3], ARGV[i])
    put(1, ARGV[i], ARGV[i + 1], ARGV[i + 2])
end
put(1, ARGV[6], ARGV[7], ARGV[8])
return marked(its)
"""
)

ERASE: Final = script(
    _COMMON
    + _MARKED
    + """
-- KEYS: those of the run, and that of a day. ARGV: channel, ttl, run, fate, the tombstone's change of
-- the row, its seq, member and body. Returns 1, or 0 when taken or expired. A journal of tombstones
-- alone, such as a slot, begins with the one at 0.
local head = head_of(1)
local begins = tonumber(ARGV[6]) == 0
if (expired(head) and not begins) or ARGV[6] <= head then return 0 end
local its = begun_if_changed(head)
redis.call('UNLINK', KEYS[2], KEYS[3])
put(1, ARGV[6], ARGV[7], ARGV[8])
return marked(its)
"""
)

READ: Final = script("""
-- KEYS: entries, bodies; ARGV: command, bounds, limit. Returns each member and its body.
local found = redis.call(ARGV[1], KEYS[1], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local page = {}
for _, member in ipairs(found) do
    page[#page + 1] = member
    page[#page + 1] = redis.call('HGET', KEYS[2], string.sub(member, 1, 19))
end
return page
""")
