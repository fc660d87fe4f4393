#!/usr/bin/env python3
"""Training steps on one NVIDIA GPU: Kerf beside PyTorch, predicted beside measured.

    test/Bench/gpu.py [--json OUT] [--python PYTHON] [--models A,B] [--minutes N] [--quick]
    test/Bench/gpu.py --predict [--json OUT]        predictions alone: needs no GPU
    test/Bench/gpu.py --table [--json RECORD]       README's table of a record
    test/Bench/gpu.py --write | --check [--json RECORD]
                      puts a record's tables between the marks in README.md and
                      docs/hardware.md, or fails where they differ

Needs a build (build/bin), for the peer a Python with torch, and a GPU; what cannot run
has a row that says why. All models are compiled in bf16 for one GPU, and Kerf and
PyTorch train the same model on the same number of random tokens. Each run is a process
of its own. PyTorch's variants (peers/peer_torch_gpu.py) are tried once, most promising
first, as long as their part of --minutes lasts; then rounds of Kerf and of the best one
alternate. Rates are of the median step of all rounds. MFU is the artifact's model flops
over time and dense bf16 peak for both. Memory is what nvidia-smi reports, less what was
in use before.
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
from gpu_models import MODELS, TINY
from training import BIN, ROOT

HERE = Path(__file__).resolve().parent
RECORD = HERE / "Inputs/gpu-record.json"
ROUND_SEC = 3  # aim of a round's measured steps
PEER_PART = 0.6  # of a model's time, for trying variants


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


def not_run(reason):
    return {"status": "not run", "reason": reason}


def summary(times, compiled):
    """Rates of a program's measured steps, in seconds, of all rounds."""
    step = statistics.median(times)
    return {
        "status": "measured",
        "step_sec": step,
        "fastest_sec": min(times),
        "slowest_sec": max(times),
        "tokens_per_sec": compiled.tokens / step,
        "mfu": compiled.model_flops / step / compiled.peak_flops,
    }


class KerfSide:
    """Rounds of kerf-run, and what the last one's trace tells."""

    def __init__(self, compiled, steps, folder, gpu):
        self.compiled, self.steps, self.folder, self.gpu = compiled, steps, folder, gpu
        self.times, self.memory, self.error, self.details = [], [], "", {}

    def round(self, timeout, is_traced=False):
        if self.error:
            return
        try:
            with gpu_kerf.Meter() as meter:
                found = gpu_kerf.train(self.compiled, self.steps, self.folder, timeout, is_traced)
        except gpu_kerf.Failed as failed:
            self.error = str(failed)
            return
        times, text, events = found
        self.times += times
        self.memory.append(meter.bytes or gpu_kerf.used_memory(text))
        if is_traced:
            self.details = self.look_at(gpu_kerf.commands_of(events))

    def look_at(self, commands):
        """Kernels, and shares of the step, of a trace."""
        return {
            "outside_share": gpu_kerf.outside_share(commands),
            "gap_share": gpu_kerf.gap_share(commands, statistics.median(self.times)),
            "floor_sec": gpu_kerf.floor_of(commands),
            "commands": len(commands),
            "kernels": gpu_kerf.kernels_of(commands, 2 * self.gpu["l2_bytes"]),
        }

    def row(self):
        if not self.times:
            return {"status": "failed", "reason": self.error}
        memory = max((m for m in self.memory if m), default=None)
        row = summary(self.times, self.compiled) | {"memory_bytes": memory} | self.details
        return row | ({"reason": f"a later round failed: {self.error}"} if self.error else {})


class TorchSide:
    """PyTorch's variants: which were tried, and rounds of the best."""

    def __init__(self, compiled, model, steps, args):
        self.compiled, self.model, self.steps, self.args = compiled, model, steps, args
        self.missing = args.torch_missing
        self.tried, self.times, self.memory = {}, {}, {}

    def attempt(self, variant, timeout):
        """Runs a variant once and notes its times, or why there are none."""
        command = [self.args.python, HERE / "peers/peer_torch_gpu.py", "--config", self.compiled.config]
        command += [f"--seq={self.model.seq}", f"--batch={self.model.batch}", f"--variant={variant}"]
        command += [f"--steps={self.steps}", f"--device={self.args.torch_device}"]
        try:
            with gpu_kerf.Meter() as meter:
                text = gpu_kerf.run(command, timeout)
            line = json.loads(text.strip().splitlines()[-1])
        except gpu_kerf.Failed as failed:
            line = {"error": str(failed)}
        self.tried[variant] = line
        if "error" not in line:
            self.times.setdefault(variant, []).extend(line["steps_s"])
            self.memory[variant] = meter.bytes or line["peak_reserved_bytes"] or None

    def best(self):
        """The variant with the smallest median step so far, or None."""
        return min(self.times, key=lambda v: statistics.median(self.times[v]), default=None)

    def try_all(self, until, end):
        variants = self.model.variants()[: 2 if self.args.quick else None]
        for variant in variants if not self.missing else []:
            if self.tried and time.monotonic() > until:
                self.tried[variant] = not_run("no time was left")
            else:
                self.attempt(variant, max(end - time.monotonic(), 30))

    def round(self, timeout):
        if self.best():
            self.attempt(self.best(), timeout)

    def row(self):
        if self.missing:
            return not_run(self.missing)
        best = self.best()
        tried = {variant: self.told(variant) for variant in self.tried}
        if best is None:
            reason = next((line["error"] for line in self.tried.values() if "error" in line), "nothing ran")
            return {"status": "failed", "reason": reason, "variants": tried}
        row = summary(self.times[best], self.compiled)
        return row | {"variant": best, "memory_bytes": self.memory[best], "variants": tried}

    def told(self, variant):
        """Tokens per second of a variant, or why it has none."""
        if variant in self.times:
            return {"tokens_per_sec": self.compiled.tokens / statistics.median(self.times[variant])}
        line = self.tried[variant]
        return {"reason": line.get("error") or line["reason"]}

    def version(self):
        keys = ("version", "cuda", "cudnn", "optimizer")
        line = next((x for x in self.tried.values() if "version" in x), {})
        return {key: line[key] for key in keys if key in line}


