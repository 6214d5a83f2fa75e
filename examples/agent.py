"""An agent: a model that calls tools in a loop, and asks a person before it spends money.

    python examples/agent.py                    # a customer complains; it stops at a question
    python examples/agent.py --answer yes       # or no, perhaps days later
    python examples/agent.py chat-2 "Please refund order 8"             # another chat
    python examples/agent.py chat-2             # resumes it wherever it was

It works in the current directory; the model is a fake, so that it needs no key and no network: put
yours into `think`. What it shows:

* a graph with a loop on a typed state: after a crash no call to the model is paid for twice;
* `add_question`: the run waits in the store, not in a process. The person sees two fields of the
  state, and the answer is checked, recorded with who gave it, and taken once;
* the key of a step: a refund that was cut short after the money went out is not made again.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.graph import END, Graph

ORDERS = {"7": 40, "8": 90}
REFUNDS = Path("refunds.json")
COMPLAINT = "I want my money back for order 7"


@dataclass
class Chat:
    """Everything that the agent knows."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    tool: str = ""  # what the model wants to be called next
    arguments: dict[str, Any] = field(default_factory=dict)
    approved: bool | None = None


def think(chat: Chat) -> dict[str, Any]:
    """Call the model. This one knows a single trick: look the order up, refund it, say so."""
    print("calling the model", flush=True)
    used = [message["tool"] for message in chat.messages if message["role"] == "tool"]
    order = re.sub(r"\D", "", chat.messages[0]["text"])
    if not used:
        return {"tool": "look_up", "arguments": {"order": order}}
    found = chat.messages[-1]["text"]
    if used == ["look_up"] and found.isdigit():
        return {"tool": "refund", "arguments": {"order": order, "amount": int(found)}}
    said = {"role": "assistant", "text": f"Order {order}: {found}."}
    return {"messages": [*chat.messages, said], "tool": ""}


def use_tool(chat: Chat) -> dict[str, Any]:
    """Do what the model wants, unless a person said no."""
    print("using", chat.tool, flush=True)
    if chat.approved is False:
        text = "a person refused it"
    elif chat.tool == "look_up":
        text = str(ORDERS.get(chat.arguments["order"], "unknown order"))
    else:
        text = refund(**chat.arguments)
    result = {"role": "tool", "tool": chat.tool, "text": text}
    return {"messages": [*chat.messages, result], "approved": None}


def refund(order: str, amount: int) -> str:
    """Stands for a payment service that pays once per key."""
    key = hf.current_step().idempotency_key
    paid = json.loads(REFUNDS.read_text()) if REFUNDS.exists() else {}
    paid.setdefault(key, {"order": order, "amount": amount})
    REFUNDS.write_text(json.dumps(paid))
    return f"{amount} EUR refunded"


def route(chat: Chat) -> str:
    """What the model's words lead to."""
    return {"": END, "refund": "approve"}.get(chat.tool, "use_tool")


agent = (
    Graph(Chat, name="agent")
    .add_node("think", think, retry=3, timeout=60)
    .add_question(
        "approve",
        lambda chat: f"Refund {chat.arguments['amount']} EUR for order {chat.arguments['order']}?",
        into="approved",
        returns=bool,
        show=["tool", "arguments"],
    )
    .add_node("use_tool", use_tool)
    .add_conditional_edge("think", route, ["approve", "use_tool", END])
    .add_edge("approve", "use_tool")
    .add_edge("use_tool", "think")
    .set_entry("think")
    .compile(max_steps=50)
)


async def main() -> None:
    """Begin a chat, or resume it."""
    parser = argparse.ArgumentParser(description="an agent that survives kill -9")
    parser.add_argument("chat", nargs="?", help="its id; without one, a chat to try it with")
    parser.add_argument("text", nargs="?", default="", help="what the customer says, to begin")
    parser.add_argument("--answer", choices=["yes", "no"], help="to the question that is open")
    parser.add_argument("--store", default="agent.db", help="URL or path of the store (agent.db)")
    options = parser.parse_args()
    if options.chat is None:
        options.chat, options.text = "chat-1", COMPLAINT
    async with hf.Engine(options.store) as engine:
        if options.answer:
            yes, who = options.answer == "yes", getpass.getuser()
            await engine.answer(options.chat, yes, by=who)
        try:
            if options.text:
                call = agent(Chat([{"role": "user", "text": options.text}]))
                chat = await engine.run(call, run_id=options.chat, resume=True)
            else:
                chat = await engine.resume(options.chat, flow=agent)
            print("done:", chat.messages[-1]["text"])
        except hf.RunPausedError:
            async for question in engine.questions(options.chat):
                print("waits:", question.prompt)
        except hf.RunFinishedError as over:
            print(f"{options.chat} is {over.status}")


if __name__ == "__main__":
    asyncio.run(main())
