#!/usr/bin/env python3
"""Trains low-rank adapters of a tiny model, on real processes, against one rank.

    adapters.py BIN SOURCE [--quick] [--jobs N]

Twice: with the frozen weights as they are computed with (`lora`), and in 4-bit codes
(`qlora`). Layouts are those of layouts.py, and so are the checks. Then, of several ranks:

  1. Frozen weights are the same bits after training; adapters are not.
  2. Gradients, masters and optimizer state of the compiled file are those of the adapters.
  3. Saved adapters have the names, shapes and config of the peft library, and are read again.
  4. Codes made of a checkpoint's weights are those of the definition.
"""

import argparse
import array
import json
import random
import re
import struct
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

import layouts as e2e

LAYERS, HIDDEN, INNER, VOCAB, RANK = 4, 128, 256, 256, 4
ALIGNMENT = 64  # of a buffer
OPTIONS = {
    "lora": [],
    "qlora": ["--quantize-base=nf4"],
}
LAYOUTS = {
    "lora": """dp2 m2 tp2 tp2.sp.vocab full dp2.zero1 dp2.m2.zero2 dp4.m2.zero3
        dp4.zero3.group2 pp2.1f1b.m4 pp2.zb-h1.m4.full cp2.dp2.m2.zero3 pp2.tp2.dp2.v2.m2.zero3.full
        found.tp2.dp2.zero1""",
    "qlora": """dp2 m2 tp2 tp2.sp.vocab.m2.selective full dp2.zero1 dp4.m2.zero2 dp4.m2.zero3
        pp2.1f1b.m4 pp2.zb-h1.m4 cp2.dp2.m2.zero3 pp2.tp2.dp2.v2.m2.zero3.full
        found.pp2.dp2.m2.zero3""",
}
QUICK = {
    "lora": "tp2.sp.vocab dp4.m2.zero3 pp2.zb-h1.m4.full",
    "qlora": "pp2.tp2.dp2.v2.m2.zero3.full found.pp2.dp2.m2.zero3",
}
# Outputs and inputs of the modules that have an adapter.
KEYS = HIDDEN // 2
MODULES = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (KEYS, HIDDEN),
    "self_attn.v_proj": (KEYS, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}

# NF4 of Dettmers et al. 2023, appendix E.
NUMBERS = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip


def bounds_of(row):
    """Adam's update has the relative error of its gradient. That of an adapter is often a thousandth
    of the largest, so its error is a thousand times that of states, which are parts of the largest."""
    return e2e.BOUNDS | {"updates": max(e2e.BOUNDS["updates"], 1e3 * row["states"])}


class Bench(e2e.Bench):
    """Models with adapters, under the names of their kinds; rules are those of llama."""

    def base(self, family, other):
        return self.folder / self.kind

    def import_model(self, family, other):
        base = self.base(family, other)
        base.mkdir()
        config = json.loads((self.source / "examples/models/tiny-llama/config.json").read_text())
        # Weights that make attention choose: of an even one the gradients of keys are noise.
        config |= {"hidden_size": HIDDEN, "intermediate_size": INNER, "vocab_size": VOCAB}
        config["initializer_range"] = 0.1
        (base / "config.json").write_text(json.dumps(config))
        e2e.call(
            self.bin / "kerf-import", base / "config.json",
            f"--batch={e2e.BATCH}", f"--seq={e2e.SEQUENCE}",
            f"--lora-rank={RANK}", "--lora-alpha=6", *OPTIONS[self.kind],
            "-o", base / "model.mlir",
        )  # fmt: skip
        model, step = base / "model.mlir", base / "step.mlir"
        e2e.call(self.bin / "kerfc", model, "--stop-after=differentiate", "-o", step)

    def plan(self, family, layout):
        """The embedding is frozen: it has no gradient to lay out."""
        plan = e2e.plan_of(family, layout)
        plan["assign"] = [rule for rule in plan["assign"] if rule["op"] != "weight_gradient 1 0"]
        return plan