def measure(compiled, model, args, folder, record, end):
    """The rows of a model: rounds that alternate, until `end` of the monotonic clock."""
    start = time.monotonic()
    steps = args.steps or max(8, min(40, int(ROUND_SEC / compiled.predicted["step_sec"])))
    kerf = KerfSide(compiled, steps, folder, record["gpu"])
    torch = TorchSide(compiled, model, steps, args)
    kerf.round(max(end - start, 30), is_traced=args.rounds == 1)
    torch.try_all(start + PEER_PART * (end - start), end)
    for number in range(2, args.rounds + 1):
        is_last = number == args.rounds or time.monotonic() > end
        kerf.round(max(end - time.monotonic(), 60), is_traced=is_last)
        torch.round(max(end - time.monotonic(), 60))
        if is_last:
            break
    if torch.version():
        record["versions"]["torch"] = torch.version()
    return {"kerf": kerf.row(), "torch": torch.row(), "steps_per_round": steps}


def rows_of(name, model, args, folder, record, end):
    """Prediction and measurement of a model."""
    row = {"name": name, "seq": model.seq, "batch": model.batch}
    try:
        compiled = gpu_kerf.compile_model(name, model, args.gpu, args.cluster, folder)
    except gpu_kerf.Failed as failed:
        failure = {"status": "failed", "reason": str(failed)}
        return row | {"predicted": None, "kerf": failure, "torch": not_run("nothing to compare with")}
    row |= {key: getattr(compiled, key) for key in ("parameters", "arena_bytes", "model_flops", "compile_sec")}
    row["predicted"] = compiled.predicted
    if record["missing"]:
        return row | {"kerf": not_run(record["missing"]), "torch": not_run(record["missing"])}
    return row | measure(compiled, model, args, folder, record, end)


def bench(args):
    """A record of everything that ran, and why the rest did not."""
    end = time.monotonic() + 60 * args.minutes
    found = {"missing": "--predict runs nothing"} if args.predict else probe(args.copy_mib)
    missing = found.get("missing", "")
    args.gpu = args.gpu or gpu_kerf.target_of(found.get("arch", "sm_90"))
    args.cluster = args.cluster or gpu_kerf.cluster_of(found.get("name", ""))
    args.torch_missing = "" if missing else torch_missing(args.python, args.torch_device)
    record = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "ranks": 1,
        "gpu": None if missing else found,
        "missing": missing,
        "cluster": Path(args.cluster).stem,
        "versions": {"kerf": gpu_kerf.run([BIN / "kerf-run", "--version"]).strip().splitlines()[0]},
        "flags": f"kerfc --target=cuda --gpu={args.gpu} --precision=bf16 "
        f"--cluster=examples/clusters/{Path(args.cluster).name} --devices=1",
        "rounds": args.rounds,
        "models": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(args.models):
            now = time.monotonic()
            share = now + max(end - now, 60) / (len(args.models) - number)
            model = (MODELS | TINY)[name]
            row = rows_of(name, model, args, Path(folder), record, share)
            record["models"].append(row)
            print(gpu_tables.line_of(row), file=sys.stderr, flush=True)
    return record


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--predict", action="store_true")
    action.add_argument("--table", action="store_true")
    action.add_argument("--write", action="store_true")
    action.add_argument("--check", action="store_true")
    parser.add_argument("--json", type=Path, help="the record that is written, or read")
    parser.add_argument("--root", type=Path, default=ROOT, help="of the pages, with --write and --check")
    parser.add_argument("--models", default=",".join(MODELS), help="names by comma")
    parser.add_argument("--gpu", help="as for kerfc (default: the GPU's)")
    parser.add_argument("--cluster", help="description with peak and speeds (default: by the GPU's name)")
    parser.add_argument("--python", default=sys.executable, help="with torch and numpy")
    parser.add_argument("--torch-device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try the script")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="measured steps of a round (default: by the prediction)")
    parser.add_argument("--copy-mib", type=int, default=1024, help="size of the copies whose speed is measured")
    parser.add_argument("--quick", action="store_true", help="two variants of PyTorch")
    args = parser.parse_args()
    args.models = [name for name in args.models.split(",") if name]
    unknown = [name for name in args.models if name not in MODELS | TINY]
    if unknown:
        parser.error(f"--models: unknown '{unknown[0]}', expected names of: {', '.join(MODELS | TINY)}")
    if args.rounds < 1 or args.minutes <= 0:
        parser.error("--rounds and --minutes: expected 1 or more")
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
    record = bench(args)
    if args.json:
        args.json.write_text(json.dumps(record, indent=1) + "\n")
    print(gpu_tables.report(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
