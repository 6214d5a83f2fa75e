"""Training: every epoch is a step that leaves a model file, and a model that changed is not used.

    python examples/train.py --epochs 8   # kill it at any time and start it again

It works in the current directory, in plain Python; a real trainer would write its weights in its
own format, and nothing else would change. What it shows:

* evidence of model files: the digest of each is recorded when it is written. Delete or damage
  models/epoch-3.json and run it again: it resumes from epoch 2 instead of a broken model;
* a loop with early stopping, which stops at the same epoch however often it was killed;
* progress reported from inside a step.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.workflow import WorkflowEngine, step, workflow

DATA, MODELS, BEST = Path("data.json"), Path("models"), Path("best.json")
Model = list[float]  # two weights and a bias


def make_data(seed: int) -> int:
    """Points in two clouds, labelled by the cloud that they belong to."""
    print("making data", flush=True)
    chance = random.Random(seed)
    points = [
        [chance.gauss(side, 1.2), chance.gauss(-side, 1.2), int(side > 0)]
        for side in (-1, 1)
        for _ in range(200)
    ]
    chance.shuffle(points)
    DATA.write_text(json.dumps({"train": points[:300], "test": points[300:]}))
    return len(points)


def predict(model: Model, point: list[float]) -> float:
    """How likely the point is to belong to the second cloud."""
    return 1 / (1 + math.exp(-(model[0] * point[0] + model[1] * point[1] + model[2])))


def train(epoch: int, before: str | None) -> dict[str, Any]:
    """One pass over the data, from the model of the epoch before; leaves the next model."""
    print("training epoch", epoch, flush=True)
    data = json.loads(DATA.read_text())
    model: Model = json.loads(Path(before).read_text()) if before else [0.0, 0.0, 0.0]
    order = random.Random(epoch).sample(data["train"], len(data["train"]))
    for number, point in enumerate(order):
        error = predict(model, point) - point[2]
        for i, value in enumerate([point[0], point[1], 1.0]):
            model[i] -= 0.2 * error * value
        if number % 100 == 0:
            hf.current_step().progress(number / len(order), f"epoch {epoch}")
    MODELS.mkdir(exist_ok=True)
    file = MODELS / f"epoch-{epoch}.json"
    file.write_text(json.dumps(model))
    loss = sum(abs(predict(model, point) - point[2]) for point in data["test"]) / len(data["test"])
    return {"epoch": epoch, "file": str(file), "loss": loss}


def keep(best: dict[str, Any]) -> str:
    """Put the best model where others find it."""
    print("keeping epoch", best["epoch"], flush=True)
    BEST.write_text(Path(best["file"]).read_text())
    return f"epoch {best['epoch']}, loss {best['loss']:.6f}"


@workflow("training")
def training(seed: int, epochs: int, patience: int):  # type: ignore[no-untyped-def]
    """Train until it does not get better any more."""
    yield step("data").python(make_data, args=(seed,), outputs=DATA)
    done: list[dict[str, Any]] = []
    best: dict[str, Any] = {"epoch": 0, "loss": math.inf}
    for epoch in range(1, epochs + 1):
        before = done[-1]["file"] if done else None
        work = step("train").python(train, args=(epoch, before)).timeout(600)
        done.append((yield work.outputs(lambda result: result["file"])))
        if done[-1]["loss"] < best["loss"]:
            best = done[-1]
        elif epoch - best["epoch"] >= patience:
            break
    return (yield step("keep").python(keep, args=(best,), outputs=BEST))


def main() -> None:
    """Train, or resume the training of the same settings."""
    parser = argparse.ArgumentParser(description="training that survives kill -9")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20, help="at most (20)")
    parser.add_argument("--patience", type=int, default=2, help="epochs without progress (2)")
    parser.add_argument("--store", default="training.db", help="URL or path (training.db)")
    options = vars(parser.parse_args())
    engine = WorkflowEngine(options.pop("store"))
    run_id = f"training-{options['seed']}"
    print("done:", engine.run_sync(training, workflow_id=run_id, resume=True, inputs=options))


if __name__ == "__main__":
    main()
