"""python -m glow_tools.new_op: write the definition of a new operator, its entry in the table, and its test.

The NumPy expression defines what the operator computes, and the operator works immediately. Add a gradient, a
decomposition or a CPU kernel by hand where they are useful.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from glow_dialects.core.files import whole
from glow_tools.command_line import Parser
from glow_tools.common import command, fail, guarded

EXAMPLES = """\
  python -m glow_tools.new_op soft_clip "x / (1 + np.abs(x))" --doc "x squashed to (-1, 1)"
  python -m glow_tools.new_op erfcx "np.exp(x * x) * erfc(x)" --torch special_erfcx --doc "e^(x^2) erfc(x)"
  python -m glow_tools.new_op scale_rows "data * scale[:, None]" --operands data,scale \\
      --doc "Each row times its scale"
"""

FAMILY = '''"""{name}: {doc}."""

import numpy as np

from glow_dialects.core.graph_op import graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array
from glow_dialects.ops.elementwise import {family}


@graph_op
class {camel}Op({family}):
    """{doc}"""

    name = "glow.{name}"{names}

    def function(self, {parameters}) -> Array:
        return {expression}


SAMPLES = (Sample({camel}Op, ({samples},), smooth=False),)
'''

CLASS = '''"""{name}: {doc}."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, result_def

from glow_dialects.core.graph_op import PureOp, graph_op
from glow_dialects.core.sample import Sample, random
from glow_dialects.core.types import Array, Tensor


@graph_op
class {camel}Op(PureOp):
    """{doc}."""

    name = "glow.{name}"
{operands}
    result = result_def(Tensor)

    def infer(self) -> Sequence[Attribute]:
        return [self.{first}.type]

    def reference(self, result: Array, {parameters}) -> None:
        result[...] = {expression}


