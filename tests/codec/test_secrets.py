"""Secrets: what is stored of them, and how they come back."""

import copy
import dataclasses
import json
import pickle
from typing import Any, TypedDict

import pytest

import holdfast as hf
from holdfast.codec import readable, values
from holdfast.codec.revive import revive
from holdfast.codec.secrets import Secret, Sources

VALUE = "canary-4711"


def stored(value: object) -> bytes:
    return bytes(values.encode(value))


def test_a_secret_shows_its_name_and_never_its_value() -> None:
    named, nameless = hf.Secret(VALUE, name="stripe"), hf.Secret(VALUE)
    for shown in (repr(named), str(named), f"{named}", f"{named:>40}", f"{named}"):
        assert shown == "Secret(name='stripe')"
    assert repr(nameless) == "Secret()"
    assert VALUE not in repr([named, {"a": nameless}])
    with pytest.raises(TypeError):
        json.dumps(named)
    with pytest.raises(TypeError):
        list(named)


def test_a_name_that_holds_the_value_is_refused() -> None:
    with pytest.raises(ValueError, match="must not hold its value"):
        hf.Secret(VALUE, name=f"key {VALUE}")
    for name in ("", "a\nb", "x" * 301):
        with pytest.raises(ValueError, match="the name of a secret"):
            hf.Secret(VALUE, name=name)


def test_secrets_are_compared_by_value_and_hashed_by_nothing() -> None:
    assert hf.Secret(VALUE) == hf.Secret(VALUE, name="a")
    assert hf.Secret(VALUE) != hf.Secret("another")
    assert hf.Secret(1) != hf.Secret("1")
    assert hf.Secret(VALUE) != VALUE
    assert hash(hf.Secret(VALUE)) == hash(hf.Secret("another"))


def test_only_the_name_is_stored_or_the_path_of_one_without_a_name() -> None:
    state = {"card": [hf.Secret(VALUE, name="stripe")], "user": {"token": hf.Secret(VALUE)}}
    assert VALUE.encode() not in values.encode(state)
    assert readable.to_json(state) == {
        "card": [{"$secret": "stripe"}],
        "user": {"token": {"$secret": "state.user.token"}},
    }


def test_what_is_stored_does_not_depend_on_the_value() -> None:
    assert values.encode({"a": hf.Secret("one-value")}) == values.encode({"a": hf.Secret(2)})


def test_dicts_that_look_like_secrets_come_back_unchanged() -> None:
    for given in ({"$secret": "a"}, {"$withheld": "a"}, {"$encrypted": {"path": "a", "data": ""}}):
        assert readable.from_json(readable.to_json(given)) == given
        assert values.decode(values.encode(given)) == given


def test_in_memory_an_encoding_gives_secrets_back_with_their_values() -> None:
    state = {"a": hf.Secret(VALUE), "b": (hf.Secret("other-value", name="b"),)}
    for encoding, decode in (
        (values.encode(state), values.decode),
        (readable.packed(state), readable.unpacked),
    ):
        back = decode(encoding)
        assert (back["a"].reveal(), back["b"][0].reveal()) == (VALUE, "other-value")
        with pytest.raises(hf.SecretMissingError, match=r"'state\.a'.*secrets_from"):
            decode(bytes(encoding))["a"].reveal()


def test_a_loaded_secret_asks_the_provider_when_it_is_revealed() -> None:
    asked: list[str] = []

    def provider(name: str) -> str:
        asked.append(name)
        return {"stripe": VALUE}[name]

    back = values.decode(
        stored([hf.Secret("x", name=n) for n in ("stripe", "gone")]), Sources(provider)
    )
    assert not asked
    assert back[0].reveal() == VALUE
    with pytest.raises(hf.SecretMissingError, match=r"'gone'.*the provider does not know it"):
        back[1].reveal()
    assert asked == ["stripe", "gone"]


def test_an_error_of_the_provider_does_not_quote_it() -> None:
    def provider(_: str) -> str:
        raise RuntimeError(f"vault refused {VALUE}")

    [secret] = values.decode(stored([hf.Secret("x", name="a")]), Sources(provider))
    with pytest.raises(hf.SecretMissingError) as caught:
        secret.reveal()
    assert VALUE not in str(caught.value)


def test_secrets_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET_USER_TOKEN", VALUE)
    assert hf.environment_secrets("user.token") == VALUE
    [secret] = values.decode(
        stored([hf.Secret("x", name="no.such")]), Sources(hf.environment_secrets)
    )
    with pytest.raises(hf.SecretMissingError, match=r"'no\.such'"):
        secret.reveal()


def test_two_different_secrets_of_one_name_are_refused() -> None:
    with pytest.raises(hf.SerializeError, match="two different secrets have the name 'a'"):
        values.encode([hf.Secret("one-value", name="a"), hf.Secret("two-value", name="a")])
    values.encode([hf.Secret("one-value", name="a"), hf.Secret("one-value", name="a")])


def test_a_secret_without_a_name_is_no_member_of_a_set() -> None:
    with pytest.raises(hf.SerializeError, match="give it a name"):
        values.encode({hf.Secret(VALUE)})
    values.encode({hf.Secret(VALUE, name="a")})


@dataclasses.dataclass
class Account:
    """A state with secrets."""

    token: hf.Secret[str]
    pin: hf.Secret[int] | None = None


class Keys(TypedDict):
    """A dict with a secret."""

    token: hf.Secret[str]


@pytest.mark.parametrize("kind", [Account, Keys])
def test_typed_states_get_secrets_of_their_type_back(kind: Any) -> None:
    given = kind(token=hf.Secret("x", name="token"))
    back = revive(values.decode(stored(given), Sources({"token": VALUE})), kind)
    token = back.token if kind is Account else back["token"]
    assert isinstance(token, Secret)
    assert token.reveal() == VALUE


def test_a_provided_value_of_another_type_is_refused() -> None:
    given = Account(hf.Secret("x", name="token"), hf.Secret(1, name="pin"))
    back = revive(values.decode(stored(given), Sources({"token": VALUE, "pin": VALUE})), Account)
    assert back.pin is not None
    with pytest.raises(hf.ReviveError) as caught:
        back.pin.reveal()
    assert VALUE not in str(caught.value)


def test_a_field_that_was_stored_plainly_becomes_a_secret() -> None:
    assert revive({"token": VALUE}, Account).token.reveal() == VALUE


def test_pydantic_models_have_secrets() -> None:
    from pydantic import create_model

    model: Any = create_model("model", token=(hf.Secret[str], ...))
    made = model(token=VALUE)
    assert VALUE not in repr(made) + made.model_dump_json()
    back = revive(values.decode(stored(made), Sources({"state.token": VALUE})), model)
    assert back.token.reveal() == VALUE


def test_a_copy_is_the_same_secret_and_a_pickle_takes_the_value_along() -> None:
    secret = hf.Secret(VALUE, name="a")
    assert copy.deepcopy([secret])[0] is secret
    again = pickle.loads(pickle.dumps(secret))
    assert (again.name, again.reveal()) == ("a", VALUE)
