"""Kerf's side of the GPU benchmark: compiling, predictions, runs, what a trace tells."""

import dataclasses
import json
import os
import re
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from training import BIN, corpus, number_type

ROOT = Path(__file__).resolve().parents[2]
WARMUP = 3
MATMULS = {"matmul", "grouped_matmul", "attention", "attention_backward"}
# What a peak and a price are looked up by: the first word that a GPU's name contains.
CLUSTERS = {"H200": "hgx-h200", "H100": "hgx-h100", "A100-SXM4-40": "dgx-a100-40g", "A100": "dgx-a100-80g"}


class Failed(Exception):
    """A program failed; the text is the last line that it wrote."""


def run(command, timeout=None, variables={}):
    """stdout of a command, with `variables` in its environment. Raises Failed, also
    when `timeout` seconds have passed."""
    command = [str(part) for part in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=os.environ | variables)
    except subprocess.TimeoutExpired:
        raise Failed(f"{Path(command[0]).name} took more than {timeout:.0f} s") from None
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in said if "error" in line]
        last = (errors or said or ["no message"])[0].strip()
        raise Failed(f"{Path(command[0]).name} ({done.returncode}): {last[:300]}")
    return done.stdout


def target_of(arch):
    """The newest --gpu of kerfc that a GPU of "sm_NN" runs; its own where there is none,
    which kerfc refuses with a message."""
    number = int(arch.removeprefix("sm_"))
    return "sm_90" if number >= 90 else "sm_80" if number >= 80 else arch


def cluster_of(gpu):
    """The described cluster of a GPU's name; an H200's where there is none."""
    name = next((c for word, c in CLUSTERS.items() if word in gpu), "hgx-h200")
    return ROOT / f"examples/clusters/{name}.yaml"


def not_run(reason):
    return {"status": "not run", "reason": reason}


@dataclasses.dataclass
class Compiled:
    """A compiled model; its files are in `folder`. `predicted` has step_sec,
    tokens_per_sec, mfu, memory_bytes, reserved_bytes (a part of it) and layout.
    `model_flops` (matmuls, and attention over visible pairs, three times the forward
    pass) and `peak_flops` per second are those that MFU divides."""

    folder: Path
    stem: str
    vocabulary: int
    tokens: int
    parameters: int
    model_flops: float
    peak_flops: float
    arena_bytes: int
    compile_sec: float
    predicted: dict

    @property
    def artifact(self):
        return self.folder / f"{self.stem}.kerf"

    @property
    def config(self):
        return self.folder / f"{self.stem}.json"

    def mfu(self, step_sec):
        return self.model_flops / step_sec / self.peak_flops

    def save(self):
        """Writes what load() reads, beside the artifact."""
        told = {key: value for key, value in vars(self).items() if key != "folder"}
        (self.folder / f"{self.stem}.compiled").write_text(json.dumps(told, indent=1) + "\n")


def stem_of(name):
    return re.sub(r"[^\w.-]+", "-", name)


def load(name, folder):
    """What compile_model() left in the folder. Raises Failed where it has not."""
    path = folder / f"{stem_of(name)}.compiled"
    if not path.exists():
        raise Failed(f"{folder} has no {path.name}; write it with gpu.py --compile {folder}")
    return Compiled(folder=folder, **json.loads(path.read_text()))


def summary(times, compiled):
    """Rates of a program's measured steps, in seconds, of all rounds."""
    step = statistics.median(times)
    return {
        "status": "measured",
        "step_sec": step,
        "fastest_sec": min(times),
        "slowest_sec": max(times),
        "tokens_per_sec": compiled.tokens / step,
        "mfu": compiled.mfu(step),
    }


def compile_model(name, model, gpu, cluster, folder):
    """Imports, plans for one device and compiles in bf16. Raises Failed."""
    stem = stem_of(name)
    config, text = folder / f"{stem}.json", folder / f"{stem}.mlir"
    artifact, explained = folder / f"{stem}.kerf", folder / f"{stem}-explained.json"
    config.write_text(json.dumps(model.config()))
    run([BIN / "kerf-import", config, *model.import_options(), "-o", text])
    start = time.perf_counter()
    command = [BIN / "kerfc", text, "--target=cuda", f"--gpu={gpu}", "--precision=bf16"]
    command += [f"--cluster={cluster}", "--devices=1", f"--explain-json={explained}", "-o", artifact]
    run(command)
    seconds = time.perf_counter() - start
    counts = json.loads(run([BIN / "kerf-inspect", "params", "--json", text]))
    arena = re.search(r"arena: (\d+) bytes", run([BIN / "kerf-inspect", "memory", artifact]))
    plan = json.loads(explained.read_text())
    step, tokens = plan["time"]["step_sec"], model.batch * model.seq
    compiled = Compiled(
        folder=folder,
        stem=stem,
        vocabulary=model.config()["vocab_size"],
        tokens=tokens,
        parameters=int(counts["parameters"]),
        model_flops=counts["model_flops_per_token_visible"] * tokens,
        peak_flops=plan["time"]["peak_flops_per_sec"],
        arena_bytes=int(arena.group(1)),
        compile_sec=seconds,
        predicted={
            "step_sec": step,
            "tokens_per_sec": tokens / step,
            "memory_bytes": max(stage["total"] for stage in plan["memory"]["stages_bytes"]),
            "reserved_bytes": plan["memory"]["stages_bytes"][0]["reserved"],
            "layout": layout_of(plan["plan"]),
        },
    )
    compiled.predicted["mfu"] = compiled.mfu(step)
    compiled.save()
    for path in (text, explained):
        path.unlink()
    return compiled


