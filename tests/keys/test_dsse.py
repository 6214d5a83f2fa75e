from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from securesystemslib import dsse as other
from securesystemslib.signer._key import SSlibKey

import holdfast as hf
from holdfast.keys import dsse

ANN = hf.SigningKey.ed25519("ann", bytes(range(32)))
TYPE = "application/vnd.in-toto+json"


def other_key(key: hf.SigningKey) -> SSlibKey:
    assert key.public is not None
    return SSlibKey(key.key_id, "ed25519", "ed25519", {"public": key.public.hex()})


def test_what_is_signed_is_what_the_standard_gives_as_its_example() -> None:
    signed = dsse.to_sign(b"hello world", "http://example.com/HelloWorld")
    assert signed == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


@given(st.binary(max_size=200), st.text(max_size=20))
def test_another_implementation_accepts_our_signatures(payload: bytes, kind: str) -> None:
    envelope = dsse.signed(payload, kind, ANN)
    theirs = other.Envelope.from_dict(json.loads(json.dumps(envelope)))
    assert theirs.pae() == dsse.to_sign(payload, kind)
    assert "ann" in theirs.verify([other_key(ANN)], 1)
    opened = dsse.opened(envelope, kind, ANN.trusted(), "it")
    assert opened == (payload, ("ann",))


def with_(**changes: Any) -> dict[str, Any]:
    return dsse.signed(b"{}", TYPE, ANN) | changes


def test_every_change_of_an_envelope_is_found() -> None:
    for envelope in (
        with_(payload=base64.b64encode(b"{ }").decode()),
        with_(signatures=[]),
        with_(signatures=[{"keyid": "bob", "sig": with_()["signatures"][0]["sig"]}]),
        with_(signatures=[{"sig": with_()["signatures"][0]["sig"]}]),
        with_(signatures=dsse.signed(b"{}", "text/plain", ANN)["signatures"]),
    ):
        with pytest.raises(hf.InvalidSignatureError):
            dsse.opened(envelope, TYPE, ANN.trusted(), "it")


def test_what_is_no_such_envelope_is_refused() -> None:
    for envelope in (
        with_(payloadType="text/plain"),
        with_(payload="%"),
        with_(payload=7),
        with_(signatures={}),
        with_(signatures=[{}] * 65),
        with_(signatures=["x"]),
        with_(signatures=[{"keyid": "ann", "sig": "A" * 2000}]),
        {},
    ):
        with pytest.raises(ValueError, match=r".") as caught:
            dsse.opened(envelope, TYPE, ANN.trusted(), "it")
        assert not isinstance(caught.value, hf.InvalidSignatureError)


def test_signatures_of_others_are_ignored_and_both_alphabets_of_base64_are_read() -> None:
    envelope = with_()
    sig = envelope["signatures"][0]["sig"].translate(str.maketrans("+/", "-_"))
    envelope["signatures"] = [{"keyid": "bob", "sig": "AAAA"}, {"keyid": "ann", "sig": sig}]
    assert dsse.opened(envelope, TYPE, ANN.trusted(), "it").signed_by == ("ann",)


@given(
    st.binary()
    | st.text().map(str.encode)
    | st.recursive(
        st.none() | st.text() | st.integers() | st.floats(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ).map(lambda value: json.dumps(value).encode())
)
def test_only_plain_json_objects_are_parsed(text: bytes) -> None:
    try:
        found = dsse.parse_object(text, "it")
    except ValueError as error:
        assert str(error).startswith("it is ")
    else:
        assert json.loads(text) == found


@pytest.mark.parametrize(
    "text",
    [b'{"a": 1, "a": 2}', b'{"a": NaN}', b'{"a": 1e999}', b"[" * 100_000, b"[]", b"\xff{}", b""],
)
def test_what_parsers_read_differently_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^it is "):
        dsse.parse_object(text, "it")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "payload": st.none()
            | st.text()
            | st.binary().map(lambda b: base64.b64encode(b).decode()),
            "payloadType": st.just(TYPE) | st.text() | st.none(),
            "signatures": st.lists(
                st.none()
                | st.dictionaries(st.sampled_from(["keyid", "sig"]), st.text() | st.none())
            )
            | st.none(),
        },
    )
)
def test_no_envelope_of_others_is_opened(envelope: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        dsse.opened(envelope, TYPE, ANN.trusted(), "it")
