"""How long the three-position chapter takes to answer an edit: in process, over HTTP, on screen.

    .venv/bin/python benchmarks/fragment_latency.py
    .venv/bin/python benchmarks/fragment_latency.py --only process

In the process: parsing, calculating and writing one panel, wall time and the thread's own CPU time.
Over HTTP: a server of its own with one worker, one connection that is kept, then eight at a time.
"edits" say what stands on the screen, as the page's form does, and get the parts that differ.
On screen: Chromium, from the keystroke's event to the frame after the answer is in the page, with
the form's own pause of 60 ms after typing taken off, because it is chosen and not suffered.
"""

from __future__ import annotations

import argparse
import http.client
import os
import platform
import random
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from importlib.metadata import version
from pathlib import Path
from urllib.parse import parse_qsl, quote

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

SLUG = "three-positions"
DEBOUNCE_MS = 60.0
REPEATED = "x3=2,-1,1,0"

Row = tuple[str, str, str, str, str]


def random_query(source: random.Random) -> str:
    """A state that nobody has asked for before: twelve inputs, mask and scaling."""
    rows = "&".join(
        f"x{row}=" + ",".join(f"{source.uniform(-3, 3):.2f}" for _ in range(4)) for row in (1, 2, 3)
    )
    return (
        f"{rows}&mask={source.choice(['causal', 'all'])}&scaled={source.choice(['true', 'false'])}"
    )


def summary(name: str, seconds: list[float], per_second: float | None = None) -> Row:
    """A row of the table: median, 99th percentile, how many, how many a second."""
    ordered = sorted(seconds)
    middle = statistics.median(ordered) * 1000
    late = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1000
    rate = f"{per_second:.0f}" if per_second else ""
    return name, f"{middle:.2f}", f"{late:.2f}", str(len(ordered)), rate


# ── In the process ───────────────────────────────────────────────────────────────────────────────


def in_process(count: int) -> Iterator[Row]:
    """Every panel with random states, and the bench with one state again and again."""
    from app.chapters import CHAPTERS
    from app.settings import Settings
    from app.web.site import Site, block_name
    from app.web.views import View

    site = Site(Settings(), CHAPTERS)
    chapter = site.by_slug[SLUG]
    source = random.Random(1)

    def answer(query: str, panel: str, block: str) -> str:
        parsed = chapter.parse(parse_qsl(query, keep_blank_values=True))
        canonical = chapter.query(parsed.parameters)
        view = View(
            form="fragment",
            origin="http://127.0.0.1",
            path=f"/chapters/{SLUG}/panels/{panel}",
            query=canonical,
            chapter=SLUG,
            panel=panel,
        )
        context = chapter.context(parsed)
        assert isinstance(context, dict)
        context |= {"view": view, "chapter": chapter, "parsed": parsed, "query": canonical}
        return site.templates.block(chapter.template, block, context)

    def measure(panel: str, block: str, queries: Callable[[], str], what: str) -> Iterator[Row]:
        for _ in range(20):
            answer(queries(), panel, block)
        wall, cpu = [], []
        for _ in range(count):
            query = queries()
            began, worked = time.perf_counter(), time.thread_time()
            answer(query, panel, block)
            cpu.append(time.thread_time() - worked)
            wall.append(time.perf_counter() - began)
        yield summary(f"process: {panel}, {what}", wall, len(wall) / sum(wall))
        yield summary(f"process: {panel}, {what}, CPU", cpu)

    for panel in chapter.panels:
        yield from measure(
            panel.slug, block_name(panel), lambda: random_query(source), "random states"
        )
    yield from measure("bench", "panel_bench", lambda: REPEATED, "one state")