def layout_of(plan):
    """Micro-batches and what is computed again, in words."""
    choice = plan["choice"]
    again = plan["stages"][0]["recompute"]
    return f"{choice['micro_batches']} x {choice['micro_batch']}, computed again: {again}"


def tune(compiled, folder, seconds, timeout):
    """A file with the fastest algorithms of the matmuls that are begun in so many
    seconds. Raises Failed."""
    path = folder / f"{compiled.stem}-tuning.json"
    run([BIN / "kerf-run", compiled.artifact, f"--tune={path}", f"--tune-seconds={seconds}"], timeout)
    return path


def train(compiled, steps, folder, timeout, is_traced=False, options=(), variables={}):
    """Seconds of `steps` steps after WARMUP, what kerf-run said, and the trace of one
    more step, or None. Raises Failed."""
    log, trace = folder / "log.jsonl", folder / "trace.json"
    for path in (log, trace):
        path.unlink(missing_ok=True)
    data = corpus(folder, compiled.vocabulary)
    last = WARMUP + steps + is_traced
    command = [BIN / "kerf-run", compiled.artifact, "--data", data, "--steps", last, "--log-json", log]
    command += [f"--data-format={number_type(compiled.vocabulary)}", f"--peak-tflops={compiled.peak_flops / 1e12}"]
    if is_traced:
        command += ["--trace", trace, f"--trace-steps={last}..{last}"]
    text = run([*command, *options], timeout, variables)
    lines = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
    found = [line["elapsed_ms"] / 1e3 for line in lines if "elapsed_ms" in line]
    events = json.loads(trace.read_text())["traceEvents"] if is_traced else None
    return found[WARMUP : WARMUP + steps], text, events


UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def used_memory(text, arena_bytes):
    """Bytes of the device in use at the end, as kerf-run prints those besides the arena
    ("at the end besides the arena 0.52 GiB are in use"), or None."""
    found = re.search(r"at the end besides the arena ([\d.]+) (\w+) are in use", text)
    return arena_bytes + int(float(found[1]) * UNITS[found[2]]) if found else None


# ---- A traced step -----------------------------------------------------------


def commands_of(events):
    """Events of single commands: those that say how many bytes they touch."""
    return [e for e in events if e["ph"] == "X" and "bytes" in e.get("args", {})]


def seconds_of(commands):
    return sum(e["dur"] for e in commands) / 1e6


def outside_share(commands):
    """Part of the time of all commands that is spent in others than MATMULS."""
    whole = seconds_of(commands)
    outside = seconds_of([e for e in commands if e["cat"] not in MATMULS])
    return outside / whole if whole else 0.0


def gap_share(commands, step_sec):
    """Part of a recorded step of `step_sec` in which no command runs: what is left
    without the commands' own times. Events around a command count a little more than the
    command, so that this is too low, and may be negative."""
    return 1 - seconds_of(commands) / step_sec


def kernels_of(commands, least_bytes):
    """Fused kernels of at least `least_bytes` per call: name, calls, bytes of a call, and
    bytes per second at the median call, slowest first."""
    groups = {}
    for event in commands:
        if event["cat"] == "launch" and event["args"]["bytes"] >= least_bytes:
            groups.setdefault((event["name"], event["args"]["bytes"]), []).append(event["dur"] / 1e6)
    rows = [
        {"name": name, "calls": len(times), "bytes": size, "bytes_per_sec": size / statistics.median(times)}
        for (name, size), times in groups.items()
    ]
    return sorted(rows, key=lambda row: row["bytes_per_sec"])


# ---- What the driver reports -------------------------------------------------


class Meter:
    """Highest memory in use on the first visible GPU above what it was before, as
    nvidia-smi reports it, while the block runs. `bytes` is None where it reports none."""

    QUERY = ["--query-gpu=memory.used", "--format=csv,noheader,nounits"]

    def __enter__(self):
        self.bytes, self.process = None, None
        program = shutil.which("nvidia-smi")
        if program is None:
            return self
        number = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        command = [program, *self.QUERY, f"--id={number}"]
        before = subprocess.run(command, capture_output=True, text=True).stdout.split()
        if before and before[0].isdigit():
            self.before = int(before[0])
            self.process = subprocess.Popen([*command, "--loop-ms=100"], stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        if self.process is None:
            return
        self.process.terminate()
        values = [int(word) for word in self.process.communicate()[0].split() if word.isdigit()]
        self.bytes = (max([*values, self.before]) - self.before) << 20
