"""An order as a saga: stock, payment and shipment, undone in reverse order when one fails.

    python examples/order_saga.py                   # order-1, a lamp: goes through
    python examples/order_saga.py order-2 piano     # the carrier refuses it: everything is undone

It works in the current directory; kill it at any time and start it again. What it shows:

* `with_rollback`: what has to be undone is recorded, so undoing continues after a crash;
* idempotency keys: the shop's services do a thing once per key, so that a step which was cut
  short after its effect, and is tried again, has no second one;
* an order that was undone is over: the same order number is not tried twice by accident.
"""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing

import holdfast as hf
from holdfast.workflow import step, workflow

PRICES = {"lamp": 40, "chair": 90, "piano": 4000}
TOO_HEAVY = {"piano"}


class Service:
    """Stands for the services of a shop: it does what it is asked once per key, and remembers."""

    def do(self, what: str, order: str) -> str:
        """Do it under the key of the step that asks; the same key again changes nothing."""
        key = hf.current_step().idempotency_key
        print(what, order, flush=True)
        with closing(sqlite3.connect("services.db", timeout=30)) as db, db:
            db.execute(
                "CREATE TABLE IF NOT EXISTS done (key TEXT PRIMARY KEY, what TEXT, who TEXT)"
            )
            db.execute("INSERT OR IGNORE INTO done VALUES (?, ?, ?)", (key, what, order))
        return f"{what} {order}"


services = Service()


def release(order: str) -> None:
    """Put it back into the stock."""
    services.do("release", order)


@step(with_rollback=release)
def reserve(order: str, item: str) -> str:
    """Take one from the stock. What undoes it is given its result."""
    services.do(f"reserve {item}", order)
    return order


def refund(order: str) -> None:
    """Give the money back."""
    services.do("refund", order)


@step(with_rollback=refund)
def charge(order: str, amount: int) -> str:
    """Take the money."""
    services.do(f"charge {amount} EUR", order)
    return order


@step
def ship(order: str, item: str) -> str:
    """Hand it to the carrier, who may refuse."""
    if item in TOO_HEAVY:
        raise ValueError(f"we do not carry a {item}")
    return services.do(f"ship {item}", order)


@workflow
def place(order: str, item: str) -> str:
    """If a step fails, those before it are undone."""
    reserve(order, item).result()
    charge(order, PRICES[item]).result()
    ship(order, item).result()
    return f"{order} is on its way"


def main() -> None:
    """Place the order, or resume it, forward or backward."""
    parser = argparse.ArgumentParser(description="an order that survives kill -9")
    parser.add_argument("order", nargs="?", default="order-1", help="its number (order-1)")
    parser.add_argument("item", nargs="?", default="lamp", choices=PRICES)
    parser.add_argument("--store", default="orders.db", help="URL or path of the store (orders.db)")
    options = parser.parse_args()
    engine, call = hf.Engine(options.store), place(options.order, options.item)
    try:
        print("done:", engine.run_sync(call, run_id=options.order, resume=True))
    except hf.StepFailedError as error:
        print("done: undone, because", error.message)
    except hf.RunFinishedError:
        print(f"done: {options.order} was undone before; place a new order")


if __name__ == "__main__":
    main()
