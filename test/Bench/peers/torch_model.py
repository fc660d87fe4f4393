"""The model and its optimizer that the PyTorch peers train, on any device."""

import models
import torch
import torch.nn.functional as F


def shared_values(s):
    """The weights of models.py as tensors on the CPU."""
    return ((name, torch.from_numpy(value)) for name, value in models.weights(s).items())


class Sorted(torch.autograd.Function):
    """Rows of x [tokens, H] by expert, [tokens x top, H]: those of `order`. `inverse` is
    where each choice went. Sums in the gradient are over neighbours, without atomics."""

    @staticmethod
    def forward(ctx, x, order, inverse, top):
        ctx.save_for_backward(inverse)
        ctx.top = top
        return x.index_select(0, order // top)

    @staticmethod
    def backward(ctx, gradient):
        (inverse,) = ctx.saved_tensors
        rows = gradient.index_select(0, inverse)
        return rows.unflatten(0, (-1, ctx.top)).sum(1), None, None, None


class Restored(torch.autograd.Function):
    """Rows [tokens x top, H] back in the order of choices; the gradient by `order`."""

    @staticmethod
    def forward(ctx, x, order, inverse):
        ctx.save_for_backward(order)
        return x.index_select(0, inverse)

    @staticmethod
    def backward(ctx, gradient):
        (order,) = ctx.saved_tensors
        return gradient.index_select(0, order), None, None


class Model(torch.nn.Module):
    """The loss of a GPT, Llama or Mixtral. `values` has the f32 tensors of
    models.weight_shapes on `device`, those of layers as one tensor per layer."""

    def __init__(self, s, values, experts, device="cpu"):
        super().__init__()
        self.s, self.experts, self.device = s, experts, device
        # `blocks` has them compiled, each for itself.
        self.one_layer, self.last = self.block, self.head
        self.whole = torch.nn.ParameterDict()
        self.layers = torch.nn.ModuleList(torch.nn.ParameterDict() for _ in range(s.layers))
        for name, value in values:
            if not name.startswith("."):
                self.whole[name] = value
                continue
            for layer, part in zip(self.layers, value):
                layer[name[1:]] = self.stored(part)
        self.names = list(self.layers[0].keys())
        if not s.gpt:
            cos, sin = models.rope_tables(s)
            self.cos = torch.from_numpy(cos).to(device)
            self.sin = torch.from_numpy(sin).to(device)

    @staticmethod
    def stored(part):
        """Matrices as F.linear wants them, [out, in]."""
        return part.T.contiguous() if part.ndim == 2 else part

    def forward(self, tokens, targets):
        s, p = self.s, self.whole
        x = F.embedding(tokens, p["wte"])
        if s.gpt:
            x = x + p["wpe"][: s.seq]
        for layer in self.layers:
            x = self.one_layer(x, *[layer[name] for name in self.names])
        return self.last(x, targets)

    def head(self, x, targets):
        """The loss of what the last layer gives."""
        x = self.norm(x, self.whole, "lnf")
        logits = F.linear(x, self.whole["wte" if self.s.gpt else "head"])
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def block(self, x, *values):
        """One layer. Its weights are arguments, in the order of their names, so that
        compiled code serves all layers."""
        p = dict(zip(self.names, values))
        x = x + self.attention(self.norm(x, p, "ln1"), p)
        y = self.norm(x, p, "ln2")
        return x + (self.mixture(y, p) if self.s.experts else self.mlp(y, p))

    def norm(self, x, p, name):
        if self.s.gpt:
            return F.layer_norm(x, (self.s.hidden,), p[name], p[name + "_b"], self.s.eps)
        return F.rms_norm(x, p[name].shape, p[name].to(x.dtype), self.s.eps)

    def attention(self, x, p):
        s, d = self.s, self.s.head_dim
        qkv = F.linear(x, p["qkv"], p["qkv_b"] if s.gpt else None)
        q, k, v = (
            part.unflatten(-1, (-1, d)).transpose(1, 2)
            for part in qkv.split((s.heads * d, s.kv * d, s.kv * d), -1)
        )
        if s.head_norms:
            q, k = self.norm(q, p, "q_norm"), self.norm(k, p, "k_norm")
        if not s.gpt:
            q, k = self.rotated(q), self.rotated(k)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=s.kv < s.heads)
        out = out.transpose(1, 2).flatten(2)
        return F.linear(out, p["proj"], p["proj_b"] if s.gpt else None)

    def rotated(self, x):
        a, b = x.chunk(2, -1)
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def mlp(self, x, p):
        if self.s.gpt:
            y = F.gelu(F.linear(x, p["fc"], p["fc_b"]), approximate="tanh")
            return F.linear(y, p["out"], p["out_b"])
        gate, up = F.linear(x, p["gate_up"]).chunk(2, -1)
        return F.linear(F.silu(gate) * up, p["down"])

    def mixture(self, x, p):
        shape = x.shape
        x = x.flatten(0, 1)
        probabilities = F.linear(x, p["router"]).float().softmax(-1)
        share, chosen = probabilities.topk(self.s.top, -1)
        share = (share / share.sum(-1, keepdim=True)).to(x.dtype)
        run = {"dense": self.dense, "loop": self.loop, "grouped": self.grouped}
        return run[self.experts](x, share, chosen, p).view(shape)

    def dense(self, x, share, chosen, p):
        weight = x.new_zeros(x.shape[0], self.s.experts)
        weight = weight.scatter(1, chosen, share)
        gate, up = torch.matmul(x, p["gate_up"]).chunk(2, -1)
        y = F.silu(gate) * up * weight.T[:, :, None]
        return torch.bmm(y, p["down"].to(y.dtype)).sum(0)

    def sort(self, chosen):
        """Choices by expert: their numbers in the flat list, where each of the list went,
        and how many each expert has."""
        flat = chosen.flatten()
        # As bincount, which would wait for the GPU.
        counts = flat.new_zeros(self.s.experts).scatter_add(0, flat, torch.ones_like(flat))
        order = flat.argsort(stable=True)
        places = torch.arange(flat.numel(), device=flat.device)
        return order, torch.empty_like(order).scatter(0, order, places), counts

    def loop(self, x, share, chosen, p):
        order, inverse, counts = self.sort(chosen)
        parts = []
        rows = Sorted.apply(x, order, inverse, self.s.top)
        for expert, part in enumerate(rows.split(counts.tolist())):
            gate, up = (part @ p["gate_up"][expert]).chunk(2, -1)
            parts.append((F.silu(gate) * up) @ p["down"][expert])
        return self.combine(torch.cat(parts), share, order, inverse)

    def grouped(self, x, share, chosen, p):
        order, inverse, counts = self.sort(chosen)
        ends = counts.cumsum(0).to(torch.int32)
        kind = torch.get_autocast_dtype(self.device) if self.auto() else x.dtype
        rows = Sorted.apply(x.to(kind), order, inverse, self.s.top)
        gate, up = F.grouped_mm(rows, p["gate_up"].to(kind), offs=ends).chunk(2, -1)
        y = F.grouped_mm(F.silu(gate) * up, p["down"].to(kind), offs=ends)
        return self.combine(y, share, order, inverse)

    def auto(self):
        return torch.is_autocast_enabled(self.device)

    def combine(self, y, share, order, inverse):
        y = Restored.apply(y, order, inverse).unflatten(0, (-1, self.s.top))
        return (y * share[:, :, None].to(y.dtype)).sum(1)


