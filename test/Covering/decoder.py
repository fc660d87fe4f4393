"""A decoder as exporters write it: plain ops, all layers written out. `kerf-import` finds its layers and loops."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/python"))

from kerf.text import Value, Writer, type_of

VOCAB, WIDTH, HEADS, INNER = 48, 48, 12, 24
HEAD = WIDTH // HEADS


class Decoder:
    """Norms, rotary embeddings, causal attention of groups of heads, a gate; a tied head."""

    def __init__(self, batch, seq, layers, optimizer):
        self.w, self.batch, self.seq, self.layers, self.optimizer = Writer(), batch, seq, layers, optimizer

    def param(self, name, *shape, init="normal, 0.1"):
        return self.w.emit(f'param "{name}" init<{init}> : {type_of(shape, "f32")}', shape, "f32", name)

    def norm(self, name, x):
        w = self.w
        mean = w.binary("mul", w.reduce("sum", w.binary("mul", x, x), [2], keep=True), w.constant(1 / WIDTH))
        factor = w.unary("rsqrt", w.binary("add", mean, w.constant(1e-5)))
        return w.binary("mul", w.binary("mul", x, factor), self.param(name, WIDTH, init="ones"))

    def rotations(self):
        """Cosines and sines [1, S, 1, HEAD]."""
        w = self.w
        shape = (self.seq, HEAD // 2)
        frequencies = w.table([10000.0 ** (-i / (HEAD // 2)) for i in range(HEAD // 2)], shape[1:], "f32")
        angles = w.binary("mul", w.cast(w.iota(shape, 0), "f32"), w.broadcast(frequencies, shape))
        whole = w.concat([angles, angles], 1)
        return [w.reshape(w.unary(name, whole), (1, self.seq, 1, HEAD)) for name in ("cos", "sin")]

    def rotate(self, x, cos, sin):
        w, half = self.w, HEAD // 2
        turned = w.concat([w.unary("neg", w.slice(x, 3, half, half)), w.slice(x, 3, 0, half)], 3)
        return w.binary("add", w.binary("mul", x, cos), w.binary("mul", turned, sin))

    def heads(self, name, x, count):
        y = self.w.linear(x, self.param(name, count * HEAD, WIDTH))
        return self.w.reshape(y, (self.batch, self.seq, count, HEAD))

    def attention(self, name, x, tables):
        w = self.w
        q, k = (self.rotate(self.heads(f"{name}.{n}", x, c), *tables) for n, c in (("q", HEADS), ("k", HEADS // 2)))
        v = self.heads(f"{name}.v", x, HEADS // 2)
        q = w.swap(q, 1, 2)
        k, v = (self.repeated(w.swap(part, 1, 2)) for part in (k, v))
        scores = w.binary("mul", w.matmul(q, w.swap(k, 2, 3)), w.constant(HEAD**-0.5))
        plane = (self.seq, self.seq)
        mask = w.broadcast(w.compare("le", w.iota(plane, 1), w.iota(plane, 0)), scores.shape)
        shown = w.select(mask, scores, w.constant(float("-inf"), scores.shape))
        weights = w.emit(f"softmax {shown.name} : {shown.type}", shown.shape, "f32")
        y = w.reshape(w.swap(w.matmul(weights, v), 1, 2), (self.batch, self.seq, WIDTH))
        return w.linear(y, self.param(f"{name}.o", WIDTH, WIDTH))

    def repeated(self, x):
        batch, heads, seq, head = x.shape
        wide = self.w.broadcast(self.w.reshape(x, (batch, heads, 1, seq, head)), (batch, heads, 2, seq, head))
        return self.w.reshape(wide, (batch, 2 * heads, seq, head))

    def gated(self, name, x):
        w = self.w
        gate, up = (w.linear(x, self.param(f"{name}.{n}", INNER, WIDTH)) for n in ("gate", "up"))
        product = w.binary("mul", w.binary("mul", gate, w.unary("logistic", gate)), up)
        return w.linear(product, self.param(f"{name}.down", WIDTH, INNER))

    def loss(self, logits, targets):
        """Mean of log(sum(exp(x))) - x[t]."""
        w = self.w
        top = w.reduce("max", logits, [2], keep=True)
        total = w.unary("log", w.reduce("sum", w.unary("exp", w.binary("sub", logits, top)), [2], keep=True))
        index = w.broadcast(w.reshape(targets, (*targets.shape, 1)), logits.shape)
        chosen = w.compare("eq", index, w.iota(logits.shape, 2))
        picked = w.reduce("sum", w.select(chosen, logits, w.constant(0, logits.shape)), [2], keep=True)
        lost = w.binary("sub", w.binary("add", total, top), picked)
        return w.binary("div", w.reduce("sum", lost, [0, 1, 2]), w.constant(float(self.batch * self.seq)))

    def text(self):
        shape = (self.batch, self.seq)
        tokens, targets = (Value(self.w.fresh(name), shape, "i32") for name in ("tokens", "targets"))
        table = self.param("embed", VOCAB, WIDTH)
        x = self.w.emit(f"embedding {tokens.name}, {table.name} : {tokens.type}, {table.type}", (*shape, WIDTH), "f32")
        tables = self.rotations()
        for i in range(self.layers):
            x = self.w.binary("add", x, self.attention(f"layers.{i}", self.norm(f"layers.{i}.norm1", x), tables))
            x = self.w.binary("add", x, self.gated(f"layers.{i}", self.norm(f"layers.{i}.norm2", x)))
        loss = self.loss(self.w.linear(self.norm("norm", x), table), targets)
        body = "\n".join(self.w.lines)
        header = f"tokens {tokens.name}: {tokens.type}, targets {targets.name}: {targets.type}"
        return (
            f"kerf.model @graph({header})\n    attributes {{{self.optimizer}, clip_norm = 1.0}} {{\n{body}\n"
            f"  kerf.return {loss.name} : {loss.type}\n}}\n"
        )
