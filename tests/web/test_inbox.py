"""Questions in the browser: what is shown of them, and how they are answered."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import holdfast as hf
from holdfast.workflow import ask, step, workflow
from tests.web import small_flows as flows
from tests.web.conftest import Serving


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def writing(serving: Serving, store: Path) -> TestClient:
    return serving(allow_writes=True)


def post(client: TestClient, path: str, **fields: Any) -> Any:
    sent = {name.replace("__", "."): value for name, value in fields.items()}
    return client.post(path, data={"by": "ann", **sent}, follow_redirects=False)


def recorded(cp: hf.SyncCheckpointer, run: str) -> list[str]:
    return [moment.note for moment in cp.timeline(run) if moment.kind == "answer"]


def test_open_questions_are_listed_with_whom_they_are_for(writing: TestClient, store: Path) -> None:
    flows.execute(store, lambda: flows.refund(219), "refund-1")
    flows.execute(store, lambda: flows.digest(["a"]), "digest-1")
    page = writing.get("/inbox").text
    assert "Refund 219?" in page
    assert "for ann, bob" in page
    assert "Publish 1 pages?" in page
    mine = writing.get("/inbox?mine=carl").text
    assert "Refund 219?" not in mine
    assert "Publish 1 pages?" in mine
    assert "No open questions" not in page
    assert "No open question matches" in writing.get("/inbox?overdue").text


def test_the_number_of_open_questions_changes_with_an_answer(
    writing: TestClient, store: Path
) -> None:
    flows.execute(store, lambda: flows.digest(["a"]), "digest-1")
    flows.execute(store, lambda: flows.digest(["a"]), "digest-2")
    assert 'id="asking">2<' in writing.get("/runs/digest-1").text
    post(writing, "/runs/digest-1/answer", question="ask", answer="true")
    assert 'id="asking">1<' in writing.get("/runs/digest-1").text


def test_the_header_of_the_inbox_counts_as_the_page_does(writing: TestClient, store: Path) -> None:
    flows.execute(store, lambda: flows.digest(["a"]), "digest-1")
    assert 'id="asking">1<' in writing.get("/runs").text
    flows.execute(store, lambda: flows.digest(["a"]), "digest-2")
    page = writing.get("/inbox").text
    assert 'id="asking">2<' in page
    assert "2 open" in page
    assert 'id="asking">2<' in writing.get("/inbox/number").text


def test_what_is_shown_beside_a_question_hides_secrets(writing: TestClient, store: Path) -> None:
    flows.execute(store, lambda: flows.refund(219), "refund-1")
    page = writing.get("/inbox?run=refund-1&question=approve").text
    assert "&#34;amount&#34;: 219" in page
    assert "&#34;password&#34;: &#34;•••••&#34;" in page


def test_an_approval_is_recorded_with_who_gave_it(
    writing: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    flows.execute(store, lambda: flows.refund(219), "refund-1")
    sent = {"question": "approve", "answer__approved": "true", "answer__comment": "sorry"}
    answer = post(writing, "/runs/refund-1/answer", **sent)
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/refund-1")
    assert recorded(cp, "refund-1") == ['{"approved": true, "comment": "sorry"} by ann']
    with hf.Engine(store) as engine:
        assert engine.resume_sync("refund-1", flow=flows.refund) == "True sorry"


def test_the_same_answer_sent_twice_is_one(
    writing: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    flows.execute(store, lambda: flows.digest(["a"]), "digest-1")
    for _ in range(2):
        answer = post(writing, "/runs/digest-1/answer", question="ask", answer="true")
        assert answer.status_code == 303
    assert recorded(cp, "digest-1") == ["true by ann"]
    other = post(writing, "/runs/digest-1/answer", question="ask", answer="false")
    assert other.status_code == 409
    assert "was answered already, by &#39;ann&#39;" in other.text


def test_only_those_who_were_asked_may_answer(
    writing: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    flows.execute(store, lambda: flows.refund(219), "refund-1")
    sent = {"question": "approve", "answer__approved": "true"}
    answer = post(writing, "/runs/refund-1/answer", **sent, by="carl")
    assert answer.status_code == 409
    assert "not for &#39;carl&#39;" in answer.text
    nobody = post(writing, "/runs/refund-1/answer", **sent, by=" ")
    assert nobody.status_code == 422
    assert "say who you are" in nobody.text
    assert recorded(cp, "refund-1") == []


def test_a_token_says_who_answers_whatever_the_form_says(
    serving: Serving, cp: hf.SyncCheckpointer, store: Path
) -> None:
    flows.execute(store, lambda: flows.digest(["a"]), "digest-1")
    client = serving(allow_writes=True, tokens={"bob": "correct-horse-battery-staple"})
    client.headers["authorization"] = "Bearer correct-horse-battery-staple"
    assert "Recorded as <b>bob</b>" in client.get("/inbox").text
    post(client, "/runs/digest-1/answer", question="ask", answer="true", by="eve")
    assert recorded(cp, "digest-1") == ["true by bob"]


SHIPPING = {
    "question": "ask",
    "answer__carrier": "1",
    "answer__when": "2026-01-31",
    "answer__price": "1.50",
    "answer__to__city": "Brest",
    "answer__to__zip": "",
    "answer__insured": "true",
    "answer__notes": "fragile\r\nthis side up",
}


def test_a_form_has_a_field_for_every_part_of_the_answer(writing: TestClient, store: Path) -> None:
    flows.execute(store, flows.ship, "ship-1")
    page = writing.get("/runs/ship-1/answer").text
    for name in ("carrier", "when", "price", "to.city", "to.zip", "insured", "notes"):
        assert f'name="answer.{name}"' in page
    assert 'type="date"' in page
    assert post(writing, "/runs/ship-1/answer", **SHIPPING).status_code == 303
    with hf.Engine(store) as engine:
        done = engine.resume_sync("ship-1", flow=flows.ship)
    assert done == "UPS to Brest on 2026-01-31 for 1.50"


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("price", "much", "must be a Decimal such as"),
        ("when", "soon", "must be a date such as"),
        ("to__zip", "many", "must be a whole number, not"),
        ("carrier", "7", "is none of the choices"),
        ("insured", "", "is missing"),
    ],
)
def test_what_does_not_fit_is_told_beside_its_field(
    writing: TestClient, cp: hf.SyncCheckpointer, store: Path, name: str, text: str, error: str
) -> None:
    flows.execute(store, flows.ship, "ship-1")
    answer = post(writing, "/runs/ship-1/answer", **{**SHIPPING, f"answer__{name}": text})
    assert answer.status_code == 422
    field = "answer." + name.replace("__", ".")
    _, found, after = answer.text.partition(f'id="dialog-{field}-wrong"')
    assert found
    assert error in after[:300]
    assert 'value="Brest"' in answer.text, "what was filled in stays"
    assert recorded(cp, "ship-1") == []


@pytest.mark.parametrize(
    ("text", "kept"), [("plain words", "plain words"), ('{"a": 1}', "{'a': 1}")]
)
def test_where_anything_goes_json_and_text_do(
    writing: TestClient, store: Path, text: str, kept: str
) -> None:
    flows.execute(store, flows.anything, "any-1")
    assert post(writing, "/runs/any-1/answer", question="ask", answer="{").status_code == 422
    assert post(writing, "/runs/any-1/answer", question="ask", answer=text).status_code == 303
    with hf.Engine(store) as engine:
        assert engine.resume_sync("any-1", flow=flows.anything) == kept


def test_an_overdue_question_says_what_becomes_of_it_and_can_be_settled(
    writing: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    flows.execute(store, flows.offer, "offer-1")
    page = writing.get("/inbox?overdue").text
    assert "<b>no</b> is recorded as its answer" in page
    assert 'name="answer"' not in page
    assert post(writing, "/runs/offer-1/do/deadline").status_code == 303
    assert recorded(cp, "offer-1") == ["false by deadline"]
    done = writing.get("/inbox?state=done").text
    assert "nobody in time: the default" in done


def test_what_was_answered_says_who_when_and_what(
    writing: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    flows.execute(store, lambda: flows.digest(["a"]), "digest-1")
    assert "No answers here" in writing.get("/inbox?state=done").text
    post(writing, "/runs/digest-1/answer", question="ask", answer="true")
    page = writing.get("/inbox?state=done").text
    assert "Publish 1 pages?" in page
    assert "ann" in page
    assert ">yes<" in page
    assert "Answers in the 1 runs that were started last" in page


def test_without_leave_to_write_a_question_shows_its_command(
    client: TestClient, store: Path
) -> None:
    flows.execute(store, lambda: flows.refund(219), "refund-1")
    page = client.get("/inbox").text
    assert "holdfast answer refund-1 --by=ann" in page
    assert "<form" not in page
    assert client.post("/runs/refund-1/answer").status_code == 403


def test_markup_in_a_question_is_text(writing: TestClient, store: Path) -> None:
    flows.execute(store, lambda: flows.digest([]), "<img src=x>")
    page = writing.get("/inbox").text
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page


def test_the_panel_of_a_question_says_what_was_answered(
    writing: TestClient, cp: hf.SyncCheckpointer, store: Path
) -> None:
    flows.execute(store, flows.offer, "offer-1")
    assert post(writing, "/runs/offer-1/do/deadline").status_code == 303
    (asked,) = (one for one in cp.timeline("offer-1") if one.kind == "question")
    panel = writing.get(f"/runs/offer-1?step={asked.step}").text
    assert re.search(r"<h2>Answer</h2>\s*<pre[^>]*>false</pre>", panel)


@step(outputs="report.md")
def write() -> str:
    Path("report.md").write_text("2.5 m\n")
    return "report.md"


@workflow
async def report() -> bool:
    path = await write()
    return await ask(f"Publish {path}?", returns=bool)


def test_a_question_that_is_asked_again_says_why(
    writing: TestClient, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flows.execute(store, report, "report-1")
    assert "Asked again" not in writing.get("/inbox").text
    post(writing, "/runs/report-1/answer", question="ask", answer="true")
    Path("report.md").write_text("edited\n")
    with hf.Engine(store) as engine, pytest.raises(hf.RunPausedError):
        engine.resume_sync("report-1", flow=report)
    for path in ("/inbox", "/runs/report-1/answer?question=ask"):
        page = writing.get(path).text
        assert "Asked again: the run went back to" in page
        assert "write @1 did not verify" in page
        assert "report.md" in page.partition("Asked again")[2].partition("</p>")[0]
        assert "The answer before, “yes” by ann, is void." in page


def test_an_answer_that_a_rollback_voided_is_said_to_be_void(
    writing: TestClient, store: Path
) -> None:
    flows.execute(store, lambda: flows.digest(["a"]), "digest-1")
    post(writing, "/runs/digest-1/answer", question="ask", answer="true")
    void = "void: the run was rolled back behind it"
    pages = {
        "/inbox?state=done": "the run went back to @1",
        "/runs/digest-1?tab=journal": void,
        "/runs/digest-1?step=ask": void,
    }
    for path, why in pages.items():
        assert why not in writing.get(path).text
    with hf.SyncCheckpointer(store) as cp:
        cp.rollback("digest-1", seq=1)
    for path, why in pages.items():
        assert why in writing.get(path).text, path
