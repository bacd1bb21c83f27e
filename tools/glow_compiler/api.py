"""compile and load: from a model in any form to something that runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from glow_backends.base import MOST_THREADS, Backend, cores, get_backend
from glow_compiler.module_programs import ModulePrograms, bound_shapes
from glow_compiler.onnx_model import OnnxModel
from glow_compiler.onnx_programs import OnnxPrograms
from glow_compiler.torch_model import TorchModel, are_inputs, is_torch
from glow_dialects.core.errors import OpenSizes, ShapeError, UnsupportedError
from glow_dialects.core.file_kinds import FileKind, is_kind, refuse_file
from glow_dialects.core.quiet_gc import quiet_gc
from glow_dialects.core.symbols import Symbols
from glow_dialects.core.time_limit import seconds_of
from glow_runtime.compiler import Compiler
from glow_runtime.executable import Executable, Specialize
from glow_runtime.kept_states import States
from glow_runtime.program_source import checked_shapes

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from glow_runtime.pipelines import Pipeline

Shapes = Mapping[str, Sequence[int] | int]


@overload
def load(model: str | Path, shapes: Shapes | None = None) -> ModuleOp | Any: ...
@overload
def load(model: Any, shapes: Shapes | None = None) -> ModuleOp: ...
def load(model: Any, shapes: Shapes | None = None) -> ModuleOp | Any:
    """Import a model without compiling it.

    Args:
        model: What `compile` accepts, or a pair of paths of a Caffe2 model (init net, predict net), or a file
            that `f.save` of a compiled function wrote.
        shapes: Fixes dynamic dimensions: input name -> shape, or dimension name -> size. The others stay
            dynamic. For Caffe2, it must give the shape of every input.

    Returns:
        The module with the graph of the model; for a saved function, the compiled function.

    Raises:
        ImportProblems: The model cannot be imported; lists all problems.
        ShapeError: `shapes` does not fit the model.
        UnsupportedError: The file contains compiled programs.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> g.save(g.relu(g.placeholder("x", (2,))), "y")
        >>> glow.save(g, "net.mlir")
        >>> module = glow.load("net.mlir")
        >>> [op.name for op in module.walk() if op.name == "glow.relu"]
        ['glow.relu']
    """
    if shapes is not None:
        checked_shapes(shapes)
    if is_kind(model, FileKind.TEXT):
        from glow_compiler.mlir_file import read_mlir
        from glow_compiler.saved_functions import is_function, loaded_function

        module = read_mlir(Path(model))
        if is_function(module):
            from glow_compiler.functions import CompiledFunction

            return CompiledFunction(loaded_function(module, Path(model)))
        return load_graph(module, shapes)
    return load_graph(model, shapes)


def load_graph(model: Any, shapes: Shapes | None = None) -> ModuleOp:
    """The module of a model as `load` gives it; UnsupportedError for a function."""
    from glow_compiler.notebook import show_modules

    show_modules()
    model = parsed(model)
    if not isinstance(model, str | Path):
        from xdsl.dialects.builtin import ModuleOp

        from glow_frontends.builder import GraphBuilder

        if isinstance(model, ModuleOp):
            return model
        if isinstance(model, GraphBuilder):
            return model.module
    if is_torch(model):
        return TorchModel(model).module(shapes)
    check_kind(model)
    if is_saved(model):
        raise UnsupportedError(f"{model} contains compiled programs, not a graph: use glow.load_program")
    if isinstance(model, tuple):
        from glow_frontends.caffe2 import import_caffe2

        init_net, predict_net = model  # pyright: ignore[reportUnknownVariableType]
        return import_caffe2(init_net, predict_net, cast("dict[str, Sequence[int]]", dict(shapes or {})))
    if isinstance(model, str | Path) and not is_kind(model, FileKind.ONNX):
        from glow_compiler.mlir_file import read_mlir

        module = read_mlir(Path(model))
        if "glow_fn.entry" in module.attributes:
            raise UnsupportedError(
                f"{model} contains a function, not a graph: glow.load returns it, and you can call it"
            )
        return module
    from glow_frontends.onnx import import_model

    try:
        return import_model(model, shapes=dict(shapes or {}), sizes=Symbols())
    except OpenSizes as error:
        raise ShapeError(f"the model's sizes cannot be dynamic: {error}; fix them with shapes=") from None


def parsed(model: Any) -> Any:
    """A model: of the bytes of an .onnx file the onnx.ModelProto, of what JAX exported the module.

    GlowError where bytes hold neither, ImportProblems with every problem of a function of JAX.
    """
    if not isinstance(model, bytes | bytearray | memoryview):
        return _exported(model) if _is_exported(model) else model
    # No protobuf message begins with the end of a group; the second are the first bytes of MLIR's bytecode.
    if len(model) and bytes(model[:1])[0] & 7 == 4 and b"ML\xefR" in bytes(model):
        from glow_frontends.stablehlo import deserialized

        return _exported(deserialized(bytes(model)))
    from glow_frontends.onnx.model import parse

    return parse(bytes(model), f"a model of {len(model)} bytes")


def _is_exported(model: Any) -> bool:
    """Whether a model is a jax.export.Exported; JAX may be missing."""
    return any(
        kind.__name__ == "Exported" and kind.__module__.startswith("jax.") for kind in type(model).__mro__
    )


def _exported(model: Any) -> ModuleOp:
    from glow_frontends.stablehlo import import_exported

    try:
        return import_exported(model)
    except OpenSizes as error:
        raise ShapeError(
            f"the function's sizes cannot be dynamic: {error}; export it with fixed sizes"
        ) from None


def check_kind(model: Any) -> None:
    """TypeError where a model is neither a path, a pair of paths nor an onnx.ModelProto."""
    pair = isinstance(model, tuple) and len(model) == 2  # pyright: ignore[reportUnknownArgumentType]
    proto = hasattr(getattr(model, "graph", None), "initializer")
    if not (pair or isinstance(model, str | Path) or proto):
        jax = type(model).__module__.partition(".")[0] in ("jax", "jaxlib")
        raise TypeError(
            "a model is a path (.onnx, .pt2, .mlir), an onnx.ModelProto or jax.export.Exported, the bytes of "
            "one, a PyTorch module, a program of torch.export, a module, a GraphBuilder or a pair of Caffe2 "
            f"nets, not {type(model).__name__}"
            + ("; write it by jax.export.export(function)(*shapes) first" if jax else "")
        )


@quiet_gc()
def compile(
    model: Any,
    backend: str | Backend | Any = "cpu",
    threads: int | Literal["auto"] = 1,
    *,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
    shapes: Shapes | Sequence[Mapping[str, Sequence[int]]] | None = None,
    verify: bool | None = None,
    progress: Callable[[str], None] | None = None,
    pipeline: Pipeline | None = None,
    specialize: Specialize | None = None,
    states: States = None,
    exact: bool = False,
    compile_budget: float | None = None,
    **options: Any,
) -> Executable:
    """Compile a model.

    Dynamic dimensions stay dynamic: the first input shapes get a program of their own, and when they change,
    one program for any size is compiled. `shapes` and `specialize` change this.

    Args:
        model: A path (.onnx, .mlir, .pt2, .glow of `Executable.save`), an onnx.ModelProto, a
            jax.export.Exported, the bytes of one of these, a PyTorch module, a program of torch.export, a
            module, or a GraphBuilder.
        backend: "cpu", "interpreter", the name of an installed backend, or a backend object.
        threads: Threads that share the work of one run, or "auto" for one per core.
        example_inputs: For a PyTorch module: the arguments of a call, as a tuple, a dict by name, or one
            tensor. They may also be given instead of `backend`.
        dynamic_shapes: For a PyTorch module: which sizes are dynamic, as for torch.export.
        shapes: A dict fixes dimensions: {"x": (1, 3, 224, 224)} by input, or {"N": 1} by dimension. It also
            makes an input with a default value an ordinary input. A list of dicts compiles several shapes in
            advance; other shapes are compiled when they occur.
        verify: Whether to check the module after each pass that changes it. By default only if the backend or
            the pipeline is not Glow's own, or if GLOW_VERIFY=1 is set.
        progress: A function that is called with the name of each stage.
        pipeline: Passes to run instead of the backend's, such as
            `Pipeline.default("cpu").remove("glow-cpu-images")`.
        specialize: "never" compiles one program for any size at once. "hot" does too, and also compiles
            frequent sizes in the background. "always" compiles each new set of shapes.
        states: Outputs that are inputs of the next call, {output: input}, or "auto" for the usual names
            (`present.*` and `past_key_values.*`, `hn` and `h0`, ...). They change in place. If a state grows
            and its sizes have no names, give the axis too: {output: (input, axis)}.
        exact: Compute quantised operators of the model in float, by their definitions.
        compile_budget: Seconds after which optional optimisation of a program stops. Results are correct, but
            runs take longer, and the program is not cached. `net.report().notes` says what was skipped.
        **options: Options of the backend.

    Returns:
        An Executable.

    Raises:
        ImportProblems: The model cannot be imported; lists all problems.
        GlowError: Anything else is wrong; the message says what and where.

    Examples:
        >>> g = glow.GraphBuilder()
        >>> x = g.placeholder("x", (2, 3))
        >>> g.save(g.relu(x), "y")
        >>> net = glow.compile(g)
        >>> net.run({"x": np.array([[-1, 0, 1], [2, -2, 3]], np.float32)})["y"].tolist()
        [[0.0, 0.0, 1.0], [2.0, 0.0, 3.0]]
    """
    if example_inputs is None and are_inputs(backend):
        example_inputs, backend = backend, "cpu"
    _check_options(pipeline, progress, {"verify": verify, "exact": exact})
    target = backend_of(backend, threads, options)
    budget = None if compile_budget is None else seconds_of(compile_budget)
    if verify is None:
        own = pipeline is None and type(target).__module__.startswith("glow_backends.")
        verify = not own or os.environ.get("GLOW_VERIFY", "0") not in ("", "0")
    if exact and pipeline is not None:
        pipeline = pipeline.exact()
    elif exact:
        target = target.in_float()
    model = parsed(model)
    if is_torch(model):
        model = TorchModel(model, example_inputs, dynamic_shapes)
    elif example_inputs is not None or dynamic_shapes is not None:
        raise TypeError(
            "example_inputs and dynamic_shapes are for PyTorch modules; use shapes= for other models"
        )
    if is_saved(model):
        if states is not None:
            raise UnsupportedError(f"{model} is compiled already, with the states that it has")
        given = (shapes, pipeline, specialize, budget)
        chosen = target.exact or any(option is not None for option in given)
        return _saved(model, target, chosen)
    return executable(model, Compiler(target, verify, progress, pipeline, budget), shapes, specialize, states)


def _check_options(pipeline: object, progress: object, switches: Mapping[str, object]) -> None:
    """TypeError where an option of `compile` is of another kind."""
    if pipeline is not None:
        from glow_runtime.pipelines import Pipeline

        if not isinstance(pipeline, Pipeline):
            raise TypeError(f"pipeline is a glow.Pipeline, such as Pipeline.default('cpu'), not {pipeline!r}")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is called with the names of passes, {progress!r} cannot be called")
    for name, value in switches.items():
        if value is not None and not isinstance(value, bool):
            raise TypeError(f"{name} is True or False, not {value!r}")


def executable(
    model: Any,
    compiler: Compiler,
    shapes: Shapes | Sequence[Mapping[str, Sequence[int]]] | None = None,
    specialize: Specialize | None = None,
    states: States = None,
) -> Executable:
    """A model whose programs a compiler makes; see `compile`."""
    if isinstance(model, tuple):
        if shapes is not None and not isinstance(shapes, Mapping):
            raise ShapeError("shapes: a Caffe2 net has one shape for each input: a dict of name -> shape")
        model = load_graph(model, shapes)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(model, TorchModel):
        return _prepared(model.executable(compiler, shapes, specialize, states), shapes)
    if not _is_onnx(model):
        programs = ModulePrograms(_module(model), compiler, shapes, states)
        return _prepared(Executable(programs, specialize=specialize), shapes)
    check_kind(model)
    programs = onnx_programs(model, compiler, shapes, states)
    return _prepared(Executable(programs, specialize=specialize), shapes)


def onnx_programs(
    model: Any,
    compiler: Compiler,
    shapes: Shapes | Sequence[Mapping[str, Sequence[int]]] | None,
    states: States = None,
) -> OnnxPrograms:
    """The programs of an ONNX model, none of them compiled."""
    source = OnnxModel(model, compiler.backend)
    chosen = set(shapes) if isinstance(shapes, Mapping) else set[str]()
    opened = [s for s in source.description.defaults if s.name in chosen]
    inputs = bound_shapes([*source.description.inputs, *opened], shapes)
    return OnnxPrograms(source, compiler, inputs, chosen, states)


def _module(model: Any) -> ModuleOp | Path:
    """A model as a module, files of modules as they are; UnsupportedError for a folder."""
    if is_kind(model, FileKind.FOLDER):
        raise refuse_file(model, "a graph")
    return Path(model) if isinstance(model, str | Path) else load_graph(model)


def _prepared(net: Executable, shapes: Shapes | Sequence[Mapping[str, Sequence[int]]] | None) -> Executable:
    """The executable with programs for shapes that a list gives."""
    if shapes is not None and not isinstance(shapes, Mapping):
        for item in shapes:
            net.specialize(item)
    return net


class TrustedPath(str):
    """The path of a .glow file whose maker is trusted, as `load_program(path, trust=True)` has it."""


def trusted(path: str | Path) -> str | Path:
    """A path; that of a .glow file as one whose maker is trusted."""
    return TrustedPath(path) if is_saved(path) else path


def is_saved(model: Any) -> bool:
    """Whether a model is a file of `Executable.save`."""
    return is_kind(model, FileKind.GLOW)


def _saved(path: str | Path, backend: Backend, chosen: bool) -> Executable:
    """The programs of a file, for a backend; UnsupportedError for another, or where more was `chosen`."""
    from glow_runtime.load_program import load_program

    net = load_program(path, trust=isinstance(path, TrustedPath))
    if chosen or backend.name != net.backend.name:
        what = "shapes and pipeline" if chosen else f"backend {net.backend.name}"
        raise UnsupportedError(
            f"{path} is already compiled, so its {what} cannot be chosen; compile the original model"
        )
    return net


def backend_of(backend: str | Backend, threads: int | Literal["auto"], options: dict[str, Any]) -> Backend:
    """The backend that is named or given."""
    if isinstance(backend, str):
        threads = min(cores(), MOST_THREADS) if threads == "auto" else threads
        return get_backend(backend, threads=threads, **options)
    if not isinstance(backend, Backend):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a backend is a name or a glow_backends.base.Backend, not {backend!r}")
    if options:
        raise UnsupportedError("options go with the name of a backend, not with one that was made")
    return backend


def _is_onnx(model: Any) -> bool:
    """Whether a model is an ONNX file or proto; of the others nothing is known without the compiler."""
    if isinstance(model, str | Path):
        return is_kind(model, FileKind.ONNX)
    from xdsl.dialects.builtin import ModuleOp

    from glow_frontends.builder import GraphBuilder

    return not isinstance(model, ModuleOp | GraphBuilder)
