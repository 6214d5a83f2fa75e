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


KEYS_OF_A_RUN: Final = 5
"""The shard's index, the run's entries and bodies, and those of its companion."""

EXPIRES: Final = b"E"  # the run and its companion, when nothing was saved for so long
STAYS: Final = b"S"
FOLLOWS: Final = b"F"  # as long as its companion does

_COMMON: Final = """
local WIDTH, CHANNEL, TTL = 19, ARGV[1], ARGV[2]

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

APPEND: Final = _script(
    _COMMON
    + """
-- ARGV: channel, ttl, for each run its name and '=' and the digest that its head must have, or '*',
-- and for each entry: its run's first key, seq, member, body, fate, the seq before it, and whether it
-- may begin a journal. Returns an outcome for each, or the run that has expired.
local runs, heads, lost, fates, won = {}, {}, {}, {}, {}
local at = 3
for k = 1, #KEYS, 5 do
    runs[k], heads[k] = ARGV[at], head_of(k)
    lost[k] = ARGV[at + 1] ~= '*' and ARGV[at + 1] ~= '=' .. digest_of(k)
    at = at + 2
end
for i = at, #ARGV, 7 do
    local k = tonumber(ARGV[i])
    local begins = ARGV[i + 6] == '1'
    if not begins and expired(heads[k]) then return runs[k] end
    local follows = heads[k] == ARGV[i + 5] or (begins and ARGV[i + 1] > heads[k])
    local wins = follows and not lost[k]
    if wins then
        heads[k], fates[k] = ARGV[i + 1], ARGV[i + 4]
    else
        lost[k] = true
    end
    won[#won + 1] = wins and 1 or 0
end
for n = 1, #won do
    local i = at + (n - 1) * 7
    if won[n] == 1 then put(tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) end
end
for k, fate in pairs(fates) do settle(k, runs[k], fate) end
return won
"""
)

TRIM: Final = _script(
    _COMMON
    + """
-- ARGV: channel, ttl, run, fate, the head it was prepared for, the marker's seq, member and body;
-- then for each entry to change: seq, member, body. Returns 1, 0 when taken or expired, -1 for another head.
local head = head_of(1)
if expired(head) or ARGV[6] <= head then return 0 end
if ARGV[5] ~= head then return -1 end
for i = 9, #ARGV, 3 do
    local low, high = '[' .. ARGV[i], '(' .. ARGV[i] .. '\\255'
    redis.call('ZREMRANGEBYLEX', KEYS[2], low, high)
    redis.call('HDEL', KEYS[3], ARGV[i])
    put(1, ARGV[i], ARGV[i + 1], ARGV[i + 2])
end
put(1, ARGV[6], ARGV[7], ARGV[8])
settle(1, ARGV[3], ARGV[4])
return 1
"""
)

ERASE: Final = _script(
    _COMMON
    + """
-- ARGV: channel, ttl, run, fate, the tombstone's seq, member and body. Returns 1, or 0 when taken
-- or expired. A journal of tombstones alone, such as a slot, begins with the one at 0.
local head = head_of(1)
local begins = tonumber(ARGV[5]) == 0
if (expired(head) and not begins) or ARGV[5] <= head then return 0 end
redis.call('UNLINK', KEYS[2], KEYS[3])
put(1, ARGV[5], ARGV[6], ARGV[7])
settle(1, ARGV[3], ARGV[4])
return 1
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

HEADS: Final = _script("""
-- KEYS: for each run its shard's index and its entries; ARGV: the runs. Returns their last members.
-- A run that has expired is taken out of the index here, where nobody can begin it meanwhile.
local heads = {}
for i, run in ipairs(ARGV) do
    local last = redis.call('ZREVRANGE', KEYS[2 * i], 0, 0)[1]
    if not last then redis.call('ZREM', KEYS[2 * i - 1], run) end
    heads[i] = last or false
end
return heads
""")
