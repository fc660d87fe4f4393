"""Three training steps of a library model with clipping and PyTorch's AdamW, or Muon beside it."""

from dataclasses import dataclass, field

import numpy
import safetensors
import torch

import cases
import muon

LR = 1e-2
BETAS = (0.9, 0.95)
EPS = 1e-8
WEIGHT_DECAY = 0.1
CLIP = 1.0
# What a step changes the biases of deepseek_v3's routers by; the library leaves that to
# the user. Wang et al. 2024, algorithm 1.
BIAS_RATE = 0.001

SETTINGS = {
    "optimizer": "AdamW",
    "lr": str(LR),
    "beta1": str(BETAS[0]),
    "beta2": str(BETAS[1]),
    "eps": str(EPS),
    "weight_decay_rank_ge_2": str(WEIGHT_DECAY),
    "weight_decay_rank_1": "0.0",
    "clip_max_norm": str(CLIP),
}


@dataclass
class Run:
    """What a training run gives, in order of `trained(model)` and of the steps."""

    losses: list = field(default_factory=list)
    grad_norms: list = field(default_factory=list)  # before clipping
    grads: list = field(default_factory=list)  # one list per step, before clipping
    outputs: list = field(default_factory=list)
    routing: list = field(default_factory=list)  # (logits, bias or None, chosen experts)
    loads: list = field(default_factory=list)  # per step: bias name -> choices per expert
    after: list = field(default_factory=list)  # parameters after the last step


def stored(prefix, run, named):
    """The tensors of a run under their names in the reference file: `named(values, others)`
    says what gradients, or parameters, and the loads of experts are called."""
    result = {
        f"{prefix}.loss": torch.stack(run.losses),
        f"{prefix}.grad_norm": torch.stack(run.grad_norms),
    }
    for kind, values, others in (("grad", run.grads[0], run.loads[0]), ("after", run.after, {})):
        for name, tensor in named(values, others).items():
            result[f"{prefix}.{kind}.{name}"] = tensor
    return result


def metadata(case, *libraries):
    """What a reference file says of itself: settings, sizes, versions of `libraries` too."""
    muons = {"optimizer_of_hidden_matrices": "Muon"} if cases.has_muon(case) else {}
    used = sorted((numpy, safetensors, torch, *libraries), key=lambda library: library.__name__)
    return SETTINGS | muons | {
        "case": case,
        "batch": str(cases.BATCH),
        "seq": str(cases.SEQ),
        "steps": str(cases.STEPS),
        **{library.__name__: library.__version__.split("+")[0] for library in used},
    }


def labels_of(targets):
    """Labels that make the library's loss use `targets`.

    The library predicts labels[:, i + 1] at position i, so its label 0 is never used
    and the targets of the last column must be ignored ones.
    """
    labels = torch.full_like(targets, -100)
    labels[:, 1:] = targets[:, :-1]
    return labels


class MuonBesideAdamW:
    """Muon of the matrices of layers, AdamW of everything else."""

    def __init__(self, model):
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        outside = ("embed_tokens", "lm_head", "wte", "wpe")
        is_hidden = lambda name, p: p.ndim >= 2 and not any(part in name for part in outside)
        rest = [(name, p) for name, p in named if not is_hidden(name, p)]
        self.hidden = [(name, p) for name, p in named if is_hidden(name, p)]
        self.rest = adamw_of([p for _, p in rest])
        self.momenta = {name: torch.zeros_like(p) for name, p in self.hidden}

    def zero_grad(self):
        for _, p in self.hidden:
            p.grad = None
        self.rest.zero_grad()

    @torch.no_grad()
    def step(self):
        self.rest.step()
        for name, p in self.hidden:
            momentum = self.momenta[name]
            # The library keeps two matrices of an expert in one.
            parts = 2 if name.endswith("gate_up_proj") else 1
            for w, g, m in zip(*(x.chunk(parts, dim=-2) for x in (p, p.grad, momentum))):
                muon.update(w, g, m, LR, weight_decay=WEIGHT_DECAY)


def optimizer_of(model, is_muon=False):
    """The optimizer of a model's parameters that are trained."""
    return MuonBesideAdamW(model) if is_muon else adamw_of(trained(model))


def adamw_of(parameters):
    """AdamW that decays matrices and leaves vectors (norm weights, biases) alone.

    Experts have rank 3 here and rank 2 in a checkpoint: decayed either way.
    """
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=LR, betas=BETAS, eps=EPS)


def trained(model):
    """The parameters that are not frozen."""
    return [p for p in model.parameters() if p.requires_grad]


def untrained_tensor(model, name):
    """A buffer, or a frozen parameter, by its name."""
    return {**dict(model.named_buffers()), **dict(model.named_parameters())}[name]


def _record_routing(model, run):
    """Makes every router add its logits and choices to `run.routing`."""

    def record(module, inputs, output):
        if len(output) == 2:  # of llama4: weights of all experts, and the logits
            output = output[1], output[0], output[1].topk(module.top_k, -1).indices
        logits, _, experts = output
        name, bias = biases.get(module, (None, None))
        bias = None if bias is None else bias.clone()
        run.routing.append((logits.detach(), bias, experts.detach()))
        if bias is not None:
            count = torch.bincount(experts.flatten(), minlength=bias.numel())
            run.loads[-1][name] = count.to(bias.dtype).view_as(bias)

    # Router -> name and value. minimax_m2 has them beside its router, ernie4_5_moe in a module of it.
    biases, modules = {}, dict(model.named_modules())
    for name, module in modules.items():
        if hasattr(module, "e_score_correction_bias"):
            owner = f"{name}.e_score_correction_bias"
            router = modules[name.rpartition(".")[0]] if name.endswith("moe_statics") else getattr(module, "gate", module)
            biases[router] = owner, module.e_score_correction_bias
    for module in model.modules():
        is_router = type(module).__name__.lower().endswith(("topkrouter", "llama4router", "moev1gate"))
        if is_router or module in biases:
            module.register_forward_hook(record)


def _balance(model, loads):
    """Raises the biases of experts with less than the mean load, lowers the others'."""
    for name, load in loads.items():
        bias = untrained_tensor(model, name)
        bias += BIAS_RATE * torch.sign(load.mean() - load)


def mask_of(model, ids):
    """A mask that hides nothing, for OPT: its own has float32 numbers."""
    family = getattr(getattr(model, "config", None), "model_type", None)  # none: of another library
    return {"attention_mask": torch.ones_like(ids)} if family == "opt" else {}


def train(model, tokens, targets, is_muon=False):
    """Trains `model` in place, one step per batch of `tokens` and `targets`."""
    run = Run()
    _record_routing(model, run)
    optimizer = optimizer_of(model, is_muon)
    for step in range(len(tokens)):
        ids, wanted = tokens[step].long(), targets[step].long()
        optimizer.zero_grad()
        run.loads.append({})
        output = model(input_ids=ids, labels=labels_of(wanted), **mask_of(model, ids))
        output.loss.backward()
        run.grads.append([p.grad.clone() for p in trained(model)])
        run.grad_norms.append(torch.nn.utils.clip_grad_norm_(trained(model), CLIP))
        optimizer.step()
        _balance(model, run.loads[-1])
        run.losses.append(output.loss.detach())
        run.outputs.append(output)
    run.after = [p.detach().clone() for p in trained(model)]
    return run
