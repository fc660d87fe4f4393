#!/usr/bin/env python3
"""Training steps on one NVIDIA GPU: Kerf beside PyTorch, predicted beside measured.

    test/Bench/gpu.py [--json OUT] [--python PYTHON] [--models A,B] [--minutes N] [--quick]
    test/Bench/gpu.py --predict [--json OUT]        predictions alone: needs no GPU
    test/Bench/gpu.py --compile FOLDER              compiles alone: needs no GPU
    test/Bench/gpu.py --compiled FOLDER ...         with those files: needs no compiler
    test/Bench/gpu.py --table [--json RECORD]       README's table of a record
    test/Bench/gpu.py --write | --check [--json RECORD]
                      puts a record's tables between the marks in README.md and
                      docs/hardware.md, or fails where they differ

Needs a build (build/bin), for the peer a Python with torch and numpy, and a GPU; what
cannot run has a row that says why. All models are compiled in bf16 for one GPU, and
Kerf and PyTorch train the same model on the same number of random tokens.

Each model has an equal part of --minutes. In it runs a round of Kerf (with --tune, after
its tuning), then PyTorch's variants (gpu_models.py, peers/peer_torch_gpu.py), one word
changed at a time in the fastest one, in one process, until no more than the other rounds
need is left; then rounds of Kerf and of the fastest variant alternate, each in a process
of its own. What is under way at the end may take a minute more. Rates are of the median step of all
rounds. MFU is the model's flops over time and dense bf16 peak for both. Memory is what
nvidia-smi reports, less what was in use before.
"""

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gpu_kerf
import gpu_tables
from gpu_kerf import not_run
from gpu_models import MODELS, chosen, unknown
from gpu_torch import TorchSide
from training import BIN, ROOT

HERE = Path(__file__).resolve().parent
RECORD = HERE / "Inputs/gpu-record.json"
ABOUT = "about.json"  # of a folder of compiled models
ROUND_SEC = 3  # aim of a round's measured steps
TUNE_SEC = 20  # after which --tune begins no other matmul
ANY_ORDER = {"KERF_CUDA_ATTENTION_ANY_ORDER": "1"}  # docs/cuda.md
START_SEC = 30  # at least, for a run of Kerf


