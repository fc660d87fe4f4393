#!/usr/bin/env python3
"""Plans, compiles and checks the rows of promises.json, one after the other.

    test/Promises/promises.py BIN REPO [--rows GLOB]... [--quick] [--json FILE] [--table]

Every row goes through kerf-import and kerfc as a user types them. Printed are its cells of
docs/promises.md, which tells what they are. A row that breaks its promise says why, and all others
still run; the exit status is 1 then, and where the page or the rows themselves lack something.
--table writes the page; rows that did not run keep what it had.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measure
import page
import table


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", metavar="BIN")
    parser.add_argument("repo", metavar="REPO")
    parser.add_argument("--rows", metavar="GLOB", action="append", help="rows with such a name, as --list prints it")
    parser.add_argument("--quick", action="store_true", help="the rows that are marked so")
    parser.add_argument("--list", action="store_true", help="print names and run nothing")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--table", action="store_true", help="write docs/promises.md instead of comparing with it")
    parser.add_argument("--seconds", type=float, default=300, help="limit of a row (%(default)s)")
    parser.add_argument("--dry-work", type=int, default=200_000, help="most ranks x micro-batches of a dry run (%(default)s)")
    return parser.parse_args()


def page_of(args):
    """The page that is compared or written."""
    return Path(args.repo) / "docs/promises.md"


def has_check(binaries):
    """Whether kerfc proves files, and so can be told not to."""
    text = subprocess.run([Path(binaries) / "kerfc", "--help"], capture_output=True, text=True, check=True).stdout
    return "--check=" in text


def measure_row(args, row, checks):
    """All figures of a row, and what is broken."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        # Only the page has times, so the quick rows of a test need no second run for them.
        one = measure.Measurement(row, folder, args.binaries, args.repo, args.seconds, checks,
                                  checks and (args.table or not args.quick), args.dry_work)
        one.measure()
    return {"name": row.name, "wall_sec": time.perf_counter() - start, **one.figures}


def main():
    args = arguments()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (page.MOST_GIB << 30, page.MOST_GIB << 30))
    rows = table.read_rows()
    chosen = table.select(rows, args.rows, args.quick)
    if args.list:
        print("\n".join(row.name for row in chosen))
        return 0
    if not chosen:
        sys.exit("no row has such a name")
    checks, measured, figures = has_check(args.binaries), {}, []
    print(page.line(page.HEAD))
    for row in chosen:
        figures.append(measure_row(args, row, checks))
        measured[row.identity] = page.cells(row, figures[-1])
        print(page.line(measured[row.identity]), flush=True)
        for failure in figures[-1]["failures"]:
            print(f"FAILED {row.name}: {failure}", flush=True)
        if args.table:  # after every row, so that a run that is broken off keeps its rows
            page.write(rows, measured, page_of(args), args.seconds, args.dry_work)
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1) + "\n")
    return report(args, rows, figures, measured)


def report(args, rows, figures, measured):
    path = page_of(args)
    found = [f"FAILED {f['name']}: {failure}" for f in figures for failure in f["failures"]]
    found += [*table.gaps(rows, args.repo), *page.differences(rows, measured, path)]
    print("\n".join(["", *found, f"{len(figures)} rows in {sum(f['wall_sec'] for f in figures):.0f} s, "
                                 f"{sum(bool(f['failures']) for f in figures)} failed; {len(found)} findings"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
