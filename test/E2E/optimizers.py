#!/usr/bin/env python3
"""Optimizers besides AdamW: trains in many layouts against one rank, stops and goes on, counts bytes.

    optimizers.py BIN SOURCE [--quick]

As layouts.py, with another optimizer in the model. 8-bit state may differ by one code where rounding puts a
number on the other side of a border, so its bounds are wider; the programs of all ranks are interpreted in
f64, too, where nothing is on another side. Of each layout the optimizer state that `kerf-inspect memory` prints
is compared with what the shapes of the parameters say, to the byte, and of those that the search completes with
what the plan says.
"""

import json
import math
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

import layouts as e2e
import resting
import resume

BLOCK = 16
RULES = {
    "lion": "#kerf.lion<weight_decay = 0.1>",
    "adamw-8bit": f"#kerf.adamw_8bit<beta2 = 0.95, weight_decay = 0.1, block = {BLOCK}, min_elements = 0>",
    "adafactor": "#kerf.adafactor<weight_decay = 0.1>",
    "muon": None,  # with the groups that kerf-import makes
    # Without a norm to wait for, sums of gradients are under way where updates by layers begin.
    "muon-unclipped": None,
}
BOUNDS = {
    "lion": e2e.BOUNDS,
    "adamw-8bit": e2e.BOUNDS | {"metrics": 1e-3, "experts": 1, "states": 1e-2, "updates": 5e-2},
    "adafactor": e2e.BOUNDS,
    "muon": e2e.BOUNDS,
    "muon-unclipped": e2e.BOUNDS,
}
CASES = {
    "lion": {
        "llama": "dp4.m2.zero1 dp2.zero3 tp2.sp.m2 pp2.tp2.dp2.sp.1f1b.m4.zero1 found.pp2.dp2.m2.zero3",
    },
    "adamw-8bit": {
        "llama": """dp4.m2.zero1 dp4.m2.zero2 dp4.m2.zero3 tp2.sp.vocab.m2 tp2.dp2.zero1.group2
            pp2.dp2.v2.m2.zero1 pp2.tp2.dp2.sp.1f1b.m4.zero3 found.tp2.dp2.m2.zero1""",
        "gpt2": "dp4.zero3 tp2.thirds.dp2.zero1 pp2.zb-h1.m4",
        "mixtral": "ep2.dp2.m2.zero3 pp2.ep2.1f1b.m4",
    },
    "adafactor": {
        "llama": """dp4.m2 dp2.zero1 dp2.m2.zero3 tp2.sp.vocab.m2 tp4.sp pp2.tp2.dp2.sp.1f1b.m4
            found.tp2.pp2.m4""",
        "gpt2": "tp2.thirds.dp2 pp2.dp2.zb-h1.m4.zero2",
        "mixtral": "ep2.dp2.m2 ep2.tp2 pp2.ep2.1f1b.m4",
    },
    "muon": {
        "llama": """dp4.m2 dp2.zero1 dp2.m2.zero3 tp2.sp.vocab.m2 tp4.sp pp2.tp2.dp2.sp.1f1b.m4
            found.tp2.pp2.m4""",
        "gpt2": "tp2.thirds.dp2 pp2.dp2.zb-h1.m4.zero2",
        "mixtral": "ep2.dp2.m2 ep2.tp2 pp2.ep2.1f1b.m4",
    },
    "muon-unclipped": {
        "llama": "dp4.m2 cp2.m2 dp2.m2.zero3 tp2.sp.vocab.m2 pp2.dp2.1f1b.m2",
    },
}
QUICK = {
    "lion": {"llama": "pp2.dp2.v2.m2.zero1"},
    "adamw-8bit": {"llama": "pp2.tp2.dp2.sp.1f1b.m4.zero3 found.tp2.dp2.m2.zero1", "gpt2": "tp2.thirds.dp2.zero1"},
    "adafactor": {"llama": "tp2.sp.vocab.m2 pp2.dp2.1f1b.m2", "mixtral": "ep2.tp2"},
    "muon": {"llama": "dp2.zero1 tp2.sp.vocab.m2 pp2.dp2.1f1b.m2", "mixtral": "ep2.tp2"},
    "muon-unclipped": {"llama": "dp2.m2"},
}
CHAINS = {
    "lion": ["tp2", "dp2.zero1"],
    "adamw-8bit": ["pp2.dp2.1f1b.m2.zero3", "tp2.vocab", "dp4.zero1"],
    "adafactor": ["tp2.vocab", "pp2.dp2.1f1b.m2", "m1"],
    "muon": ["tp2.vocab", "pp2.dp2.1f1b.m2", "m1"],
    "muon-unclipped": ["dp2.m2", "m1"],
}
SAME = {"adamw-8bit": "pp2.dp2.1f1b.m2.zero3", "adafactor": "pp2.tp2.1f1b.m4", "muon": "pp2.tp2.1f1b.m4"}


