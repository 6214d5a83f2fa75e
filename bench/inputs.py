"""The fixed inputs: the same bytes on every machine and in every run.

The text is made of invented words that are as unevenly frequent as those of a language, so that
zstd shrinks it two to three times, as it does real chats. There is no constant filler.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple

import ormsgpack

State = dict[str, Any]

KB: Final = 1000
MB: Final = 1_000_000
TURNS: Final = 1000  # of the chat; each adds one message of about 380 bytes

_CONTENT: Final = 325  # characters of a message's content: with its other fields, about 380 bytes
_ROLES: Final = ("user", "assistant")


class Step(NamedTuple):
    """One save: the state that a checkpointer is given, and the bytes that a floor writes."""

    state: State
    payload: bytes


def pack(value: object) -> bytes:
    """A value as MessagePack: what "the same bytes" means for a floor."""
    return ormsgpack.packb(value)


def state(size: int, seed: int = 0) -> State:
    """A chat of about `size` bytes once packed."""
    rng = random.Random(f"state-{size}-{seed}")
    messages: list[State] = []
    left = size - len(pack({"messages": [], "turn": 0, "model": "small-1"}))
    while left > 120:
        made = _message(rng, len(messages), min(_CONTENT, max(left - 70, 16)))
        messages.append(made)
        left -= len(pack(made))
    return {"messages": messages, "turn": len(messages), "model": "small-1"}


@functools.cache
def fresh_steps(size: int, count: int = 8) -> tuple[Step, ...]:
    """Saves of one size that have nothing in common but their shape."""
    states = [state(size, seed) for seed in range(count)]
    return tuple(Step(made, pack(made)) for made in states)


def chat(turns: int = TURNS) -> Iterator[Step]:
    """A conversation saved after each turn. A floor writes only the new message.

    Every step holds the same list, grown: use it before asking for the next.
    """
    messages: list[State] = []
    for turn, made in enumerate(_conversation(turns)):
        messages.append(made)
        yield Step({"messages": messages, "turn": turn, "model": "small-1"}, pack(made))


def tiny_changes(size: int, count: int) -> Iterator[Step]:
    """One large state, first as it is, then with a counter and one message rewritten each time.

    Every step holds the same state, changed: use it before asking for the next.
    """
    rng = random.Random(f"changes-{size}")
    kept = state(size)
    yield Step(kept, pack(kept))
    for _ in range(count):
        number = rng.randrange(len(kept["messages"]))
        kept["messages"][number] = _message(rng, number, _CONTENT)
        kept["turn"] += 1
        yield Step(kept, pack(kept["messages"][number]))


@functools.cache
def _conversation(turns: int) -> tuple[State, ...]:
    rng = random.Random("chat")
    return tuple(_message(rng, turn, _CONTENT) for turn in range(turns))


def _message(rng: random.Random, number: int, length: int) -> State:
    return {
        "id": f"{rng.getrandbits(64):016x}",
        "role": _ROLES[number % 2],
        "content": _text(rng, length),
        "tokens": rng.randrange(20, 200),
    }


def _text(rng: random.Random, length: int) -> str:
    words, weights = _vocabulary()
    text = " ".join(rng.choices(words, cum_weights=weights, k=length // 3))
    return text[:length]


@functools.cache
def _vocabulary() -> tuple[list[str], list[float]]:
    rng = random.Random("words")
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er")]
    words = ["".join(rng.choices(syllables, k=rng.choice((1, 2, 2, 3, 4)))) for _ in range(6000)]
    return words, list(accumulate(1 / (rank + 5) for rank in range(len(words))))
