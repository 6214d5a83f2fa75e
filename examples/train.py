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
from dataclasses import dataclass
from pathlib import Path

import holdfast as hf
from holdfast.workflow import step, workflow

DATA, MODELS, BEST = Path("data.json"), Path("models"), Path("best.json")
Model = list[float]  # two weights and a bias


@dataclass
class Epoch:
    """What one epoch came to."""

    number: int
    file: str
    loss: float


@step(outputs=DATA)
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


@step(timeout=600, outputs=lambda done: done.file)
def train(epoch: int, before: str | None) -> Epoch:
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
    return Epoch(epoch, str(file), loss)


@step(outputs=BEST)
def keep(best: Epoch) -> str:
    """Put the best model where others find it."""
    print("keeping epoch", best.number, flush=True)
    BEST.write_text(Path(best.file).read_text())
    return f"epoch {best.number}, loss {best.loss:.6f}"


@workflow
async def training(seed: int, epochs: int, patience: int) -> str:
    """Train until it does not get better any more."""
    await make_data(seed)
    best = last = await train(1, None)
    for number in range(2, epochs + 1):
        last = await train(number, last.file)
        if last.loss < best.loss:
            best = last
        elif number - best.number >= patience:
            break
    return await keep(best)


def main() -> None:
    """Train, or resume the training of the same settings."""
    parser = argparse.ArgumentParser(description="training that survives kill -9")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20, help="at most (20)")
    parser.add_argument("--patience", type=int, default=2, help="epochs without progress (2)")
    parser.add_argument("--store", default="training.db", help="URL or path (training.db)")
    options = vars(parser.parse_args())
    engine = hf.Engine(options.pop("store"))
    run_id = f"training-{options['seed']}"
    print("done:", engine.run_sync(training(**options), run_id=run_id, resume=True))


if __name__ == "__main__":
    main()
