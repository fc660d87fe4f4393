#!/usr/bin/env python3
"""Models that come as graphs: what kerf-import finds in them, and the plans of large ones beside their configs.

    test/Bench/graphs.py stored
    test/Bench/graphs.py large [--only NAME]

`stored`: of each graph of test/Reference, ops as they were exported, what was raised, layers that were not (softmaxes
are attentions that stayed plain), loops, ops that are left, seconds of kerf-import. Needs no package. `large`: models
of examples/models exported by the library without weights (torch and transformers), and a Llama 3 8B in JAX
(graphs_jax.py; jax), planned for 256 x 4096 on 64 hgx-h100 in bf16 (deepseek-v3: 512), beside the same model
imported by its config. Needs a build (build/bin).
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / "build/bin"
REFERENCE = ROOT / "test/Reference"
LARGE = (
    "llama-3-8b", "llama-3-70b", "mistral-7b", "qwen3-8b", "mixtral-8x7b", "qwen3-30b-a3b", "granite-3.1-3b-a800m", "gpt-oss-20b",
    "ernie-4.5-21b-a3b", "deepseek-v2-lite", "deepseek-v3",
)  # fmt: skip
DEVICES = {"deepseek-v3": 512}  # others 64
JAX = "llama-3-8b in JAX"


def ops_in(text):
    return len(re.findall(r"^ +(?:%[\w:, %]+ = )?kerf\.(?!param|return|yield|model|constant)\w", text, re.M))


def imported(path, *options):
    """Text, remarks and seconds."""
    start = time.perf_counter()
    done = subprocess.run([str(BIN / "kerf-import"), str(path), *options], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr, time.perf_counter() - start


def told(remarks, start):
    found = re.search(rf"remark: {start} (.*)", remarks)
    return found[1] if found else "-"


def figures(path):
    """Cells of a graph: ops, raised, left plain, loops, ops left, seconds."""
    flat, _, _ = imported(path, "--plain", "--flat")
    text, remarks, seconds = imported(path)
    plain = len(re.findall(r"kerf\.softmax ", text))
    return [ops_in(flat), told(remarks, "raised plain ops to"), plain or "-", told(remarks, "rolled layers"), ops_in(text), f"{seconds:.2f}"]


def row(*cells):
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def stored():
    row("graph", "ops", "raised", "softmaxes left", "loops", "ops left", "import s")
    print("|---" * 7 + "|")
    for kind in ("functions", "packages", "cases"):
        for folder in sorted((REFERENCE / kind).iterdir()):
            for name in ("graph.mlir", "model.stablehlo.mlir"):
                if (folder / name).exists():
                    row(folder.name, *figures(folder / name))


def of_library(name, path):
    import kerf

    kerf.import_hf(ROOT / "examples/models" / name, path, batch=256, sequence=4096)


def of_jax(path):
    sys.path.insert(0, str(ROOT / "test/Bench"))
    import graphs_jax

    graphs_jax.lower_llama(path, batch=256, sequence=4096)


def large(only):
    import kerf

    head = "model, export s, ops, raised, loops, ops left, import s, plan s, layout, step s, MFU %, by config: step s, MFU %"
    row(*head.split(", "))
    print("|---" * 13 + "|")
    for name in (*LARGE, JAX):
        if only and name != only:
            continue
        where = {"cluster": "hgx-h100", "devices": DEVICES.get(name, 64), "precision": "bf16"}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.stablehlo.mlir" if name == JAX else "graph.mlir")
            start = time.perf_counter()
            of_jax(path) if name == JAX else of_library(name, path)
            exported = time.perf_counter()
            ops, raised, _, *rest = figures(path)
            before = time.perf_counter()
            plan = kerf.plan(path, **where)
            seconds = time.perf_counter() - before
        config = kerf.plan(ROOT / "examples/models" / name.split()[0] / "config.json", batch=256, seq=4096, **where)
        layout = re.search(r"layout +(.*)", str(plan))[1].replace(" |", ",")
        both = [cell for p in (plan, config) for cell in (f"{p.step_sec:.4f}", f"{100 * p.report['time']['mfu']:.1f}")]
        row(name, f"{exported - start:.1f}", ops, raised, *rest, f"{seconds:.1f}", layout, *both)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("stored", "large"))
    parser.add_argument("--only", help="one model")
    arguments = parser.parse_args()
    os.environ.setdefault("KERF_BIN", str(BIN))
    sys.path.insert(0, str(ROOT / "tools/python"))
    return stored() if arguments.what == "stored" else large(arguments.only)


if __name__ == "__main__":
    sys.exit(main())
