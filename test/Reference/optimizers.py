"""Writes test/Interpreter/optimizer-rules.mlir: steps of Lion, Muon, Adafactor and AdamW in 8 bits.

    python test/Reference/optimizers.py > test/Interpreter/optimizer-rules.mlir

Lion, Muon (`muon.py`) and AdamW in 8 bits are written from their papers, in float64; AdamW's own steps
and Adafactor's are torch's. The dynamic map is a sorted table, and the nearest entry is searched in it.
"""

import random

import torch

import muon as muon_formula

RATE = 0.125
STEPS = 4


def dynamic_map(signed):
    """Dettmers et al. 2022, section 1.3, with a total of 8 bits."""
    values = [0.0, 1.0]
    for exponent in range(7):
        borders = torch.linspace(
            0.1, 1, 2 ** (exponent if signed else exponent + 1) + 1, dtype=torch.float64)
        means = (borders[:-1] + borders[1:]) / 2 * 10.0 ** (exponent - 6)
        values += means.tolist() + ((-means).tolist() if signed else [])
    assert len(values) == 256
    return torch.tensor(sorted(values), dtype=torch.float64)


def rounded(x, block, signed):
    """x as it is after a rest in 8 bits."""
    table = dynamic_map(signed)
    blocks = x.reshape(-1, block)
    largest = blocks.abs().amax(dim=1, keepdim=True)
    scaled = blocks / torch.where(largest == 0, 1, largest)
    nearest = (scaled.unsqueeze(-1) - table).abs().argmin(dim=-1)
    return (table[nearest] * largest).reshape(x.shape)


def adamw_8bit(w, gradients, block, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0):
    m, v = torch.zeros_like(w), torch.zeros_like(w)
    for t, g in enumerate(gradients, 1):
        yield w
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        step = m / (1 - beta1**t) / ((v / (1 - beta2**t)).sqrt() + eps)
        w = w * (1 - RATE * weight_decay) - RATE * step
        m, v = rounded(m, block, True), rounded(v, block, False)


def adamw(w, gradients):
    parameter = torch.nn.Parameter(w.clone())
    optimizer = torch.optim.AdamW([parameter], lr=RATE, weight_decay=0.0)
    for g in gradients:
        yield parameter.detach().clone()
        parameter.grad = g
        optimizer.step()


def adafactor(w, gradients, **options):
    # As the rule, whatever the type of the computation.
    options.setdefault("eps", (torch.finfo(torch.float32).eps, 1e-3))
    parameter = torch.nn.Parameter(w.clone())
    optimizer = torch.optim.Adafactor([parameter], lr=RATE, **options)
    for g in gradients:
        yield parameter.detach().clone()
        parameter.grad = g
        optimizer.step()


def lion(w, gradients, beta1=0.9, beta2=0.99, weight_decay=0.0):
    """Chen et al. 2023, Algorithm 2."""
    m = torch.zeros_like(w)
    for g in gradients:
        yield w
        update = torch.sign(beta1 * m + (1 - beta1) * g)
        w = w - RATE * (update + weight_decay * w)
        m = beta2 * m + (1 - beta2) * g


def muon(w, gradients, **options):
    w, m = w.clone(), torch.zeros_like(w)
    for g in gradients:
        yield w.clone()
        muon_formula.update(w, g, m, RATE, **options)


def table(rows):
    return ",\n       ".join(
        "[" + ", ".join(f"{float(x):.8e}" for x in row.flatten()) + "]" for row in rows)


def typed(shape, element="f32"):
    return "tensor<" + "x".join([str(n) for n in shape] + [element]) + ">"


def dense(tensors, shape):
    """A constant of several tensors of a shape."""
    flat = torch.stack(list(tensors)).reshape(STEPS, -1)
    return (f"kerf.constant dense<\n      [{table(flat)}]>\n"
            f"      : {typed([STEPS, flat.shape[1]])}")


def model(name, about, rule, shape, gradients, expected):
    size = 1
    for n in shape:
        size *= n
    flat, whole = typed([size]), typed(shape)
    print(f"""
// {about}
kerf.model @{name}(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {{
  %gradients = {dense(gradients, shape)}
  %expected = {dense(expected, shape)}
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %gflat = kerf.gather %gradients, %row : {typed([STEPS, size])}, tensor<i32>
  %eflat = kerf.gather %expected, %row : {typed([STEPS, size])}, tensor<i32>
  %g = kerf.reshape %gflat : {flat} -> {whole}
  %e = kerf.reshape %eflat : {flat} -> {whole}
  %w = kerf.param "w" init<constant, 0.75> : {whole}
  kerf.check_close %w, %e within 1.0e-6 : {whole}

  kerf.update "w" rule {rule}
      by %g rate %lr step %t : {whole}
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}}""")


