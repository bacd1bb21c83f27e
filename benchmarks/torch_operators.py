"""PyTorch's operator database through torch.compile(backend="glow") and torch.export, beside PyTorch.

    python -m benchmarks.torch_operators                          # every operator, float32, 2 samples each
    python -m benchmarks.torch_operators --names sort,topk --types float32,int64 --json out.json
    python -m benchmarks.torch_operators --through export

A sample is right, and then compiled as a whole, in part or not at all; refused (export only) with a
message; wrong; or crashed. What PyTorch cannot do itself, compiled by its own `aot_eager`, is not counted.
Samples run in one process of their own, which is started again where one takes it down.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool")
#: Relative and absolute errors that are let through, by element type.
CLOSE = {"float64": 1e-6, "float16": 2e-2, "bfloat16": 6e-2, "complex64": 2e-4, "complex128": 1e-6}
#: Operators of which PyTorch leaves open what they give: memory that nothing was written to, ties.
OPEN = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    "argsort", "svd_lowrank", "pca_lowrank", "linalg.svd", "linalg.eig", "linalg.eigh", "svd", "geqrf",
}  # fmt: skip
#: Operators of which only the values count: the places of equal elements are left open.
VALUES = {"sort", "topk", "kthvalue", "mode"}
KINDS = ("compiled", "in part", "in PyTorch", "refused", "wrong", "crashed")


def sample_calls(op: Any, dtype: Any, most: int) -> Iterator[tuple[Callable[..., Any], list[Any]]]:
    """Some of PyTorch's own samples of an operator: functions of tensors, and these."""
    import torch
    from torch.utils import _pytree

    samples = list(op.sample_inputs("cpu", dtype))
    for number in sorted({int(i * len(samples) / most) for i in range(most)}):
        if number >= len(samples):
            continue
        sample = samples[number]
        leaves, spec = _pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def call(*tensors: Any, leaves: Any = leaves, spec: Any = spec, places: Any = places) -> list[Any]:
            own = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                own[place] = tensor
            first, args, named = _pytree.tree_unflatten(own, spec)
            return _pytree.tree_leaves(op.op(first, *args, **named))

        yield call, [leaves[i].detach().clone() for i in places]


def same(have: Sequence[Any], want: Sequence[Any]) -> bool:
    """Whether results are of the same types and sizes, and as close as their type allows."""
    import torch

    if len(have) != len(want):
        return False
    for x, y in zip(have, want, strict=True):
        if not isinstance(y, torch.Tensor):
            if x != y and x == x:
                return False
            continue
        if y.layout != torch.strided or y.is_quantized:
            continue
        close = CLOSE.get(str(y.dtype).removeprefix("torch."), 2e-4)
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return False
        if not torch.allclose(x.to(torch.complex128), y.to(torch.complex128), close, close, equal_nan=True):
            return False
    return True


def _run(function: Callable[..., Any], tensors: Sequence[Any]) -> list[Any]:
    import torch

    torch.manual_seed(0)
    return function(*[t.clone() for t in tensors])


def by_compile(call: Callable[..., Any], tensors: Sequence[Any], want: list[Any]) -> tuple[str, str]:
    """What became of a sample in torch.compile, and why."""
    import torch

    from glow_compiler.torch_report import explaining, told

    torch._dynamo.reset()
    try:
        with explaining() as found:
            have = _run(torch.compile(call, backend="glow"), tensors)
        good, why = same(have, want), ""
    except Exception as error:
        found, good, why = None, False, f"{type(error).__name__}: {error}"
    if not good:
        torch._dynamo.reset()
        try:
            if not same(_run(torch.compile(call, backend="aot_eager"), tensors), want):
                return "", "PyTorch's own"
        except Exception:
            return "", "PyTorch's own"
        return ("crashed" if found is None else "wrong"), why
    assert found is not None
    if not found.graphs:
        return "in PyTorch", "Dynamo makes no graph of it"
    refused = [r for g in found.graphs for r in g.refused]
    whole = [w for g in found.graphs for w in g.whole]
    if not refused and not whole and not any(g.drawn for g in found.graphs):
        return "compiled", ""
    return ("in part" if found.compiled else "in PyTorch"), "; ".join([*told(refused), *whole]) or "draws"


