"""The graph of an encoder of sounds, which leaves keys and values for each layer of its decoder."""

from __future__ import annotations

import numpy as np

from glow_dialects.ops.cached_attention import CacheWriteOp
from glow_frontends.builder import GraphBuilder, Value
from glow_frontends.language.decoder import Decoder, LanguageFiles
from glow_frontends.language.graph import DecoderBuilder, Form


def encoder_graph(files: LanguageFiles, decoder: Decoder, bins: int, form: Form) -> GraphBuilder:
    """The program that listens.

    `files` are the encoder's, with `conv1`, `conv2` and of the decoder's layers `i.cross_k` and `i.cross_v`.
    Inputs: `features` [1, bins, 2 places], `slots` i32 [1]. Output: `encoded` [places, width]. States:
    `cross_keys.i` and `cross_values.i` as in `decoder_graph`.
    """
    return _EncoderBuilder(files, decoder, bins, form).built()


class _EncoderBuilder(DecoderBuilder):
    def __init__(self, files: LanguageFiles, decoder: Decoder, bins: int, form: Form) -> None:
        super().__init__(files, form)
        self.reader, self.bins = decoder, bins

    def built(self) -> GraphBuilder:
        """The whole graph."""
        g, places = self.g, self.decoder.places
        features = g.placeholder("features", (1, self.bins, 2 * places))
        self.slots = g.placeholder("slots", (1,), np.int32)
        x = self._conv(self._conv(features, "conv1", 1), "conv2", 2)
        x = g.reshape(g.transpose(x, (0, 2, 1)), (places, self.decoder.width))
        x = x + self._floats("positions")
        for layer in range(self.decoder.layers):
            x = self._layer(x, layer)
        x = self._norm(x, "norm")
        for layer in range(self.reader.layers):
            for name, short in (("keys", "k"), ("values", "v")):
                self._keep(self._linear(x, f"{layer}.cross_{short}"), layer, name)
        g.save(x, "encoded")
        return g

    def _conv(self, x: Value, name: str, stride: int) -> Value:
        weights, bias = self._floats(name), self._floats(f"{name}.bias")
        return self.g.gelu(self.g.conv(x, weights, bias, strides=stride, pads=1))

    def _attention(self, x: Value, layer: int) -> Value:
        """Every place sees every place."""
        g, decoder = self.g, self.decoder
        q, k, v = (self._heads(x, layer, name, decoder.heads) for name in "qkv")
        q, v = g.transpose(q, (0, 2, 1, 3)), g.transpose(v, (0, 2, 1, 3))
        scores = g.batch_matmul(q, g.transpose(k, (0, 2, 3, 1))) * decoder.score_scale(layer)
        y = g.batch_matmul(g.softmax(scores, axis=-1), v)
        return self._linear(g.reshape(g.transpose(y, (0, 2, 1, 3)), (self.rows, decoder.width)), f"{layer}.o")

    def _keep(self, rows: Value, layer: int, name: str) -> None:
        """Write what the decoder's layer sees into its state."""
        g, reader = self.g, self.reader
        shape = (self.form.sequences, reader.shared, self.decoder.places, reader.head)
        state = g.placeholder(f"cross_{name}.{layer}", shape, kind="state")
        rows = g.reshape(rows, (1, self.decoder.places, reader.shared, reader.head))
        start = g.constant(np.zeros(1, np.int32))
        g.update(state, g.one(CacheWriteOp, state, rows, self.slots, start))
