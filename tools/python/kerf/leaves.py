"""Modules that torch.export cannot trace, or should not: each stands in the graph as one op.

Experts of the transformers library loop over those that were chosen, which depends on data. Their class is known by its
form: parameters `gate_up_proj` [experts, 2 inner, hidden] and `down_proj` [experts, hidden, inner], an activation
`act_fn`, and `forward(hidden_states, top_k_index, top_k_weights)`. Those of gpt-oss have biases, weights that are stored
[experts, inputs, outputs] with gate and up by turns, and clamp both. Llama 4's mixture hands rows of all experts to
them, of others than the chosen ones zeros: it is replaced as a whole.
"""

import contextlib
import inspect

import torch

from .elements import bounded, gelu, silu
from .layers import chosen
from .ops import Unsupported, op

ACTIVATIONS = {
    "SiLU": "silu",
    "SiLUActivation": "silu",
    "silu": "silu",
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


@torch.library.custom_op("kerf::clamped_experts", mutates_args=())
def clamped_experts(
    x: torch.Tensor,
    index: torch.Tensor,
    weights: torch.Tensor,
    gate_up: torch.Tensor,
    gate_up_bias: torch.Tensor,
    down: torch.Tensor,
    down_bias: torch.Tensor,
    alpha: float,
    limit: float,
) -> torch.Tensor:
    """As `experts`, of gpt-oss: (up + 1) gate sigmoid(alpha gate), gate at most limit, up within it."""
    raise NotImplementedError("kerf::clamped_experts stands in graphs alone")


@clamped_experts.register_fake
def _(x, index, weights, gate_up, gate_up_bias, down, down_bias, alpha, limit):
    return torch.empty_like(x)


@torch.library.custom_op("kerf::weighed_experts", mutates_args=())
def weighed_experts(
    x: torch.Tensor, index: torch.Tensor, weights: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, act: str
) -> torch.Tensor:
    """As `experts`, each with x times its weight; matrices are stored [experts, inputs, outputs]."""
    raise NotImplementedError("kerf::weighed_experts stands in graphs alone")


@weighed_experts.register_fake
def _(x, index, weights, gate_up, down, act):
    return torch.empty_like(x)


def shapes_of(module):
    return {name: p.dim() for name, p in module.named_parameters(recurse=False)}


def is_clamped(module):
    shapes = {"gate_up_proj": 3, "gate_up_proj_bias": 2, "down_proj": 3, "down_proj_bias": 2}
    return shapes_of(module) == shapes and hasattr(module, "alpha") and hasattr(module, "limit")


def is_experts(module):
    shapes = shapes_of(module)
    if len(inspect.signature(type(module).forward).parameters) < 4:  # llama4's get rows of all experts
        return False
    return is_clamped(module) or (shapes == {"gate_up_proj": 3, "down_proj": 3} and hasattr(module, "act_fn"))


def is_weighing_mixture(module):
    parts = [getattr(module, name, None) for name in ("router", "experts", "shared_expert")]
    return all(isinstance(part, torch.nn.Module) for part in parts) and (
        shapes_of(parts[1]) == {"gate_up_proj": 3, "down_proj": 3}
        and len(inspect.signature(type(parts[1]).forward).parameters) == 2
        and isinstance(parts[0], torch.nn.Linear)
        and hasattr(parts[0], "top_k")
    )


def mixture_forward_of(module):
    act = activation_of(module.experts)

    def forward(hidden_states):
        m, x = module, hidden_states.reshape(-1, hidden_states.shape[-1])
        logits = torch.nn.functional.linear(x, m.router.weight, m.router.bias)
        best, index = torch.topk(logits, m.router.top_k, dim=1)
        weights = torch.sigmoid(best.float()).to(x.dtype)
        y = torch.ops.kerf.weighed_experts(x, index, weights, m.experts.gate_up_proj, m.experts.down_proj, act)
        return m.shared_expert(x) + y, logits

    return forward


def clamped_forward_of(module):
    def forward(hidden_states, router_indices, routing_weights):
        m = module
        matrices = (m.gate_up_proj, m.gate_up_proj_bias, m.down_proj, m.down_proj_bias)
        return torch.ops.kerf.clamped_experts(
            hidden_states, router_indices, routing_weights, *matrices, float(m.alpha), float(m.limit)
        )

    return forward


def activation_of(module):
    kind = module.act_fn.__name__ if inspect.isroutine(module.act_fn) else type(module.act_fn).__name__
    if kind not in ACTIVATIONS:
        raise Unsupported(f"experts with the activation {kind}")
    return ACTIVATIONS[kind]


def forward_of(module):
    """The forward of a module that is a leaf; None for others."""
    if is_weighing_mixture(module):
        return mixture_forward_of(module)
    if not is_experts(module):
        return None
    if is_clamped(module):
        return clamped_forward_of(module)
    act = activation_of(module)

    def forward(hidden_states, top_k_index, top_k_weights):
        return torch.ops.kerf.experts(
            hidden_states, top_k_index, top_k_weights, module.gate_up_proj, module.down_proj, act
        )

    return forward


@contextlib.contextmanager
def replaced(module):
    """Modules with a leaf of their own call it, for a while."""
    forwards = {m: forward for m in module.modules() if (forward := forward_of(m))}
    try:
        for m, forward in forwards.items():
            m.forward = forward
        yield
    finally:
        for m in forwards:
            m.__dict__.pop("forward", None)


class Routed:
    """Tokens x [tokens, hidden] as rows of a table, each of its expert."""

    def __init__(self, c, x, index, count):
        self.w, self.c = c.w, c
        lead = c.tokens if c.tokens and c.tokens[0] * c.tokens[1] == x.shape[0] else (1, x.shape[0])
        self.batch, self.sequence = lead
        self.k = index.shape[-1]
        self.rows = self.sequence * self.k
        self.index = self.w.cast(self.w.reshape(index, (*lead, self.k)), "i32")
        self.slots, self.sizes = self.w.many(
            f"assign_slots {self.index.name} count {count} group 1 : {self.index.type}",
            [((*lead, self.k), "i32"), ((self.batch, count), "i32")],
        )
        self.x = self.w.reshape(x, (*lead, x.shape[-1]))

    def dispatch(self, x, weights=None):
        """Rows of x, each times its weight [tokens, k]."""
        shape = (self.batch, self.rows, x.shape[-1])
        table = f"tensor<{'x'.join(map(str, shape))}x{x.dtype}>"
        weighed = ""
        if weights is not None:
            weights = self.w.reshape(weights, (self.batch, self.sequence, self.k))
            weighed = f"weights {weights.name} : {weights.type} "
        words = f"{weighed}sizes {self.sizes.name} : {self.sizes.type} : {x.type}, {self.slots.type} -> {table}"
        return self.w.emit(f"dispatch {x.name}, {self.slots.name} {words}", shape, x.dtype)

    def matmul(self, rows, weight, transposed=False):
        types = f"{rows.type}, {weight.type}, {self.sizes.type}"
        words = f"{self.sizes.name}{' transposed' if transposed else ''} : {types}"
        shape = (self.batch, self.rows, weight.shape[2 if transposed else 1])
        return self.w.emit(f"grouped_matmul {rows.name}, {weight.name}, {words}", shape, rows.dtype)

    def combine(self, rows, weights=None):
        """Sums of rows, each times its weight."""
        words = f"sizes {self.sizes.name} : {self.sizes.type} : {rows.type}, {self.slots.type}"
        if weights is not None:
            weights = self.w.reshape(weights, (self.batch, self.sequence, self.k))
            words = f"weights {weights.name} : {weights.type} {words}"
        shape = (self.batch, self.sequence, rows.shape[-1])
        return self.w.emit(f"combine {rows.name}, {self.slots.name} {words}", shape, rows.dtype)

    def combined_biases(self, bias, weights):
        """Of each token the biases of its experts, weighed: [experts, n] by what each expert's weight is."""
        each = self.w.reshape(weights, (self.batch, self.sequence, self.k, 1))
        is_chosen = chosen(self.c, self.index, bias.shape[0])
        kept = self.w.select(is_chosen, each, self.w.constant(0.0, is_chosen.shape, bias.dtype))
        return self.w.einsum("bse,en->bsn", self.w.reduce("sum", kept, [2]), bias)


@op("kerf.clamped_experts.default", prefix="")
def write_clamped_experts(c, x, index, weights, gate_up, gate_up_bias, down, down_bias, alpha, limit):
    w, routed = c.w, Routed(c, x, index, gate_up.shape[0])
    rows = routed.dispatch(routed.x)
    ones = routed.dispatch(w.constant(1.0, (*routed.x.shape[:2], 1), x.dtype))

    wide = w.reshape(gate_up_bias, (gate_up_bias.shape[0], 1, gate_up_bias.shape[1]))
    both = w.binary("add", routed.matmul(rows, gate_up, transposed=True), routed.matmul(ones, wide, transposed=True))
    shape = (*both.shape[:2], both.shape[2] // 2)
    pairs = w.reshape(both, (*shape, 2))
    gate, up = (w.reshape(w.slice(pairs, 3, i, 1), shape) for i in range(2))

    def number(value):
        return w.constant(value, shape, x.dtype)

    gate = bounded(c, gate, None, limit)
    up = bounded(c, up, -limit, limit)
    part = w.binary("mul", gate, w.unary("logistic", w.binary("mul", gate, number(alpha))))
    y = w.binary("mul", w.binary("add", up, number(1.0)), part)
    rows = routed.matmul(y, down, transposed=True)
    y = w.binary("add", routed.combine(rows, weights), routed.combined_biases(down_bias, weights))
    return w.reshape(y, c.shape)


@op("kerf.experts.default", prefix="")
def write_experts(c, x, index, weights, gate_up, down, act):
    """Routed experts: gated MLPs."""
    w, routed = c.w, Routed(c, x, index, gate_up.shape[0])
    rows_in, matmul = routed.dispatch(routed.x), routed.matmul
    if gate_up.name in c.parts:
        gate, up = (matmul(rows_in, weight) for weight in c.parts[gate_up.name])
    else:
        both, inner = matmul(rows_in, gate_up), gate_up.shape[1] // 2
        gate, up = w.slice(both, 2, 0, inner), w.slice(both, 2, inner, inner)
    return w.reshape(routed.combine(matmul(gated(c, gate, up, act), down), weights), c.shape)


def gated(c, gate, up, act):
    gate = silu(c, gate) if act == "silu" else gelu(c, gate, "tanh" if act == "gelu_tanh" else "none")
    return c.w.binary("mul", gate, up)


@op("kerf.weighed_experts.default", prefix="")
def write_weighed_experts(c, x, index, weights, gate_up, down, act):
    w, routed = c.w, Routed(c, x, index, gate_up.shape[0])
    both, inner = routed.matmul(routed.dispatch(routed.x, weights), gate_up, transposed=True), gate_up.shape[2] // 2
    rows = gated(c, w.slice(both, 2, 0, inner), w.slice(both, 2, inner, inner), act)
    return w.reshape(routed.combine(routed.matmul(rows, down, transposed=True)), c.shape)
