"""Scripts that a Redis server runs atomically.

A script that fails halfway is not rolled back. So each one first reads every key that could have a
wrong type, and only then writes; `PUBLISH`, for which the user may lack the right, may fail. The
server checks its memory limit before a script's first write only.

Seqs are texts of one length and compared as such: numbers in Lua are not exact.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from redis.exceptions import NoScriptError


class Script(NamedTuple):
    """A script, and the name by which a server knows it once it has seen it."""

    text: str
    sha: str

    def called(
        self, send: Callable[..., Any], keys: Sequence[bytes], arguments: Sequence[object]
    ) -> Any:
        """Send the script by its name or, to a server that has not seen it yet, whole."""
        try:
            return send("EVALSHA", self.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return send("EVAL", self.text, len(keys), *keys, *arguments)


def _script(text: str) -> Script:
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


KEYS_OF_A_RUN: Final = 8
"""The shard's runs, the run's entries and bodies, those of its companion, then the heads index:
the shard's rows, places and counts."""

EXPIRES: Final = b"E"  # the run and its companion, when nothing was saved for so long
STAYS: Final = b"S"
FOLLOWS: Final = b"F"  # as long as its companion does

_ROWS: Final = """
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
    if row[10] > '09223372036854775808' then add('q', '') end
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

_COMMON: Final = (
    """
local WIDTH, CHANNEL, TTL = 19, ARGV[1], ARGV[2]
"""
    + _ROWS
    + """
-- What a row becomes (see `heads.applied`); a change is: whether the row before is removed, whether
-- its holder, due and questions stay, and a row or `false`.
local function changed_row(row, packed)
    local change = cmsgpack.unpack(packed)
    local new = change[5]
    if not new or not row or change[1] then return new or nil end
    new[1], new[7], new[11] = row[1], row[7], row[11]
    if change[2] then new[8] = row[8] end
    if change[3] then new[9] = row[9] end
    if change[4] then new[10] = row[10] end
    return new
end

-- The row before, which is nobody's if the run has expired.
local function row_before(k, run, head)
    redis.call('ZCARD', KEYS[k + 6])
    redis.call('HLEN', KEYS[k + 7])
    local row = row_of(k, run)
    return row, head ~= '' and row or nil
end

local function settle_row(k, run, old, new, fate)
    if new then new[13] = fate == 'E' and in_milliseconds(TTL) end
    replace_row(k, run, old, new)
end

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

local function settle(k, run, fate)
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
        redis.pcall('PUBLISH', CHANNEL, run)
    end
end
"""
)

APPEND: Final = _script(
    _COMMON
    + """
-- ARGV: channel, ttl, for each run its name and '=' and the digest that its head must have, or '*',
-- and for each entry: its run's first key, seq, member, body, fate, the seq before it, whether it
-- may begin a journal, and how it changes the run's row. Returns the run that has expired; or an
-- outcome for each, and the first key of each run whose row has changed, with the row before.
local runs, heads, lost, fates, won = {}, {}, {}, {}, {}
local rows, stored, befores = {}, {}, {}
local at = 3
for k = 1, #KEYS, 8 do
    runs[k], heads[k] = ARGV[at], head_of(k)
    lost[k] = ARGV[at + 1] ~= '*' and ARGV[at + 1] ~= '=' .. digest_of(k)
    at = at + 2
end
for i = at, #ARGV, 8 do
    local k = tonumber(ARGV[i])
    local begins, change = ARGV[i + 6] == '1', ARGV[i + 7]
    if not begins and expired(heads[k]) then return runs[k] end
    local follows = heads[k] == ARGV[i + 5] or (begins and ARGV[i + 1] > heads[k])
    local wins = follows and not lost[k]
    if wins then
        if change ~= '' then
            if rows[k] == nil then
                stored[k], rows[k] = row_before(k, runs[k], heads[k])
                befores[#befores + 1] = k
                befores[#befores + 1] = rows[k] and cmsgpack.pack(rows[k]) or ''
            end
            rows[k] = changed_row(rows[k], change) or false
        end
        heads[k], fates[k] = ARGV[i + 1], ARGV[i + 4]
    else
        lost[k] = true
    end
    won[#won + 1] = wins and 1 or 0
end
for n = 1, #won do
    local i = at + (n - 1) * 8
    if won[n] == 1 then put(tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) end
end
for k, fate in pairs(fates) do
    settle(k, runs[k], fate)
    if rows[k] ~= nil then settle_row(k, runs[k], stored[k], rows[k], fate) end
end
return {won, befores}
"""
)

_SETTLED: Final = """
local function settled(old, row)
    settle(1, ARGV[3], ARGV[4])
    if ARGV[5] ~= '' then
        settle_row(1, ARGV[3], old, changed_row(row, ARGV[5]), ARGV[4])
    end
    return {1, row and cmsgpack.pack(row) or ''}
end
"""

TRIM: Final = _script(
    _COMMON
    + _SETTLED
    + """
-- ARGV: channel, ttl, run, fate, the marker's change of the row, its seq, member and body, and the
-- head it was prepared for; then for each entry to change: seq, member, body. Returns 0 when taken or
-- expired, -1 for another head, or {1, the row before}.
local head = head_of(1)
if expired(head) or ARGV[6] <= head then return 0 end
if ARGV[9] ~= head then return -1 end
local old, row = row_before(1, ARGV[3], head)
for i = 10, #ARGV, 3 do
    local low, high = '[' .. ARGV[i], '(' .. ARGV[i] .. '\\255'
    redis.call('ZREMRANGEBYLEX', KEYS[2], low, high)
    redis.call('HDEL', KEYS[3], ARGV[i])
    put(1, ARGV[i], ARGV[i + 1], ARGV[i + 2])
end
put(1, ARGV[6], ARGV[7], ARGV[8])
return settled(old, row)
"""
)

ERASE: Final = _script(
    _COMMON
    + _SETTLED
    + """
-- ARGV: channel, ttl, run, fate, the tombstone's change of the row, its seq, member and body.
-- Returns 0 when taken or expired, or {1, the row before}. A journal of tombstones alone, such as
-- a slot, begins with the one at 0.
local head = head_of(1)
local begins = tonumber(ARGV[6]) == 0
if (expired(head) and not begins) or ARGV[6] <= head then return 0 end
local old, row = row_before(1, ARGV[3], head)
redis.call('UNLINK', KEYS[2], KEYS[3])
put(1, ARGV[6], ARGV[7], ARGV[8])
return settled(old, row)
"""
)

READ: Final = _script("""
-- KEYS: entries, bodies; ARGV: command, bounds, limit. Returns each member and its body.
local found = redis.call(ARGV[1], KEYS[1], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local page = {}
for _, member in ipairs(found) do
    page[#page + 1] = member
    page[#page + 1] = redis.call('HGET', KEYS[2], string.sub(member, 1, 19))
end
return page
""")

HEADS: Final = _script(
    _ROWS
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

REPAIR: Final = _script(
    _ROWS
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

TIDY: Final = _script(
    _ROWS
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
    if tonumber(stored[i + 1]) == counts[stored[i]] then
        counts[stored[i]] = nil
    elseif not counts[stored[i]] then
        counts[stored[i]] = 0
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
