"""A PyTorch module or exported program as a model: exported, imported, and called as the module is.

PyTorch is imported by whoever has a module; here only for files of `torch.export.save`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from glow_compiler.module_programs import ModulePrograms
from glow_dialects.core.errors import BindingError, GlowError, OpenSizes, ShapeError
from glow_dialects.core.file_kinds import FileKind, is_kind
from glow_runtime.executable import Executable, Specialize
from glow_runtime.kept_states import States

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_dialects.core.types import Array
    from glow_runtime.compiler import Compiler


def is_torch(model: Any) -> bool:
    """Whether a model is a PyTorch module, an exported program or the path of one."""
    if isinstance(model, str | Path):
        return is_kind(model, FileKind.TORCH_EXPORT)
    return _is_module(model) or _is_program(model)


def _is_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _is_program(model: Any) -> bool:
    export = sys.modules.get("torch.export")
    return export is not None and isinstance(model, export.ExportedProgram)


def is_tensor(value: Any) -> bool:
    """Whether a value is a PyTorch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def are_inputs(value: Any) -> bool:
    """Whether a value is what a PyTorch module may be called with: a tensor, a tuple, a list or a dict."""
    return is_tensor(value) or isinstance(value, tuple | list | dict)


@dataclass(frozen=True)
class Signature:
    """How a program is called: what it takes and gives in a row, and the structure of both.

    A place is the name of a port, or (None, value) of an argument or result that is no tensor.
    """

    inputs: list[tuple[str | None, Any]]
    outputs: list[tuple[str | None, Any]]
    in_spec: Any
    out_spec: Any


class TorchModel:
    """A program of torch.export, made of a module where one is given; GlowError where it cannot be."""

    def __init__(self, model: Any, example_inputs: Any = None, dynamic_shapes: Any = None) -> None:
        if not _is_module(model):
            if example_inputs is not None or dynamic_shapes is not None:
                raise TypeError("a program of torch.export has its inputs and dynamic sizes already")
            self.program = _read(Path(model)) if isinstance(model, str | Path) else model
        elif example_inputs is None:
            raise TypeError(
                f"{type(model).__name__} is a PyTorch module and needs example inputs: "
                "glow.compile(module, example_inputs), or torch.export.export(module, example_inputs)"
            )
        else:
            self.program = exported(model, example_inputs, dynamic_shapes)
        self.name = (
            model if isinstance(model, str | Path) else type(model).__name__ if _is_module(model) else ""
        )

    def module(self, shapes: Any = None) -> ModuleOp:
        """The graph, with the sizes that `shapes` binds; as `glow.load` gives it."""
        from glow_frontends.torch import import_program

        try:
            module = import_program(self.program, str(self.name))
        except OpenSizes as error:
            raise ShapeError(
                f"the program's sizes cannot be dynamic: {error}; export it without dynamic_shapes"
            ) from None
        if shapes:
            bind(module, shapes)
        return module

    def executable(
        self, compiler: Compiler, shapes: Any, specialize: Specialize | None, states: States
    ) -> Executable:
        """What runs it."""
        programs = ModulePrograms(self.module(), compiler, shapes, states)
        return TorchExecutable(programs, self.signature(), specialize)

    def signature(self) -> Signature:
        """How it is called."""
        signature, call = self.program.graph_signature, self.program.call_spec
        inputs = [_place(s.arg) for s in signature.input_specs if s.kind.name == "USER_INPUT"]
        outputs = [_place(s.arg) for s in signature.output_specs if s.kind.name == "USER_OUTPUT"]
        return Signature(inputs, outputs, call.in_spec, call.out_spec)


def _place(argument: Any) -> tuple[str | None, Any]:
    return (None, argument.value) if hasattr(argument, "value") else (argument.name, argument)


def exported(module: Any, example_inputs: Any, dynamic_shapes: Any = None) -> Any:
    """A module as a program of torch.export; GlowError with what PyTorch says where it cannot be one."""
    import torch  # pyright: ignore[reportMissingImports]
    from torch.utils import _pytree  # pyright: ignore[reportMissingImports]

    arguments: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    if isinstance(example_inputs, Mapping):
        named = dict(cast("Mapping[str, Any]", example_inputs))
    else:
        one = is_tensor(example_inputs) or isinstance(example_inputs, np.ndarray)
        arguments = (example_inputs,) if one else tuple(example_inputs)
    arguments, named = _pytree.tree_map(_tensor, (arguments, named))
    try:
        with torch.no_grad():
            return torch.export.export(module, arguments, named, dynamic_shapes=dynamic_shapes)
    except Exception as error:  # of the module's or PyTorch's code, of any kind
        told = str(error).strip()
        raise GlowError(
            f"torch.export cannot export {type(module).__name__}: {type(error).__name__}: {told}"
        ) from error


