#!/usr/bin/env python3
"""Trains every triple of what users can ask for on virtual ranks, against one rank.

    covering.py BIN REPO [--quick] [--cases N] [--seconds T] [--seed N] [--jobs N] [--table FILE] [--log FILE]

Cases are those of a covering array of strength 3 (triples.py) over the axes of axes.py. Each
goes through kerf-import, `kerfc --pin ... --emit=verify` and `kerf-inspect verify`, which trains
two steps in f64. A case that is refused covers nothing: its triples are tried in other company.
Exit status 1 where a step is wrong, a program crashes, a refusal has a reason that reasons.py
does not explain, or docs/covering.md shows other axes.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

from axes import KINDS, Compiler, Missing, axes_of
from cases import Runner
from reasons import explained, reason_of
from triples import Array

HERE = Path(__file__).resolve().parent
BATCH = 32  # cases that are drawn before any of them has run, whatever the number of jobs
QUICK = 64  # cases
MOST_SECONDS = 120  # of one command


class Tally:
    """What became of the cases."""

    def __init__(self):
        self.counts = collections.Counter()
        self.refused = collections.defaultdict(list)
        self.seconds, self.log = 0.0, []

    def add(self, case, what, said, seconds, example):
        self.counts[what] += 1
        self.seconds += seconds
        if what == "refused":
            self.refused[reason_of(said)].append(example)
        if what in ("wrong", "crashed"):
            print(f"{what.upper()} {example}\n    {said[:400]}", flush=True)
        self.log.append({"what": what, "said": said[:600], "seconds": round(seconds, 2), "case": case})

    def unexplained(self):
        return [reason for reason in self.refused if not explained(reason)]

    def line(self):
        names = ("right", "refused", "wrong", "crashed")
        counts = ", ".join(f"{self.counts[name]} {name}" for name in names)
        return f"{sum(self.counts.values())} cases: {counts}"


def timed(runner, case):
    start = time.time()
    with tempfile.TemporaryDirectory() as folder:
        what, said = runner.run(case, Path(folder))
        return what, said.replace(folder, ""), time.time() - start


def run_batch(pool, runner, array, tally, size):
    """False when no case is left."""
    drawn = list(itertools.islice(iter(array.next_case, None), size))
    results = list(pool.map(lambda pair: timed(runner, pair[0]), drawn))
    for (case, new), (what, said, seconds) in zip(drawn, results):
        array.learn(case, new, accepted=what != "refused")
        tally.add(case, what, said, seconds, runner.example(case))
    return bool(drawn)


def take_known(path, runner, array, tally):
    """Goes on from the cases of a file that --log wrote."""
    for entry in map(json.loads, path.read_text().splitlines()):
        case, what = entry["case"], entry["what"]
        array.learn(case, array.take(case), accepted=what != "refused")
        tally.add(case, what, entry["said"], entry["seconds"], runner.example(case))


def run_all(arguments, runner, array):
    tally, end = Tally(), time.time() + arguments.seconds
    if arguments.known:
        take_known(arguments.known, runner, array, tally)
    left = QUICK if arguments.quick else arguments.cases
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        while left > 0 and time.time() < end and run_batch(pool, runner, array, tally, int(min(BATCH, left))):
            left -= BATCH
            if arguments.log:
                arguments.log.write_text("".join(json.dumps(entry) + "\n" for entry in tally.log))
            if not arguments.quick:
                print(f"{tally.line()}; {array.count_left()} triples left", flush=True)
    return tally


def rows_of(axes):
    return [f"| `{axis}` | {', '.join(values)} |" for axis, values in axes.items()]


def report(axes, array, tally):
    """Markdown: what docs/covering.md shows."""
    array.settle()
    possible = array.total - len(array.impossible)
    covered = possible - len(array.given_up) - array.count_left()
    counts = tally.counts
    lines = ["| axis | values |", "|---|---|", *rows_of(axes)]
    head = "| cases | right | refused | wrong | crashed | triples | covered | given up | left | s |"
    lines += ["", head, "|---" * 10 + "|"]
    cells = [sum(counts.values()), counts["right"], counts["refused"], counts["wrong"], counts["crashed"]]
    triples = [f"{number:,}" for number in (possible, covered, len(array.given_up), array.count_left())]
    lines += [f"| {' | '.join(map(str, cells + triples))} | {tally.seconds:.0f} |", ""]
    lines += ["| refused | cases | why this is right |", "|---|---|---|"]
    refused = sorted(tally.refused.items(), key=lambda pair: -len(pair[1]))
    for reason, examples in refused:
        lines.append(f"| {reason} | {len(examples)} | {explained(reason) or '**not explained**'} |")
    lines += ["", "One example of each:", "", *(f"- {examples[0]}" for _, examples in refused)]
    pairs, triples = array.summary()
    lines += ["", f"{len(pairs)} pairs of values that no legal case has:", "", *(f"- {pair}" for pair in pairs)]
    lines += ["", f"{len(triples)} triples that no legal case has:", "", *(f"- {triple}" for triple in triples)]
    return "\n".join(lines) + "\n"


def is_hard(case):
    """Experts on context ranks beside tensor or expert ranks."""
    return KINDS[case["family"]] == "experts" and case["cp"] != "1" and (case["tp"] != "1" or case["ep"] != "1")


def faults_of(tally, axes, page):
    faults = tally.counts["wrong"] + tally.counts["crashed"]
    shown = page.read_text().splitlines()
    for row in rows_of(axes):
        if row not in shown:
            print(f"NOT IN {page.name} {row}")
            faults += 1
    for reason in tally.unexplained():
        print(f"NOT EXPLAINED {reason} | {tally.refused[reason][0]}")
        faults += 1
    if not any(is_hard(entry["case"]) for entry in tally.log if entry["what"] == "right"):
        print("NOT COVERED experts on context ranks beside tensor or expert ranks")
        faults += 1
    return faults


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=Path)
    parser.add_argument("repo", type=Path)
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK} cases alone")
    parser.add_argument("--cases", type=float, default=float("inf"), help="draw at most so many")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="draw no case after these")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--table", type=Path, help="write what was found to this file")
    parser.add_argument("--log", type=Path, help="write each case to this file, as JSON lines")
    parser.add_argument("--known", type=Path, help="go on from the cases of such a file")
    return parser.parse_args()


def main():
    arguments, start = read_arguments(), time.time()
    clusters = [arguments.repo / "examples/clusters/this-machine.yaml", *sorted((HERE / "Inputs").glob("*.yaml"))]
    model = arguments.repo / "examples/models/tiny-palm/model.mlir"
    try:
        axes = axes_of(Compiler(arguments.bin, arguments.repo), model, clusters)
    except Missing as missing:
        sys.exit(f"covering.py: {missing}")
    array = Array(axes, arguments.seed)
    runner = Runner(arguments.bin, arguments.repo, {path.stem: path for path in clusters}, MOST_SECONDS)
    tally = run_all(arguments, runner, array)
    if arguments.table:
        arguments.table.write_text(report(axes, array, tally))
    faults = faults_of(tally, axes, arguments.repo / "docs/covering.md")
    print(f"{tally.line()}, {time.time() - start:.0f} s")
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