def read_tensors(path):
    """Name -> (type, shape, bytes) of a safetensors file."""
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length :]
    return {
        name: (t["dtype"], t["shape"], body[t["data_offsets"][0] : t["data_offsets"][1]])
        for name, t in header.items()
    }


def write_tensors(path, tensors):
    """Writes f32 tensors: name -> (shape, numbers)."""
    header, body = {}, b""
    for name, (shape, numbers) in tensors.items():
        raw = array.array("f", numbers).tobytes()
        place = [len(body), len(body) + len(raw)]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": place}
        body += raw
    text = json.dumps(header).encode()
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def base_weights():
    """Weights of the base, as a checkpoint has them."""
    rng = random.Random(5)
    shapes = {"model.norm.weight": [HIDDEN]}
    for table in ("model.embed_tokens", "lm_head"):
        shapes[f"{table}.weight"] = [VOCAB, HIDDEN]
    for i in range(LAYERS):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"model.layers.{i}.{norm}.weight"] = [HIDDEN]
        for module, (outputs, inputs) in MODULES.items():
            shapes[f"model.layers.{i}.{module}.weight"] = [outputs, inputs]
    tensors = {}
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        center, spread = (1.0, 0.1) if len(shape) == 1 else (0.0, 0.02)
        # Numbers of f32.
        numbers = array.array("f", [rng.gauss(center, spread) for _ in range(count)])
        tensors[name] = (shape, list(numbers))
    return tensors


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def quantize(numbers):
    """Codes and scales of 64 numbers each; a number that two codes are as near to is skipped."""
    codes, scales, doubtful = [], [], 0
    for at in range(0, len(numbers), 64):
        block = numbers[at : at + 64]
        scale = max(abs(x) for x in block)
        scales.append(scale)
        nearest = []
        for x in block:
            distances = sorted((abs(x / scale - n), code) for code, n in enumerate(NUMBERS))
            doubtful += distances[1][0] - distances[0][0] < 1e-6
            nearest.append(distances[0][1])
        codes += [16 * nearest[j] + nearest[32 + j] - 128 for j in range(32)]
    return codes, scales, doubtful


class Checks:
    """What is wrong, one line each."""

    def __init__(self):
        self.bad = 0

    def expect(self, is_good, what):
        if not is_good:
            self.bad += 1
        print(f"{'ok   ' if is_good else 'WRONG'} {what}", flush=True)


def check_training(bench, name, checks):
    """Of a run on several ranks: what changed, what was saved, and what it is read as."""
    base, file = bench.compile("llama", e2e.Layout(name))
    tokens = array.array("H", ((i * i + 7 * i) % 251 for i in range(20000)))
    data = base / "tokens.bin"
    data.write_bytes(tokens.tobytes())
    start = base_weights()
    write_tensors(base / "base.safetensors", start)

    def run(label, *options):
        e2e.call(
            bench.bin / "kerf-run", file, f"--data={data}", "--data-format=u16", "--threads=1",
            "--lr=1e-2", f"--init-from={base / 'base.safetensors'}",
            f"--save-weights={base / label}.safetensors", *options,
        )  # fmt: skip
        return read_tensors(base / f"{label}.safetensors")

    before = run("before", "--steps=0")
    after = run("after", "--steps=5", f"--save-adapter={base / 'adapter'}")
    frozen = [name for name in before if ".lora_" not in name]
    changed = [name for name in before if before[name] != after[name]]
    checks.expect(
        set(changed) == set(before) - set(frozen),
        f"{bench.kind} {name}: five steps change adapters and nothing else",
    )
    check_base(bench, start, before, checks)
    check_saved(bench, base / "adapter", after, checks)
    again = run("again", "--steps=0", f"--init-adapter={base / 'adapter'}")
    checks.expect(again == after, f"{bench.kind} {name}: saved adapters are read again")


