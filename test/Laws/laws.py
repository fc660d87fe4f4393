#!/usr/bin/env python3
"""Plans drawn cases again with changed machines, batches and pins, and checks the laws of docs/laws.md.

    laws.py BIN REPO [--count N] [--seed S] [--seconds T] [--quick] [--laws N,N] [--enumerate [SETS]]
            [--table FILE] [--log FILE] [--state FILE [--again]] [--jobs N]

Cases are shipped models on shipped clusters, some of them changed. Each plan is asked for as users
do it: kerf-import, then `kerfc --explain-json`. A violation is printed with the commands (of bash, in
the repository, with the tools on the path) that show it. Exit status 1 where there is one that
known.py does not explain. --quick draws small models alone. --enumerate tries every combination of
pins of small cases besides, or so many of each (all take hours). --state keeps what was done in a
file, after every case, and goes on from there: 2,000 cases take hours. The page then tells of how many
builds they are. --again judges the cases that broke a law once more, with the planner as it is now. --jobs
plans several cases at once; what is drawn and counted is the same.
"""

import argparse
import dataclasses
import hashlib
import itertools
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

import page
from cases import Cases
from judges import LAWS, Check, none_is_faster
from known import cause_of
from planner import Broken, Planner


class Tally:
    """Checks by law and kind, and the violations of each case."""

    def __init__(self, log):
        self.checks = {}
        self.violations = {}  # by the case's number (None: enumerated)
        self.log = log

    def to_json(self):
        checks = [[law, kind, number] for (law, kind), number in self.checks.items()]
        return {"checks": checks, "violations": [[case, found] for case, found in self.violations.items()]}

    def take(self, saved):
        self.checks = {(law, kind): number for law, kind, number in saved["checks"]}
        self.violations = dict(saved["violations"])

    def count(self, law, check):
        self.checks[law, check.kind] = self.checks.get((law, check.kind), 0) + 1

    def add(self, case, law, check):
        self.count(law, check)
        self.note(case, law, check)

    def replace(self, case, checks):
        """What a case gives now in place of what it gave."""
        self.violations.pop(case, None)
        for law, check in checks:
            self.note(case, law, check)

    def note(self, case, law, check):
        if check.excess <= 0:
            return
        commands = [case.command() for case in check.cases[:-1]] + [check.cases[-1].command(check.more)]
        record = {"law": law, "kind": check.kind, "excess": check.excess, "said": check.said, "commands": commands,
                  "cause": cause_of(law, check)}  # fmt: skip
        self.violations.setdefault(case, []).append(record)
        text = f"{'KNOWN' if record['cause'] else 'VIOLATION'} case {case}, law {law}, {check.kind}: {page.percent(check.excess)} ({check.said})"
        print("\n".join([text, *(f"    {command}" for command in commands)]), flush=True)
        if self.log:
            self.log.write(json.dumps(record) + "\n")
            self.log.flush()

    def rows(self):
        rows = {key: page.Row(checks=number) for key, number in self.checks.items()}
        for record in itertools.chain.from_iterable(self.violations.values()):
            row = rows.setdefault((record["law"], record["kind"]), page.Row())
            row.violations += 1
            if record["excess"] > row.largest:
                row.largest, row.example, row.said = record["excess"], record["commands"], record["said"]
        return rows

    def unexplained(self):
        return sum(not record["cause"] for record in itertools.chain.from_iterable(self.violations.values()))


class State:
    """What was done so far, kept in a file (none: nowhere)."""

    def __init__(self, path, seed, build):
        self.path = path
        self.done = {"seed": seed, "planned": 0, "refused": 0, "commands": 0, "builds": []}
        if path and path.exists():
            self.done = json.loads(path.read_text())
            if self.done["seed"] != seed:
                sys.exit(f"{path} is of --seed {self.done['seed']}")
        if build not in self.done["builds"]:
            self.done["builds"].append(build)

    def take(self, tally):
        if "tally" in self.done:
            tally.take(self.done["tally"])

    def save(self, tally):
        if not self.path:
            return
        self.done["tally"] = tally.to_json()
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.write_text(json.dumps(self.done))
        fresh.replace(self.path)


def build_of(binaries):
    """A few digits that tell builds apart."""
    digest = hashlib.sha256((binaries / "kerfc").read_bytes())
    loaded = subprocess.run(["ldd", binaries / "kerfc"], capture_output=True, text=True).stdout
    for library in re.findall(r"=> (\S*/libKerf\S*) ", loaded):
        digest.update(Path(library).read_bytes())
    return digest.hexdigest()[:8]


class Ask:
    """The planner as laws see it."""

    def __init__(self, planner):
        self.planner = planner
        self.saved = planner.ask_saved

    def __call__(self, case):
        return self.planner.ask(case)

    def reason(self):
        return self.planner.reason


def obeyed(law, case, checks):
    """The checks of one law; a command that breaks down breaks the law."""
    try:
        for check in checks:
            yield law, check
    except Broken as broken:
        yield law, Check("breaks down", float("inf"), [case], said=str(broken))


def judge(laws, cases, ask, case):
    """(law, check) of all laws for one case; None where it has no plan."""
    try:
        plan = ask(case)
    except Broken as broken:
        return [(1, Check("breaks down", float("inf"), [case], said=str(broken)))]
    if not plan:
        return None
    found = []
    for law in laws:
        judged = cases.sample(case) if law == 9 else cases.draw
        found += obeyed(law, case, LAWS[law][1](ask, case, plan, judged))
    return found


