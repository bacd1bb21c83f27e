"""Pipeline strings: pass names with options, and named pipelines inside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from glow_backends.base import backend_passes, get_backend, registry
from glow_backends.named import BackendSpec
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.packages import added
from glow_passes import all_passes, pass_named
from glow_passes.pipeline import INSTR, LOWER, optimize, train

Passes = tuple[ModulePass, ...]


def _lower(mcpu: str) -> Passes:
    from glow_backends.legalize import LegalizePass

    return (LegalizePass(get_backend("cpu", cpu=mcpu)), *optimize(lowered=True), *LOWER)


def _cpu(mcpu: str) -> Passes:
    from glow_backends.phases import phases

    return tuple(p for _, passes in phases(get_backend("cpu", cpu=mcpu)) for p in passes)


_PIPELINES: dict[str, Callable[[str], Passes]] = {
    "train": lambda _: train(),
    "optimize": lambda _: optimize(),
    "lower": _lower,
    "instr": lambda _: INSTR,
    "cpu": _cpu,
}
"""Our pipelines by name, each made when it is asked for; the argument is the processor to compile for."""


@cache
def pipeline_named(name: str, mcpu: str = "host") -> Passes | None:
    """The pipeline of a name that `-p` knows; `mcpu` is the processor that `cpu` compiles for."""
    if name in _PIPELINES:
        return _PIPELINES[name](mcpu)
    passes = added("glow.pipelines", _no_pipeline).get(name)
    return None if passes is None else tuple(passes)


def pipelines() -> list[str]:
    """The names of all pipelines."""
    return list(dict.fromkeys([*_PIPELINES, *added("glow.pipelines", _no_pipeline)]))


def named(mcpu: str = "host") -> dict[str, Passes]:
    """Every pipeline by name."""
    return {name: pipeline_named(name, mcpu) or () for name in pipelines()}


def _no_pipeline(thing: Any) -> str | None:
    """What keeps an object of a package from being a pipeline."""
    passes = isinstance(thing, tuple | list) and all(isinstance(p, ModulePass) for p in thing)
    return None if passes else "it is no tuple of passes"


def _no_pass(thing: Any) -> str | None:
    """What keeps an object of a package from being a pass."""
    return None if isinstance(thing, type) and issubclass(thing, ModulePass) else "it is no class of passes"


def phases(text: str, mcpu: str = "host") -> dict[int, str]:
    """The items of a pipeline string by the number of passes that have run when each ends."""
    names: dict[int, str] = {}
    count = 0
    for spec in _specs(text):
        count += len(parse(str(spec), mcpu))
        names[count] = spec.name
    return names


def every_pass() -> dict[str, type[ModulePass]]:
    """Every pass by name, those of the backends included, which are imported for it."""
    from glow_backends.declare_memories import DeclareMemoriesPass
    from glow_backends.hide_latency import HideLatencyPass
    from glow_backends.layout import LayoutPass
    from glow_backends.legalize import LegalizePass

    others = {kind.name: kind for kind in added("glow.passes", _no_pass).values()}
    own = {kind.name: kind for kind in (LegalizePass, LayoutPass, DeclareMemoriesPass, HideLatencyPass)}
    return {**others, **all_passes(), **own, **backend_passes()}


def xdsl_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """xDSL's own passes by name, each imported when it is called for."""
    from xdsl.transforms import get_all_passes

    return get_all_passes()


def parse(text: str, mcpu: str = "host") -> list[ModulePass]:
    """Passes of a string such as `optimize,glow-schedule{by=order}`.

    UnsupportedError names what is unknown and what is like it.
    """
    passes: list[ModulePass] = []
    for spec in _specs(text):
        if (kind := pass_named(spec.name)) is not None:
            passes.append(_with_options(kind, spec))
        elif not spec.parameters and (pipeline := pipeline_named(spec.name, mcpu)) is not None:
            passes += pipeline
        elif spec.name in registry():
            passes += _of_backend(spec, mcpu)
        elif spec.name in pipelines():
            options = ", ".join(spec.parameters)
            raise UnsupportedError(f"pipeline {spec.name} takes no options, got {options}; its passes do")
        elif spec.name in every_pass():  # which imports the backends, so only where it must
            passes.append(_with_options(every_pass()[spec.name], spec))
        elif spec.name in (others := xdsl_passes()):
            passes.append(_with_options(others[spec.name](), spec))
        else:
            from difflib import get_close_matches

            names = list(dict.fromkeys((*every_pass(), *pipelines(), *registry(), *others)))
            near = get_close_matches(spec.name, names, 3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise UnsupportedError(f"unknown pass or pipeline '{spec.name}'{hint} (--list-passes shows all)")
    return passes


def _of_backend(spec: ArgSpec, mcpu: str) -> list[ModulePass]:
    """All that `glow.compile` runs for a backend that is named with its options: `npu{hide=false}`."""
    from glow_backends.phases import phases

    options = {"cpu": mcpu} if spec.name == "cpu" else {}
    backend = get_backend(str(spec) if spec.parameters else spec.name, **options)
    return [p for _, passes in phases(backend) for p in passes]


def _with_options(kind: type[ModulePass], spec: ArgSpec) -> ModulePass:
    """A pass with the options that a string gives; UnsupportedError names what there is instead."""
    options = spec.normalize_parameter_names().parameters
    types = {field.name: get_type_hints(kind)[field.name] for field in fields(kind)}
    for name, values in options.items():
        if issubclass(kind, BackendSpec):
            break  # of the backend, which knows its own
        if name not in types:
            known = ", ".join(types) or "none"
            raise UnsupportedError(f"pass {kind.name} has no option '{name}'; there are: {known}")
        choices = get_args(types[name]) if get_origin(types[name]) is Literal else ()
        if choices and values not in [(c,) for c in choices]:
            shown = ",".join(map(str, values))
            raise UnsupportedError(
                f"pass {kind.name}: {name}={shown} is not one of {', '.join(map(str, choices))}"
            )
    try:
        return kind.from_spec(spec)
    except Exception as error:
        raise UnsupportedError(f"pass {kind.name}: {error}") from None


def _specs(text: str) -> list[ArgSpec]:
    if not text.strip():
        return []
    try:
        return list(parse_pipeline(text))
    except ArgSpecParseError as error:
        raise UnsupportedError(f"pipeline '{text}' cannot be read: {str(error).strip()}") from None


def describe(passes: Sequence[ModulePass]) -> str:
    """The expanded pipeline string."""
    return ",".join(str(p.spec()) for p in passes)
