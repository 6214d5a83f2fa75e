"""Sessions of the OpenAI Agents SDK in a store."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Runner, Session, SQLiteSession
from agents.memory import SessionSettings
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast as hf
from holdfast.integrations.openai_agents import HoldfastSession
from holdfast.testing._processes import in_a_process
from tests.effort import examples
from tests.integrations.openai_agents.scripted import forecaster
from tests.waiting import ENOUGH


def said(text: str) -> Any:
    return {"role": "user", "content": text}


def test_an_agent_remembers_what_was_said_in_another_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"

    async def main() -> None:
        theirs = SQLiteSession("chat", tmp_path / "theirs.db")
        for turn in range(1, 4):
            async with HoldfastSession("chat", url) as session:  # opened again, as a process would
                result = await Runner.run(forecaster(), f"question {turn}", session=session)
                await Runner.run(forecaster(), f"question {turn}", session=theirs)
                assert await session.get_items() == await theirs.get_items()
            assert result.final_output == f"Brest: sunny ({4 * turn - 1} items)"
        theirs.close()

    asyncio.run(main())
    with hf.SyncCheckpointer(url) as checkpointer:
        assert checkpointer.verify("chat").ok


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
hostile = st.sampled_from(
    [{"$tuple": [1]}, {"$$": {}}, {"add": []}, {"pop": 1}, {"role": "user", "content": "\x00"}]
)
items = st.dictionaries(st.text(max_size=8), json_values, max_size=3) | hostile
operations = st.one_of(
    st.tuples(st.just("add"), st.lists(items, max_size=3)),
    st.tuples(st.just("get"), st.none() | st.integers(-1, 4)),
    st.tuples(st.sampled_from(["pop", "clear", "other"]), st.none()),
)


@given(script=st.lists(operations, max_size=12), limit=st.none() | st.integers(1, 3))
@settings(max_examples=examples(60), deadline=None)
def test_a_session_does_what_the_sdks_own_does(
    script: list[tuple[str, Any]], limit: int | None
) -> None:
    async def main() -> None:
        chosen = SessionSettings(limit=limit)
        theirs = SQLiteSession("s", session_settings=chosen)
        with hf.SyncCheckpointer("memory://") as checkpointer:
            pair = [HoldfastSession("s", checkpointer, session_settings=chosen) for _ in range(2)]
            for what, value in script:
                ours: Session = pair[0]
                if what == "add":
                    await ours.add_items(value)
                    await theirs.add_items(value)
                elif what == "get":
                    assert await ours.get_items(value) == await theirs.get_items(value)
                elif what == "pop":
                    assert await ours.pop_item() == await theirs.pop_item()
                elif what == "clear":
                    await ours.clear_session()
                    await theirs.clear_session()
                else:
                    pair.reverse()  # somebody else goes on
            assert await pair[0].get_items(-1) == await theirs.get_items(-1)
        theirs.close()

    asyncio.run(main())


def test_two_writers_lose_no_item_and_pop_none_twice(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"

    async def main() -> None:
        sessions = [HoldfastSession("chat", url) for _ in range(3)]

        async def write(session: HoldfastSession, who: int) -> None:
            for n in range(20):
                await session.add_items([said(f"{who}-{n}"), said(f"{who}-{n}'")])

        await asyncio.gather(*(write(session, who) for who, session in enumerate(sessions)))
        found: Any = await sessions[0].get_items()
        texts = [item["content"] for item in found]
        assert len(set(texts)) == 120
        assert all(f"{text}'" == after for text, after in zip(texts[::2], texts[1::2], strict=True))
        popped: Any = await asyncio.gather(*(sessions[n % 3].pop_item() for n in range(30)))
        assert len({item["content"] for item in popped}) == 30
        assert len(await sessions[1].get_items()) == 90
        for session in sessions:
            session.close()

    asyncio.run(main())


def test_what_was_added_survives_a_kill(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"

    async def killed() -> None:
        session = HoldfastSession("chat", url)
        for n in range(1, 10):
            await session.add_items([said(str(n))])
            if n == 5:
                more = asyncio.create_task(session.add_items([said("more")]))
                os.kill(os.getpid(), signal.SIGKILL)
                await more

    output = tmp_path / "output"
    code = in_a_process(lambda: asyncio.run(killed()), output, ENOUGH)
    assert code == -signal.SIGKILL, output.read_text()

    async def left() -> Any:
        async with HoldfastSession("chat", url) as session:
            return await session.get_items()

    assert asyncio.run(left()) == [said(str(n)) for n in range(1, 6)]


def test_a_long_conversation_takes_little_room(tmp_path: Path) -> None:
    file = tmp_path / "agents.db"

    async def main() -> int:
        async with HoldfastSession("chat", file) as session:
            for n in range(250):
                await session.add_items([said(f"question {n}"), said(f"answer {n}")])
            return len(await session.get_items())

    assert asyncio.run(main()) == 500
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3_000_000
    assert file.stat().st_size < 500_000


def test_what_was_taken_back_stays_in_the_history_and_can_be_gone_back_to() -> None:
    async def main() -> None:
        async with hf.Checkpointer("memory://") as checkpointer:
            session = HoldfastSession("chat", checkpointer, owner="ann")
            await session.add_items([said("one")])
            before = (await checkpointer.list_checkpoints("chat"))[0]
            await session.add_items([said("two")])
            await session.pop_item()
            await session.clear_session()
            assert await session.get_items() == []
            steps = [info.step for info in await checkpointer.list_checkpoints("chat")]
            assert steps == ["clear", "pop", "add", "add"]

            await checkpointer.fork("chat", seq=before.seq, run_id="other")
            assert await HoldfastSession("other", checkpointer).get_items() == [said("one")]
            await checkpointer.rollback("chat", seq=before.seq)
            assert await session.get_items() == [said("one")]
            await checkpointer.clear("chat")
            assert await session.get_items() == []
            await session.add_items([said("anew")])
            assert await session.get_items() == [said("anew")]
            assert (await checkpointer.run("chat")).owner == "ann"  # type: ignore[union-attr]

    asyncio.run(main())


@pytest.mark.parametrize("again", [False, True])
def test_a_living_session_forgets_what_is_deleted(again: bool) -> None:
    async def main() -> None:
        with hf.SyncCheckpointer("memory://") as checkpointer:
            session = HoldfastSession("chat", checkpointer)
            await session.add_items([said("a secret")])
            await session.add_items([said("stays")])
            assert len(await session.get_items()) == 2
            checkpointer.delete("chat", seq=1, force=True)
            if again:
                await session.add_items([said("later")])
            theirs = await HoldfastSession("chat", checkpointer).get_items()
            assert await session.get_items() == theirs
            assert said("a secret") not in theirs
            checkpointer.clear("chat", force=True)
            assert await session.get_items() == []
            await session.add_items([said("anew")])
            assert await session.get_items() == [said("anew")]

    asyncio.run(main())


def test_what_is_no_session_or_no_item_is_refused() -> None:
    async def main() -> None:
        async with hf.Checkpointer("memory://") as checkpointer:
            await checkpointer.save("report", {"pages": 3})
            other = HoldfastSession("report", checkpointer)
            with pytest.raises(hf.RunMismatchError, match="openai-agents"):
                await other.get_items()
            with pytest.raises(hf.RunMismatchError, match="openai-agents"):
                await other.add_items([said("hi")])
            session = HoldfastSession("chat", checkpointer)
            with pytest.raises(hf.SerializeError, match="items"):
                await session.add_items([said("fine"), said(object())])  # type: ignore[arg-type]
            assert await session.get_items() == []
            with pytest.raises(hf.InvalidIdError):
                HoldfastSession("", checkpointer)

    asyncio.run(main())


def test_a_missing_package_says_what_to_install() -> None:
    code = "import sys; sys.modules['agents'] = None\nimport holdfast.integrations.openai_agents"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "[openai-agents]'" in done.stderr