class Training:
    """A model with its optimizer. `words` are those of a variant; `values` as for Model
    (default: the weights that all peers on a CPU start with); `data`: tokens and next
    tokens, i64 [batch, seq] on `device` (default: models.tokens)."""

    def __init__(self, s, words, values=None, device="cpu", data=None):
        self.device = device
        experts = next((w for w in words if w in ("dense", "loop", "grouped")), "loop")
        self.model = Model(s, values or shared_values(s), experts, device)
        self.autocast, self.has_graphs = "autocast" in words, "graphs" in words
        self.micro_batches = next((int(w[5:]) for w in words if w.startswith("micro")), 1)
        self.parameters = list(self.model.parameters())
        self.masters = self.parameters
        if "masters" in words:
            self.masters = [torch.nn.Parameter(p.detach().clone()) for p in self.parameters]
            self.model.bfloat16()
            self.parameters = list(self.model.parameters())
        groups = [
            {"params": [p for p in self.masters if p.ndim >= 2], "weight_decay": models.DECAY},
            {"params": [p for p in self.masters if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups,
            lr=models.LEARNING_RATE,
            betas=(models.BETA1, models.BETA2),
            eps=models.EPS,
            fused=True,
        )
        self.loss = self.compiled(words)
        if data is None:
            data = [torch.from_numpy(x).long().to(device) for x in models.tokens(s)]
        self.parts = list(zip(*(part.chunk(self.micro_batches) for part in data)))

    def compiled(self, words):
        """The loss, compiled as a whole, with measured choices, with CUDA graphs, by
        layers, or not at all."""
        if "compile" in words:
            return torch.compile(self.model)
        if "autotune" in words:
            return torch.compile(self.model, mode="max-autotune-no-cudagraphs")
        if "graphs" in words:
            return torch.compile(self.model, mode="reduce-overhead")
        if "blocks" in words:
            self.model.one_layer = torch.compile(self.model.block)
            self.model.last = torch.compile(self.model.head)
        return self.model

    def backward(self):
        """Loss, with gradients in the masters."""
        total = 0
        for part in self.parts:
            if self.has_graphs:
                torch.compiler.cudagraph_mark_step_begin()
            with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
                loss = self.loss(*part)
            (loss / self.micro_batches).backward()
            total = total + loss.detach().clone()
            if self.masters is not self.parameters:
                self.collect()
        return total / self.micro_batches

    @torch.no_grad()
    def collect(self):
        """Adds the gradients in bf16 to those of the masters, in f32, and forgets them."""
        narrow = [p.grad for p in self.parameters]
        wide = [torch.empty_like(master) for master in self.masters]
        torch._foreach_copy_(wide, narrow)
        if self.masters[0].grad is None:
            for master, gradient in zip(self.masters, wide):
                master.grad = gradient
        else:
            torch._foreach_add_([master.grad for master in self.masters], wide)
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        """One step, and the loss before it as a tensor, which nobody waited for."""
        loss = self.backward()
        self.clip()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.masters is not self.parameters:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.masters)
        return loss

    def clip(self):
        """As clip_grad_norm_, but the optimizer's own kernel divides the gradients."""
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.masters], foreach=True)
        self.optimizer.grad_scale = ((norm + 1e-6) / models.CLIP).clamp(min=1)
