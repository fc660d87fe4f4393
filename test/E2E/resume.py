#!/usr/bin/env python3
"""Saves a run in one layout and goes on in another.

    resume.py BIN SOURCE [--quick]

A run of nine steps on one rank is the measure. Each chain saves its state every three steps and goes on
in the next layout: losses have to be those of the measure within 1e-5. Going on in the same layout has
to give the same bits: losses and the saved file are compared with a run that was never stopped.
"""

import array
import json
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "Run"))

import layouts as e2e
import states

STEPS = 3  # between saved states

CHAINS = [
    ("llama", ["pp2.dp2.1f1b.m2.zero3", "tp2.vocab", "m2"]),
    ("llama", ["m2", "tp2.sp", "pp2.dp2.v2.m2.zero1"]),
    ("llama", ["dp4.zero3", "dp4.m2.zero2.group2", "pp4.1f1b.m4"]),
    ("gpt2", ["pp2.zb-h1.m4", "tp2.thirds.dp2.zero1", "cp2.dp2.zero3"]),
    ("mixtral", ["ep2.dp2.zero3", "pp2.ep2.1f1b.m4", "tp2"]),
]
SAME = [
    ("llama", "pp2.dp2.1f1b.m2.zero3"),
    ("gpt2", "pp2.tp2.dp2.sp.1f1b.m4.zero1"),
    ("mixtral", "ep2.dp2.m2.zero1"),
]


class Runs:
    """Runs of one model on the same data."""

    def __init__(self, bench, family):
        self.bench, self.family = bench, family
        self.folder = bench.base(family, False)
        tokens = array.array("H", ((i * i + 7 * i) % 89 for i in range(20000)))
        (self.folder / "tokens.bin").write_bytes(tokens.tobytes())
        self.files = {}

    def file(self, name):
        if name not in self.files:
            self.files[name] = self.bench.compile(self.family, e2e.Layout(name))[1]
        return self.files[name]

    def run(self, name, steps, save, resume=None):
        """Trains to step `steps`; the losses of the steps that it made, as they are printed."""
        log = save.with_suffix(".log")
        options = ["--data-format=u16", f"--data={self.folder / 'tokens.bin'}", "--threads=1"]
        options += ["--lr=1e-3", "--lr-schedule=constant", "--warmup=0"]
        options += [f"--steps={steps}", f"--save-state={save}", f"--log-json={log}"]
        options += [f"--resume={resume}"] if resume else []
        e2e.call(self.bench.bin / "kerf-run", self.file(name), *options)
        lines = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
        return [line["loss"] for line in lines if "loss" in line]


def check_chain(runs, chain):
    """The largest relative error of a loss, against one rank."""
    total = STEPS * len(chain)
    folder = Path(tempfile.mkdtemp(dir=runs.folder))
    expected = runs.run("m1", total, folder / "whole")
    found, state = [], None
    for number, name in enumerate(chain):
        save = folder / f"state{number}"
        found += runs.run(name, STEPS * (number + 1), save, state)
        state = save
    if len(found) != total or len(expected) != total:
        raise e2e.Failed(f"{len(found)} and {len(expected)} losses of {total}")
    return max(abs(a - b) / abs(b) for a, b in zip(found, expected))


def saved(folder):
    return states.content(states.newest(folder))


def check_same(runs, name):
    """What is not the same bits after going on in the same layout."""
    folder = Path(tempfile.mkdtemp(dir=runs.folder))
    whole, first, second = (folder / part for part in ("whole", "first", "second"))
    expected = runs.run(name, 2 * STEPS, whole)
    found = runs.run(name, STEPS, first) + runs.run(name, 2 * STEPS, second, first)
    wrong = [] if found == expected else ["losses"]
    return wrong + ([] if saved(whole) == saved(second) else ["the saved state"])


def main():
    failed, quick = 0, "--quick" in sys.argv
    chains, same = (CHAINS[:1], SAME[:1]) if quick else (CHAINS, SAME)
    with tempfile.TemporaryDirectory(prefix="kerf-resume-") as folder:
        bench = e2e.Bench(sys.argv[1], sys.argv[2], folder)
        runs = {}
        for family in dict.fromkeys(family for family, _ in chains + same):
            bench.import_model(family, False)
            runs[family] = Runs(bench, family)
        for family, chain in chains:
            error = check_chain(runs[family], chain)
            failed += not error <= e2e.BOUNDS["loss"]
            print(f"{family:8} {' -> '.join(chain)}: loss {error:.1e}", flush=True)
        for family, name in same:
            wrong = check_same(runs[family], name)
            failed += bool(wrong)
            verdict = "differ: " + ", ".join(wrong) if wrong else "the same bits"
            print(f"{family:8} {name} -> {name}: {verdict}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
