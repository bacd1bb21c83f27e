"""The graph of a decoder for several tokens at a time, with caches kept between calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from glow_dialects.core.errors import GlowError
from glow_dialects.core.types import Array
from glow_dialects.ops.activation import GeluOp, SwishOp
from glow_dialects.ops.cached_attention import CachedAttentionOp, CacheWriteOp
from glow_dialects.ops.dequantize_blocks import DequantizeBlocksOp
from glow_dialects.ops.expert_matmul import ExpertMatmulOp
from glow_dialects.ops.matmul_half import HALVES, MatmulHalfOp
from glow_dialects.ops.rotary import RotaryOp
from glow_dialects.ops.round_blocks import RoundBlocksOp
from glow_frontends.builder import GraphBuilder, Value
from glow_frontends.language.blocks import Blocks
from glow_frontends.language.decoder import LanguageFiles, Latent
from glow_frontends.language.rope import Rope
from glow_frontends.language.routing import Router, shares_of


@dataclass(frozen=True)
class Form:
    """Of a program: sequences and tokens of a call, sequences and places of the caches.

    `every`: logits of all tokens, not of one of each sequence. `rounded`: what meets weights of few bits has
    8 bits itself.
    """

    batch: int
    tokens: int
    sequences: int
    capacity: int
    every: bool = False
    rounded: bool = True


def decoder_graph(files: LanguageFiles, form: Form) -> GraphBuilder:
    """The program of a form.

    Inputs, all i32: `tokens` [batch, tokens], `slots` (the sequence in the caches) and `starts` (the place of
    the first token), one each of the batch, and unless every token's logits are wanted `last`, the number in
    its call of the token whose they are. Output: `logits` [batch (* tokens), vocabulary]. States: `keys.i`
    and `values.i` [sequences, heads, capacity, features] of each layer, where these are made of latents
    `keys.i` alone; and where there is an encoder `cross_keys.i` and `cross_values.i` [sequences, heads,
    places, features], which are only read.
    """
    return DecoderBuilder(files, form).built()


class DecoderBuilder:
    """Makes the graph of a form, part by part."""

    def __init__(self, files: LanguageFiles, form: Form) -> None:
        self.g = GraphBuilder()
        self.files, self.decoder, self.form = files, files.decoder, form
        self.rows = form.batch * form.tokens
        self._tables: dict[Rope, tuple[Value, Value]] = {}
        self._whole: dict[tuple[SSAValue, int], Value] = {}

    def built(self) -> GraphBuilder:
        """The whole graph."""
        g, form, decoder = self.g, self.form, self.decoder
        tokens = g.placeholder("tokens", (form.batch, form.tokens), np.int32)
        self.slots = g.placeholder("slots", (form.batch,), np.int32)
        self.starts = g.placeholder("starts", (form.batch,), np.int32)
        x = self._embedded(tokens)
        for layer in range(decoder.layers):
            x = self._layer(x, layer)
        if not form.every:
            last = g.placeholder("last", (form.batch,), np.int32)
            firsts = np.arange(form.batch, dtype=np.int32) * form.tokens
            x = g.gather(x, last + firsts if form.batch > 1 else last)
        g.save(self._logits(self._norm(x, "norm")), "logits")
        return g

    # --- weights ------------------------------------------------------------------------------------
    def _has(self, name: str) -> bool:
        return name in self.files.weights

    def _weight(self, name: str) -> Array | Blocks:
        if not self._has(name):
            raise GlowError(f"{self.files.source}: the weights have no '{name}'")
        return self.files.weights[name]()

    def _floats(self, name: str) -> Value:
        """A weight as a constant of f32."""
        weight = self._weight(name)
        array = weight.array() if isinstance(weight, Blocks) else weight
        return self.g.constant(np.asarray(array, np.float32), name)

    def _linear(self, x: Value, name: str, weight: str = "") -> Value:
        """x [rows, inputs] times the matrix of a name, plus its bias if it has one."""
        g, array = self.g, self._weight(weight or name)
        if isinstance(array, Blocks):
            x = self._rounded(self._ordered(x, array), array)
            y = g.matmul(x, g.transpose(self._blocks(array, weight or name)))
        elif array.dtype in HALVES:
            y = g.one(MatmulHalfOp, x, g.constant(array, f"{name}.weight"))
        else:
            y = g.matmul(x, g.transpose(g.constant(np.asarray(array, np.float32), f"{name}.weight")))
        return y + self._floats(f"{name}.bias") if self._has(f"{name}.bias") else y

    def _blocks(self, weight: Blocks, name: str) -> Value:
        """A matrix of codes as floats; products by it keep the codes."""
        g = self.g
        codes, scales = g.constant(weight.codes, f"{name}.codes"), g.constant(weight.scales, f"{name}.scales")
        points = None if weight.points is None else g.constant(weight.points, f"{name}.points")
        return g.one(DequantizeBlocksOp, codes, scales, points, **weight.form)

    def _ordered(self, x: Value, weight: Blocks) -> Value:
        """The inputs of a matrix as its blocks follow each other."""
        return x if weight.order is None else self.g.gather(x, self.g.constant(weight.order), axis=1)

    def _rounded(self, x: Value, weight: Blocks) -> Value:
        """Activations rounded to 8 bits, if they are to be: beside codes that are ints."""
        block = weight.block
        if not self.form.rounded or weight.levels is not None or x.shape[-1] % block or block % 16:
            return x
        if (x.ssa, block) not in self._whole:
            self._whole[x.ssa, block] = self.g.one(RoundBlocksOp, x, block=block)
        return self._whole[x.ssa, block]

    def _norm(self, x: Value, name: str, epsilon: float | None = None) -> Value:
        """x normalised along its last axis; scales may have more axes than that."""
        g, decoder = self.g, self.decoder
        epsilon = decoder.epsilon if epsilon is None else epsilon
        scale = self._floats(name) if decoder.scaled else None
        apart = scale if scale is not None and len(scale.shape) > 1 else None
        scale = None if apart is not None else scale
        if not decoder.centred:
            y = g.rms_norm(x, scale, epsilon=epsilon)
        else:
            bias = self._floats(f"{name}.bias") if self._has(f"{name}.bias") else None
            y = g.layer_norm(x, scale, bias, epsilon=epsilon)
        return y if apart is None else y * apart

    # --- parts --------------------------------------------------------------------------------------
    def _embedded(self, tokens: Value) -> Value:
        g, form, decoder = self.g, self.form, self.decoder
        x = self._rows_of("embed", g.reshape(tokens, (self.rows,)))
        if decoder.embed_scale != 1.0:
            x = x * decoder.embed_scale
        if self._has("positions"):
            steps = np.arange(form.tokens, dtype=np.int32)[None]
            places = g.reshape(g.reshape(self.starts, (form.batch, 1)) + steps, (self.rows,))
            table = self._floats("positions")
            most = np.array(table.shape[0] - 1, np.int32)
            x = x + g.gather(table, g.min(places, most))
        return x

    def _rows_of(self, name: str, rows: Value) -> Value:
        """Rows of a matrix as f32; the matrix stays as it is stored."""
        g, weight = self.g, self._weight(name)
        if not isinstance(weight, Blocks):
            made = g.gather(g.constant(np.asarray(weight), name), rows)
            return made if made.dtype == np.float32 else g.cast(made, np.float32)
        parts = (weight.codes, weight.scales, weight.points)
        chosen = [
            None if p is None else g.gather(g.constant(p, f"{name}.{i}"), rows) for i, p in enumerate(parts)
        ]
        return g.one(DequantizeBlocksOp, *chosen, **weight.form)

    def _layer(self, x: Value, layer: int) -> Value:
        decoder = self.decoder
        h = self._norm(x, f"{layer}.attention_norm") if decoder.prenorm else x
        a = self._attention(h, layer)
        if self._has(f"{layer}.after_attention"):
            a = self._norm(a, f"{layer}.after_attention")
        if decoder.parallel:
            own = f"{layer}.mlp_norm"
            h = self._norm(x, own) if self._has(own) else h
            return x + self._scaled(a) + self._scaled(self._mlp(h, layer))
        x = x + self._scaled(a)
        if decoder.memory:
            x = x + self._cross_attention(self._norm(x, f"{layer}.cross_norm"), layer)
        m = self._mlp(self._norm(x, f"{layer}.mlp_norm") if decoder.prenorm else x, layer)
        if self._has(f"{layer}.after_mlp"):
            m = self._norm(m, f"{layer}.after_mlp")
        return x + self._scaled(m)

    def _scaled(self, x: Value) -> Value:
        scale = self.decoder.residual_scale
        return x if scale == 1.0 else x * scale

    def _mlp(self, x: Value, layer: int) -> Value:
        router = self.decoder.router
        if router is None or not self._has(f"{layer}.router"):
            return self._feed(x, f"{layer}.", self._linear)
        y = self._mixture(x, layer, router)
        if not self._has(f"{layer}.shared_up"):
            return y
        shared = self._feed(x, f"{layer}.shared_", self._linear)
        if self._has(f"{layer}.shared_router"):
            shared = self.g.sigmoid(self._linear(x, f"{layer}.shared_router")) * shared
        return y + shared

    def _feed(self, x: Value, place: str, linear: Callable[[Value, str], Value]) -> Value:
        """What a token passes through behind its attention."""
        g, decoder = self.g, self.decoder
        up = linear(x, f"{place}up")
        if not decoder.gated:
            return linear(self._activated(up), f"{place}down")
        gate, limit = linear(x, f"{place}gate"), decoder.limit
        if limit:
            gate, up = g.clip(gate, max=limit), g.clip(up, -limit, limit)
        up = up + decoder.lift if decoder.lift else up
        return linear(self._activated(gate) * up, f"{place}down")

    # --- experts ------------------------------------------------------------------------------------
    def _mixture(self, x: Value, layer: int, router: Router) -> Value:
        """The results of each token's experts, weighed by its shares.

        There is a row for each token and expert, in the order of the experts: rows of one lie together.
        """
        g, rows, chosen = self.g, self.rows, router.chosen
        shares, experts = self._shares(x, layer, router)
        count = rows * chosen
        experts, places = g.reshape(experts, (count,)), None
        if rows > 1:
            experts, order = g.top_k(experts, count, largest=False)
            _, places = g.top_k(order, count, largest=False)
            x = g.gather(x, order // chosen)
        else:
            x = g.expand(x, (count, x.shape[1]))
        y = self._feed(x, f"{layer}.experts_", partial(self._expert_linear, experts=experts))
        y = y if places is None else g.gather(y, places)
        y = g.reshape(y, (rows, chosen, y.shape[-1])) * g.reshape(shares, (rows, chosen, 1))
        return g.reduce_sum(y, (1,))

    def _shares(self, x: Value, layer: int, router: Router) -> tuple[Value, Value]:
        """What each token makes of its experts' results, and which they are, [rows, chosen]."""
        g, logits = self.g, self._linear(x, f"{layer}.router")
        if logits.shape[-1] != router.experts:
            place = f"{self.files.source}: '{layer}.router'"
            raise GlowError(f"{place} has {logits.shape[-1]} outputs for {router.experts} experts")
        offsets = f"{layer}.router_offsets"
        return shares_of(g, logits, router, self._floats(offsets) if self._has(offsets) else None)

    def _expert_linear(self, x: Value, name: str, experts: Value) -> Value:
        """x [rows, inputs], each row times the matrix of its expert, plus its bias if there are such."""
        g, array = self.g, self._weight(name)
        if isinstance(array, Blocks):
            x, weights = self._rounded(x, array), self._blocks(array, name)
        else:
            kept = array if array.dtype in HALVES else np.asarray(array, np.float32)
            weights = g.constant(kept, f"{name}.weight")
        y = g.one(ExpertMatmulOp, x, weights, experts)
        return y + g.gather(self._floats(f"{name}.bias"), experts) if self._has(f"{name}.bias") else y

    def _activated(self, x: Value) -> Value:
        g = self.g
        kinds: dict[str, Any] = {
            "silu": lambda: g.one(SwishOp, x, alpha=self.decoder.slope),
            "gelu": lambda: g.one(GeluOp, x),
            "gelu_tanh": lambda: g.one(GeluOp, x, approximate="tanh"),
            "relu": lambda: g.relu(x),
            "relu2": lambda: g.relu(x) * g.relu(x),
        }
        return kinds[self.decoder.activation]()

    def _attention(self, x: Value, layer: int) -> Value:
        decoder = self.decoder
        if decoder.latent is not None:
            return self._latent_attention(x, layer, decoder.latent)
        q = self._heads(x, layer, "q", decoder.heads)
        k = self._heads(x, layer, "k", decoder.shared)
        v = self._heads(x, layer, "v", decoder.shared)
        keys, values = (self._cached(layer, n, rows) for n, rows in (("keys", k), ("values", v)))
        y = self._attended(q, keys, values, layer)
        return self._linear(self.g.reshape(y, (self.rows, decoder.heads * decoder.head)), f"{layer}.o")

    def _attended(self, q: Value, keys: Value, values: Value, layer: int) -> Value:
        """Attention of the new tokens' queries over the caches."""
        decoder, sinks = self.decoder, f"{layer}.sinks"
        return self.g.one(
            CachedAttentionOp,
            q,
            keys,
            values,
            self.slots,
            self.starts,
            self._floats(sinks) if self._has(sinks) else None,
            scale=decoder.score_scale(layer),
            window=decoder.window(layer),
            softcap=decoder.score_cap,
        )

    def _latent_attention(self, x: Value, layer: int, latent: Latent) -> Value:
        """Attention over latents, which all heads share as keys and as values.

        A head's keys are a product of its matrix and the latents; so are its scores, of the latents and of
        the product of its query and the matrix. So caches hold nothing of each head.
        """
        g, form, decoder, width = self.g, self.form, self.decoder, latent.width
        plain, heads = decoder.head - latent.turned, decoder.heads
        kv = self._linear(x, f"{layer}.kv")
        made = self._norm(g.slice(kv, (0, 0), (self.rows, width)), f"{layer}.kv_norm", latent.epsilon)
        turned = g.slice(kv, (0, width), (self.rows, width + latent.turned))
        turned = self._turned(g.reshape(turned, (form.batch, form.tokens, 1, latent.turned)), layer, "k")
        made = g.reshape(made, (form.batch, form.tokens, 1, width))
        keys = self._cached(layer, "keys", g.concat([made, turned], 3))
        if self._has(f"{layer}.q_a"):
            x = self._norm(self._linear(x, f"{layer}.q_a"), f"{layer}.q_a_norm", latent.epsilon)
        q = g.reshape(self._linear(x, f"{layer}.q"), (form.batch, form.tokens, heads, decoder.head))
        own = g.slice(q, (0, 0, 0, 0), (form.batch, form.tokens, heads, plain))
        own = self._by_heads(g.reshape(own, (self.rows, heads, plain)), f"{layer}.k_up")
        own = g.reshape(own, (form.batch, form.tokens, heads, width))
        q = g.slice(q, (0, 0, 0, plain), (form.batch, form.tokens, heads, decoder.head))
        y = self._attended(g.concat([own, self._turned(q, layer, "q")], 3), keys, keys, layer)
        y = g.slice(g.reshape(y, (self.rows, heads, y.shape[-1])), (0, 0, 0), (self.rows, heads, width))
        y = self._by_heads(y, f"{layer}.v_up")
        return self._linear(g.reshape(y, (self.rows, heads * latent.value)), f"{layer}.o")

    def _by_heads(self, x: Value, name: str) -> Value:
        """x [rows, heads, inputs], each head times its matrix; rows of one lie together meanwhile."""
        g, (rows, heads, inputs) = self.g, x.shape
        numbers = g.constant(np.repeat(np.arange(heads, dtype=np.int64), rows))
        x = g.transpose(x, (1, 0, 2)) if rows > 1 else x
        y = self._expert_linear(g.reshape(x, (heads * rows, inputs)), name, numbers)
        y = g.reshape(y, (heads, rows, y.shape[-1]))
        return g.transpose(y, (1, 0, 2))

    def _cross_attention(self, x: Value, layer: int) -> Value:
        """Attention over all places of the encoder's output."""
        g, decoder = self.g, self.decoder
        q = self._heads(x, layer, "cross_q", decoder.heads)
        keys, values = (self._cross_state(layer, name) for name in ("keys", "values"))
        # A place that is brought into the cache is its last one.
        last = g.constant(np.full(self.form.batch, decoder.memory - 1, np.int32))
        y = g.one(CachedAttentionOp, q, keys, values, self.slots, last, scale=decoder.score_scale(layer))
        return self._linear(g.reshape(y, (self.rows, decoder.heads * decoder.head)), f"{layer}.cross_o")

    def _cross_state(self, layer: int, name: str) -> Value:
        decoder = self.decoder
        shape = (self.form.sequences, decoder.shared, decoder.memory, decoder.head)
        return self.g.placeholder(f"cross_{name}.{layer}", shape, kind="state")

    def _heads(self, x: Value, layer: int, name: str, heads: int) -> Value:
        """A projection as [batch, tokens, heads, features], normalised and turned to its place."""
        g, form, decoder = self.g, self.form, self.decoder
        y, norm = self._linear(x, f"{layer}.{name}"), f"{layer}.{name}_norm"
        normed = name != "v" and self._has(norm)
        whole = normed and self._weight(norm).shape == y.shape[1:]  # all heads as one, as OLMo 2 does
        y = self._norm(y, norm) if whole else y
        y = g.clip(y, -decoder.clip, decoder.clip) if decoder.clip else y
        y = g.reshape(y, (form.batch, form.tokens, heads, decoder.head))
        if name == "v":
            return y
        if normed and not whole and not decoder.normed_turned:
            y = self._norm(y, norm)
        y = self._turned(y, layer, name)
        return self._norm(y, norm) if normed and decoder.normed_turned else y

    def _turned(self, y: Value, layer: int, name: str) -> Value:
        """Queries "q" or keys "k" [batch, tokens, heads, features], turned to the places of their tokens."""
        rope = self.decoder.rope_of(layer)
        if rope is None:
            return y
        cos, sin = self._angles(rope if name == "q" else rope.of_keys)
        return self.g.one(RotaryOp, y, cos, sin, self.starts, interleaved=rope.interleaved)

    def _angles(self, rope: Rope) -> tuple[Value, Value]:
        if rope not in self._tables:
            number, g = len(self._tables), self.g
            cos, sin = rope.tables(self.form.capacity)
            self._tables[rope] = g.constant(cos, f"cos.{number}"), g.constant(sin, f"sin.{number}")
        return self._tables[rope]

    def _cached(self, layer: int, name: str, rows: Value) -> Value:
        """The cache of a layer with the new rows, which it keeps."""
        g, form, decoder = self.g, self.form, self.decoder
        heads, features = decoder.cached
        shape = (form.sequences, heads, form.capacity, features)
        state = g.placeholder(f"{name}.{layer}", shape, kind="state")
        cache = g.one(CacheWriteOp, state, rows, self.slots, self.starts)
        g.update(state, cache)
        return cache

    def _logits(self, x: Value) -> Value:
        decoder = self.decoder
        y = self._linear(x, "head", "head" if self._has("head") else "embed")
        if decoder.logit_scale != 1.0:
            y = y * decoder.logit_scale
        if decoder.logit_cap:
            y = self.g.tanh(y * (1.0 / decoder.logit_cap)) * decoder.logit_cap
        return y
