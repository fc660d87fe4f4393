#!/usr/bin/env python3
"""Are the ops of real plans ever run as they are cut there?

    test/Random/coverage.py BIN REPO [--rows GLOB]... [--write]

Searches all rows of test/Promises/promises.json and test/Random/long-rows.json, prints how many cuts
(kerf-cuts) each plan has, and compares them with test/Random/executed-cuts.txt, which the test `cuts`
runs line by line. A cut that is not there fails the command. --write adds those that run and are right.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEAD = "# Cuts of ops in plans of large models, run by the test `cuts`. coverage.py --write adds to them.\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", metavar="BIN", type=Path)
    parser.add_argument("repo", metavar="REPO", type=Path)
    parser.add_argument("--rows", metavar="GLOB", action="append", help="rows with such a name")
    parser.add_argument("--write", action="store_true", help="add what runs to the list")
    parser.add_argument("--seconds", type=float, default=300, help="limit of a row (%(default)s)")
    return parser.parse_args()


def cuts_of(args, row, folder):
    """The cuts in a row's plan; None, after a message, where it has none."""
    source = args.repo / "examples/models" / row.model
    model, planned = source / "model.mlir", folder / "planned.mlir"

    def tool(name, *arguments):
        command = [str(args.binaries / name), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=args.seconds, check=True).stdout

    try:
        if not model.exists():
            model = folder / "model.mlir"
            tool("kerf-import", source / "config.json", f"--batch={row.batch}", f"--seq={row.seq}",
                 *row.import_options, "-o", model)
        tool("kerfc", model, f"--precision={row.precision}", f"--devices={row.devices}", *row.options,
             f"--cluster={args.repo}/examples/clusters/{row.cluster}.yaml", "--stop-after=recompute", "-o", planned)
        return tool("kerf-cuts", "of", planned).splitlines()
    except subprocess.TimeoutExpired:
        print(f"FAILED {row.name}: more than {args.seconds:.0f} s")
    except subprocess.CalledProcessError as error:
        print(f"FAILED {row.name}: {error.stderr.strip()[:300]}")
    return None


def gather(args, rows):
    """The first row of each cut, and the rows that failed."""
    first, failed = {}, 0
    for row in rows:
        if row.expect == "does not fit":
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            cuts = cuts_of(args, row, Path(folder))
        if cuts is None:
            failed += 1
            continue
        new = [cut for cut in cuts if cut not in first]
        first.update((cut, row.name) for cut in new)
        print(f"{len(cuts):4} cuts, {len(new):4} new, {time.monotonic() - start:5.1f} s  {row.name}", flush=True)
    return first, failed


def run_all(args, cuts):
    """Those of the cuts that run and are right."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(sorted(cuts)) + "\n")
        file.flush()
        done = subprocess.run([args.repo / "test/Random/cuts.sh", args.binaries, args.repo, file.name],
                              capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)
    bad = {line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith(("wrong: ", "not run: "))}
    return set(cuts) - bad


def main():
    args = arguments()
    sys.path.insert(0, str(args.repo / "test/Promises"))
    import table  # pylint: disable=import-outside-toplevel,import-error

    every = [*table.read_rows(), *table.read_rows(args.repo / "test/Random/long-rows.json")]
    rows = table.select(every, args.rows, quick=False)
    path = args.repo / "test/Random/executed-cuts.txt"
    known = {line for line in path.read_text().splitlines() if not line.startswith("#")}
    first, failed = gather(args, rows)
    missing = sorted(set(first) - known)
    if args.write and missing:
        known = run_all(args, known | set(missing))
        path.write_text(HEAD + "\n".join(sorted(known)) + "\n")
        missing = sorted(set(first) - known)
    for cut in missing:
        print(f"never run: {cut}  (first in {first[cut]})")
    print(f"{len(first)} cuts in {len(rows)} rows, {len(missing)} never run, {failed} rows failed")
    return 1 if missing or failed else 0


if __name__ == "__main__":
    sys.exit(main())
