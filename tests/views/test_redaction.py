"""What looks like a secret is not shown on pages and over HTTP."""

from typing import Any

import pytest

import holdfast as hf
from holdfast.codec import readable
from holdfast.codec.redaction import HIDDEN, AsIs, is_secret, redacted
from holdfast.codec.summaries import for_people
from holdfast.operations.diff import diff_values
from holdfast.views.legible import preview

SECRET = (
    *("password", "PASSWORD", "db_password", "dbPassword", "DB-PASSWORD", "password2", "passwd"),
    *("token", "access_token", "accessToken", "ID_TOKEN", "X-Auth-Token", "refresh_tokens"),
    *("secret", "client_secret", "AWS_SECRET_ACCESS_KEY", "secretKey", "private_key", "apiKey"),
    *("api_key", "X-API-Key", "apikey", "OPENAI_API_KEY", "APIKey", "private_key_pem"),
    *("Authorization", "proxy-authorization", "Cookie", "Set-Cookie", "credentials", "pwd"),
    *("password_hash", "$password", "session.cookie"),
)
PLAIN = (
    *("tokens_used", "token_count", "max_tokens", "tokens", "password_policy", "secret_name"),
    *("key", "primary_key", "sort_key", "keys", "author", "authorized", "cookie_banner", "note"),
    *("tokenizer", "secretary", "", "$", "12", "keyboard", "passwordless_login"),
)


@pytest.mark.parametrize("name", SECRET)
def test_a_field_is_secret_by_its_name(name: str) -> None:
    assert is_secret(name)
    assert redacted({"deep": [{name: "hunter2"}]}) == {"deep": [{name: HIDDEN}]}


@pytest.mark.parametrize("name", PLAIN)
def test_other_fields_are_shown(name: str) -> None:
    assert not is_secret(name)
    assert redacted({name: "kelp"}) == {name: "kelp"}


@pytest.mark.parametrize("value", [12, 1.5, True, None, "", [], {}])
def test_what_can_be_no_secret_is_shown_whatever_its_name_is(value: Any) -> None:
    assert redacted({"token": value}) == {"token": value}


def test_whatever_a_secret_field_holds_is_hidden() -> None:
    for value in (b"hunter2", ["hunter2"], {"main": "hunter2"}, ("hunter2",)):
        shown = redacted(readable.to_json({"credentials": value, 1: 2}))
        assert "hunter2" not in str(shown)
        assert HIDDEN in str(shown)


def test_a_secret_is_hidden_where_its_name_is_a_value() -> None:
    headers = [{"name": "Authorization", "value": "Bearer x"}, {"name": "Accept", "value": "*"}]
    assert [each["value"] for each in redacted(headers)] == [HIDDEN, "*"]


def test_passwords_in_urls_are_hidden() -> None:
    shown = redacted({"store": "postgresql://ann:hunter2@db/runs?x=1", "see": "http://a/b:c@d"})
    assert shown == {"store": f"postgresql://ann:{HIDDEN}@db/runs?x=1", "see": "http://a/b:c@d"}


def test_a_difference_hides_secrets_by_their_path() -> None:
    old = {"db": {"password": "hunter2", "host": "a"}, 7: 1, "token": "old"}
    new = {"db": {"password": "hunter3", "host": "b"}, 7: 1, "token": "new"}
    for a, b in ((old, new), ({"token": "old", "n": 1}, {"token": "new", "n": 2})):
        found = diff_values(a, b).redacted()
        text = f"{found} {found.patch}"
        assert not any(word in text for word in ("hunter", "old'", "new'"))
    assert "~ n: 1 → 2" in str(found)


def test_the_value_itself_is_not_changed() -> None:
    value = {"password": "hunter2"}
    redacted(value)
    assert value == {"password": "hunter2"}


def test_the_value_beside_a_secret_name_is_hidden_in_a_difference() -> None:
    old = {"headers": [{"name": "Authorization", "value": "Bearer hunter2"}, {"name": "Accept"}]}
    new = {"headers": [{"name": "Authorization", "value": "Bearer hunter3"}, {"name": "Host"}]}
    shown = str(diff_values(old, new).redacted())
    assert "hunter" not in shown
    assert "Host" in shown
    assert "hunter3" in str(diff_values(old, new))


def test_the_default_of_a_secret_in_a_schema_is_hidden() -> None:
    field = {"type": "string", "default": "hunter2", "examples": ["hunter3"]}
    schema = {"type": "object", "properties": {"password": field, "place": {"default": "Brest"}}}
    shown = redacted({"schema": AsIs(schema)})["schema"]["properties"]
    assert shown["password"] == {"type": "string", "default": HIDDEN, "examples": HIDDEN}
    assert shown["place"] == {"default": "Brest"}


def test_a_preview_hides_what_only_the_part_that_is_cut_off_shows_to_be_a_secret() -> None:
    header = {"value": "hunter2", "note": "x" * 5_000, "name": "Authorization"}
    assert "hunter2" not in preview([header]).text
    for room in (1_960, 1_970, 1_980, 1_985, 1_990):
        text = f"{'x' * room} postgres://ann:hunter2hunter2hunter2@host/db and more"
        assert "hunter2" not in preview(text).text
        assert "hunter2" not in preview([text]).text


def test_the_name_of_a_secret_is_shown() -> None:
    state = {"token": hf.Secret("hunter2", name="stripe"), "all": [hf.Secret("hunter2")]}
    tree = readable.to_json(state)
    assert redacted(tree) == tree
    assert for_people(tree) == {"token": '<secret "stripe">', "all": ['<secret "state.all[0]">']}
    assert (
        preview(tree).text
        == '{"token": "<secret \\"stripe\\">", "all": ["<secret \\"state.all[0]\\">"]}'
    )
    changed = diff_values(state, {**state, "token": hf.Secret("x", name="paypal")})
    assert str(changed.redacted()).endswith('~ token: secret "stripe" → secret "paypal"')
