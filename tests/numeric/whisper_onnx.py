"""Whisper models of transformers as ONNX files, named and divided as optimum writes them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper, numpy_helper

torch: Any = pytest.importorskip("torch")
caches: Any = pytest.importorskip("transformers.cache_utils")


class _Decoder(torch.nn.Module):
    """Logits and present keys and values; `past`: after others, which are inputs, else after none."""

    def __init__(self, model: Any, past: bool) -> None:
        super().__init__()
        self.model, self.past = model, past

    def forward(self, tokens: Any, *given: Any) -> tuple[Any, ...]:
        config = self.model.config
        cache = caches.EncoderDecoderCache(caches.DynamicCache(), caches.DynamicCache())
        hidden, places = given[0], None
        if self.past:
            for layer in range(config.decoder_layers):
                keys, values, *heard = given[4 * layer : 4 * layer + 4]
                cache.self_attention_cache.update(keys, values, layer)
                cache.cross_attention_cache.update(*heard, layer)
                cache.is_updated[layer] = True
            hidden = torch.zeros(1, config.max_source_positions, config.d_model)
            places = (torch.arange(1) + given[0].shape[2])[None]
        made = self.model.model.decoder(
            tokens, encoder_hidden_states=hidden, past_key_values=cache, use_cache=True, position_ids=places
        )
        present = [self.model.proj_out(made.last_hidden_state)]
        for layer in range(config.decoder_layers):
            own, heard = (c.layers[layer] for c in (cache.self_attention_cache, cache.cross_attention_cache))
            present += [own.keys, own.values, *([] if self.past else [heard.keys, heard.values])]
        return tuple(present)


class _Encoder(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, features: Any) -> Any:
        return self.encoder(features).last_hidden_state


def _names(prefix: str, layers: int, sides: tuple[str, ...] = ("decoder", "encoder")) -> list[str]:
    parts = ("key", "value")
    return [f"{prefix}.{i}.{side}.{part}" for i in range(layers) for side in sides for part in parts]


def _write(module: Any, inputs: Any, path: Path, names: list[str], outputs: list[str], dims: Any) -> None:
    options = {"input_names": names, "output_names": outputs, "dynamic_axes": dims}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), inputs, path, dynamo=False, opset_version=17, **options)


def written(model: Any, folder: Path) -> None:
    """encoder_model, decoder_model and decoder_with_past_model in a folder."""
    folder.mkdir()
    c, layers = model.config, model.config.decoder_layers
    heads, head, heard = (
        c.decoder_attention_heads,
        c.d_model // c.decoder_attention_heads,
        c.max_source_positions,
    )
    features = torch.zeros(1, c.num_mel_bins, 2 * heard)
    _write(
        _Encoder(model),
        (features,),
        folder / "encoder_model.onnx",
        ["input_features"],
        ["last_hidden_state"],
        {},
    )
    present, past = _names("present", layers), _names("past_key_values", layers)
    dims = {"input_ids": {1: "n"}, "logits": {1: "n"}} | {p: {2: "n"} for p in present if "decoder" in p}
    inputs = torch.tensor([[1, 2]]), torch.zeros(1, heard, c.d_model)
    names = ["input_ids", "encoder_hidden_states"]
    _write(_Decoder(model, False), inputs, folder / "decoder_model.onnx", names, ["logits", *present], dims)
    inputs = torch.tensor([[1]]), *(torch.zeros(1, heads, 3 if "decoder" in p else heard, head) for p in past)
    present = _names("present", layers, ("decoder",))
    dims = {p: {2: "past"} for p in past if "decoder" in p} | {p: {2: "all"} for p in present}
    path = folder / "decoder_with_past_model.onnx"
    _write(_Decoder(model, True), inputs, path, ["input_ids", *past], ["logits", *present], dims)


def merge(folder: Path) -> None:
    """The two decoders as one, decoder_model_merged, that the input `use_cache_branch` chooses from."""
    paths = [folder / f"{name}.onnx" for name in ("decoder_model", "decoder_with_past_model")]
    first, following = (onnx.load(path).graph for path in paths)
    names = [o.name for o in first.output]
    known = {o.name for o in following.output}
    for name in (n for n in names if n not in known):  # what was heard goes through
        source = name.replace("present", "past_key_values")
        following.node.append(helper.make_node("Identity", [source], [name]))
    inputs = {i.name: i for graph in (first, following) for i in graph.input}
    branches = [_branch(graph, names, prefix) for graph, prefix in ((following, "past."), (first, "first."))]
    choice = helper.make_node(
        "If", ["use_cache_branch"], names, then_branch=branches[0], else_branch=branches[1]
    )
    chosen = helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1])
    graph = helper.make_graph([choice], "merged", [*inputs.values(), chosen], first.output)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "decoder_model_merged.onnx")
    for path in paths:
        path.unlink()


def _branch(graph: onnx.GraphProto, names: list[str], prefix: str) -> onnx.GraphProto:
    """A graph with names of its own, but for the inputs."""
    kept = {i.name for i in graph.input} | {""}

    def renamed(name: str) -> str:
        return name if name in kept else prefix + name

    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        assert not any(a.HasField("g") for a in node.attribute)
        inputs, outputs = ([renamed(name) for name in side] for side in (node.input, node.output))
        made = helper.make_node(node.op_type, inputs, outputs)
        made.attribute.extend(node.attribute)
        nodes.append(made)
    constants = [
        numpy_helper.from_array(numpy_helper.to_array(t), renamed(t.name)) for t in graph.initializer
    ]
    results = [helper.make_tensor_value_info(renamed(n), onnx.TensorProto.FLOAT, None) for n in names]
    return helper.make_graph(nodes, f"{prefix}graph", [], results, constants)
