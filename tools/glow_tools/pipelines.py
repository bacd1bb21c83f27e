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
from glow_backends.declare_memories import DeclareMemoriesPass
from glow_backends.hide_latency import HideLatencyPass
from glow_backends.legalize import LegalizePass
from glow_backends.named import BackendSpec
from glow_dialects.core.errors import UnsupportedError
from glow_dialects.core.packages import added
from glow_passes import all_passes
from glow_passes.pipeline import INSTR, LOWER, TRAIN, optimize


@cache
def named(mcpu: str = "host") -> dict[str, tuple[ModulePass, ...]]:
    """The pipelines that `-p` knows by name; `mcpu` is the processor that `cpu` compiles for."""
    from glow_backends.phases import phases

    cpu = get_backend("cpu", cpu=mcpu)
    return {
        "train": TRAIN,
        "optimize": optimize(),
        "lower": (LegalizePass(cpu), *optimize(lowered=True), *LOWER),
        "instr": INSTR,
        "cpu": tuple(p for _, passes in phases(cpu) for p in passes),
        **{name: tuple(passes) for name, passes in added("glow.pipelines", _no_pipeline).items()},
    }


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
    others = {kind.name: kind for kind in added("glow.passes", _no_pass).values()}
    own = {kind.name: kind for kind in (LegalizePass, DeclareMemoriesPass, HideLatencyPass)}
    return {**others, **all_passes(), **own, **backend_passes()}


def xdsl_passes() -> dict[str, Callable[[], type[ModulePass]]]:
    """xDSL's own passes by name, each imported when it is called for."""
    from xdsl.transforms import get_all_passes

    return get_all_passes()


def parse(text: str, mcpu: str = "host") -> list[ModulePass]:
    """Passes of a string such as `optimize,glow-schedule{by=order}`.

    UnsupportedError names what is unknown and what is like it.
    """
    known = all_passes()
    passes: list[ModulePass] = []
    for spec in _specs(text):
        if spec.name in known:
            passes.append(_with_options(known[spec.name], spec))
        elif spec.name in registry() and (spec.parameters or spec.name not in named(mcpu)):
            passes += _of_backend(spec, mcpu)
        elif spec.name in named(mcpu):
            if spec.parameters:
                options = ", ".join(spec.parameters)
                raise UnsupportedError(f"pipeline {spec.name} takes no options, got {options}; its passes do")
            passes += named(mcpu)[spec.name]
        elif spec.name in every_pass():  # which imports the backends, so only where it must
            passes.append(_with_options(every_pass()[spec.name], spec))
        elif spec.name in (others := xdsl_passes()):
            passes.append(_with_options(others[spec.name](), spec))
        else:
            from difflib import get_close_matches

            names = list(dict.fromkeys((*every_pass(), *named(mcpu), *registry(), *others)))
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
