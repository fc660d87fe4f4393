#!/usr/bin/env python3
"""Searches for steps without their models, and compares what is found with golden/searches.json.

    golden.py BIN REPO [--write]

A step is what `kerfc --emit=step` wrote once (golden/*.step.json): no importer and no pass stands between it and
the search. A row says the cluster, the devices and the pins, and under "found" the plan, its seconds and bytes, and
how far the search had to look. Seconds of each search are printed, and compared with nothing. --write renews the rows,
after a change that is meant to move them; `git diff` then shows what it moved.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent / "golden"
ROWS = HERE / "searches.json"
COUNTED = ("space", "nodes", "evaluated", "tables_solved")


def rounded(number):
    """As it is printed: a sum in another order is the same to nine digits."""
    return float(f"{number:.9g}")


def what_is_found(explained):
    choice, proof = explained["plan"]["choice"], explained["trust"]["certificate"]
    plan = " ".join(f"{key} {choice[key]}" for key in ("tp", "cp", "ep", "dp", "pp", "micro_batches", "schedule", "zero"))
    most = max(stage["total"] for stage in explained["memory"]["stages_bytes"])
    return {"plan": plan, "step_sec": rounded(explained["time"]["step_sec"]), "bound_sec": rounded(proof["bound_sec"]),
            "gib": rounded(most / 2**30), **{key: proof[key] for key in COUNTED}}  # fmt: skip


def search(binaries, folder, row):
    """What is found for a row, and the seconds of the command."""
    path = Path(folder) / "explained.json"
    command = [binaries / "kerfc", HERE / f"{row['step']}.step.json", f"--cluster={row['cluster']}",
               f"--devices={row['devices']}", f"--explain-json={path}"]  # fmt: skip
    command += [f"--pin={row['pin']}"] if "pin" in row else []
    start = time.monotonic()
    subprocess.run(command, check=True)
    return what_is_found(json.loads(path.read_text())), time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=Path)
    parser.add_argument("repo", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    rows = json.loads(ROWS.read_text())
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            name = f"{row['step']}, {row['devices']} of {row['cluster']}, {row.get('pin', 'no pins')}"
            found, seconds = search(arguments.bin, folder, row)
            print(f"{seconds:6.2f} s  {name}: {found['plan']}, {found['step_sec']:.6g} s", flush=True)
            before = row.get("found", {})
            for key, value in found.items():
                if value != before.get(key) and not arguments.write:
                    wrong += 1
                    print(f"          {key} was {before.get(key)}, is {value}")
            row["found"] = found
    if arguments.write:
        ROWS.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    if wrong:
        print(f"{wrong} figures differ; where they are meant to: golden.py BIN REPO --write")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
