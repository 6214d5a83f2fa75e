"""A checkpoint saver for LangGraph: the extra `langgraph`.

    from holdfast.integrations.langgraph import HoldfastSaver

    saver = HoldfastSaver("sqlite:///agents.db")
    agent = builder.compile(checkpointer=saver)

Here: `layout` says how threads are stored, and `plain` shows them; both work without LangGraph.
`saver` is LangGraph's interface, `threads` finds checkpoints by LangGraph's ids, `listing` those
that match, `writing` appends them, `thinning` deletes and copies them, and `serializing` keeps
pickle and unknown types out.
"""

from typing import TYPE_CHECKING, Any

from holdfast.codec import cards
from holdfast.integrations.langgraph import layout, plain

if TYPE_CHECKING:
    from holdfast.integrations.langgraph.saver import HoldfastSaver as HoldfastSaver

__all__ = ["HoldfastSaver"]

cards.READERS[layout.FLOW] = plain.channel_values  # what notebooks show of a thread's checkpoint


def __getattr__(name: str) -> Any:
    if name != "HoldfastSaver":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from holdfast.integrations.langgraph.saver import HoldfastSaver
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(("langgraph", "langchain")):
            raise
        from holdfast.extras import missing_extra

        raise missing_extra("langgraph", error) from error
    return HoldfastSaver
