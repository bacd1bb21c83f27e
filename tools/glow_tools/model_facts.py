"""What is in a model file of any kind, read without compiling it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glow_dialects.core.errors import GlowError, ImportProblems
from glow_dialects.core.file_kinds import FileKind, kind_of_file, refuse_file

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

Port = dict[str, Any]
Shapes = Mapping[str, Sequence[int]]


@dataclass
class Facts:
    """What is known of a model; ports have `name`, `dtype` and `shape` (names or "?" for open dimensions)."""

    file: str
    kind: str
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    inputs: list[Port] = field(default_factory=list[Port])
    defaults: list[Port] = field(default_factory=list[Port])
    outputs: list[Port] = field(default_factory=list[Port])
    operators: dict[str, int] = field(default_factory=dict[str, int])
    parameters: int | None = None
    parameter_bytes: int | None = None
    parameter_types: dict[str, int] = field(default_factory=dict[str, int])
    #: By way (kernel, view, decomposed, host, plan) the operators, and how many of each.
    runs: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    #: The sizes that `runs` is for, where the model leaves some open.
    assumed: str = ""
    unsupported: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])

    def count(self, arrays: Iterable[tuple[Any, int, Sequence[int]]]) -> None:
        """Count parameters: type, bytes and shape of each tensor."""
        types: Counter[str] = Counter()
        self.parameter_bytes = 0
        for kind, size, shape in arrays:
            types[str(kind)] += prod(shape)
            self.parameter_bytes += size
        self.parameters, self.parameter_types = types.total(), dict(types.most_common())


def facts_of(path: str, shapes: Shapes) -> Facts:
    """The facts of a model file; UnsupportedError for a file that is none."""
    kind = kind_of_file(path)
    reader = _READERS.get(kind)
    if reader is None:
        raise refuse_file(path, "a model")
    return reader(path, shapes)


# --- ONNX ------------------------------------------------------------------------------------------
def _onnx(path: str, shapes: Shapes) -> Facts:
    from glow_frontends.onnx.contents import contents

    found = contents(Path(path))
    facts = Facts(path, FileKind.ONNX.value)
    versions = ", ".join(f"{name} {number}" for name, number in found.versions.items())
    facts.about = {"operator set": versions, "IR version": found.ir_version}
    if found.producer:
        facts.about["made by"] = found.producer
    facts.inputs, facts.defaults, facts.outputs = (
        [_port(a.name, a.shape, a.dtype, a.names, a.kind) for a in ports]
        for ports in (found.inputs, found.defaults, found.outputs)
    )
    facts.operators, facts.unsupported = found.operators, found.unsupported
    facts.count((dtype, _size(prod(dims), str(dtype)), dims) for dtype, dims in found.tensors)
    if facts.unsupported:
        facts.problems = [f"no rule for {name}" for name in facts.unsupported]
    else:
        _planned(facts, path, shapes)
    return facts


def _size(count: int, kind: str) -> int:
    """Bytes of as many numbers of a type, as files hold them: two of 4 bits to a byte."""
    from glow_dialects.core.element_types import by

    known = by("name").get(kind)
    return 0 if known is None else -(-count * (8 if kind == "bool" else known.bits) // 8)


def _planned(facts: Facts, path: str, shapes: Shapes) -> None:
    """Which nodes of an ONNX model are compiled, and how, and which run one by one."""
    from glow_compiler.settle import settle
    from glow_frontends.onnx import ModelPlan, load_mapped

    try:
        made = settle(path, shapes)
        plan = ModelPlan(load_mapped(Path(path)), Path(path), _never)
        stage = plan.first(made.shapes, made.values)
    except ImportProblems as error:
        facts.problems = [str(p) for p in error.problems]
        return
    except GlowError as error:
        facts.problems = str(error).splitlines()
        return
    facts.assumed = " ".join(made.chosen)
    left = range(len(plan.graph.nodes)) if stage is None else stage.left
    if stage is not None and stage.module is not None:
        _ways(facts, stage.module)
    names = Counter(plan.graph.nodes[index].op_type for index in left)
    if names:
        facts.runs["plan"] = dict(names.most_common())


def _never(module: ModuleOp) -> Any:
    raise AssertionError(f"nothing is compiled of {module}")


# --- modules ---------------------------------------------------------------------------------------
def _module(path: str, shapes: Shapes) -> Facts:
    from glow_compiler.mlir_file import read_mlir
    from glow_compiler.saved_functions import is_function

    module = read_mlir(Path(path))
    text = Path(path).read_text(encoding="utf-8")
    if is_function(module):
        return _function(path, module)
    kind = "StableHLO" if "stablehlo." in text else "a program (MLIR)"
    return _of_module(Facts(path, kind), module, shapes)


def _exported(path: str, shapes: Shapes) -> Facts:
    from glow_compiler.api import load_graph

    return _of_module(Facts(path, FileKind.TORCH_EXPORT.value), load_graph(path, dict(shapes) or None), {})


def _of_module(facts: Facts, module: ModuleOp, shapes: Shapes) -> Facts:
    from glow_compiler.module_programs import signatures
    from glow_dialects.core.types import dtype_of, shape_of
    from glow_dialects.ops.literal import LiteralOp
    from glow_dialects.ops.module import ConstantOp
    from glow_tools.common import bind_shapes

    if shapes:
        bind_shapes(module, shapes)
    facts.inputs, facts.outputs = (
        [_port(s.name, s.shape, s.dtype, s.names) for s in signatures(module, kind)]
        for kind in ("input", "output")
    )
    if states := signatures(module, "state"):
        facts.about["states"] = ", ".join(map(str, states))
    constants = [op.type for op in module.walk() if isinstance(op, ConstantOp)]
    literals = [op.results[0].type for op in module.walk() if isinstance(op, LiteralOp)]
    typed = [(dtype_of(t), shape_of(t)) for t in (*constants, *literals)]
    typed = [(dtype, shape) for dtype, shape in typed if prod(shape) > 1]  # one number is arithmetic
    facts.count((dtype, _size(prod(shape), str(dtype)), shape) for dtype, shape in typed)
    functions = [op for op in module.ops if "sym_name" in op.properties and op.regions]
    names = Counter(op.name for f in functions for op in f.walk() if op is not f and op.name not in _MOVES)
    facts.operators = dict(names.most_common())
    facts.about["functions"] = ", ".join(getattr(f.properties["sym_name"], "data", "?") for f in functions)
    _ways(facts, module)
    return facts


#: What only reads and writes the ports of a function.
_MOVES = frozenset({"glow.get", "glow.save"})


def _ways(facts: Facts, module: ModuleOp) -> None:
    """How the CPU runs the nodes of the graphs of a module."""
    from glow_backends.cpu.kernel_table import way_of
    from glow_dialects.core.graph_op import GraphOp

    ways: dict[str, Counter[str]] = {}
    for op in module.walk():
        if isinstance(op, GraphOp) and op.name not in _MOVES:
            ways.setdefault(way_of(op), Counter())[op.name] += 1
    for way in ("kernel", "decomposed", "view", "host"):
        if way in ways:
            facts.runs[way] = dict(ways[way].most_common())


def _function(path: str, module: ModuleOp) -> Facts:
    from glow_compiler.saved_functions import loaded_function
    from glow_dialects.core.types import dtype_of, shape_of
    from glow_dialects.ops.module import ConstantOp

    loaded = loaded_function(module, Path(path))
    facts = Facts(path, "a compiled function of Python")
    facts.about = {"function": f"{loaded.__name__}{loaded.__signature__}"}
    names = Counter(op.name for op in module.walk() if op.name.startswith("glow_fn."))
    facts.operators = dict(names.most_common())
    typed = [(dtype_of(op.type), shape_of(op.type)) for op in module.walk() if isinstance(op, ConstantOp)]
    facts.count((dtype, _size(prod(shape), str(dtype)), shape) for dtype, shape in typed)
    return facts


def _port(
    name: str, shape: Sequence[int | None], dtype: Any, names: Sequence[str] = (), kind: str = "tensor"
) -> Port:
    """An input or output."""
    known = names or ("",) * len(shape)
    dims = [n or "?" if d is None else d for d, n in zip(shape, known, strict=True)]
    shown = "strings" if str(dtype) == "object" and kind != "other" else str(dtype)
    if kind == "other":
        return {"name": name, "dtype": "sequence, optional or map", "shape": []}
    return {"name": name, "dtype": shown, "shape": dims if kind == "tensor" else None}


# --- compiled programs, language models ------------------------------------------------------------
def _saved(path: str, shapes: Shapes) -> Facts:
    from glow_runtime.saved import Archive

    del shapes
    manifest = Archive(Path(path), trusted=True).manifest  # nothing of the file is run
    facts = Facts(path, FileKind.GLOW.value)
    for name in ("inputs", "outputs", "defaults"):
        ports = [_port(s["name"], s["shape"], s["dtype"], s["names"], s["kind"]) for s in manifest[name]]
        setattr(facts, name, ports)
    programs = [_program(entry) for entry in manifest["programs"]]
    facts.about = {
        "backend": manifest["backend"],
        "needs": ", ".join(manifest["needs"]) or "nothing",
        "programs": f"{len(programs)}: {'; '.join(programs)}",
    }
    return facts


def _program(entry: Mapping[str, Any]) -> str:
    if "names" in entry:
        return "any sizes"
    return ", ".join(f"{n} {'x'.join(map(str, s)) or 'scalar'}" for n, s in entry["shapes"].items())


def _gguf(path: str, shapes: Shapes) -> Facts:
    from glow_frontends.language.gguf_file import GgufFile
    from glow_frontends.language.gguf_model import ARCHITECTURES
    from glow_frontends.language.gguf_tensors import stored_type

    del shapes
    file = GgufFile(Path(path))
    facts = Facts(path, FileKind.GGUF.value)
    wanted = {
        "context": "context_length",
        "layers": "block_count",
        "width": "embedding_length",
        "heads": "attention.head_count",
        "heads of keys and values": "attention.head_count_kv",
    }
    found = {title: file.settings.get(f"{file.kind}.{name}") for title, name in wanted.items()}
    tokens = file.settings.get("tokenizer.ggml.tokens")
    facts.about = {
        "name": file.settings.get("general.name"),
        "architecture": file.kind,
        **found,
        "tokens": None if tokens is None else len(tokens),
        "tensors": len(file.entries),
    }
    facts.about = {name: value for name, value in facts.about.items() if value is not None}
    facts.count((*stored_type(e.kind, e.shape), e.shape) for e in file.entries.values())
    if file.kind not in ARCHITECTURES:
        facts.unsupported = [f"architecture {file.kind}"]
        facts.problems = [f"architecture '{file.kind}' is not known; there are: {', '.join(ARCHITECTURES)}"]
    return facts


def _folder(path: str, shapes: Shapes) -> Facts:
    from glow_frontends.language.huggingface import read_json
    from glow_frontends.language.huggingface_names import NAMES
    from glow_frontends.language.safetensors import tensors_of

    del shapes
    config = read_json(Path(path) / "config.json")
    text = config.get("text_config") or config
    facts = Facts(path, FileKind.LANGUAGE_FOLDER.value)
    titles = {
        "model_type": "architecture",
        "max_position_embeddings": "context",
        "num_hidden_layers": "layers",
        "hidden_size": "width",
        "num_attention_heads": "heads",
        "num_key_value_heads": "heads of keys and values",
        "vocab_size": "tokens",
    }
    facts.about = {title: text[name] for name, title in titles.items() if text.get(name) is not None}
    files = sorted(Path(path).glob("*.safetensors"))
    tensors = [t for file in files for t in tensors_of(file).values()]
    facts.about["tensors"] = f"{len(tensors)} in {len(files)} files"
    facts.count((t.dtype, prod(t.shape) * t.dtype.itemsize, t.shape) for t in tensors)
    kind = str(text.get("model_type", config.get("model_type")))
    if kind not in NAMES and kind != "whisper":
        facts.unsupported = [f"architecture {kind}"]
        facts.problems = [
            f"architecture '{kind}' is not known; there are: {', '.join(sorted(NAMES))}, whisper"
        ]
    return facts


_READERS = {
    FileKind.ONNX: _onnx,
    FileKind.TEXT: _module,
    FileKind.GLOW: _saved,
    FileKind.TORCH_EXPORT: _exported,
    FileKind.GGUF: _gguf,
    FileKind.LANGUAGE_FOLDER: _folder,
}