def by_export(call: Callable[..., Any], tensors: Sequence[Any], want: list[Any]) -> tuple[str, str]:
    """What became of a sample as a program of torch.export, compiled on its own."""
    import torch

    import glow_compiler as glow

    class Module(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return call(*tensors)

    try:
        torch.manual_seed(0)
        program = torch.export.export(Module(), tuple(t.clone() for t in tensors))
        if not same(_run(program.module(), tensors), want):
            return "", "PyTorch's own"
    except Exception:
        return "", "PyTorch's own"
    try:
        have = _run(glow.compile(program), tensors)
    except glow.GlowError as error:
        return "refused", str(error)
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}"
    return ("compiled" if same(have, want) else "wrong"), ""


WAYS = {"compile": by_compile, "export": by_export}


def _first(call: Callable[..., Any], *tensors: Any) -> list[Any]:
    return call(*tensors)[:1]


def samples_of(op: Any, types: Sequence[str], most: int, way: str) -> Iterator[dict[str, str]]:
    """A row for each sample of an operator."""
    import torch

    for dtype in types:
        if getattr(torch, dtype) not in op.dtypes:
            continue
        try:
            calls = list(sample_calls(op, getattr(torch, dtype), most))
        except Exception:  # of the database's code
            continue
        for call, tensors in calls:
            if op.name in VALUES:
                call = partial(_first, call)
            try:
                want = _run(call, tensors)
            except Exception:
                continue
            kind, why = WAYS[way](call, tensors, want)
            if kind == "wrong" and op.name in OPEN:
                kind, why = "", "left open by PyTorch"
            yield {"name": op.name, "variant": op.variant_test_name, "type": dtype, "kind": kind, "why": why}


def database(names: Sequence[str]) -> list[Any]:
    """The operators of these names, all where there are none."""
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if not names or op.name in names]


def _child(a: argparse.Namespace) -> None:
    """Write a line before each operator and one for each of its samples."""
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    for index, op in enumerate(database(a.names)):
        if index < a.child:
            continue
        print(json.dumps({"begin": index, "name": op.name}), flush=True)
        for row in samples_of(op, a.types, a.samples, a.through):
            print(json.dumps(row), flush=True)
    print(json.dumps({"end": True}), flush=True)


def rows_of(a: argparse.Namespace) -> Iterator[dict[str, str]]:
    """All rows, from child processes; a row of one that died says `crashed`."""
    first, done = a.first, False
    while not done:
        options = ["--types", ",".join(a.types), "--samples", str(a.samples), "--through", a.through]
        options += ["--names", ",".join(a.names)] if a.names else []
        command = [sys.executable, "-m", "benchmarks.torch_operators", "--child", str(first), *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
            last: dict[str, Any] = {}
            for line in child.stdout or ():
                if not line.startswith("{"):
                    continue
                row = json.loads(line)
                if "begin" in row:
                    last = row
                elif "end" in row:
                    done = True
                else:
                    yield row
        if not done:
            if not last:
                raise SystemExit("the samples' process does not start")
            yield {"name": last["name"], "variant": "", "type": "", "kind": "crashed", "why": "process died"}
            first = last["begin"] + 1


def main() -> None:
    """Print counts, and the samples that are not right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--names", type=lambda t: t.split(","), default=[], help="operators, all by default")
    parser.add_argument("--types", type=lambda t: t.split(","), default=["float32"], help=", ".join(TYPES))
    parser.add_argument("--samples", type=int, default=2, help="of each operator and type")
    parser.add_argument("--through", choices=WAYS, default="compile")
    parser.add_argument("--first", type=int, default=0, help="the operator to begin with, by number")
    parser.add_argument("--json", type=Path, help="file for all rows")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.child is not None:
        _child(a)
        return
    rows: list[dict[str, str]] = []
    for row in rows_of(a):
        rows.append(row)
        if row["kind"] in ("wrong", "crashed"):
            print(
                f"{row['kind']}: {row['name']} {row['variant']} {row['type']} {row['why'][:300]}", flush=True
            )
        if a.json:
            a.json.write_text(json.dumps(rows, indent=1))
    counts = Counter(row["kind"] for row in rows if row["kind"])
    print(", ".join(f"{kind}: {counts[kind]}" for kind in KINDS), f"of {sum(counts.values())}")
    reasons = Counter(row["why"].split(";")[0][:110] for row in rows if row["kind"] in KINDS[1:4])
    for reason, count in reasons.most_common():
        print(f"  {count:4d}  {reason}")


if __name__ == "__main__":
    main()