def gradients_of(shape, seed, decades):
    """Numbers of either sign whose magnitudes are spread over so many decades."""
    source = random.Random(seed)

    def one():
        x = source.choice([-1, 1]) * 10 ** -source.uniform(0, decades)
        return float(torch.tensor(x, dtype=torch.float32))

    size = 1
    for n in shape:
        size *= n
    return [torch.tensor([one() for _ in range(size)], dtype=torch.float64).reshape(shape)
            for _ in range(STEPS)]


def main():
    print("""// Parameters at the start of each step against torch.optim, and against the papers' formulas
// where torch has none. Written by test/Reference/optimizers.py.
//
// RUN: kerf-inspect interpret %s --steps=4 --rate=0.125
// RUN: kerf-inspect interpret %s --steps=4 --rate=0.125 --compute=f64""")

    def start(shape):
        return torch.full(shape, 0.75, dtype=torch.float64)

    g = gradients_of([24], 1, 1)
    g[0][0] = 0
    model("lion", "The defaults.", "#kerf.lion<>", [24], g, lion(start([24]), g))
    options = {"beta1": 0.5, "beta2": 0.75, "weight_decay": 0.25}
    text = ", ".join(f"{name} = {value}" for name, value in options.items())
    model("lion_options", "Every number of the rule.", f"#kerf.lion<{text}>", [24], g,
          lion(start([24]), g, **options))

    shape = [2, 32]
    g = gradients_of(shape, 2, 6)
    model("adamw_8bit", "Magnitudes in all decades of the map.",
          "#kerf.adamw_8bit<block = 16, min_elements = 0>", shape, g,
          adamw_8bit(start(shape), g, 16))
    g = gradients_of(shape, 3, 1)
    g[0][1] = 0  # blocks of zeros
    options = {"beta1": 0.5, "beta2": 0.75, "eps": 0.0625, "weight_decay": 0.25}
    text = ", ".join(f"{name} = {value}" for name, value in options.items())
    model("adamw_8bit_options", "Every number of the rule; blocks of zeros.",
          f"#kerf.adamw_8bit<{text}, block = 32, min_elements = 64>", shape, g,
          adamw_8bit(start(shape), g, 32, **options))
    g = gradients_of([2, 8], 4, 1)
    model("adamw_8bit_small", "Fewer elements than `min_elements`: as torch.optim.AdamW.",
          "#kerf.adamw_8bit<block = 8, min_elements = 17>", [2, 8], g,
          adamw(start([2, 8]), g))
    model("adamw_8bit_ragged", "Rows that are no whole blocks: as torch.optim.AdamW.",
          "#kerf.adamw_8bit<block = 16, min_elements = 0>", [2, 8], g,
          adamw(start([2, 8]), g))

    g = gradients_of([3, 4], 5, 1)
    model("adafactor", "The defaults: rows and columns.", "#kerf.adafactor<>", [3, 4], g,
          adafactor(start([3, 4]), g))
    g = [x * (t + 1) for t, x in enumerate(g)]  # so that updates are clipped
    model("adafactor_options", "Every number of the rule.",
          "#kerf.adafactor<beta2_decay = -1.5, eps1 = 0.25, eps2 = 2.0, clip = 1.25,"
          " weight_decay = 0.25>", [3, 4], g,
          adafactor(start([3, 4]), g, beta2_decay=-1.5, eps=(0.25, 2.0), d=1.25,
                    weight_decay=0.25))
    g = gradients_of([2, 3, 2], 6, 3)
    model("adafactor_stack", "Rows and columns of each expert, one size for all.",
          "#kerf.adafactor<>", [2, 3, 2], g, adafactor(start([2, 3, 2]), g))
    g = gradients_of([5], 7, 1)
    model("adafactor_vector", "A parameter of rank 1.", "#kerf.adafactor<>", [5], g,
          adafactor(start([5]), g))

    g = gradients_of([3, 4], 8, 1)
    model("muon", "The defaults.", "#kerf.muon<>", [3, 4], g, muon(start([3, 4]), g))
    g = gradients_of([4, 2], 9, 1)
    options = {"momentum": 0.5, "nesterov": False, "steps": 3, "eps": 4.0, "weight_decay": 0.25}
    model("muon_options", "Every number of the rule; more rows than columns.",
          "#kerf.muon<momentum = 0.5, nesterov = false, steps = 3, a = 2.0, b = -1.5, c = 0.5,"
          " eps = 4.0, adjust = original, weight_decay = 0.25>", [4, 2], g,
          muon(start([4, 2]), g, coefficients=(2.0, -1.5, 0.5), adjust="original", **options))
    g = gradients_of([2, 3, 2], 10, 3)
    g[0][1] = 0
    model("muon_stack", "Each expert for itself; one has no gradient in the first step.",
          "#kerf.muon<>", [2, 3, 2], g, muon(start([2, 3, 2]), g))


main()