class Bench(e2e.Bench):
    """Models with another optimizer."""

    def __init__(self, rule, *arguments):
        super().__init__(*arguments)
        self.rule = rule

    def import_model(self, family, other):
        super().import_model(family, other)
        base = self.base(family, other)
        if self.rule.startswith("muon"):
            options = [f"--batch={e2e.BATCH}", f"--seq={e2e.SEQUENCE}", "--optimizer=muon"]
            options += ["--clip-norm=0"] * (self.rule == "muon-unclipped")
            e2e.call(self.bin / "kerf-import", base / "config.json", *options, "-o", base / "model.mlir")
            return self.differentiate(base)
        text = (base / "model.mlir").read_text()
        text, count = re.subn(r"optimizer = #kerf\.adamw<[^>]*>", f"optimizer = {RULES[self.rule]}", text)
        if count != 1:
            raise e2e.Failed("a model without an optimizer")
        (base / "model.mlir").write_text(text)
        self.differentiate(base)

    def differentiate(self, base):
        step = ["--stop-after=differentiate", "-o", base / "step.mlir"]
        e2e.call(self.bin / "kerfc", base / "model.mlir", *step)


def state_bytes(rule, name, shape, ranks):
    """Bytes of the state of a parameter, as a list of its tensors; in pieces over so many ranks."""
    elements = math.prod(shape)
    if rule.startswith("muon"):
        hidden = len(shape) > 1 and not re.search("embed_tokens|lm_head|wte|wpe", name)
        return [4 * elements] if hidden else [4 * math.ceil(elements / ranks)] * 2
    if rule == "adafactor":
        rows = [math.prod(shape[:-1]), math.prod(shape[:-2]) * shape[-1]]
        return [4 * n for n in (rows if len(shape) > 1 else [elements])]
    if rule == "lion":
        return [4 * math.ceil(elements / ranks)]
    if shape[-1] % BLOCK:
        return [4 * math.ceil(elements / ranks)] * 2
    blocks = math.ceil(elements / BLOCK / ranks)
    return [blocks * BLOCK, blocks * BLOCK, 4 * blocks, 4 * blocks]


def parameters(bench, family):
    """Name, copies and shape of each parameter, once for the layers of a pattern."""
    text = e2e.call(bench.bin / "kerf-inspect", "params", bench.base(family, False) / "model.mlir")
    found = re.findall(r"^  (\S+) +(\d+)  \[([\d x]*)\]", text, re.M)
    return [(name, int(copies), [int(n) for n in shape.split(" x ")]) for name, copies, shape in found]


def check_bytes(bench, rule, family, layout, file):
    """The state of a rank, where neither stages nor tensor ranks cut it."""
    if layout.over("pp", "tp", "ep") or layout.group:
        return []
    # Every rank has the whole gradient of positions, which are on no data axis.
    pieces = lambda name: layout.sizes["dp"] if layout.zero and "wpe" not in name else 1
    aligned = lambda n: math.ceil(n / resting.ALIGNMENT) * resting.ALIGNMENT
    expected = sum(
        aligned(copies * n)
        for name, copies, shape in parameters(bench, family)
        for n in state_bytes(rule, name, shape, pieces(name))
    )
    found = optimizer_bytes(bench, file)
    return [] if found == [expected] else [f"{found} bytes of state, expected {expected}"]


def optimizer_bytes(bench, file):
    """Of each stage."""
    text = e2e.call(bench.bin / "kerf-inspect", "memory", file)
    return [int(n) for n in re.findall(r"^  optimizer state +(\d+) bytes", text, re.M)]


def check_plan(bench, family, layout):
    """What the plan says of the state of each stage is what the file has, but for the padding of buffers."""
    report = bench.folder / "report.json"
    _, file = bench.compile(family, layout, f"--explain-json={report}")
    planned = [stage["optimizer"] for stage in json.loads(report.read_text())["memory"]["stages_bytes"]]
    placed = optimizer_bytes(bench, file)
    fits = len(planned) == len(placed) and all(abs(a - b) <= 0.03 * b for a, b in zip(planned, placed))
    return [] if fits else [f"state of {planned} bytes planned, {placed} placed"]


