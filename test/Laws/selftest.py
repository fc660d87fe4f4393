#!/usr/bin/env python3
"""Shows that each law holds for a planner that obeys it, and finds one that does not.

    test/Laws/selftest.py REPO

The planner here is a formula of the description's text; each fault breaks it in one way.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import description as desc
from cases import Cases
from judges import LAWS
from planner import Answer, Case

CHOICE = {"tp": 1, "cp": 1, "ep": 1, "dp": 8, "pp": 1, "micro_batch": 1, "micro_batches": 4, "chunks": 1, "zero": 0,
          "shard_group": 1, "schedule": "1f1b", "order_innermost_first": ["tensor", "context", "data", "pipeline"]}  # fmt: skip
UNITS = {"TB/s": 1e12, "GB/s": 1e9, "Gb/s": 1.25e8, "Mb/s": 1.25e5, "us": 1e-6, "ns": 1e-9, "GB": 1e9, "MB": 1e6,
         "TFLOP/s": 1e12, "GFLOP/s": 1e9}  # fmt: skip


def number(text, field):
    found = re.search(rf"\b{field}: ([\d.e+-]+) ([A-Za-z/]+)", text)
    return float(found[1]) * UNITS[found[2]]


class Planner:
    """Answers without a search; `fault` changes the explanation of a case."""

    def __init__(self, fault=lambda case, explained: None):
        self.fault = fault
        self.reason = str

    def __call__(self, case):
        text, pinned = case.cluster.text, len(case.pins)
        rate, link, wait = number(text, "bf16"), number(text, "bandwidth"), number(text, "latency") + number(text, "launch")
        sec = (1 + case.batch) * (1e12 / (rate * case.devices) + 1e6 / link + wait)
        # A pin costs 1 %, but the plan's own value, which the number of pins gives away, costs nothing.
        slower = sec * (1 + 0.01 * min(pinned, 2)) if pinned < 9 else sec
        explained = {
            "time": {"step_sec": slower, "model_flops": case.batch * 1e11, "peak_flops_per_sec": rate * case.devices},
            "memory": {"stages_bytes": [{"total": 1e9}], "capacity_bytes": number(text, "memory")},
            "plan": {"choice": dict(CHOICE)},
            "alternatives": [{"what": "tp=2", "step_sec": 2 * slower, "layout": ""}],
            "trust": {"certificate": {"gap": 0.0, "bound_sec": sec, "space": 100, "splits": 1, "complete": "--prove" in case.options,
                                      "by_mean_bytes": False}},
        }  # fmt: skip
        self.fault(case, explained)
        return Answer(explained)

    def saved(self, case):
        return self(case.but(options=(*case.options, "--plan")))


def slow_when(is_hit, factor=1.05):
    def fault(case, explained):
        explained["time"]["step_sec"] *= factor if is_hit(case) else 1

    return fault


def with_change(path, value):
    def fault(_case, explained):
        *folders, last = path
        for folder in folders:
            explained = explained[folder]
        explained[last] = value

    return fault


def faults(case):
    """(law, kind of comparison that finds it, fault)"""
    text, grown = case.cluster.text, lambda field: lambda c: number(c.cluster.text, field) > number(text, field)
    shrunk = lambda field: lambda c: number(c.cluster.text, field) < number(text, field)
    yield 1, "memory within capacity", with_change(("memory", "stages_bytes"), [{"total": 1e12}])
    yield 1, "no faster than the peak", with_change(("time", "model_flops"), 1e20)
    yield 1, "no faster than the bound", with_change(("trust", "certificate", "bound_sec"), 1e6)
    yield 1, "alternatives no faster", with_change(("alternatives",), [{"what": "", "step_sec": 1e-9, "layout": ""}])
    yield 2, "more memory", slow_when(grown("memory"))
    yield 2, "more memory bandwidth", slow_when(grown("memory_bandwidth"))
    yield 2, "more rate", slow_when(grown("bf16"), 3)
    yield 2, "more bandwidth", slow_when(grown("bandwidth"), 3)
    yield 2, "less latency", slow_when(shrunk("latency"), 3)
    yield 2, "less launch time", slow_when(shrunk("launch"), 3)
    yield 2, "less reserve", slow_when(shrunk("context"))
    yield 2, "more devices", slow_when(lambda c: c.devices > case.devices, 20)
    yield 3, "half the time", slow_when(grown("bf16"), 1.00001)
    yield 4, "t(B) <= t(2B)", slow_when(lambda c: c.batch > case.batch, 0.1)
    yield 4, "t(2B) <= 2 t(B)", slow_when(lambda c: c.batch > case.batch)
    yield 5, "own values pinned", slow_when(lambda c: len(c.pins) >= 9, 1.00001)
    yield 5, "saved and loaded", slow_when(lambda c: "--plan" in c.options)
    yield 6, "one pin less", slow_when(lambda c: len(c.pins) == 1)
    yield 6, "rows may be exchanged", slow_when(lambda c: "--moe-buffer=1.25" in c.options)
    yield 7, "other units", slow_when(lambda c: " ns" in c.cluster.text, 1.00001)
    yield 7, "other order", slow_when(lambda c: c.cluster.text.rstrip().splitlines()[-1].startswith("  name"), 1.00001)
    yield 7, "other names", slow_when(lambda c: "other-" in c.cluster.text, 1.00001)
    yield 7, "unused tier", slow_when(lambda c: "unused" in c.cluster.text, 1.00001)
    yield 8, "--prove no worse", slow_when(lambda c: "--prove" in c.options)
    yield 8, "--prove proves", with_change(("trust", "certificate", "complete"), False)
    yield 8, "--prove bound no lower", lambda c, e: e["trust"]["certificate"].update({} if "--prove" not in c.options else {"bound_sec": 0.0})
    yield 9, "pinned plan", slow_when(lambda c: not c.pins, 1.1)


def broken(cases, case, planner):
    """(law, kind) of all violations; laws that draw are judged often enough to draw all."""
    found = set()
    for law, (_, judge) in LAWS.items():
        for seed in range(20 if law in (2, 6, 7) else 1):
            cases.draw.seed(seed)
            judged = cases.sample(case) if law == 9 else cases.draw
            found |= {(law, check.kind) for check in judge(planner, case, planner(case), judged) if check.excess > 0}
    return found


def commands_differ(clusters):
    """Shipped descriptions that the printed command does not change as the text is changed."""
    for cluster in clusters:
        for change in (desc.in_other_units, desc.in_other_order, desc.with_other_names):
            other = cluster.changed(change)
            program = other.arguments().removeprefix("<(").removesuffix(")")
            made = subprocess.run(["bash", "-c", program.replace("examples", f"{REPO}/examples")], capture_output=True, text=True)
            bare = lambda text: [line.split("#")[0].rstrip() for line in text.splitlines() if line.split("#")[0].strip()]
            if made.returncode or bare(made.stdout) != bare(other.text):
                yield f"{cluster.name}: the printed command is wrong: {program}"


def main():
    cases = Cases(REPO, small=True)
    case = Case("llama-mini", 64, 256, cases.clusters["hgx-h100"], 8, options=("--moe-buffer=1.25",))
    wrong = [f"law {law}, {kind}: broken by a planner without fault" for law, kind in sorted(broken(cases, case, Planner()))]
    for law, kind, fault in faults(case):
        if (law, kind) not in broken(cases, case, Planner(fault)):
            wrong.append(f"law {law}, {kind}: the fault was not found")
    wrong += commands_differ(cases.clusters.values())
    print("\n".join(wrong) or "every law finds its faults")
    return bool(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repo", metavar="REPO", type=Path)
    REPO = parser.parse_args().repo.resolve()
    sys.exit(main())
