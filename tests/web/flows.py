"""A shop and its nights: the flows whose runs the web UI is shown with."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

import holdfast as hf
from holdfast.engine.flow import Flow
from holdfast.graph import END, Graph
from holdfast.pipeline import Pipeline
from holdfast.workflow import Retry, approve, ask, for_each, parallel, step, workflow

PACE: Final = 100
"""How many times faster than it says everything happens; see `tests.web.store.Past`."""

dooming: Final[dict[str, Callable[[], object]]] = {}
"""What happens in a step, by its name, before it is done: it waits, or its process dies."""


def take(seconds: float) -> None:
    """Work for so long."""
    time.sleep(seconds / PACE)


def doomed(name: str) -> None:
    """Wait or die here, if this process is to."""
    dooming.get(name, lambda: None)()


def die() -> None:
    """End like a process whose machine lost its power."""
    os.kill(os.getpid(), signal.SIGKILL)


class PaymentDeclinedError(Exception):
    """The bank said no."""


@dataclass
class Order:
    number: int
    items: list[str]
    total: float
    card: str
    trouble: str = ""


@step
def validate_cart(order: Order) -> dict[str, Any]:
    take(0.1)
    return {"status": "valid", "items": len(order.items), "hold_until": "11:00"}


def put_back(reserved: dict[str, Any]) -> None:
    take(0.3)


@step(with_rollback=put_back)
def reserve_stock(order: Order) -> dict[str, Any]:
    take(0.2)
    return {"status": "reserved", "shelf": [f"B{n}" for n, _ in enumerate(order.items)]}


@step(retry=Retry(3, backoff=0.005))
def charge_card(order: Order) -> dict[str, Any]:
    attempt = hf.current_step().attempt
    hf.current_step().emit(f"attempt {attempt}: POST api.pay.example/capture", record=True)
    take(1.1 * attempt)
    if order.trouble == "declined":
        raise PaymentDeclinedError("insufficient funds")
    if order.trouble and attempt == 1:
        raise ConnectionError("503 from api.pay.example")
    if order.trouble and attempt == 2:
        raise TimeoutError("no answer within 3 s")
    return {"id": f"pay_9Qz{order.number}", "amount": order.total, "token": "tok_4471_secret"}


@step
def quote_rate(carrier: str) -> dict[str, Any]:
    return {"carrier": carrier, "price": 4 + len(carrier) / 10}


@step
def buy_label(order: Order, rates: list[dict[str, Any]]) -> str:
    take(1)
    return f"label {order.number}: {min(rates, key=lambda rate: rate['price'])['carrier']}"


@workflow
async def ship(order: Order) -> str:
    carriers = [f"carrier {n + 1}" for n in range(24)]
    rates = await for_each(carriers, quote_rate, concurrency=8)
    return await buy_label(order, rates)


@step(outputs=lambda path: path)
def write_invoice(order: Order) -> str:
    take(0.4)
    doomed(f"write_invoice {order.number}")
    path = Path(f"invoices/{order.number}.txt")
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"Invoice {order.number}\n{order.total:.2f} EUR\n")
    return str(path)


@step(outputs=lambda path: path)
def pack(order: Order) -> str:
    take(0.3)
    path = Path(f"parcels/{order.number}.txt")
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(order.items))
    return str(path)


@step
def screen_fraud(rule: int) -> bool:
    return rule >= 0


@step
def send_receipt(order: Order) -> str:
    take(0.2)
    return f"sent for {order.total:.2f} EUR"


@workflow
async def order_saga(order: Order) -> dict[str, Any]:
    await validate_cart(order)
    await reserve_stock(order)
    paid = await charge_card(order)
    await pack(order)
    label = await ship(order)
    await write_invoice(order)
    if order.trouble == "refund":
        await for_each(list(range(48)), screen_fraud, concurrency=8)
        said = await approve(
            f"Refund {order.total:.2f} € to card ending {order.card[-4:]}?",
            name="approve_refund",
            assignees=["finance@shop.example", "ann"],
            deadline=86_400,
            default={"approved": False},
            show={"order": order.number, "items": order.items, "total": order.total},
        )
        paid["refunded"] = said.approved
    return {"label": label, "payment": paid, "receipt": await send_receipt(order)}


@step
def fetch_page(number: int) -> dict[str, Any]:
    return {"url": f"https://kelp.example/{number}", "words": 300 + number % 7}


@step
def die_slowly() -> None:
    doomed("crawl")


@workflow
async def crawl(topic: str, pages: int) -> int:
    found = await for_each(list(range(pages)), fetch_page, concurrency=8)
    await die_slowly()
    return len(found)


@step(outputs=lambda done: done["file"])
def epoch(number: int, rate: float) -> dict[str, Any]:
    doomed(f"epoch {number}")
    take(4)
    path = Path(f"models/{rate}-{number}.txt")
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{rate} {number}")
    return {"epoch": number, "loss": round(2 / number + rate * number, 3), "file": str(path)}


@workflow
async def train(rate: float, epochs: int) -> float:
    loss = 0.0
    for number in range(1, epochs + 1):
        loss = (await epoch(number, rate))["loss"]
    return loss


class Clause(Enum):
    delivery = "delivery"
    warranty = "warranty"
    liability = "liability"


@step
def read_contract(name: str) -> dict[str, Any]:
    take(8)
    return {"pages": 41, "parties": ["Kelp & Sons", "Harbour Ltd"], "api_key": "sk-live-51H"}


@workflow
async def review(name: str) -> str:
    contract = await read_contract(name)
    clause, pages = await parallel(
        ask(
            f"Which clause of {name} applies?",
            returns=Clause,
            name="clause",
            assignees=["legal@shop.example"],
            show={"parties": contract["parties"], "pages": contract["pages"]},
        ),
        ask("How many pages did you read?", returns=int, name="pages", deadline=7200, default=0),
    )
    return f"{clause.value}, {pages} pages"


@step
def stamp(number: int) -> str:
    take((1 + number % 9) / 3)
    if number % 23 == 7:
        raise ValueError(f"the postcode of parcel {number} is not in France")
    return f"stamped {number}"


@workflow
async def parcel(number: int) -> str:
    return await stamp(number)


@workflow
async def remind(who: str, seconds: float) -> str:
    await hf.sleep(seconds)
    return f"reminded {who}"


@dataclass
class Chat:
    messages: list[dict[str, str]] = field(default_factory=list)
    turns: int = 0


def think(chat: Chat) -> dict[str, Any]:
    take(3)
    said = {"role": "assistant", "content": f"I compare offer {chat.turns + 1} with the others."}
    return {"messages": [*chat.messages, said], "turns": chat.turns + 1}


def use_tool(chat: Chat) -> dict[str, Any]:
    take(1.5)
    found = {"role": "tool", "content": f"offer {chat.turns}: {90 + chat.turns} €, 3 days"}
    return {"messages": [*chat.messages, found]}


agent = (
    Graph(Chat, name="agent")
    .add_node("think", think, retry=3)
    .add_node("use_tool", use_tool)
    .add_conditional_edge(
        "think", lambda chat: "use_tool" if chat.turns < 6 else END, ["use_tool", END]
    )
    .add_edge("use_tool", "think")
    .set_entry("think")
    .compile()
)


def stage(name: str, seconds: float, rows: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A step of a night's work."""

    def work(data: dict[str, Any]) -> dict[str, Any]:
        take(seconds)
        doomed(f"{name} {data['day']}")
        return {"day": data["day"], "rows": rows, "stage": name}

    return work


_STAGES: Final = {
    "extract": 4_812_330,
    "clean": 4_790_112,
    "join": 4_790_112,
    "aggregate": 31_004,
    "load": 31_004,
    "publish": 12,
}

nightly_etl = Pipeline(
    name="nightly_etl",
    steps=[
        {"id": name, "function": stage(name, 2 + len(name), rows)} for name, rows in _STAGES.items()
    ],
    flow={
        "start_at": "extract",
        "paths": [
            {"from": name, "to": following}
            for name, following in zip(_STAGES, [*list(_STAGES)[1:], "end"], strict=True)
        ],
    },
)

FLOWS: Final[list[Flow[Any]]] = [
    order_saga,
    ship,
    crawl,
    train,
    review,
    parcel,
    remind,
    agent,
    nightly_etl,
]
