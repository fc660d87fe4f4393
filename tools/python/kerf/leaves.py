"""Modules that torch.export cannot trace, or should not: each stands in the graph as one op.

Experts of the transformers library loop over those that were chosen, which depends on data. Their class is known by its
form: parameters `gate_up_proj` [experts, 2 inner, hidden] and `down_proj` [experts, hidden, inner], an activation
`act_fn`, and `forward(hidden_states, top_k_index, top_k_weights)`.
"""

import contextlib

import torch

from .elements import gelu, silu
from .ops import Unsupported, op

ACTIVATIONS = {
    "SiLU": "silu",
    "SiLUActivation": "silu",
    "GELU": "gelu",
    "GELUActivation": "gelu",
    "GELUTanh": "gelu_tanh",
    "NewGELUActivation": "gelu_tanh",
}


@torch.library.custom_op("kerf::experts", mutates_args=())
def experts(
    x: torch.Tensor, index: torch.Tensor, weights: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, act: str
) -> torch.Tensor:
    """x [tokens, hidden] through the experts `index` [tokens, k], each result times `weights` [tokens, k], added."""
    raise NotImplementedError("kerf::experts stands in graphs alone")


@experts.register_fake
def _(x, index, weights, gate_up, down, act):
    return torch.empty_like(x)


def is_experts(module):
    shapes = {name: p.dim() for name, p in module.named_parameters(recurse=False)}
    return shapes == {"gate_up_proj": 3, "down_proj": 3} and hasattr(module, "act_fn")


def forward_of(module):
    kind = type(module.act_fn).__name__
    if kind not in ACTIVATIONS:
        raise Unsupported(f"experts with the activation {kind}")

    def forward(hidden_states, top_k_index, top_k_weights):
        act = ACTIVATIONS[kind]
        return torch.ops.kerf.experts(
            hidden_states, top_k_index, top_k_weights, module.gate_up_proj, module.down_proj, act
        )

    return forward


@contextlib.contextmanager
def replaced(module):
    """Modules with a leaf of their own call it, for a while."""
    patched = [m for m in module.modules() if is_experts(m)]
    try:
        for m in patched:
            m.forward = forward_of(m)
        yield
    finally:
        for m in patched:
            m.__dict__.pop("forward", None)


@op("kerf.experts.default", prefix="")
def write_experts(c, x, index, weights, gate_up, down, act):
    """Routed experts: rows of a table, each of its expert."""
    w = c.w
    lead = c.tokens if c.tokens and c.tokens[0] * c.tokens[1] == x.shape[0] else (1, x.shape[0])
    (batch, sequence), hidden, k = lead, x.shape[-1], index.shape[-1]
    count, rows = gate_up.shape[0], sequence * k
    x = w.reshape(x, (batch, sequence, hidden))
    weights = w.reshape(weights, (batch, sequence, k))
    index = w.cast(w.reshape(index, (batch, sequence, k)), "i32")
    slots, sizes = w.many(
        f"assign_slots {index.name} count {count} group 1 : {index.type}",
        [((batch, sequence, k), "i32"), ((batch, count), "i32")],
    )
    table = f"tensor<{batch}x{rows}x{hidden}x{x.dtype}>"
    words = f"{slots.name} sizes {sizes.name} : {sizes.type} : {x.type}, {slots.type} -> {table}"
    rows_in = w.emit(f"dispatch {x.name}, {words}", (batch, rows, hidden), x.dtype)

    def product(rows_of, weight):
        text = f"grouped_matmul {rows_of.name}, {weight.name}, {sizes.name} : {rows_of.type}, {weight.type}, {sizes.type}"
        return w.emit(text, (batch, rows, weight.shape[1]), rows_of.dtype)

    if gate_up.name in c.parts:
        gate, up = (product(rows_in, weight) for weight in c.parts[gate_up.name])
    else:
        both, inner = product(rows_in, gate_up), gate_up.shape[1] // 2
        gate, up = w.slice(both, 2, 0, inner), w.slice(both, 2, inner, inner)
    gate = silu(c, gate) if act == "silu" else gelu(c, gate, "tanh" if act == "gelu_tanh" else "none")
    rows_out = product(w.binary("mul", gate, up), down)
    words = f"weights {weights.name} : {weights.type} sizes {sizes.name} : {sizes.type} : {rows_out.type}, {slots.type}"
    y = w.emit(f"combine {rows_out.name}, {slots.name} {words}", (batch, sequence, hidden), x.dtype)
    return w.reshape(y, c.shape)
