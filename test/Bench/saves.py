#!/usr/bin/env python3
"""What saving a state costs beside training: Kerf and PyTorch's distributed checkpoints, on one disk.

    test/Bench/saves.py BIN [--rounds 3] [--folder DIR] [--python PYTHON] [--layers 22]

BIN is the folder with kerfc, kerf-run and so on; PYTHON has torch. The model is a Llama of 1.1 billion
parameters (22 layers of 2048) in bf16 with f32 masters and plain SGD: a state of 6 bytes a parameter, which
a machine of 24 GB holds twice beside the gradients. A round is, one after the other,

  - `dd` of as many bytes into the folder, with fsync, and read back: what the disk gives;
  - kerf-run on one rank, saving every 12 of 61 steps: means of four saves of the stall and of the steps while
    it copies and writes, beside the 7 steps before and behind it;
  - torch.distributed.checkpoint.async_save of the same tensors, while matmuls run in a loop as long as a
    step: its stall, its loops while it writes; copied between two loops, and in a thread beside one.

A step beside a save is the mean of those that begin before all is written, the copy's included, by the median
of those without one. Printed are medians and ranges over the rounds, the processor, and versions.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEPS, SAVED, NEAR = 61, 12, 7
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 5632,
         "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 2048,
         "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16"}  # fmt: skip


def call(*command, cwd=None):
    return subprocess.run(list(map(str, command)), cwd=cwd, check=True, capture_output=True, text=True).stdout


def compiled(binaries, folder, layers):
    (folder / "config.json").write_text(json.dumps(LLAMA | {"num_hidden_layers": layers}))
    call(binaries / "kerf-import", folder / "config.json", "--batch=1", "--seq=256", "--optimizer=sgd", "--momentum=0",
         "-o", folder / "m.mlir")  # fmt: skip
    call(binaries / "kerfc", folder / "m.mlir", "--cluster=this-machine", "--devices=1", "--precision=bf16", "-o", folder / "m.kerf")
    tokens = array("H", ((i * i + 7 * i) % 31000 for i in range(20000)))
    (folder / "tokens.bin").write_bytes(tokens.tobytes())


def disk(folder, size):
    """GB/s of writing with fsync, and of reading what the system does not have in memory."""
    path = folder / "disk"
    start = time.time()
    call("dd", "if=/dev/zero", f"of={path}", "bs=4M", f"count={size >> 22}", "conv=fsync")
    wrote = (size >> 22 << 22) / (time.time() - start) / 1e9
    path.unlink()
    return wrote


def kerf(binaries, folder):
    log = folder / "log.json"
    log.unlink(missing_ok=True)
    call(binaries / "kerf-run", folder / "m.kerf", "--data-format=u16", f"--data={folder / 'tokens.bin'}", f"--steps={STEPS}",
         f"--save-every={SAVED}", "--keep=1", "--save-state=s", f"--log-json={log}", cwd=folder)  # fmt: skip
    lines = [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]
    steps = {line["iteration"]: line["elapsed_ms"] / 1e3 for line in lines if "loss" in line}
    saves = [line for line in lines if line.get("saved_iteration", STEPS) < STEPS - 1]
    busy = {n for save in saves for n in range(save["saved_iteration"] + 1, save["iteration"] + 1)} | {1, 2, 3, STEPS}
    found = []
    for save in saves:
        first, last = save["saved_iteration"], save["iteration"]
        alone = statistics.mean(steps[n] for n in range(first - NEAR + 1, last + NEAR + 1) if n in steps and n not in busy)
        beside = statistics.mean(steps[n] for n in range(first + 1, last + 1))
        found.append({"step": alone, "stall": save["save_stall_ms"] / 1e3, "write": save["save_write_ms"] / 1e3,
                      "bytes": save["saved_bytes"], "slower": beside / alone})  # fmt: skip
    call("rm", "-rf", folder / "s")
    return {key: statistics.mean(one[key] for one in found) for key in found[0]}


def show(name, rounds, key, unit="", scale=1):
    values = [scale * one[key] for one in rounds]
    print(f"  {name:42} {statistics.median(values):8.3f} ({min(values):.3f} to {max(values):.3f}) {unit}")


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "?"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", metavar="BIN", type=lambda text: Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="on the disk that is measured (default: a new one in /tmp)")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--layers", type=int, default=22)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kerf-saves-", dir=options.folder) as name:
        folder = Path(name)
        compiled(options.bin, folder, options.layers)
        ours, theirs, wrote = [], {"between": [], "beside": []}, []
        for _ in range(options.rounds):
            ours.append(kerf(options.bin, folder))
            size = int(ours[-1]["bytes"])
            wrote.append({"rate": disk(folder, size)})
            for mode, rounds in theirs.items():
                out = call(options.python, HERE / "peers/dcp_torch.py", folder / "dcp", size, f"{ours[-1]['step']:.3f}", mode)
                rounds.append(json.loads(out.splitlines()[-1]))
                call("rm", "-rf", folder / "dcp")
    for one in (*ours, *theirs["between"], *theirs["beside"]):
        one["rate"] = one["bytes"] / one["write"] / 1e9
        one["part"] = one["stall"] / one["step"]
    print(f"{processor()}, {os.cpu_count()} cores; {ours[0]['bytes'] / 1e9:.2f} GB a state; {options.rounds} rounds")
    print("dd")
    show("write and fsync", wrote, "rate", "GB/s")
    peers = [(f"torch {rounds[0]['torch']}, async_save, copied {mode}", rounds) for mode, rounds in theirs.items()]
    for title, rounds in (("kerf-run", ours), *peers):
        print(title)
        show("step without a save", rounds, "step", "s")
        show("stall of a save", rounds, "stall", "s")
        show("stall, of a step", rounds, "part", "%", 100)
        show("writing", rounds, "write", "s")
        show("writing", rounds, "rate", "GB/s")
        show("step while it writes, of one without", rounds, "slower")


if __name__ == "__main__":
    main()
