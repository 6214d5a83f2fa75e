"""Charge eight orders. Kill it at any time and start it again: what was saved is not done again."""

import time

import holdfast as hf

with hf.SyncCheckpointer("sqlite:///orders.db") as cp:
    checkpoint = cp.load("orders")
    state = checkpoint.state if checkpoint else {"charged": [], "total": 0}
    for order in range(len(state["charged"]) + 1, 9):
        print(f"  charging order {order} ...", flush=True)
        time.sleep(0.2)  # the slow and expensive part
        state["charged"].append(order)
        state["total"] += 10 * order
        cp.save("orders", state, step=f"order-{order}")
    print(f"  done: {len(state['charged'])} orders, {state['total']} EUR")
