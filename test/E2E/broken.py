#!/usr/bin/env python3
"""Shows that the comparison of layouts can fail: breaks programs, and each has to be caught.

    broken.py BIN SOURCE [--quick]

In the programs of a layout, one at a time, each sum over ranks is left out or taken over another
axis. The result is compiled on, trained and compared as layouts.py does. Sums over `pp` are missed
by the check of the schedule: a stage would wait for ever. Sums of the evaluation are left alone: a
training step does not run them.
"""

import itertools
import re
import sys
import tempfile

sys.dont_write_bytecode = True

import layouts as e2e

CASES = [
    ("gpt2", "dp2.tp2.m2.zero1"),
    ("llama", "pp2.dp2.1f1b.m2.zero2"),
    ("llama", "cp2.tp2.vocab"),
    ("mixtral", "ep2.dp2"),
]

SUM = re.compile(r"^ *(%\w+) = spmd\.all_reduce sum (%[\w#]+) over \[([\w, ]+)\].*$")


def functions(lines):
    """First and last line of each function of training."""
    starts = [i for i, line in enumerate(lines) if "spmd.func @" in line]
    ends = starts[1:] + [len(lines)]
    return [(a, b) for a, b in zip(starts, ends) if "evaluat" not in lines[a]]


def end_of_scope(lines, at, last):
    """Where the block that a line is in ends."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    for i in range(at, last):
        if lines[i].strip() and len(lines[i]) - len(lines[i].lstrip()) < indent:
            return i
    return last


def without(lines, at, last, result, operand):
    """The program in which the sum `result` is its operand."""
    stop = end_of_scope(lines, at, last)
    used = re.compile(re.escape(result) + r"(?![\w#])")
    body = [used.sub(operand, line) for line in lines[at + 1 : stop]]
    return lines[:at] + body + lines[stop:]


def mutants(text, axes):
    """Name and text of each broken program."""
    lines = text.split("\n")
    for first, last in functions(lines):
        for at in range(first, last):
            found = SUM.match(lines[at])
            if not found:
                continue
            result, operand, over = found.groups()
            where = f"line {at + 1}: sum over [{over}]"
            yield f"{where} left out", "\n".join(without(lines, at, last, result, operand))
            for other in axes:
                if other not in over and "pp" not in (other, over):
                    line = lines[at].replace(f"over [{over}]", f"over [{other}]")
                    changed = lines[:at] + [line] + lines[at + 1 :]
                    yield f"{where} over [{other}]", "\n".join(changed)


def caught(bench, base, layout, text):
    """What finds a broken program out, or "" when nothing does."""
    broken, file = base / "broken.mlir", base / "broken.kerf"
    broken.write_text(text)
    try:
        e2e.call(bench.bin / "kerfc", broken, "--start-after=schedule", "-o", file)
        files = [base / "step.mlir", base / "one.kerf", file]
        row = e2e.read_row(e2e.call(bench.bin / "kerf-same", *files, "--once"))
    except e2e.Failed as error:
        return str(error)
    return ", ".join(e2e.judge(row, layout))


def main():
    missed, quick = 0, "--quick" in sys.argv
    cases, most = (CASES[:1], 6) if quick else (CASES, None)
    with tempfile.TemporaryDirectory(prefix="kerf-broken-") as folder:
        bench = e2e.Bench(sys.argv[1], sys.argv[2], folder)
        for family in dict.fromkeys(family for family, _ in cases):
            bench.prepare(family, False)
        for family, name in cases:
            layout, base = e2e.Layout(name), bench.base(family, False)
            text = bench.programs(family, layout)
            count = 0
            every = mutants(text, layout.over(*e2e.AXES))
            for what, broken in itertools.islice(every, most):
                count += 1
                how = caught(bench, base, layout, broken)
                missed += not how
                print(f"{family:8} {name} {what}: {how or 'NOT CAUGHT'}"[:160], flush=True)
            if not count or caught(bench, base, layout, text):
                print(f"{family:8} {name}: nothing to break, or broken before")
                missed += 1
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
