"""What gpu_day.py runs: the first call on a GPU, all checks, benchmarks.

A `Day` (gpu_day.py) runs programs, each with a limit in seconds. Losses of two runs are
compared to the bit where kernels and their order are the same, else to SAME_PART.
"""

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import gpu_kerf
from training import corpus, number_type

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Of losses in bf16 by other kernels, in a few steps: rounding alone was up to 7.7e-5 in
# three steps of tiny models; a wrong gradient is far more.
SAME_PART = 2e-3
LAYOUT_PART, LAYOUT_PART_BF16 = 1e-5, 5e-4  # against the CPU's f32
TOKENS = 1 << 18


def program(day, name):
    return day.folder / "bin" / name


def python(script, *words):
    return [sys.executable, "-B", HERE / script, *words]


# ---- Training ----------------------------------------------------------------


def difference(wanted, found, part):
    """Why losses are not the same, or an empty text."""
    if len(found) < 2 or len(wanted) != len(found):
        return f"found {len(found)} losses, expected {len(wanted)}, 2 or more"
    worst = max(zip(wanted, found), key=lambda pair: abs(pair[0] - pair[1]))
    if all(abs(a - b) <= part * abs(a) for a, b in zip(wanted, found)):
        return ""
    return f"losses {worst[0]} and {worst[1]} differ by more than {part:g} of them"


def choices(said):
    """What KERF_CUDA_LOG=1 tells of attention, epilogues and experts, each once."""
    tails = [line.split("': ", 1)[-1] for line in said.splitlines() if line.startswith("kerf: cuda: '")]
    return list(dict.fromkeys(t[:160] for t in tails if re.search("attention|epilogue|mma", t)))[:12]


