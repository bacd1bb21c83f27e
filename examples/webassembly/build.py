"""A page that reads handwritten digits in the browser: LeNet is trained, compiled to WebAssembly, and served.

python examples/webassembly/build.py [FOLDER]     # then open the address that it prints

Half a minute, no download; wants LLVM's linker wasm-ld (package lld).
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "training"))

from lenet_mnist import data, network  # noqa: E402
from read_digits import trained  # noqa: E402

import glow_compiler as glow  # noqa: E402
from glow_tools import compile as compile_command  # noqa: E402

SAMPLES = 24


class Handler(SimpleHTTPRequestHandler):
    """Modules and WebAssembly by their types, whatever the system's table says."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }


def build(folder: Path) -> None:
    """The page, the module and some digits that the network has not seen."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "lenet.mlir"
        glow.save(network(dict(trained().parameters()), 1), model)
        if compile_command.main([str(model), "-o", str(folder), "--target", "wasm32"]):
            raise SystemExit(1)
    _, _, images, labels = data()
    digits = [
        {"pixels": [round(float(v), 4) for v in image.ravel()], "label": int(label)}
        for image, label in zip(images[:SAMPLES], labels[:SAMPLES], strict=True)
    ]
    (folder / "digits.json").write_text(json.dumps(digits))
    shutil.copy(HERE / "index.html", folder / "index.html")


def main() -> None:
    """Build and serve until interrupted."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/digits")
    build(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    print(f"open http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