SAMPLES = (Sample({camel}Op, ({samples},), smooth=False),)
'''

TEST = """// RUN: glow-opt %s | glow-opt | filecheck %s
// RUN: glow-opt %s --print-op-generic | glow-opt | filecheck %s

{inputs}
glow.func @main {{
{reads}
  // CHECK: glow.{name} {values} : ({types}) -> tensor<4x4xf32>
  %r = glow.{name} {values} : ({types}) -> tensor<4x4xf32>
}}
"""


#: Where element-wise operators are known by the names on their cards.
DOORS = {"onnx": "Atan", "torch": "atan", "stablehlo": "chlo.atan"}
#: The entry that makes an operator native on the CPU.
POINTWISE = "backends/glow_backends/cpu/emit/pointwise_rules.py"
KERNELS = "backends/glow_backends/cpu/kernels"


def arguments() -> Parser:
    """The command line."""
    parser = command("new_op", __doc__ or "", EXAMPLES)
    add = parser.add_argument
    add("name", help="snake_case name: the operator glow.NAME, the module ops/NAME.py")
    add("expression", help="NumPy expression over the operands that computes it")
    told = "names of the operands, separated by commas (default: x or x,y, for element-wise operators)"
    add("--operands", help=told)
    add("--doc", required=True, help="one line that says what it computes")
    for door, example in DOORS.items():
        add(
            f"--{door}",
            default="",
            help=f"the name of the operator in {door}, such as {example} (for element-wise operators)",
        )
    add("--root", type=Path, default=Path(), help="the checkout (default: the current folder)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    a = arguments().parse_args(argv)
    return guarded(lambda: _write(a))


def _write(a: argparse.Namespace) -> None:
    ops, tests = a.root / "glow_dialects/ops", a.root / "tests/filecheck/ops"
    card, test = ops / f"{a.name}.py", tests / f"{a.name}.mlir"
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", a.name):
        fail(f"'{a.name}' is not a snake_case name")
    if not ops.is_dir():
        fail(f"{a.root} is not a checkout: it has no glow_dialects/ops")
    if card.exists():
        fail(f"{card} exists")
    names = a.operands.split(",") if a.operands else operands_of(a.expression)
    if not all(n.isidentifier() for n in names):
        fail(f"--operands '{a.operands}': these are not names")
    known = {door: name for door in DOORS if (name := getattr(a, door))}
    if known and not is_elementwise(names):
        fail(f"--{next(iter(known))}: only element-wise operators, of x or x and y, are known by names")
    table = "ELEMENTWISE" if is_elementwise(names) else "OPERATORS"
    texts = {
        card: card_text(a.name, a.doc.rstrip("."), a.expression, names, known),
        test: test_text(a.name, names),
        ops / "__init__.py": listed((ops / "__init__.py").read_text(encoding="utf-8"), a.name, table),
    }
    tests.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        with whole(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    print(f"usable now: GraphBuilder().{a.name}(...), glow.ops.{a.name}(...)")
    print(f"next: samples that matter, gradient and decomposition in {card};")
    print(f"the CPU runs it on the host, by NumPy, until it has a decomposition or {native_by(names)};")
    if not is_elementwise(names):
        print("an ONNX import rule in frontends/glow_frontends/onnx/rules;")
    elif not known:
        print("its names in ONNX, ATen, StableHLO and NumPy on the class: ONNX, TORCH, STABLEHLO, NUMPY;")
    print(f"then: pytest tests/numeric/test_cards.py -k {a.name}; lit {test}")


def native_by(operands: Sequence[str]) -> str:
    """Where the CPU backend learns to run an operator by itself."""
    if is_elementwise(operands):
        return f"an entry of FLOAT, INTEGER or BOOLEAN in {POINTWISE}"
    return f"a kernel in {KERNELS}, named in kernel_table.py"


def is_elementwise(operands: Sequence[str]) -> bool:
    """Whether operands have the names that element-wise operators have."""
    return list(operands) in (["x"], ["x", "y"])


def operands_of(expression: str) -> list[str]:
    """`x`, or `x` and `y`, as the expression uses them."""
    return ["x", "y"] if re.search(r"\by\b", expression) else ["x"]


def card_text(
    name: str, doc: str, expression: str, operands: Sequence[str], known: Mapping[str, str] | None = None
) -> str:
    """The module of an operator, which is `known` by names at doors."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    values = {
        "name": name,
        "camel": camel,
        "doc": doc,
        "expression": expression,
        "first": operands[0],
        "family": "UnaryOp" if len(operands) == 1 else "BinaryOp",
        "names": "".join(f'\n    {door.upper()} = "{word}"' for door, word in (known or {}).items()),
        "parameters": ", ".join(f"{n}: Array" for n in operands),
        "operands": "\n".join(f"    {n} = operand_def(Tensor)" for n in operands),
        "samples": ", ".join(f"random(4, 4, seed={i})" for i in range(len(operands))),
    }
    text = (FAMILY if is_elementwise(operands) else CLASS).format(**values)
    if not re.search(r"\bnp\.", expression):
        text = text.replace("import numpy as np\n", "", 1).replace("\n\n\nfrom glow", "\n\nfrom glow")
    return text


def test_text(name: str, operands: Sequence[str]) -> str:
    """The round-trip test of an operator."""
    kind = "tensor<4x4xf32>"
    return TEST.format(
        name=name,
        inputs="\n".join(f"glow.placeholder @{n} input : {kind}" for n in operands),
        reads="\n".join(f"  %{n} = glow.get @{n} : {kind}" for n in operands),
        values=", ".join(f"%{n}" for n in operands),
        types=", ".join([kind] * len(operands)),
    )


def listed(text: str, name: str, table: str = "OPERATORS") -> str:
    """`ops/__init__.py` with the card in one of its tables of operators, in order."""
    lines = text.splitlines()
    first = lines.index(f"{table} = {{") + 1
    place = last = lines.index("}", first)
    for number in range(first, last):
        if lines[number].startswith('    "') and lines[number].split('"')[1] > name:
            place = number
            break
    return "\n".join([*lines[:place], f'    "{name}": "{name}",', *lines[place:]]) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
