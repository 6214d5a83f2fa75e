"""Stored bytes never choose what is run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from holdfast.errors import SerializeError
from holdfast.integrations.langgraph import HoldfastSaver
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
