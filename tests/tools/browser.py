"""A page in a headless browser, served from a folder: what its script reports, and what it fetched."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium")


@dataclass
class Site:
    """A folder that is served; `isolated`: by headers that let its pages share memory."""

    isolated: bool
    fetched: Counter[str] = field(default_factory=Counter[str])
    reports: queue.Queue[Any] = field(default_factory=queue.Queue[Any])


class _Handler(SimpleHTTPRequestHandler):
    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def __init__(self, site: Site, *arguments: Any, **options: Any) -> None:
        self.site = site
        super().__init__(*arguments, **options)

    def end_headers(self) -> None:
        if self.site.isolated:
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def do_GET(self) -> None:
        self.site.fetched[self.path.partition("?")[0]] += 1
        super().do_GET()

    def do_POST(self) -> None:
        self.site.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def visit(folder: Path, script: str, isolated: bool = False) -> tuple[Any, Counter[str]]:
    """What the `script` of a page hands to `report`, and how often each file of the folder was fetched."""
    failed = "catch (error) { await report(String(error)); }"
    told = 'const report = (x) => fetch("/", { method: "POST", body: JSON.stringify(x) });'
    (folder / "page.html").write_text(f'<script type="module">{told}\ntry {{ {script} }} {failed}</script>')
    return opened(folder, "page.html", isolated)


def opened(folder: Path, page: str, isolated: bool = False) -> tuple[Any, Counter[str]]:
    """The same for a page that is there."""
    site = Site(isolated)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, site, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert BROWSER is not None
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        url = f"http://127.0.0.1:{server.server_port}/{page}"
        command = [BROWSER, *options, f"--user-data-dir={profile}", url]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return site.reports.get(timeout=120), site.fetched
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
            server.server_close()
