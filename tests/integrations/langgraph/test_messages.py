"""Messages are loaded as LangGraph's own serializer loads them, only faster."""

from __future__ import annotations

from functools import partial
from typing import Any

import ormsgpack
import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from holdfast.integrations.langgraph import messages
from holdfast.integrations.langgraph.serializing import AllowListSerializer

CALL: Any = {"name": "look_up", "args": {"q": [1, {"deep": None}]}, "id": "c1"}
USAGE: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}

USUAL = [
    HumanMessage("hi", id="1"),
    HumanMessage("", name="ann"),
    SystemMessage("be kind"),
    AIMessage("yes", usage_metadata=USAGE, response_metadata={"model": "m", "n": [1.5]}),
    AIMessage("", tool_calls=[CALL, {**CALL, "id": None}]),
    ToolMessage("found", tool_call_id="c1", artifact={"rows": [1]}, name="look_up"),
    ToolMessage("lost", tool_call_id="c1", status="error"),
]
UNUSUAL = [
    HumanMessage([{"type": "text", "text": "hi"}, "there"]),
    HumanMessage("hi", example=True),
    HumanMessage("hi", mood="good"),
    AIMessage("x", additional_kwargs={"tool_calls": [{"function": {}}]}),
    AIMessage("x", usage_metadata={**USAGE, "input_token_details": {"cache_read": 1}}),
    AIMessage("x", invalid_tool_calls=[{"name": "f", "args": "{", "id": "1", "error": "bad"}]),
    AIMessageChunk(content="x"),
    ChatMessage(content="x", role="critic"),
    RemoveMessage(id="1"),
    ToolMessage([{"type": "text", "text": "a"}], tool_call_id="7"),
]


def _what(message: BaseMessage) -> Any:
    return (
        type(message),
        message.__dict__,
        message.__pydantic_fields_set__,
        message.__pydantic_extra__,
        message.__pydantic_private__,
    )


@pytest.mark.parametrize("message", USUAL + UNUSUAL, ids=lambda m: type(m).__name__)
def test_a_message_is_what_langgraph_makes_of_it(message: BaseMessage) -> None:
    theirs, ours = JsonPlusSerializer(), AllowListSerializer()
    typed = ours.dumps_typed({"messages": [message, message]})
    assert typed == theirs.dumps_typed({"messages": [message, message]})
    made, expected = ours.loads_typed(typed)["messages"], theirs.loads_typed(typed)["messages"]
    assert list(map(_what, made)) == list(map(_what, expected))
    assert made[0].model_dump() == expected[0].model_dump()
    assert made[0].model_copy(update={"id": "new"}).id == "new"
    assert made[0] is not made[1]
    assert made[0].__dict__ is not made[1].__dict__


@pytest.mark.parametrize("message", USUAL, ids=lambda m: type(m).__name__)
def test_usual_messages_need_no_validation(message: BaseMessage) -> None:
    def refuse(code: int, data: bytes) -> Any:
        pytest.fail("it took the slow way")

    _, data = JsonPlusSerializer().dumps_typed([message])
    assert messages.loads(data, refuse, lambda *_: None) == [message]


def test_a_message_that_was_changed_to_something_else_is_validated() -> None:
    for change in ({"tool_calls": "none"}, {"content": 7}, {"id": 7}, {"more": 1}):
        fields = AIMessage("x").model_dump() | change
        parts = (AIMessage.__module__, AIMessage.__name__, fields, "model_validate_json")
        asked: list[int] = []
        data = ormsgpack.packb(ormsgpack.Ext(5, ormsgpack.packb(parts)))
        hook = partial(lambda asked, code, _: asked.append(code), asked)
        messages.loads(data, hook, lambda *_: None)
        assert asked == [5]