def skipped(rule, family):
    """Options that name the parameter without a bound on its state.

    The bias of keys has no gradient but rounding, which is all of its blocks.
    """
    return ["--skip-states", "attn.c_attn.bias"] if (rule, family) == ("adamw-8bit", "gpt2") else []


def check_layout(bench, rule, family, name):
    layout = e2e.Layout(name)
    base, file = bench.compile(family, layout)
    row = e2e.read_row(
        e2e.call(bench.bin / "kerf-same", base / "step.mlir", base / "one.kerf", file, *skipped(rule, family))
    )
    wrong = [key for key, bound in BOUNDS[rule].items() if not row[key] <= bound]
    wrong += [] if row["same"] else ["not the same bits twice"]
    wrong += [] if row["ranks"] == layout.ranks else [f"{row['ranks']} ranks"]
    wrong += check_bytes(bench, rule, family, layout, file)
    if "found" in layout:
        wrong += check_plan(bench, family, layout)
    e2e.show(family, layout, row, wrong)
    return bool(wrong)


def check_one(bench, rule, family):
    base, bounds = bench.base(family, False), BOUNDS[rule]
    tolerance = f"{bounds['loss']}:{bounds['states']}"
    options = f"--steps 5 --tolerance {tolerance} --threads 1 --ignored 60".split()
    text = e2e.call(bench.bin / "kerf-compiled", base / "step.mlir", base / "one.kerf", *options, *skipped(rule, family))
    print(f"{rule} {base.name}: {text.strip()}", flush=True)
    return 0


def check_meaning(bench, base, plans):
    """The programs of all ranks, interpreted in f64, against the step on whole tensors."""
    text = e2e.call(bench.bin / "kerf-layouts", base / "model.mlir", *plans)
    same = text.count(": same")
    print(f"{base.name}: {same} of {len(plans)} plans mean the same", flush=True)
    return same != len(plans)


def check_resume(bench, rule, quick):
    runs = resume.Runs(bench, "llama")
    failed = 0
    chain = CHAINS[rule]
    error = resume.check_chain(runs, chain)
    print(f"{rule}: {' -> '.join(chain)}: loss {error:.1e}", flush=True)
    failed += not error <= BOUNDS[rule]["loss"]
    if rule in SAME:
        wrong = resume.check_same(runs, SAME[rule])
        print(f"{rule}: {SAME[rule]} twice: {', '.join(wrong) or 'the same bits'}", flush=True)
        failed += bool(wrong)
    return failed


def check_refused(bench):
    """A cut through blocks."""
    model = bench.base("llama", False) / "model.mlir"
    text = model.read_text().replace(f"block = {BLOCK}", "block = 32")
    other = bench.folder / "coarse.mlir"
    other.write_text(text)
    plan = bench.base("llama", False) / "tp2.json"
    plan.write_text(json.dumps(e2e.plan_of("llama", e2e.Layout("tp2"))))
    try:
        e2e.call(bench.bin / "kerfc", other, f"--plan={plan}", "-o", bench.folder / "coarse.kerf")
    except e2e.Failed as error:
        if "no whole blocks of 32" in str(error) and "choose a smaller block" in str(error):
            return 0
        print(f"refused with: {error}")
        return 1
    print("a cut through blocks was compiled")
    return 1


def check_family(bench, rule, family, names):
    """One rank against the interpreter, then its layouts."""
    failed, base = 0, bench.base(family, False)
    bench.import_model(family, False)
    e2e.call(bench.bin / "kerfc", base / "model.mlir", "--max-threads=1", "-o", base / "one.kerf")
    checks = [lambda: check_one(bench, rule, family)]
    checks += [lambda name=name: check_layout(bench, rule, family, name) for name in names]
    plans = [base / f"{name}.json" for name in names if "found" not in name]
    checks += [lambda: check_meaning(bench, base, plans)]
    for check in checks:
        try:
            failed += check()
        except e2e.Failed as error:
            print(f"{rule} {family}: {error}", flush=True)
            failed += 1
    return failed


def main():
    quick, failed = "--quick" in sys.argv, 0
    for rule, families in (QUICK if quick else CASES).items():
        with tempfile.TemporaryDirectory(prefix="kerf-optimizers-") as folder:
            bench = Bench(rule, sys.argv[1], sys.argv[2], folder)
            for family, names in families.items():
                failed += check_family(bench, rule, family, names.split())
            try:
                failed += check_resume(bench, rule, quick)
                if rule == "adamw-8bit":
                    failed += check_refused(bench)
            except e2e.Failed as error:
                print(f"{rule}: {error}", flush=True)
                failed += 1
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
