"""Secrets in runs: live, failed, resumed, forked, and withheld by their path."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr

import holdfast as hf
from holdfast.graph import END, Graph
from holdfast.workflow import ask, for_each, step, workflow

VALUE = "canary-4711"


def files_of(place: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(place.rglob("*")) if file.is_file())


@pytest.fixture(params=["sqlite", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind = request.param
    (tmp_path / "store").mkdir()
    return f"sqlite:///{tmp_path}/store/runs.db" if kind == "sqlite" else f"file://{tmp_path}/store"


@step
def login(key: hf.Secret[str]) -> dict[str, Any]:
    return {"token": hf.Secret(f"{key.reveal()}-token", name="token"), "user": "ann"}


@step(retry=2)
def fetch(session: dict[str, Any], text: str) -> str:
    raise ValueError(f"refused: {session['token'].reveal()} {text}")


@workflow
async def visit(key: hf.Secret[str]) -> hf.Secret[str]:
    session = await login(key)
    with pytest.raises(hf.StepFailedError):
        await fetch(session, f"Bearer {session['token'].reveal()}")
    await ask("Go on?", returns=bool)
    assert session["token"].reveal().startswith("canary")
    token: hf.Secret[str] = session["token"]
    return token


def test_a_run_uses_a_secret_and_stores_its_name(url: str, tmp_path: Path) -> None:
    with hf.Engine(url) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(visit(hf.Secret(VALUE)), run_id="r")
        engine.answer_sync("r", True)
    with hf.Engine(url, secrets_from={"token": "canary-again"}) as engine:
        result = engine.run_sync(visit(hf.Secret("another-value")), run_id="r", resume=True)
        assert result.reveal() == "canary-again"
        failed = [m for m in engine.checkpointer.core.journals.trail("r") if m.kind == "fail"]
        recorded = engine.checkpointer.core.journals.value("r", failed[0].seq)
    assert recorded["message"] == "refused: <secret token> Bearer <secret token>"
    for value in (VALUE, "canary-again", "another-value"):
        assert value.encode() not in files_of(tmp_path / "store")


@workflow
async def greet(key: hf.Secret[str] | None, name: str) -> str:
    assert key is not None
    return f"{name} has a key of {len(key.reveal())} characters"


def test_an_input_declared_as_a_secret_is_one_whatever_the_caller_gives(
    url: str, tmp_path: Path
) -> None:
    given: Any = VALUE
    with hf.Engine(url, flows=[greet]) as engine:
        assert engine.run_sync(greet(given, "ann"), run_id="r") == "ann has a key of 11 characters"
        assert engine.checkpointer.core.journals.value("r", 0)["key"].name == "inputs.key"
    assert VALUE.encode() not in files_of(tmp_path / "store")


@dataclass
class Order:
    token: hf.Secret[str]
    count: int


@workflow
async def buy(order: Order) -> int:
    return len(order.token.reveal())


def test_a_secret_field_of_an_input_in_json_is_not_stored(url: str, tmp_path: Path) -> None:
    inputs = buy.inputs_from({"order": {"token": VALUE, "count": 1}})
    with hf.Engine(url, flows=[buy]) as engine:
        assert engine.run_sync(buy(**inputs), run_id="r") == len(VALUE)
    assert VALUE.encode() not in files_of(tmp_path / "store")


def test_the_hash_of_inputs_and_arguments_does_not_depend_on_a_secret(tmp_path: Path) -> None:
    metas = []
    for name, value in (("a", VALUE), ("b", "canary-of-another-one")):
        with hf.Engine(tmp_path / f"{name}.db") as engine:
            with pytest.raises(hf.RunPausedError):
                engine.run_sync(visit(hf.Secret(value)), run_id="r")
            trail = engine.checkpointer.core.journals.trail("r")
            metas.append([(e.kind, digests_in(e.meta)) for e in trail])
    assert metas[0] == metas[1]


def digests_in(text: str) -> Any:
    found = json.loads(text or "{}")
    return {name: found.get(name) for name in ("inputs_hash", "args", "called_with")}


@workflow
async def revealing(key: hf.Secret[str]) -> str:
    await ask("Go on?", returns=bool)
    return key.reveal()


def answered(url: str) -> None:
    """Leave a run that has its answer, and was given a secret."""
    with hf.Engine(url) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(revealing(hf.Secret(VALUE)), run_id="r")
        engine.answer_sync("r", True)


def test_inputs_that_are_given_again_bring_their_secrets(url: str) -> None:
    answered(url)
    with hf.Engine(url, flows=[revealing]) as engine:
        again = revealing(hf.Secret("another"))
        assert engine.run_sync(again, run_id="r", resume=True) == "another"


def test_a_resume_without_a_provider_says_which_secret_is_missing(url: str) -> None:
    answered(url)
    with hf.Engine(url, flows=[revealing]) as engine:
        with pytest.raises(hf.SecretMissingError, match=r"'inputs\.key'.*secrets_from"):
            engine.resume_sync("r")
        with pytest.raises(hf.SecretMissingError):
            engine.resume_sync("r")
    with hf.Engine(url, flows=[revealing], secrets_from={"inputs.key": "given"}) as engine:
        assert engine.resume_sync("r") == "given"


def test_a_secret_is_neither_a_run_id_nor_a_label(tmp_path: Path) -> None:
    secret = hf.Secret(VALUE, name="key")

    @workflow
    async def flow() -> None: ...

    with hf.Engine(tmp_path / "runs.db") as engine:
        with pytest.raises(TypeError, match="a label is a text"):
            engine.run_sync(flow(), run_id="r", labels={"key": secret})  # type: ignore[dict-item]
        with pytest.raises(hf.InvalidIdError):
            engine.run_sync(flow(), run_id=secret)  # type: ignore[arg-type]
        for given in ({"run_id": f"run-{secret.reveal()}"}, {"owner": secret.reveal()}):
            with pytest.raises(hf.InvalidIdError, match="holds the value of a secret") as caught:
                engine.run_sync(flow(), **{"run_id": "r", **given})  # type: ignore[arg-type]
            assert VALUE not in str(caught.value)
        with pytest.raises(hf.InvalidIdError, match="holds the value of a secret"):
            engine.run_sync(flow(), run_id="r", labels={"key": secret.reveal()})


def reveal_far_away(secret: hf.Secret[str]) -> hf.Secret[str]:
    if secret.name == "bad":
        raise ValueError(f"refused {secret.reveal()}")
    return hf.Secret(secret.reveal() + "-2", name="second")


def test_a_step_in_another_process_gets_the_value(url: str, tmp_path: Path) -> None:
    far = step(run_on=lambda: ProcessPoolExecutor(1))(reveal_far_away)

    @workflow
    async def flow(key: hf.Secret[str], bad: hf.Secret[str]) -> str:
        with pytest.raises(hf.StepFailedError, match="refused <secret bad>"):
            await far(bad)
        second = await far(key)
        return str(len(second.reveal()))

    with hf.Engine(url) as engine:
        call = flow(hf.Secret(VALUE, name="key"), hf.Secret("canary-of-bad", name="bad"))
        assert engine.run_sync(call, run_id="r") == str(len(VALUE) + 2)
    assert b"canary" not in files_of(tmp_path / "store")


# --- by path


@dataclass
class Shop:
    """A state of which parts are secret."""

    user: dict[str, Any] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)


def pay(shop: Shop) -> Shop:
    assert shop.user["token"] == VALUE
    shop.seen.append(f"paid by {shop.user['name']}")
    return shop


def confirm(shop: Shop) -> Shop:
    shop.seen.append(f"token of {len(shop.user['token'])}")
    return shop


SHOP = (
    Graph(Shop, name="shop")
    .add_node("pay", pay)
    .add_node("confirm", confirm)
    .add_edge("pay", "confirm")
    .add_edge("confirm", END)
    .set_entry("pay")
    .compile()
)


def test_values_at_a_path_are_not_stored_and_a_live_run_keeps_them(
    url: str, tmp_path: Path
) -> None:
    with hf.Engine(url, secrets=["user.token"]) as engine:
        end = engine.run_sync(SHOP(Shop({"name": "ann", "token": VALUE})), run_id="r")
        assert end.user["token"] == VALUE
    assert VALUE.encode() not in files_of(tmp_path / "store")
    with hf.Engine(url, secrets=["user.token"], secrets_from={"user.token": "x" * 20}) as engine:
        again = engine.resume_sync("r", flow=SHOP, from_step="confirm")
        assert again.user == {"name": "ann", "token": "x" * 20}
        assert again.seen == ["paid by ann", "token of 20"]
    with hf.SyncCheckpointer(url) as cp:
        with pytest.raises(hf.SecretMissingError, match=r"'user\.token'"):
            cp.load("r")
        assert "user" not in str(cp.diff("r", 1, 2))


def test_path_secrets_keep_deltas_diff_fork_and_rollback_working(url: str, tmp_path: Path) -> None:
    state = {"users": [{"name": f"user {n}", "password": f"{VALUE}-{n}"} for n in range(200)]}
    provider = {f"users[{n}].password": f"given {n}" for n in range(200)}
    with hf.SyncCheckpointer(url, secrets=["users[*].password"]) as cp:
        cp.save("r", state)
        state["users"][7]["name"] = "ann"
        second = cp.save("r", state)
        assert str(cp.diff("r", 1, 2)).endswith('~ users[7].name: "user 7" → "ann"')
        cp.fork("r", seq=1, run_id="fork")
        cp.rollback("r", seq=1)
        assert cp.verify("r").ok
        if url.startswith("sqlite"):
            entry = cp.core.journals.entry("r", second.seq)
            assert entry is not None
            assert len(entry.body) < 200
    assert VALUE.encode() not in files_of(tmp_path / "store")
    with hf.SyncCheckpointer(url, secrets_from=provider) as cp:
        for run in ("r", "fork"):
            found = cp.load(run)
            assert found is not None
            assert found.state["users"][7] == {"name": "user 7", "password": "given 7"}


def test_path_secrets_of_inputs_and_results_of_a_workflow(url: str, tmp_path: Path) -> None:
    @step
    def connect(user: dict[str, Any], pin: str) -> dict[str, Any]:
        return {"session": {"token": f"{user['token']}-2"}, "ok": pin == "1234"}

    @workflow
    async def flow(user: dict[str, Any], pin: str) -> str:
        made = await connect(user, pin)
        await for_each([made["session"]["token"]], len_of)
        await ask("Go on?", returns=bool)
        return f"{len(made['session']['token'])} {user['name']}"

    paths = ["user.token", "pin", "**.session.token"]
    with hf.Engine(url, secrets=paths) as engine:
        with pytest.raises(hf.RunPausedError):
            engine.run_sync(flow({"name": "ann", "token": VALUE}, "1234"), run_id="r")
        engine.answer_sync("r", True)
        digests = [digests_in(e.meta)["args"] for e in engine.checkpointer.core.journals.trail("r")]
    assert VALUE.encode() not in files_of(tmp_path / "store")
    provided = {"user.token": "other-token", "pin": "9999", "session.token": "other-token-2"}
    with hf.Engine(url, flows=[flow], secrets=paths, secrets_from=provided) as engine:
        assert engine.resume_sync("r") == "13 ann"
        again = engine.checkpointer.core.journals.trail("r")
        assert [digests_in(e.meta)["args"] for e in again][: len(digests)] == digests
    missing = pytest.raises(hf.SecretMissingError, match=r"'session\.token'")
    with hf.Engine(url, flows=[flow], secrets=paths) as engine, missing:
        engine.resume_sync("r", from_step="len_of")


@step
def len_of(text: str) -> int:
    return len(text)


@pytest.mark.parametrize("path", ["", ".a", "a..b", "a[", "a b", 5, "a[0", "a]"])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(ValueError, match="is no path"):
        hf.SyncCheckpointer("memory://", secrets=[path])


def test_secrets_are_a_list_and_the_provider_a_mapping_or_function() -> None:
    with pytest.raises(TypeError, match="list of paths"):
        hf.Engine("memory://", secrets="user.token")
    with pytest.raises(TypeError, match="secrets_from must be"):
        hf.Engine("memory://", secrets_from="token")  # type: ignore[arg-type]
    with hf.SyncCheckpointer("memory://") as cp, pytest.raises(ValueError, match="give secrets to"):
        assert hf.Engine(cp, secrets=["a"]).checkpointer is cp


class Grade(Enum):
    TOP = VALUE


class Login(BaseModel):
    password: str


@dataclass
class Account:
    login: Login


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        (Account(Login(password=VALUE)), lambda account: account.login.password),
        (SecretStr(VALUE), SecretStr.get_secret_value),
        (Grade.TOP, lambda grade: grade.value),
        (UUID(int=4711), str),
        (Decimal("47114711.5"), str),
    ],
    ids=["dataclass and model", "secret of pydantic", "enum", "uuid", "decimal"],
)
def test_a_secret_of_any_type_is_kept_out_of_errors(
    value: object, quoted: Callable[[Any], str], tmp_path: Path
) -> None:
    @step
    def refuse(key: hf.Secret[Any]) -> None:
        raise ValueError(f"refused: {quoted(key.reveal())}")

    @workflow
    async def refused(key: hf.Secret[Any]) -> None:
        await refuse(key)

    with hf.Engine(tmp_path / "runs.db") as engine, pytest.raises(hf.StepFailedError) as failed:
        engine.run_sync(refused(hf.Secret(value, name="key")), run_id="r")
    assert "refused: <secret " in str(failed.value)  # others of this value may be alive, too
    assert quoted(value).encode() not in files_of(tmp_path)
