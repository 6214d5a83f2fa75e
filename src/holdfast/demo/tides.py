"""A report on the tides: six steps, each of which writes a file."""

import json
import math
import time
from pathlib import Path

import holdfast as hf
from holdfast.workflow import step, workflow


@step(outputs="levels.json")
def measure() -> None:
    begin("measure")
    write("levels.json", json.dumps([2 + math.cos(hour / 2) for hour in range(48)]))


@step(outputs="high.json")
def find_high_water() -> None:
    begin("find_high_water")
    level = json.loads(read("levels.json"))
    high = [hour for hour in range(1, 47) if level[hour - 1] < level[hour] > level[hour + 1]]
    write("high.json", json.dumps(high))


@step(outputs="chart.txt")
def draw() -> None:
    begin("draw")
    lines = ["~" * round(20 * level) for level in json.loads(read("levels.json"))]
    write("chart.txt", "\n".join(lines))


@step(outputs="summary.txt")
def summarise() -> None:
    begin("summarise")
    write("summary.txt", f"high water at hours {read('high.json')}")


@step(outputs="report.md")
def typeset() -> None:
    begin("typeset")
    write("report.md", f"# Tides\n\n{read('summary.txt')}\n\n{read('chart.txt')}\n")


@step(outputs="index.html")
def publish() -> None:
    begin("publish")
    write("index.html", f"<pre>{read('report.md')}</pre>")


@workflow
async def tides() -> str:
    for part in (measure, find_high_water, draw, summarise, typeset, publish):
        await part()
    return read("summary.txt")


def begin(name: str) -> None:
    print(name, "...", flush=True)
    time.sleep(0.4)  # the slow and expensive part


def read(name: str) -> str:
    return Path(name).read_text()


def write(name: str, text: str) -> None:
    Path(name).write_text(text)


if __name__ == "__main__":
    engine = hf.Engine("sqlite:///runs.db")
    print("done:", engine.run_sync(tides(), run_id="tides", resume=True))
