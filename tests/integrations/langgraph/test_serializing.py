"""Stored bytes never choose what is run."""

from __future__ import annotations

import enum
import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

import holdfast as hf
from holdfast.errors import SerializeError
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.serializing import AllowListSerializer
from tests.integrations.langgraph.calls import got, put, thread, values_of


class Cipher:
    """Hides nothing."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "plain", plaintext

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext


@pytest.mark.parametrize(
    "serde",
    [
        JsonPlusSerializer(allowed_msgpack_modules=True),
        JsonPlusSerializer(allowed_msgpack_modules=None, allowed_json_modules=True),
        EncryptedSerializer(Cipher(), JsonPlusSerializer(allowed_msgpack_modules=True)),
    ],
)
def test_a_serializer_that_loads_every_type_is_refused(serde: Any) -> None:
    with pytest.raises(ValueError, match="loads whatever type the stored bytes name"):
        HoldfastSaver("memory://", serde=serde)


def test_a_serializer_that_encrypts_works_with_an_allow_list() -> None:
    inner = JsonPlusSerializer(allowed_msgpack_modules=None)
    saver = HoldfastSaver("memory://", serde=EncryptedSerializer(Cipher(), inner))
    put(saver, thread(), 0, value={1, 2})
    assert values_of(saver.get_tuple(thread())) == {"value": {1, 2}}


@pytest.mark.parametrize("value", [2**64, {"n": [-(2**70)]}, range(3), np.int64(3), object()])
def test_a_value_that_can_not_be_stored_is_refused_by_the_name_of_its_channel(value: Any) -> None:
    saver = HoldfastSaver("memory://")
    with pytest.raises(SerializeError, match=r"^channel_values\.total: "):
        put(saver, thread(), 0, fine=1, total=value)
    at = put(saver, thread(), 0, fine=1)
    with pytest.raises(SerializeError, match=r"^channel_values\.total: "):
        saver.put_writes(at, [("fine", 1), ("total", value)], "task")
    assert not got(saver.get_tuple(thread())).pending_writes


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Basket:
    colours: list[Colour]


class Order(BaseModel):
    colour: Colour


@pytest.mark.parametrize("value", [Colour.RED, [{"deep": Basket([Colour.RED])}]])
def test_an_object_of_a_type_that_is_not_allowed_is_not_loaded_as_something_else(
    value: Any,
) -> None:
    cp = hf.SyncCheckpointer("memory://")
    put(HoldfastSaver(cp, allow=[Colour, Basket]), thread(), 0, value=value)
    with pytest.raises(hf.CheckpointLoadError, match=r"allow=\[Colour\]"):
        HoldfastSaver(cp, allow=[Basket]).get_tuple(thread())
    found = HoldfastSaver(cp, allow=[Basket, Colour]).get_tuple(thread())
    assert values_of(found) == {"value": value}


def test_a_model_that_is_allowed_makes_its_parts_itself() -> None:
    saver = HoldfastSaver("memory://", allow=[Order])
    put(saver, thread(), 0, order=Order(colour=Colour.RED))
    assert values_of(saver.get_tuple(thread())) == {"order": Order(colour=Colour.RED)}


def in_json(lc: int, *path: str, **fields: Any) -> tuple[str, bytes]:
    made = {"lc": lc, "type": "constructor", "id": path, "kwargs": fields}
    return "json", json.dumps(made).encode()


def test_old_values_in_json_come_back_if_their_types_are_safe_or_allowed() -> None:
    serde = AllowListSerializer([Basket])
    message = HumanMessage("hello")
    path = message.to_json()["id"]
    assert serde.loads_typed(in_json(1, *path, content="hello")) == message
    home = HumanMessage.__module__.split(".")
    assert serde.loads_typed(in_json(2, *home, "HumanMessage", content="hello")) == message
    mine = in_json(2, *Basket.__module__.split("."), "Basket", colours=[])
    assert serde.loads_typed(mine) == Basket([])
    with pytest.raises(hf.ReviveError, match=r"allow=\[Basket\]"):
        AllowListSerializer().loads_typed(mine)
    prompt = in_json(1, "langchain", "prompts", "prompt", "PromptTemplate", template="")
    with pytest.raises(hf.ReviveError, match="PromptTemplate, which is not allowed"):
        serde.loads_typed(prompt)
    with pytest.raises(hf.ReviveError, match=r"os\.system, which is not allowed"):
        serde.loads_typed(in_json(2, "os", "system", command="true"))


class Anything(BaseModel):
    value: Any = None


def test_langgraphs_serializer_changes_the_values_that_the_guide_lists() -> None:
    serde = AllowListSerializer([Anything])

    def again(value: Any) -> Any:
        return serde.loads_typed(serde.dumps_typed(value))

    assert again({Colour.RED: 1, date(2026, 1, 2): 2}) == {"red": 1, "2026-01-02": 2}
    assert again(["lone \ud800"]) == ["lone ?"]
    assert type(again(defaultdict(list, a=[1]))) is dict
    assert again(np.array([{}], dtype=object)) is None
    assert again(np.array([(1, 2)], dtype=[("a", "i4"), ("b", "i4")])).dtype.names is None
    assert again(Anything(value=Colour.RED)) == Anything(value="red")
    assert again(Anything(value=Anything(value=1))) == Anything(value={"value": 1})