# ── Over HTTP ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def served() -> Iterator[tuple[str, int]]:
    """The app as it is served, one worker, on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-c", "from app.cli import main; main()", "serve"]
    process = subprocess.Popen(
        [*command, "--port", str(port)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
            except OSError:
                time.sleep(0.1)
        yield "127.0.0.1", port
    finally:
        process.terminate()
        process.wait(timeout=10)


def over_http(host: str, port: int, count: int) -> Iterator[Row]:
    """One connection for latency, eight for throughput."""
    source = random.Random(2)
    path = f"/chapters/{SLUG}/panels/bench?"

    on_screen = _on_screen(host, port, path)

    def ask(connection: http.client.HTTPConnection, query: str) -> float:
        began = time.perf_counter()
        connection.request("GET", path + query, headers={"Accept-Encoding": "gzip"})
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 200
        return time.perf_counter() - began

    for what, queries in (
        ("random states", lambda: random_query(source)),
        ("one state", lambda: REPEATED),
        ("random edits of a row", edits(source, on_screen)),
    ):
        connection = http.client.HTTPConnection(host, port)
        for _ in range(20):
            ask(connection, queries())
        taken = [ask(connection, queries()) for _ in range(count)]
        connection.close()
        yield summary(f"HTTP: bench, {what}, 1 connection", taken, len(taken) / sum(taken))

        together: list[float] = []

        def work(queries: Callable[[], str] = queries, together: list[float] = together) -> None:
            own = http.client.HTTPConnection(host, port)
            together.extend([ask(own, queries()) for _ in range(count // 8)])
            own.close()

        threads = [threading.Thread(target=work) for _ in range(8)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = len(together) / (time.perf_counter() - began)
        yield summary(f"HTTP: bench, {what}, 8 connections", together, rate)


def _on_screen(host: str, port: int, path: str) -> str:
    """What the form of the first page says is on the screen."""
    connection = http.client.HTTPConnection(host, port)
    connection.request("GET", path)
    found = re.search(r'name="shown" value="([^"]+)"', connection.getresponse().read().decode())
    connection.close()
    assert found
    return found[1]


def edits(source: random.Random, on_screen: str) -> Callable[[], str]:
    """Queries that each change the last row of the state before."""
    state = [""]

    def query() -> str:
        shown = quote(on_screen + state[0])
        state[0] = "x3=" + ",".join(f"{source.randint(-300, 300) / 100:g}" for _ in range(4))
        return f"{state[0]}&shown={shown}"

    return query


# ── On screen ────────────────────────────────────────────────────────────────────────────────────

_PROBE = """value => new Promise(resolve => {
    const field = document.getElementById('x3-1');
    let keyed = 0;
    const seen = new MutationObserver(() => {
        if (document.getElementById('head1.Q.3.1').textContent !== value + '.000') return;
        seen.disconnect();
        requestAnimationFrame(() => { const channel = new MessageChannel();
            channel.port1.onmessage = () => resolve(performance.now() - keyed);
            channel.port2.postMessage(0); });
    });
    const watch = () => seen.observe(document.getElementById('bench'),
        {subtree: true, childList: true, attributes: true, characterData: true});
    field.addEventListener('input', () => { keyed = performance.now(); watch(); }, {once: true});
    field.value = value;
    field.dispatchEvent(new Event('input', {bubbles: true}));
})"""


def on_screen(host: str, port: int, count: int) -> Iterator[Row]:
    """From an input event to the painted frame with its numbers."""
    from playwright.sync_api import sync_playwright

    from tests.browser.chromium import find_chromium, is_root

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox"] if is_root() else []
        )
        page = chromium.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"http://{host}:{port}/chapters/{SLUG}")
        page.locator("#x3-1").focus()
        taken = []
        for edit in range(count + 5):
            taken.append(page.evaluate(_PROBE, f"{edit % 50 + 2}") / 1000)
            page.wait_for_timeout(60)
        browser_version = chromium.version
        chromium.close()
    beyond = [seconds - DEBOUNCE_MS / 1000 for seconds in taken[5:]]
    yield summary(f"Chromium {browser_version}: edit to paint, beyond the pause", beyond)


def circumstances() -> str:
    """Date, machine, versions, load."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        model = next(
            x.split(":")[1].strip() for x in text.splitlines() if x.startswith("model name")
        )
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    libraries = ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "jinja2", "starlette", "uvicorn")
    )
    load = f", load {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    return (
        f"{date.today()}, {os.cpu_count()} × {model}{load}; "
        f"Python {platform.python_version()}, {libraries}"
    )


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=("process", "http", "screen"))
    parser.add_argument("--count", type=int, default=400, help="requests a measurement (400)")
    parser.add_argument("--edits", type=int, default=60, help="edits on screen (60)")
    chosen = parser.parse_args()
    rows: list[Row] = []
    if chosen.only in (None, "process"):
        rows += in_process(chosen.count)
    if chosen.only in (None, "http", "screen"):
        with served() as (host, port):
            if chosen.only in (None, "http"):
                rows += over_http(host, port, chosen.count)
            if chosen.only in (None, "screen"):
                rows += on_screen(host, port, chosen.edits)
    print(f"{circumstances()}\n")
    print("| what | median ms | p99 ms | n | per second |\n| --- | ---: | ---: | ---: | ---: |")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
