"""Models run by onnxruntime, where it is installed."""

from __future__ import annotations

from typing import Any

from glow_dialects.core.errors import GlowError


def onnxruntime_outputs(model: str | bytes, feed: dict[str, Any], plain: bool = False) -> dict[str, Any]:
    """The outputs of a model file or its bytes; `plain`: without onnxruntime's optimisations."""
    try:
        import onnxruntime  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise GlowError("onnxruntime is not installed; pip install onnxruntime") from None
    own: Any = onnxruntime
    options: Any = own.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is raised, too
    if plain:
        options.graph_optimization_level = own.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session: Any = own.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        taken = {i.name for i in (*session.get_inputs(), *session.get_overridable_initializers())}
        names = [o.name for o in session.get_outputs()]
        values = session.run(names, {n: a for n, a in feed.items() if n in taken})
    except Exception as error:  # onnxruntime's exceptions have no common class but this one
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise GlowError(f"onnxruntime does not run the model: {first}") from None
    return dict(zip(names, values, strict=True))
