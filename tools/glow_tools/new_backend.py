"""python -m glow_tools.new_backend: write a package with a new backend, its tests and a README.

The package works as it is. It contains a dialect with one operator, a pass that uses it, an option, a
pipeline, an output format, an import rule, lit tests and the conformance test. All other operators run on the
host.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from glow_backends.base import registry
from glow_dialects.core.files import whole
from glow_tools.command_line import Parser
from glow_tools.common import command, fail, guarded

EXAMPLES = """\
  python -m glow_tools.new_backend npu
  python -m glow_tools.new_backend my_chip --root ~/src
"""
WRITTEN = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "glow_{name}.py": "backend.py.txt",
    "tests/test_{name}.py": "test_backend.py.txt",
    "tests/lit/lit.cfg.py": "lit.cfg.py.txt",
    "tests/lit/fuse.mlir": "fuse.mlir.txt",
}
"""Files of a package, and the texts that they are made of."""


def arguments() -> Parser:
    """The command line."""
    parser = command("new_backend", __doc__ or "", EXAMPLES)
    add = parser.add_argument
    add("name", help="snake_case name of the backend; the package is glow-NAME, its module glow_NAME")
    add(
        "--root",
        type=Path,
        default=Path(),
        help="where to create the folder glow_NAME (default: current folder)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    a = arguments().parse_args(argv)
    return guarded(lambda: _write(a.name, a.root))


def _write(name: str, root: Path) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        fail(f"'{name}' is not a snake_case name")
    if name in registry():
        fail(f"there is a backend '{name}' already")
    folder = root / f"glow_{name}"
    if folder.exists():
        fail(f"{folder} exists")
    camel = "".join(part.capitalize() for part in name.split("_"))
    for path, source in WRITTEN.items():
        text = files("glow_tools").joinpath("new_backend_files", source).read_text(encoding="utf-8")
        goal = folder / path.format(name=name)
        goal.parent.mkdir(parents=True, exist_ok=True)
        with whole(goal) as temporary:
            temporary.write_text(text.replace("@name@", name).replace("@Name@", camel), encoding="utf-8")
        print(f"wrote {goal}")
    print(f"next: pip install -e {folder}; pytest {folder}/tests; lit {folder}/tests/lit")
    print(f"then: glow-run model.onnx --random 0 --backend {name} --compare onnxruntime")


if __name__ == "__main__":
    raise SystemExit(main())