def check_base(bench, start, before, checks):
    """The base as it was read."""
    names = [f"{module}.weight" for module in MODULES] if bench.kind == "qlora" else []
    wrong = doubtful = 0
    for name, (_, numbers) in start.items():
        if not any(name.endswith(n) for n in names):
            wrong += before[name][2] != array.array("f", numbers).tobytes()
            continue
        codes, scales, close = quantize(numbers)
        kept = before[name][2]
        doubtful += close
        wrong += before[f"{name}.absmax"][2] != array.array("f", scales).tobytes()
        wrong += sum(a != b % 256 for a, b in zip(kept, codes, strict=True)) > close
    checks.expect(
        wrong == 0, f"{bench.kind}: the base is what the checkpoint says ({doubtful} close calls)"
    )


def check_saved(bench, folder, after, checks):
    """Names, shapes and values of saved adapters, and their config."""
    config = json.loads((folder / "adapter_config.json").read_text())
    targets = sorted(module.split(".")[1] for module in MODULES)
    expected = {"peft_type": "LORA", "r": RANK, "lora_alpha": 6, "target_modules": targets}
    checks.expect(
        expected.items() <= config.items() and config["fan_in_fan_out"] is False,
        f"{bench.kind}: the config says what the adapters are",
    )
    saved = read_tensors(folder / "adapter_model.safetensors")
    wanted = {}
    for i in range(LAYERS):
        for module, (outputs, inputs) in MODULES.items():
            name = f"model.layers.{i}.{module}"
            wanted[f"base_model.model.{name}.lora_A.weight"] = [RANK, inputs]
            wanted[f"base_model.model.{name}.lora_B.weight"] = [outputs, RANK]
    checks.expect(
        {name: shape for name, (_, shape, _) in saved.items()} == wanted,
        f"{bench.kind}: saved names and shapes are those of the peft library",
    )
    checks.expect(
        saved == {f"base_model.model.{n}": t for n, t in after.items() if ".lora_" in n},
        f"{bench.kind}: saved values are the weights'",
    )


def check_memory(bench, name, checks):
    """Bytes at rest of the compiled file's classes: of adapters, and of nothing frozen."""
    layout = e2e.Layout(name)
    _, file = bench.compile("llama", layout)
    text = e2e.call(bench.bin / "kerf-inspect", "memory", file)
    found = re.findall(r"^  (\w[\w ]*?) +(\d+) bytes", text, re.M)
    sizes = {name: int(size) for name, size in found}
    adapters = 4 * LAYERS * sum(RANK * (outputs + inputs) for outputs, inputs in MODULES.values())
    matrices = LAYERS * sum(outputs * inputs for outputs, inputs in MODULES.values())
    others = 4 * (2 * VOCAB * HIDDEN + (2 * LAYERS + 1) * HIDDEN)
    base = matrices * 9 // 16 if bench.kind == "qlora" else 4 * matrices
    checks.expect(
        sizes["parameters"] == adapters + base + others,
        f"{bench.kind}: parameters take {sizes['parameters']} bytes",
    )
    checks.expect(
        sizes["optimizer state"] == 2 * adapters,
        f"{bench.kind}: optimizer state takes {sizes['optimizer state']} bytes",
    )
    checks.expect(
        sizes["gradients"] == adapters + ALIGNMENT,  # with their norm
        f"{bench.kind}: gradients take {sizes['gradients']} bytes",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("source")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        for kind in OPTIONS:
            bench = Bench(options.bin, options.source, folder)
            bench.kind = kind
            print(f"{kind}, one rank: {bench.prepare('llama', False).strip()}", flush=True)
            for name in (QUICK if options.quick else LAYOUTS)[kind].split():
                layout = e2e.Layout(name)
                try:
                    row = bench.train("llama", layout)
                except e2e.Failed as failure:
                    checks.expect(False, f"{kind} {name}: {failure}")
                    continue
                wrong = e2e.judge(row, layout, bounds_of(row))
                checks.bad += bool(wrong)
                e2e.show(kind, layout, row, wrong)
            check_training(bench, "dp2.zero3" if kind == "qlora" else "tp2", checks)
            check_memory(bench, "m2", checks)
    print(f"{checks.bad} wrong")
    return 1 if checks.bad else 0


if __name__ == "__main__":
    sys.exit(main())
