"""Throughput of one training step in PyTorch on the CPU; one JSON line per run.

Variants are words joined by '+':
  eager | compile     as it is, or torch.compile (inductor)
  autocast | masters  bf16 only: autocast over f32 parameters, or bf16 parameters with
                      f32 masters that the optimizer updates
  dense | loop | grouped
                      experts only: all experts on all tokens and a mask, one matmul per
                      expert over its tokens, or torch's grouped_mm over sorted tokens

--ceiling prints the speed of one large matmul instead; --check the first loss and
gradient norm, which must agree with the other peer's.
"""

import json
import os
import sys
import time

import models

WORDS = ["eager", "compile", "autocast", "masters", "dense", "loop", "grouped"]

# Large blocks come from the heap and stay there, instead of being mapped and faulted
# in anew at each step: 3 to 7 % less processor time for gpt-mini in bf16.
ENVIRONMENT = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}


def variants_of(s, dtype):
    result = ["eager", "compile"]
    if dtype == "bf16":
        result = [f"{v}+{how}" for v in result for how in ("autocast", "masters")]
    if s.experts:
        result = [f"{v}+{how}" for v in result for how in ("dense", "loop", "grouped")]
    return result


args_parser = models.parser(__doc__, WORDS)
args_parser.add_argument("--ceiling", action="store_true")
args_parser.add_argument("--check", action="store_true")
args = args_parser.parse_args()
if not models.is_child() and not args.ceiling and not args.check:
    sys.exit(models.run_all(__file__, args, WORDS, variants_of, ENVIRONMENT))
models.use_threads(args.threads)

import torch  # noqa: E402  (threads are set first)
import torch.nn.functional as F  # noqa: E402