def probe(copy_mib):
    """What gpu_device.py says of the first GPU."""
    command = [sys.executable, str(HERE / "gpu_device.py"), f"--copy-mib={copy_mib}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"missing": f"the CUDA driver ended gpu_device.py ({done.returncode})"}
    return json.loads(done.stdout)


def torch_missing(python, device):
    """Why PyTorch cannot run, or an empty text."""
    test = "import torch, numpy, sys; sys.exit(0 if sys.argv[1] == 'cpu' or torch.cuda.is_available() else 3)"
    try:
        done = subprocess.run([python, "-c", test, device], capture_output=True, text=True)
    except OSError as error:
        return f"--python={python}: {error.strerror}"
    if done.returncode == 3:
        return f"PyTorch of {python} finds no GPU"
    return f"{python} cannot import torch and numpy" if done.returncode else ""


def commit():
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


class KerfSide:
    """Rounds of kerf-run, and what the last one's trace tells."""

    def __init__(self, compiled, steps, folder, gpu, variables={}):
        self.compiled, self.steps, self.folder, self.gpu = compiled, steps, folder, gpu
        self.variables = variables
        self.times, self.memory, self.error, self.details = [], [], "", {}
        self.last_sec = 0  # that the last round took, starting included
        self.options, self.tuning = [], {}

    def tune(self, seconds):
        """Lets kerf-run time its library's algorithms, for the rounds that follow."""
        start = time.monotonic()
        try:
            path = gpu_kerf.tune(self.compiled, self.folder, seconds, seconds + START_SEC)
            self.options = [f"--tuning={path}"]
            self.tuning = {"tuning_sec": round(time.monotonic() - start, 1)}
        except gpu_kerf.Failed as failed:
            self.tuning = {"tuning_failed": str(failed)}

    def round(self, end, is_traced=False):
        """Runs the steps; it may take until `end`, or START_SEC."""
        if self.error:
            return
        start = time.monotonic()
        timeout = max(end - start, START_SEC)
        try:
            with gpu_kerf.Meter() as meter:
                found = gpu_kerf.train(
                    self.compiled, self.steps, self.folder, timeout, is_traced, self.options, self.variables
                )
        except gpu_kerf.Failed as failed:
            self.error = str(failed)
            return
        times, text, events = found
        self.last_sec = time.monotonic() - start
        self.times += times
        self.memory.append(meter.bytes or gpu_kerf.used_memory(text, self.compiled.arena_bytes))
        if is_traced:
            self.details = self.look_at(gpu_kerf.commands_of(events))

    def look_at(self, commands):
        """Kernels, and shares of the step, of a trace."""
        return {
            "outside_share": gpu_kerf.outside_share(commands),
            "gap_share": gpu_kerf.gap_share(commands, statistics.median(self.times)),
            "commands": len(commands),
            "kernels": gpu_kerf.kernels_of(commands, 2 * self.gpu["l2_bytes"]),
        }

    def row(self):
        if not self.times:
            return {"status": "failed", "reason": self.error}
        memory = max((m for m in self.memory if m), default=None)
        row = gpu_kerf.summary(self.times, self.compiled) | {"memory_bytes": memory, "seconds": round(self.last_sec, 1)}
        row |= self.details | self.tuning
        return row | ({"reason": f"a later round failed: {self.error}"} if self.error else {})


def measure(compiled, model, args, folder, record, end):
    """The rows of a model: rounds that alternate, until `end` of the monotonic clock."""
    steps = args.steps or max(8, min(40, int(ROUND_SEC / compiled.predicted["step_sec"])))
    kerf = KerfSide(compiled, steps, folder, record["gpu"])
    torch = TorchSide(compiled, model, steps, args)
    if args.tune:
        kerf.tune(TUNE_SEC)
    kerf.round(end, is_traced=args.rounds == 1)
    torch.search(end, lambda: (args.rounds - 1) * (kerf.last_sec + torch.best_sec()))
    for number in range(2, args.rounds + 1):
        is_last = number == args.rounds or time.monotonic() > end
        kerf.round(end, is_traced=is_last)
        torch.round(end)
        if is_last:
            break
    if torch.version:
        record["versions"]["torch"] = torch.version
    rows = {"kerf": kerf.row(), "torch": torch.row(), "steps_per_round": steps}
    if args.any_order:
        other = KerfSide(compiled, steps, folder, record["gpu"], ANY_ORDER)
        other.options = kerf.options
        other.round(end)
        rows["kerf_any_order"] = other.row()
    return rows


def rows_of(name, model, args, folder, record, end):
    """Prediction and measurement of a model."""
    row = {"name": name, "seq": model.seq, "batch": model.batch}
    start = time.monotonic()
    try:
        if args.compiled:
            compiled = gpu_kerf.load(name, args.compiled)
        else:
            compiled = gpu_kerf.compile_model(name, model, args.gpu, args.cluster, folder)
    except gpu_kerf.Failed as failed:
        failure = {"status": "failed", "reason": str(failed)}
        return row | {"predicted": None, "kerf": failure, "torch": not_run("nothing to compare with")}
    row |= {key: getattr(compiled, key) for key in ("parameters", "arena_bytes", "model_flops", "compile_sec")}
    row["predicted"] = compiled.predicted
    if record["missing"]:
        return row | {"kerf": not_run(record["missing"]), "torch": not_run(record["missing"])}
    row |= measure(compiled, model, args, folder, record, end)
    return row | {"seconds": time.monotonic() - start}


def header(args):
    """A record without models: what runs where. Fills in args that depend on the GPU."""
    is_planned = args.predict or args.compile
    found = {"missing": "no GPU was asked for"} if is_planned else probe(args.copy_mib)
    missing = found.get("missing", "")
    args.gpu = args.gpu or gpu_kerf.target_of(found.get("arch", "sm_90"))
    args.cluster = args.cluster or gpu_kerf.cluster_of(found.get("name", ""))
    args.torch_missing = "" if missing else torch_missing(args.python, args.torch_device)
    how = json.loads((args.compiled / ABOUT).read_text()) if args.compiled else compiled_how(args)
    return {
        "date": datetime.date.today().isoformat(),
        "ranks": 1,
        "gpu": None if missing else found,
        "missing": missing,
        **how,
        "versions": {"kerf": gpu_kerf.run([BIN / "kerf-run", "--version"]).strip().splitlines()[0]},
        "rounds": args.rounds,
        "minutes": args.minutes,
        "models": [],
    }


def compiled_how(args):
    """What a record says of how the models were compiled."""
    return {
        "commit": commit(),
        "cluster": Path(args.cluster).stem,
        "flags": f"kerfc --target=cuda --gpu={args.gpu} --precision=bf16 "
        f"--cluster=examples/clusters/{Path(args.cluster).name} --devices=1",
    }


def bench(args):
    """A record of everything that ran, and why the rest did not."""
    end = time.monotonic() + 60 * args.minutes
    record = header(args)
    models = chosen(args.models, args.tiny)
    if not record["missing"]:
        told = f"{args.minutes:g} minutes: {60 * args.minutes / len(models):.0f} s for each of {len(models)} models"
        print(told, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, model) in enumerate(models.items()):
            now = time.monotonic()
            share = now + max(end - now, 60) / (len(models) - number)
            row = rows_of(name, model, args, Path(folder), record, share)
            record["models"].append(row)
            print(gpu_tables.line_of(row), file=sys.stderr, flush=True)
            save(record, args)
    return record


def save(record, args):
    """Writes the record after each model: what ends early has lost nothing. With --add
    the file's rows of other models stay, in their places."""
    if not args.json:
        return
    if args.add and args.json.exists():
        old = json.loads(args.json.read_text())["models"]
        new = {row["name"]: row for row in record["models"]}
        rows = [new.pop(row["name"], row) for row in old]
        record = record | {"models": [*rows, *new.values()]}
    args.json.write_text(json.dumps(record, indent=1) + "\n")


def compile_all(args):
    """Fills the folder --compile. Returns an exit status: 1 where a model failed."""
    header(args)
    args.compile.mkdir(parents=True, exist_ok=True)
    (args.compile / ABOUT).write_text(json.dumps(compiled_how(args), indent=1) + "\n")
    status = 0
    for name, model in chosen(args.models, args.tiny).items():
        try:
            compiled = gpu_kerf.compile_model(name, model, args.gpu, args.cluster, args.compile)
        except gpu_kerf.Failed as failed:
            print(f"{name}: {failed}", file=sys.stderr)
            status = 1
            continue
        print(f"{compiled.artifact}: {compiled.artifact.stat().st_size >> 10} KiB, {compiled.compile_sec:.1f} s")
    return status


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--predict", action="store_true")
    action.add_argument("--compile", type=Path, metavar="FOLDER")
    action.add_argument("--compiled", type=Path, metavar="FOLDER")
    action.add_argument("--table", action="store_true")
    action.add_argument("--write", action="store_true")
    action.add_argument("--check", action="store_true")
    parser.add_argument("--json", type=Path, help="the record that is written, or read")
    parser.add_argument("--add", action="store_true", help="keep the rows of --json's other models")
    parser.add_argument("--root", type=Path, default=ROOT, help="of the pages, with --write and --check")
    parser.add_argument("--models", default=",".join(MODELS), help="names by comma; llama-1b+fused: its projections fused")
    parser.add_argument("--tiny", action="store_true", help="the models scaled down, for a simulator")
    parser.add_argument("--gpu", help="as for kerfc (default: the GPU's)")
    parser.add_argument("--cluster", help="description with peak and speeds (default: by the GPU's name)")
    parser.add_argument("--python", default=sys.executable, help="with torch and numpy")
    parser.add_argument("--torch-device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try the script")
    parser.add_argument("--variants", default="", help="of PyTorch, by comma, instead of a search")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, help="measured steps of a round (default: by the prediction)")
    parser.add_argument("--copy-mib", type=int, default=1024, help="size of the copies whose speed is measured")
    parser.add_argument("--tune", action="store_true", help="kerf-run --tune first, up to 20 s of a model's time")
    parser.add_argument("--any-order", action="store_true", help="a round of Kerf with attention's sums in any order, too")
    parser.add_argument("--quick", action="store_true", help="two variants of PyTorch")
    args = parser.parse_args()
    args.variants = [variant for variant in args.variants.split(",") if variant]
    if args.compiled and not (args.compiled / ABOUT).exists():
        parser.error(f"--compiled: '{args.compiled}' was not written by --compile")
    args.models = [name for name in args.models.split(",") if name]
    if wrong := unknown(args.models):
        parser.error(f"--models: unknown '{wrong[0]}', expected names of: {', '.join(MODELS)}")
    if args.rounds < 1 or args.minutes <= 0:
        parser.error("--rounds and --minutes: expected more than 0")
    return args


def main():
    args = arguments()
    if args.table or args.write or args.check:
        path = args.json or RECORD
        record = json.loads(path.read_text())
        if args.table:
            print(gpu_tables.summary(record))
            return 0
        return gpu_tables.update(args.root, record, args.check)
    if args.compile:
        return compile_all(args)
    print(gpu_tables.report(bench(args)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