class Worker:
    """Judges cases by number, in a process of its own perhaps."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = tempfile.TemporaryDirectory()
        self.cases = Cases(arguments.repo, arguments.quick)
        self.ask = Ask(Planner(arguments.bin, arguments.repo, self.folder.name))

    def __call__(self, number):
        """(checks or None, commands); None where there is no time left."""
        if time.time() > self.arguments.end:
            return None
        # Each case has draws of its own: what is asked of one changes no other.
        self.cases.draw.seed(f"{self.arguments.seed} {number}")
        before = self.ask.planner.runs
        checks = judge(self.arguments.laws, self.cases, self.ask, self.cases.case(number))
        self.ask.planner.forget()
        return checks, self.ask.planner.runs - before


def start_worker(arguments):
    global worker
    worker = Worker(arguments)


def work(number):
    return worker(number)


def outcomes(arguments, numbers):
    """(number, what becomes of it) of cases, in order."""
    if arguments.jobs == 1:
        judged = Worker(arguments)
        yield from ((number, judged(number)) for number in numbers)
        return
    with multiprocessing.Pool(arguments.jobs, start_worker, (arguments,)) as pool:
        # A few at a time: a pool would read all numbers there are.
        start = lambda some: [(number, pool.apply_async(work, (number,))) for number in some]
        ahead = start(itertools.islice(numbers, 16 * arguments.jobs))
        while ahead:
            number, result = ahead.pop(0)
            yield number, result.get()
            ahead += start(itertools.islice(numbers, 1))


def judge_again(arguments, tally, state):
    """The cases that broke a law, with the planner as it is now."""
    for number, outcome in outcomes(arguments, iter([number for number in tally.violations if number is not None])):
        if outcome is None:
            break
        tally.replace(number, outcome[0] or ())
        state.save(tally)


def judge_new(arguments, tally, state):
    start, done = time.time(), state.done
    if done["planned"] >= arguments.count:
        return
    for number, outcome in outcomes(arguments, itertools.count(done["planned"] + done["refused"])):
        if outcome is None:
            break
        checks, commands = outcome
        done["refused" if checks is None else "planned"] += 1
        done["commands"] += commands
        for law, check in checks or ():
            tally.add(number, law, check)
        state.save(tally)
        if (done["planned"] + done["refused"]) % 50 == 0:
            print(f"{done['planned']} cases, {time.time() - start:.0f} s", file=sys.stderr, flush=True)
        if done["planned"] >= arguments.count:
            break


def run(arguments, ask, tally, state):
    cases, arguments.end, done = Cases(arguments.repo, arguments.quick), time.time() + arguments.seconds, state.done
    if arguments.again:
        judge_again(arguments, tally, state)
    judge_new(arguments, tally, state)
    tried, before = 0, ask.planner.runs
    for case, sets in cases.enumerated() if arguments.enumerate else ():
        start, plan = time.time(), ask(case)
        if arguments.enumerate < len(sets):
            sets = cases.draw.sample(sets, arguments.enumerate)
        for law, check in obeyed(9, case, none_is_faster(ask, case, plan, sets)):
            tally.add(None, law, check)
        tried += len(sets)
        print(f"enumerated {case.command()}: {len(sets)} sets of pins, {time.time() - start:.0f} s", flush=True)
    done["commands"] += ask.planner.runs - before
    return page.Run(arguments, done["planned"], done["refused"], tried, done["commands"], len(done["builds"]))


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", metavar="BIN", type=Path)
    parser.add_argument("repo", metavar="REPO", type=Path)
    parser.add_argument("--count", type=int, default=100, help="cases that have a plan (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="draw no case after these")
    parser.add_argument("--quick", action="store_true", help="small models alone")
    parser.add_argument("--laws", type=lambda text: [int(law) for law in text.split(",")], default=list(LAWS))
    parser.add_argument("--enumerate", metavar="SETS", type=int, nargs="?", const=sys.maxsize, default=0,
                        help="combinations of pins of each small case, too (all)")
    parser.add_argument("--table", type=Path, help="write what was found to this page")
    parser.add_argument("--log", type=Path, help="write violations to this file, as JSON lines")
    parser.add_argument("--state", type=Path, help="keep what was done in this file, and go on from it")
    parser.add_argument("--again", action="store_true", help="with --state: judge the cases that broke a law again, first")
    parser.add_argument("--jobs", type=int, default=1, help="cases at once (%(default)s)")
    return parser.parse_args()


def main():
    arguments, start = read_arguments(), time.time()
    arguments.bin, arguments.repo = arguments.bin.resolve(), arguments.repo.resolve()
    with tempfile.TemporaryDirectory() as folder:
        planner = Planner(arguments.bin, arguments.repo, folder)
        tally = Tally(arguments.log and arguments.log.open("a" if arguments.state else "w"))
        state = State(arguments.state, arguments.seed, build_of(arguments.bin))
        state.take(tally)
        done = run(arguments, Ask(planner), tally, state)
    if arguments.table:
        arguments.table.write_text(page.text(tally.rows(), done))
    print("\n" + "\n".join(page.summary(tally.rows())))
    print(f"{done.planned} cases, {done.refused} without a plan, {done.commands} commands, {time.time() - start:.0f} s; "
          f"{tally.unexplained()} violations without a known cause")
    return tally.unexplained() > 0


if __name__ == "__main__":
    sys.exit(main())
