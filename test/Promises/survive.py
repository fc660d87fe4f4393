#!/usr/bin/env python3
"""What the loss of one computer costs: rows of promises.json through kerfc --survive=1.

    test/Promises/survive.py BIN REPO [--rows GLOB]... [--table] [--seconds N]

Of each model the first promised row that nobody pinned and that has devices to lose, up to 1,024 of them (--rows: all
that have such a name). --table writes docs/survive-figures.md; rows that did not run keep what it had.
"""

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

import measure
import table

MOST_DEVICES = 1024
HEAD = ("model", "sequences x tokens", "on", "plan", "step", "less", "plan then", "step then", "times as long",
        "seconds", "of these for the second", "KiB", "KiB of the second")
TEXT = """# One computer less, in figures

What `kerfc --survive=1` plans, proves and compiles besides, for the first promised row of each model without pins ([Promises](promises.md)):

    test/Promises/survive.py build/bin . --table

Lost is one unit of the cluster's innermost tier. "Seconds" are processor seconds of `kerfc` on one core while the other worked, search, proof and
writing of both files; KiB are the sizes of the files. A computer less takes more than its share of a step where what is left divides badly: 56
devices have other layouts than 64, and the batch stays the same. Of a plan that leaves a computer's devices unused the same file runs. [Fewer machines](long-runs.md#fewer-machines) says how a job goes on so.

"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", metavar="BIN")
    parser.add_argument("repo", metavar="REPO")
    parser.add_argument("--rows", metavar="GLOB", action="append", help="rows with such a name")
    parser.add_argument("--table", action="store_true", help="write docs/survive-figures.md")
    parser.add_argument("--seconds", type=float, default=300, help="limit of a row (%(default)s)")
    return parser.parse_args()


def chosen(rows, patterns, repo):
    """With patterns the rows that match; else of each model the first that can lose a computer."""
    free = [r for r in rows if r.expect == "a file" and not table.pins_of(r) and table.backend(repo, r.cluster) == "cuda"]
    if patterns:
        return table.select(free, patterns, False)
    first = {}
    for row in free:
        if 8 < row.devices <= MOST_DEVICES:
            first.setdefault(row.model, row)
    return list(first.values())


def cells_of(args, row):
    """The row's cells; a failure is one of them."""
    with tempfile.TemporaryDirectory() as folder:
        one = measure.Measurement(row, folder, args.binaries, args.repo, args.seconds, {}, False, 0)
        made = Path(folder) / "made.kerf"
        cells = [row.model, f"{row.batch} x {row.seq}", f"{row.devices} x {row.cluster}"]
        try:
            done = one.tool("kerfc", one.model(), f"--precision={row.precision}", f"--cluster={row.cluster}",
                            f"--devices={row.devices}", *row.options, "--survive=1", "-o", made, mark=made)
            if not (made.exists() and "--survive: nothing was compiled" in done.err):
                measure.must(done, "kerfc --survive=1")
        except measure.Failure as failure:
            return [*cells, f"FAILED: {failure}", *["-"] * (len(HEAD) - 4)]
        out = done.out + done.err
        wrote = re.findall(r"^wrote '\S+/(\S+)': (.*?); step ([^,]+),", out, re.M)
        cost = re.search(r"with (\d+) devices? less '\S+' runs: a step takes\s+([\d.]+)", " ".join(out.split()))
        kib = [f"{(Path(folder) / name).stat().st_size / 1024:.0f}" for name, _, _ in wrote]
        plans = [plan.replace(" | ", ", ") for _, plan, _ in wrote]
        spent = [f"{done.seconds:.1f}", f"{done.seconds - (done.marked or 0):.1f}"]
        if done.status:  # the first file is there
            return [*cells, plans[0], wrote[0][2], "-", "does not fit", "-", "-", *spent, kib[0], "-"]
        if len(wrote) == 1 and cost:
            return [*cells, plans[0], wrote[0][2], cost[1], "the same, with spares", wrote[0][2], cost[2], *spent, kib[0], "-"]
        if len(wrote) != 2 or not cost:
            return [*cells, f"FAILED: {' '.join(out.split())[:200]}", *["-"] * (len(HEAD) - 4)]
        return [*cells, plans[0], wrote[0][2], cost[1], plans[1], wrote[1][2], cost[2], *spent, *kib]


def line(cells):
    return f"| {' | '.join(cells)} |"


def write(path, rows):
    """Puts rows in the place of those with the same first cells, the others stay."""
    old = [[cell.strip() for cell in text.strip("| \n").split(" | ")] for text in path.read_text().splitlines()
           if text.startswith("| ")][1:] if path.exists() else []  # fmt: skip
    known = {tuple(cells[:3]): cells for cells in old}
    known.update({tuple(cells[:3]): cells for cells in rows})
    body = [line(HEAD), "|" + "---|" * len(HEAD), *[line(cells) for cells in known.values()]]
    path.write_text(TEXT + "\n".join(body) + "\n")


def main():
    args = arguments()
    rows, start = [], time.monotonic()
    print(line(HEAD))
    for row in chosen(table.read_rows(), args.rows, args.repo):
        rows.append(cells_of(args, row))
        print(line(rows[-1]), flush=True)
        if args.table:
            write(Path(args.repo) / "docs/survive-figures.md", rows)
    failed = sum(cells[3].startswith("FAILED") for cells in rows)
    print(f"\n{len(rows)} rows in {time.monotonic() - start:.0f} s, {failed} failed")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
