#!/usr/bin/env python3
"""What a step of the benchmark's models consists of, counted in compiled programs.

    test/Bench/gpu_steps.py [--models A,B] [--kernels]
    test/Bench/gpu_steps.py --write | --check

Compiles the models of gpu_models.py for one H200, as gpu.py does, and counts the commands
of a step: those that a GPU launches, those in the routing of a layer, the bytes that
others than matmuls and attention move, the workspace, and the step that the planner
expects. Nothing is run, so no GPU is needed. --kernels prints a line per kernel instead.
llama-1b+fused is llama-1b with kerf-import --fuse-projections.
--write puts the table into docs/hardware.md, --check compares it with that; a step of
Kerf that changes the table says so there.
"""

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from gpu_kerf import BIN, MATMULS, ROOT, Failed, run  # noqa: E402
from gpu_models import MODELS, chosen, unknown  # noqa: E402
from gpu_program import commands_of  # noqa: E402

PAGE = ROOT / "docs/hardware.md"
BEGIN, END = "<!-- test/Bench/gpu_steps.py: steps -->\n", "<!-- end: steps -->"
HEAD = [
    "model", "launches", "matmuls", "kernels", "of routing, a layer", "GB outside matmuls", "workspace MiB", "step ms",
]  # fmt: skip
ROUTING = {"route", "assign_slots", "dispatch", "route_backward", "combine_weight_gradient"}


def compiled(name, model, folder):
    """The commands of a step, bytes of its workspaces, and its predicted seconds."""
    config, text = folder / f"{name}.json", folder / f"{name}.mlir"
    artifact, plan = folder / f"{name}.kerf", folder / f"{name}-plan.json"
    config.write_text(json.dumps(model.config()))
    run([BIN / "kerf-import", config, *model.import_options(), "-o", text])
    command = [BIN / "kerfc", text, "--target=cuda", "--gpu=sm_90", "--precision=bf16", "--devices=1"]
    command += [f"--cluster={ROOT / 'examples/clusters/hgx-h200.yaml'}", f"--explain-json={plan}", "-o", artifact]
    run(command)
    commands = commands_of(run([BIN / "kerf-inspect", "program", artifact]))
    memory = run([BIN / "kerf-inspect", "memory", artifact])
    workspace = int(re.search(r"workspaces +(\d+) bytes", memory)[1])
    return commands, workspace, json.loads(plan.read_text())["time"]["step_sec"]


def row_of(name, model, folder):
    """A line of the table."""
    commands, workspace, step = compiled(name, model, folder)
    outside = [c for c in commands if c.kind not in MATMULS]
    layers = next(v for k, v in model.config().items() if k in ("n_layer", "num_hidden_layers"))
    routing = sum(c.times for c in outside if c.name in ROUTING)
    cells = [
        name,
        f"{sum(c.times for c in commands):,}",
        f"{sum(c.times for c in commands if c.kind in MATMULS):,}",
        f"{sum(c.times for c in outside):,}",
        f"{routing // layers}" if routing else "-",
        f"{sum(c.times * c.bytes for c in outside) / 1e9:.2f}",
        f"{workspace / 2**20:.1f}",
        f"{step * 1e3:.2f}",
    ]
    return "| " + " | ".join(cells) + " |\n"


def table(models, folder):
    head = "| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD) + "\n"
    return head + "".join(row_of(name, model, folder) for name, model in models.items())


def kernels(models, folder):
    """A line per kernel that is no matmul: runs in a step and bytes."""
    text = ""
    for name, model in models.items():
        runs, moved = Counter(), Counter()
        for c in compiled(name, model, folder)[0]:
            if c.kind not in MATMULS:
                runs[c.name] += c.times
                moved[c.name] += c.times * c.bytes
        text += name + "\n"
        for kernel, size in moved.most_common():
            text += f"  {runs[kernel]:5} x {size / runs[kernel] / 1e6:10.3f} MB  {kernel}\n"
    return text


def update(text, is_check):
    """Puts the table into the page, or compares it."""
    page = PAGE.read_text()
    begin = page.index(BEGIN) + len(BEGIN)
    end = page.index(END, begin)
    if page[begin:end] == text:
        return
    if is_check:
        sys.exit(f"error: docs/hardware.md has other steps; remake them by gpu_steps.py --write:\n{text}")
    PAGE.write_text(page[:begin] + text + page[end:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    action = parser.add_mutually_exclusive_group()
    for option in ("--kernels", "--write", "--check"):
        action.add_argument(option, action="store_true")
    options = parser.parse_args()
    names = list(MODELS) if options.write or options.check else options.models.split(",")
    if wrong := unknown(names):
        parser.error(f"--models: unknown '{wrong[0]}', expected names of: {', '.join(MODELS)}")
    with tempfile.TemporaryDirectory() as folder:
        try:
            text = (kernels if options.kernels else table)(chosen(names, False), Path(folder))
        except Failed as problem:
            sys.exit(f"error: {problem}")
    if options.write or options.check:
        update(text, options.check)
    print(text, end="")


if __name__ == "__main__":
    main()