def judge_of(log, wanted, part):
    """What a run's log tells, compared with `wanted` losses if there are any."""

    def judge(said):
        rows = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
        rows = [row for row in rows if "elapsed_ms" in row]
        losses, times = [row["loss"] for row in rows], [row["elapsed_ms"] for row in rows]
        late = statistics.median(times[len(times) // 2 :])  # recorded steps
        told = {"losses": losses, "step_ms": times, "shown": f"{late:.1f} ms a step, loss {losses[-1]:.5f}"}
        told |= {"choices": choices(said)} if choices(said) else {}
        why = difference(wanted, losses, part) if wanted is not None else ""
        return told | ({"failed": why} if why else {})

    return judge


def train(day, run, model, steps, limit, variables={}, options=(), wanted=None, part=0):
    """Trains a model of the folder. Returns its losses; None where it did not run."""
    name = model + "-tiny" * day.tiny
    try:
        compiled = gpu_kerf.load(name, day.folder / "models")
    except gpu_kerf.Failed as failed:
        day.tell(run, "not run", 0, {"said": str(failed)})
        return None
    log = day.scratch / f"{run}.jsonl"
    data = corpus(day.scratch, compiled.vocabulary, TOKENS)
    command = [program(day, "kerf-run"), compiled.artifact, "--data", data, "--steps", steps, "--log-json", log]
    command += [f"--data-format={number_type(compiled.vocabulary)}", *options]
    return day.run(run, limit, command, variables, judge_of(log, wanted, part)).get("losses")


def trace(day, model, limit):
    """Time per command of a step, by the GPU's own clock."""
    run = f"trace-{model}"
    path = day.logs / f"{run}.json"
    train(day, run, model, 4, limit, options=["--profile", f"--trace={path}", "--trace-steps=4..4"])


# ---- Tests -------------------------------------------------------------------


def test_device(day):
    """Each group of the device's tests in a process of its own, the driver's abuse last."""
    program_path = program(day, "kerf-cuda-test")
    listed = subprocess.run([program_path, "groups"], capture_output=True, text=True).stdout.split()
    for group in [*listed, "fault", "sync"]:
        day.run(f"cuda-test-{group}", 60, [program_path, group])


def test_kernels(day):
    cases = [2] if day.tiny else []
    for which in ("attention", "grouped", "fused"):
        day.run(f"kernels-{which}", 60, [program(day, "kerf-cuda-kernels-test"), which, *cases])
    day.run("kernels-tiles", 60, [program(day, "kerf-cuda-kernels-test"), "tiles", *([300] if day.tiny else [])])


def versions(day):
    model = next(iter(sorted((day.folder / "layouts").glob("*.kerf"))), None)
    doctor = [program(day, "kerf-run"), *([model] if model else []), "--doctor"]
    day.run("doctor", 30, doctor, shows=True)
    day.run("nvidia-smi", 10, ["nvidia-smi"])
    day.run("gpu", 30, python("gpu_device.py", f"--copy-mib={1 if day.tiny else 1024}"))


def layout(day, name, nccl=False):
    """Three steps of a layout against the CPU's losses. Ranks that share the GPU
    talk through the host's memory, or over NCCL as two machines do."""
    files = day.folder / "layouts"
    part = LAYOUT_PART_BF16 if name.endswith("-bf16") else LAYOUT_PART
    command = [program(day, "kerf-run"), files / f"{name}.kerf", "--data", files / "data.bin"]
    command += ["--data-format=u16", "--steps", 3]
    variables = {"KERF_TRANSPORT": "shm"}
    if nccl:
        command, variables = ["bash", HERE / "nccl-pair.sh", *command], {}

    def judge(said):
        run = day.scratch / "layout"
        run.write_text(said)
        same = [sys.executable, "-B", ROOT / "test/Simulator/Inputs/same_losses.py"]
        done = subprocess.run(
            [str(word) for word in [*same, files / f"{name}.expected", run, part]], capture_output=True, text=True
        )
        return {"failed": done.stderr.strip()} if done.returncode else {"said": done.stdout.strip()}

    day.run("nccl-pair" if nccl else f"layout-{name}", 60 if nccl else 30, command, variables, judge)


def nccl_pair_abort(day):
    """Two ranks over NCCL of which one is killed: the other says so and ends."""
    files = day.folder / "layouts"
    command = ["bash", "-c", '! "$@"', "--", "bash", HERE / "nccl-pair.sh", program(day, "kerf-run")]
    command += [files / "tiny-gpt2-dp2.kerf", "--data", files / "data.bin", "--data-format=u16", "--steps", 1000000]

    def judge(said):
        return {} if "rank 1 died" in said else {"failed": "rank 0 did not say 'rank 1 died'"}

    day.run("nccl-pair-abort", 30, command, {"KERF_PAIR_KILL": "2"}, judge)


def layouts(day):
    for path in sorted((day.folder / "layouts").glob("*.expected")):
        layout(day, path.stem)


def sanitize(day, tool, limit):
    day.run(f"sanitizer-{tool}", limit, ["bash", HERE / "gpu-day.sh", "sanitize", day.folder, tool])


# ---- Actions -----------------------------------------------------------------


def train_first(day):
    """The first steps of gpt2-124m, and by other ways, which give the same losses."""
    day.begin("2: train", 30)
    log = {"KERF_CUDA_LOG": "1"}
    losses = train(day, "gpt2", "gpt2-124m", 8, 30, log)
    if losses is None:
        train(day, "gpt2-step-by-step", "gpt2-124m", 8, 30, log | {"KERF_NO_GRAPH": "1", "KERF_CUDA_SYNC": "1"})
    day.begin("3: same losses", 45)
    train(day, "gpt2-again", "gpt2-124m", 8, 20, wanted=losses)
    train(day, "gpt2-no-graph", "gpt2-124m", 8, 20, {"KERF_NO_GRAPH": "1"}, wanted=losses)
    own = {"KERF_CUDA_OWN_ATTENTION": "1"}
    train(day, "gpt2-own-attention", "gpt2-124m", 8, 20, own, wanted=losses, part=SAME_PART)
    for word in ("OWN_BGRAD", "ATTENTION_ANY_ORDER"):
        name = "gpt2-" + word.lower().replace("_", "-")
        variables = {"KERF_CUDA_LOG": "1", f"KERF_CUDA_{word}": "1"}
        train(day, name, "gpt2-124m", 8, 20, variables, wanted=losses, part=SAME_PART)


def train_others(day):
    day.begin("6: experts, 8B", 60)
    losses = train(day, "moe", "moe-1b", 5, 30, {"KERF_CUDA_LOG": "1"})
    mma = {"KERF_CUDA_NO_WGMMA": "1"}
    train(day, "moe-no-wgmma", "moe-1b", 5, 30, mma, wanted=losses, part=SAME_PART)
    train(day, "llama-8b", "llama-3-8b-8-layers", 5, 60, {"KERF_CUDA_LOG": "1"})


def first(day):
    """Nine steps whose budgets are 540 s; what tells most comes first."""
    day.begin("1: versions", 15)
    versions(day)
    train_first(day)
    day.begin("4: time per command", 60)
    for model in ("gpt2-124m", "llama-1b"):
        trace(day, model, 40)
    day.begin("5: tests", 120)
    test_kernels(day)
    test_device(day)
    train_others(day)
    day.begin("7: speed of kernels", 90)
    measure_kernels(day)
    day.begin("8: ranks", 90)
    layouts(day)
    layout(day, "tiny-gpt2-dp2", nccl=True)
    nccl_pair_abort(day)
    day.begin("9: memcheck", 30)
    sanitize(day, "memcheck", 60)


def check(day):
    versions(day)
    test_kernels(day)
    test_device(day)
    layouts(day)
    layout(day, "tiny-gpt2-dp2", nccl=True)
    nccl_pair_abort(day)
    for tool in ("memcheck", "racecheck"):
        sanitize(day, tool, 60)


def measure_kernels(day):
    log = {"KERF_CUDA_LOG": "1"}
    if day.tiny:
        forms = [("tiny", "tiny", log)]
    else:
        forms = [
            ("attention", "attention", log),
            ("grouped", "grouped", log),
            ("attention-any-order", "attention", log | {"KERF_CUDA_ATTENTION_ANY_ORDER": "1"}),
            ("attention-own", "attention", log | {"KERF_CUDA_OWN_ATTENTION": "1"}),
            ("context", "context", log),
            ("context-own", "context", log | {"KERF_CUDA_OWN_ATTENTION": "1"}),
        ]
    for name, which, variables in forms:
        day.run(f"bench-{name}", 60, [program(day, "kerf-cuda-kernels-bench"), which], variables, shows=True)


def bench(day):
    command = python("gpu.py", "--compiled", day.folder / "models", *["--tiny"] * day.tiny, *day.options)
    if not any(option.startswith("--json") for option in day.options):
        command += ["--json", day.out / "record.json"]
    day.run("bench", day.left(), command, shows=True)


ACTIONS = {"first": first, "check": check, "bench": bench, "kernels": measure_kernels}
