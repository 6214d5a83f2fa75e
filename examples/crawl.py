"""A web crawl: pages are fetched side by side, level by level, and none of them twice.

    python examples/crawl.py                        # a small site of its own, on this machine
    python examples/crawl.py http://localhost:8000/ # or yours; kill it and start it again

It works in the current directory and stays on the host it is given. What it shows:

* `for_each` with `concurrency` and `retry`: a resumed crawl fetches only what is not there yet;
* a loop whose next round depends on what was found: the recorded results lead it the same way;
* `outputs`: delete or edit a page in pages/ and run it again, and it is fetched again, with what
  came after it.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

import holdfast as hf
from holdfast.workflow import for_each, step, workflow

PORT = 8899  # of the small site: always the same, since pages are known by their address
PAGES = Path("pages")
LINK = re.compile(r'href="([^"#]+)')


@dataclass
class Page:
    """One page, and where it leads."""

    file: str
    links: list[str]
    size: int


@step(retry=3, outputs=lambda page: page.file)
def fetch(url: str) -> Page:
    """Get one page, keep it in a file, and tell where it leads."""
    with urlopen(url, timeout=10) as response:  # the crawl is given its host by who starts it
        text = response.read(1_000_000).decode(errors="replace")
    PAGES.mkdir(exist_ok=True)
    file = PAGES / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.html"
    file.write_text(text)
    links = [urljoin(url, link) for link in LINK.findall(text)]
    print(f"fetched {url}\n", end="", flush=True)  # one write: several threads print
    return Page(str(file), links, len(text))


@workflow
async def crawl(start: str, depth: int) -> dict[str, int]:
    """Breadth first, from the start to pages that are `depth` links away."""
    host = urlsplit(start).netloc
    seen, level, size = {start}, [start], 0
    for distance in range(depth + 1):
        pages = await for_each(level, fetch, name=f"level-{distance}", concurrency=4)
        size += sum(page.size for page in pages)
        found = dict.fromkeys(link for page in pages for link in page.links)
        level = [link for link in found if link not in seen and urlsplit(link).netloc == host]
        if not level:
            break
        seen.update(level)
    return {"pages": len(seen), "bytes": size}


class SmallSite(BaseHTTPRequestHandler):
    """Thirteen pages: a front page, three chapters, and three sections in each."""

    def do_GET(self) -> None:
        """Every page leads to those below it, and back to the front page."""
        path = self.path.strip("/")
        below = [] if path.count("/") else [f"/{path}/{n}".replace("//", "/") for n in "123"]
        body = "".join(f'<a href="{link}">{link}</a>\n' for link in ["/", *below]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quietly."""


def main() -> None:
    """Crawl, or resume the crawl of the same start."""
    parser = argparse.ArgumentParser(description="a crawl that survives kill -9")
    parser.add_argument(
        "start", nargs="?", help="where to begin; by default a small site of its own"
    )
    parser.add_argument("--depth", type=int, default=2, help="how many links away (2)")
    parser.add_argument("--store", default="crawl.db", help="URL or path of the store (crawl.db)")
    options = parser.parse_args()
    with ExitStack() as stack:
        start = options.start
        if start is None:
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", PORT), SmallSite))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            start = f"http://127.0.0.1:{PORT}/"
        engine = hf.Engine(options.store)
        call = crawl(start, options.depth)
        run_id = f"crawl {start.replace('//', '/')}"  # only the ids of child runs hold "//"
        print("done:", engine.run_sync(call, run_id=run_id, resume=True))


if __name__ == "__main__":
    main()