def _tensor(value: Any) -> Any:
    from glow_frontends.torch.tensors import tensor_of

    return tensor_of(value) if isinstance(value, np.ndarray) else value


def _read(path: Path) -> Any:
    """The program of a file of torch.export.save; GlowError where there is none."""
    try:
        import torch  # noqa: F401  # pyright: ignore
    except ImportError:
        raise GlowError(
            f"{path} is a program of PyTorch, which is not installed: pip install torch"
        ) from None
    if not path.exists():
        raise GlowError(f"{path}: there is no such file")
    from glow_compiler.torch_files import load

    return load(path)


def bind(module: ModuleOp, shapes: Mapping[str, Any]) -> None:
    """Bind the open sizes of a module by shapes of inputs, or by their names; ShapeError for other names."""
    from glow_dialects.ops.module import placeholders
    from glow_passes.graph.bind_sizes import bind_sizes, sizes_of, symbols_of

    conditions = symbols_of(module)
    ports = placeholders(module)
    names = {s.name for s in conditions.symbols} if conditions is not None else set[str]()
    unknown = sorted(set(shapes) - set(ports) - names)
    if unknown:
        raise ShapeError(f"shapes: no input or dimension '{unknown[0]}'; the inputs are {', '.join(ports)}")
    if conditions is not None:
        sizes = sizes_of(module, {n: tuple(s) for n, s in shapes.items() if n in ports}, every=False)
        for symbol in conditions.symbols:
            if symbol.name in shapes:
                size = shapes[symbol.name]
                sizes[symbol] = (size if isinstance(size, int) else size[0]) // symbol.divisor
        bind_sizes(module, sizes)


class TorchExecutable(Executable):
    """A compiled PyTorch program. `run` is by name; a call is one of the module: the same arguments, and
    results of the same structure, tensors for tensors and arrays for arrays."""

    def __init__(self, source: ModulePrograms, called: Signature, specialize: Specialize | None) -> None:
        super().__init__(source, specialize=specialize)
        self._called = called

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """The module's results for arguments of the structure that it was exported with.

        Inputs in a row, or by the names of `inputs`, are taken as well; results are tensors where one is.
        BindingError for other arguments.
        """
        flat = self._flat(inputs, named)
        tensors = any(map(is_tensor, flat))
        arrays = {
            name: _array(value)
            for (name, _), value in zip(self._called.inputs, flat, strict=True)
            if name is not None
        }
        out = self.run({n: a for n, a in arrays.items() if n in {s.name for s in self.inputs}})
        names = iter(s.name for s in self.outputs)
        results = [
            known if name is None else _result(out[next(names)], known, tensors)
            for name, known in self._called.outputs
        ]
        from torch.utils import _pytree  # pyright: ignore[reportMissingImports]

        return _pytree.tree_unflatten(results, self._called.out_spec)

    def _flat(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The arguments in a row."""
        from torch.export._tree_utils import reorder_kwargs  # pyright: ignore[reportMissingImports]
        from torch.utils import _pytree  # pyright: ignore[reportMissingImports]

        spec = self._called.in_spec
        try:
            given = reorder_kwargs(dict(named), spec) if named else {}
            flat, own = _pytree.tree_flatten((tuple(inputs), given))
        except ValueError:
            flat, own = [], None
        if own != spec:
            names = [n for n, _ in self._called.inputs if n is not None]
            in_row = dict(zip(names, inputs, strict=False))
            if len(inputs) + len(named) != len(names) or set(names) != {*in_row, *named}:
                raise BindingError(
                    f"{len(inputs)} inputs and {sorted(named)} given, expected {', '.join(names)}"
                )
            values = {**in_row, **named}
            return [known if n is None else values[n] for n, known in self._called.inputs]
        for place, ((name, known), value) in enumerate(zip(self._called.inputs, flat, strict=True)):
            if name is None and value != known:
                raise BindingError(
                    f"argument {place} is {value!r}; the program was exported for {known!r}, which is in it"
                )
        return flat


def _array(value: Any) -> Array:
    if not is_tensor(value):
        return np.asarray(value)
    from glow_frontends.torch.tensors import array_of

    return array_of(value)


def _result(array: Array, argument: Any, tensors: bool) -> Any:
    """A result as the module gives it: sizes are ints."""
    if type(argument).__name__ == "SymIntArgument":
        return int(array)
    from glow_frontends.torch.tensors import tensor_of

    return tensor_of(array) if tensors else array