class Model(torch.nn.Module):
    """The loss of a GPT, Llama or Mixtral."""

    def __init__(self, s, values, experts):
        super().__init__()
        self.s, self.experts = s, experts
        self.whole = torch.nn.ParameterDict()
        self.layers = torch.nn.ModuleList(torch.nn.ParameterDict() for _ in range(s.layers))
        for name, value in values.items():
            if not name.startswith("."):
                self.whole[name] = torch.from_numpy(value.copy())
                continue
            for layer, part in zip(self.layers, value):
                layer[name[1:]] = torch.from_numpy(self.stored(name[1:], part))
        if not s.gpt:
            cos, sin = models.rope_tables(s)
            self.cos, self.sin = torch.from_numpy(cos), torch.from_numpy(sin)

    @staticmethod
    def stored(name, part):
        """Matrices as F.linear wants them, [out, in]."""
        return part.T.copy() if part.ndim == 2 else part.copy()

    def forward(self, tokens, targets):
        s, p = self.s, self.whole
        x = F.embedding(tokens, p["wte"])
        if s.gpt:
            x = x + p["wpe"][: s.seq]
        for layer in self.layers:
            x = x + self.attention(self.norm(x, layer, "ln1"), layer)
            y = self.norm(x, layer, "ln2")
            x = x + (self.mixture(y, layer) if s.experts else self.mlp(y, layer))
        x = self.norm(x, p, "lnf")
        logits = F.linear(x, p["wte"] if s.gpt else p["head"])
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def norm(self, x, p, name):
        if self.s.gpt:
            return F.layer_norm(x, (self.s.hidden,), p[name], p[name + "_b"], self.s.eps)
        return F.rms_norm(x, (self.s.hidden,), p[name].to(x.dtype), self.s.eps)

    def attention(self, x, p):
        s, d = self.s, self.s.head_dim
        qkv = F.linear(x, p["qkv"], p["qkv_b"] if s.gpt else None)
        q, k, v = (
            part.unflatten(-1, (-1, d)).transpose(1, 2)
            for part in qkv.split((s.heads * d, s.kv * d, s.kv * d), -1)
        )
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
        weight = torch.zeros(x.shape[0], self.s.experts, dtype=x.dtype)
        weight = weight.scatter(1, chosen, share)
        gate, up = torch.matmul(x, p["gate_up"]).chunk(2, -1)
        y = F.silu(gate) * up * weight.T[:, :, None]
        return torch.bmm(y, p["down"].to(y.dtype)).sum(0)

    def sort(self, chosen):
        """Slots by expert: their number in the flat choices, and how many each has."""
        flat = chosen.flatten()
        return flat.argsort(stable=True), torch.bincount(flat, minlength=self.s.experts)

    def loop(self, x, share, chosen, p):
        order, counts = self.sort(chosen)
        parts = []
        for expert, part in enumerate(x[order // self.s.top].split(counts.tolist())):
            gate, up = (part @ p["gate_up"][expert]).chunk(2, -1)
            parts.append((F.silu(gate) * up) @ p["down"][expert])
        return self.combine(x, torch.cat(parts), share, order)

    def grouped(self, x, share, chosen, p):
        order, counts = self.sort(chosen)
        ends = counts.cumsum(0).to(torch.int32)
        kind = torch.get_autocast_dtype("cpu") if self.auto() else x.dtype
        rows = x[order // self.s.top].to(kind)
        gate, up = F.grouped_mm(rows, p["gate_up"].to(rows.dtype), offs=ends).chunk(2, -1)
        y = F.grouped_mm(F.silu(gate) * up, p["down"].to(rows.dtype), offs=ends)
        return self.combine(x, y, share, order)

    @staticmethod
    def auto():
        return torch.is_autocast_enabled("cpu")

    def combine(self, x, y, share, order):
        y = y * share.flatten()[order, None].to(y.dtype)
        return torch.zeros_like(x, dtype=y.dtype).index_add(0, order // self.s.top, y)


class Training:
    """A model with its optimizer."""

    def __init__(self, s, dtype, words):
        experts = next((w for w in words if w in ("dense", "loop", "grouped")), "loop")
        self.model = Model(s, models.weights(s), experts)
        self.autocast = "autocast" in words
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
        self.loss = torch.compile(self.model) if "compile" in words else self.model
        self.data = [torch.from_numpy(x).long() for x in models.tokens(s)]

    def backward(self):
        """Loss, with gradients in the masters."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.loss(*self.data)
        loss.backward()
        if self.masters is not self.parameters:
            with torch.no_grad():
                for master, parameter in zip(self.masters, self.parameters):
                    master.grad = parameter.grad.float()
                    parameter.grad = None
        return loss

    def step(self):
        loss = self.backward()
        torch.nn.utils.clip_grad_norm_(self.masters, models.CLIP, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.masters is not self.parameters:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.masters)
        return loss.item()


def about():
    """Versions and flags that matter."""
    return {
        "peer": "torch",
        "version": torch.__version__,
        "mkldnn": torch.backends.mkldnn.is_available(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "environment": {key: os.environ[key] for key in ENVIRONMENT if key in os.environ},
        "optimizer": "AdamW(fused=True)",
    }


def ceiling():
    """GFLOP/s of a 2048x3072x768 matmul, the best of 5 x 20."""
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.randn(2048, 768).to(dtype)
        b = torch.randn(3072, 768).to(dtype)
        best = float("inf")
        for _ in range(6):
            start = time.perf_counter()
            for _ in range(20):
                F.linear(a, b)
            best = min(best, (time.perf_counter() - start) / 20)
        gflops = round(2 * 2048 * 3072 * 768 / best / 1e9, 1)
        name = "f32" if dtype == torch.float32 else "bf16"
        line = {"matmul": "2048x3072x768", "dtype": name, "gflop_per_s": gflops}
        print(json.dumps(about() | {"threads": args.threads} | line), flush=True)


def check():
    """First loss and gradient norm of every model in f32."""
    for name in models.MODELS if args.model == "all" else [args.model]:
        s = models.shape_of(name)
        for words in (["dense"], ["loop"], ["grouped"]) if s.experts else ([],):
            training = Training(s, "f32", words)
            loss = training.backward().item()
            norm = torch.nn.utils.get_total_norm([p.grad for p in training.masters]).item()
            line = {"model": name, "variant": "+".join(words), "loss": loss, "grad_norm": norm}
            print(json.dumps({"peer": "torch"} | line), flush=True)


def main():
    torch.set_num_threads(args.threads)
    if args.ceiling:
        return ceiling()
    if args.check:
        return check()
    s = models.shape_of(args.model)
    training = Training(s, args.dtype, args.variant.split("+"))
    print(json.dumps(about() | models.measure(s, args, training.step)), flush=True)


main()
