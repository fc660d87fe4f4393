"""A saved state of two ranks, as a folder of torch.distributed.checkpoint and back: the weights are the same, and so
are those of folders that PyTorch wrote itself; AdamW goes on from the optimizer.

    dcp.py EXAMPLE       (run by live.sh; KERF_BIN names the tools)
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(folder, *command):
    subprocess.run([str(word) for word in command], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def train(folder):
    tools = pathlib.Path(os.environ["KERF_BIN"])
    run(folder, tools / "kerf-import", ROOT / "examples/models/tiny-gpt2/config.json", "--batch=4", "--seq=16", "-o", "m.mlir")
    run(folder, tools / "kerfc", "m.mlir", "--cluster=this-machine", "--devices=2", "--pin=dp=2,zero=1", "--precision=bf16", "-o", "m.kerf")
    run(folder, tools / "kerf-run", "m.kerf", f"--data={ROOT}/README.md", "--steps=5", "--threads=1", "--save-state=state",
        "--save-weights=weights.safetensors")  # fmt: skip


def main():
    example = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        train(folder)
        run(folder, sys.executable, example, "save", "state/step-5", "dcp")
        run(folder, sys.executable, example, "load", "dcp", "back.safetensors")
        weights, back = load_file(folder / "weights.safetensors"), load_file(folder / "back.safetensors")
        assert weights.keys() == back.keys() and len(weights) > 0
        for key, tensor in weights.items():
            assert torch.equal(back[key].to(tensor.dtype), tensor), key
        # The names and shapes that AdamW's state has in PyTorch.
        found = dcp.FileSystemReader(folder / "dcp").read_metadata().state_dict_metadata
        for key, tensor in weights.items():
            for moment in ("exp_avg", "exp_avg_sq"):
                assert found[f"optimizer.state.{key}.{moment}"].size == tensor.shape, key
        # Folders that PyTorch wrote of weights at the top, whose names begin with "model.", too.
        named = {f"model.{key}": tensor for key, tensor in weights.items()}
        dcp.save(named, checkpoint_id=folder / "flat", no_dist=True)
        run(folder, sys.executable, example, "load", "flat", "flat.safetensors")
        flat = load_file(folder / "flat.safetensors")
        assert flat.keys() == named.keys() and all(torch.equal(flat[key], named[key]) for key in named)
    print("dcp: ok")


if __name__ == "__main__":
    main()
