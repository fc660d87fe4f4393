"""A saved state of two ranks, as a folder of torch.distributed.checkpoint and back: the weights are the same, and so
are those of folders that PyTorch wrote itself; training goes on from the optimizer, of Kerf's states with the same
bits, of PyTorch's AdamW with the losses that PyTorch has.

    dcp.py EXAMPLE       (run by live.sh; KERF_BIN names the tools)
"""

import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint.state_dict import get_state_dict
from transformers import AutoConfig, AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(os.environ["KERF_BIN"])
BATCH, SEQ, RATE, STEPS = 4, 16, 1e-2, 4  # of the model that PyTorch trains


def run(folder, *command):
    subprocess.run([str(word) for word in command], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def train(folder):
    run(folder, TOOLS / "kerf-import", ROOT / "examples/models/tiny-gpt2/config.json", "--batch=4", "--seq=16", "-o", "m.mlir")
    run(folder, TOOLS / "kerfc", "m.mlir", "--cluster=this-machine", "--devices=2", "--pin=dp=2,zero=1", "--precision=bf16", "-o", "m.kerf")
    run(folder, TOOLS / "kerf-run", "m.kerf", f"--data={ROOT}/README.md", "--steps=5", "--threads=1", "--save-state=state",
        "--save-weights=weights.safetensors")  # fmt: skip


def steps_of(folder, model, data, *options):
    """What kerf-run tells of the steps that it makes."""
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    run(folder, TOOLS / "kerf-run", model, f"--data={data}", "--threads=1", f"--log-json={log}", *options)
    return [line for line in map(json.loads, log.read_text().splitlines()) if "loss" in line]


def check_weights(folder, example):
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


def check_round_trip(folder, example):
    """The state that comes back is resumed with the bits of the one that went."""
    data = ROOT / "README.md"
    steps_of(folder, "m.kerf", data, "--steps=1", "--save-state=like")
    run(folder, sys.executable, example, "load", "dcp", "back", "like/step-1")
    told = [[(line["iteration"], line["consumed_samples"], line["loss"], line["grad_norm"]) for line in
             steps_of(folder, "m.kerf", data, "--steps=8", "--lr-schedule=constant", f"--resume={state}")]
            for state in ("state", "back", "like")]  # fmt: skip
    assert [line[0] for line in told[0]] == [6, 7, 8], told[0]
    assert told[0] == told[1], told
    assert told[0] != told[2][-3:], "another state goes on alike"


def torch_run(tokens):
    """A model of transformers and its AdamW, and a function that makes a step and tells the loss before it."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(ROOT / "examples/models/tiny-llama"))
    decayed = [own for own in model.parameters() if own.dim() > 1]
    others = [own for own in model.parameters() if own.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=RATE)

    def step():
        logits = model(tokens[:-1].view(BATCH, SEQ)).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return model, optimizer, step


def check_torch(folder, example):
    """Kerf goes on from PyTorch's AdamW as PyTorch does. Each step has all the data, in any order."""
    tokens = numpy.random.default_rng(0).integers(3, 96, BATCH * SEQ + 1).astype(numpy.uint16)
    tokens.tofile(folder / "data.bin")
    model, optimizer, step = torch_run(torch.from_numpy(tokens.astype(numpy.int64)))
    for _ in range(STEPS):
        step()
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=folder / "torch", no_dist=True)
    expected = [step() for _ in range(STEPS)]
    run(folder, TOOLS / "kerf-import", ROOT / "examples/models/tiny-llama/config.json", f"--batch={BATCH}", f"--seq={SEQ}",
        "--beta2=0.999", "--weight-decay=0.1", "--clip-norm=0", "-o", "llama.mlir")  # fmt: skip
    run(folder, TOOLS / "kerfc", "llama.mlir", "--cluster=this-machine", "--devices=1", "--precision=f32", "-o", "llama.kerf")
    steps_of(folder, "llama.kerf", "data.bin", "--steps=1", "--save-state=start")
    run(folder, sys.executable, example, "load", "torch", "from-torch", "start/step-1")
    found = steps_of(folder, "llama.kerf", "data.bin", f"--steps={2 * STEPS}", "--resume=from-torch")
    assert [line["iteration"] for line in found] == list(range(STEPS + 1, 2 * STEPS + 1)), found
    pairs = [(line["loss"], loss) for line, loss in zip(found, expected, strict=True)]
    assert all(abs(own - loss) <= 1e-5 * loss for own, loss in pairs), pairs
    # Without the moments the losses are others: the comparison sees them.
    run(folder, sys.executable, example, "load", "torch", "torch.safetensors")
    bare = steps_of(folder, "llama.kerf", "data.bin", f"--steps={STEPS}", "--init-from=torch.safetensors",
                    f"--lr={RATE}", "--lr-schedule=constant", "--warmup=0")  # fmt: skip
    assert abs(bare[0]["loss"] - expected[0]) <= 1e-5 * expected[0]
    assert abs(bare[-1]["loss"] - expected[-1]) > 1e-3 * expected[-1], (bare[-1], expected)
    check_errors(folder, example, weights, moments)


def check_errors(folder, example, weights, moments):
    """What a saved state cannot be made of is said in a line, and nothing is written."""
    state = moments["state"]
    norm = "model.norm.weight"
    some = state[norm]
    half = {key: own for key, own in some.items() if key != "exp_avg_sq"}
    cases = [
        (weights, {norm: half}, f"no 'exp_avg_sq' of '{norm}'"),
        (weights, {norm: {"momentum_buffer": some["exp_avg"]}}, f"not AdamW: it keeps 'momentum_buffer' of '{norm}'"),
        (weights, {norm: some | {"step": torch.tensor(9.0)}}, "the steps of parameters differ"),
        (weights, {"other.weight": some}, "moments of 'other.weight', which the model does not train"),
        (weights | {"other.weight": torch.ones(3)}, {}, "the model has no 'other.weight'"),
        (weights | {norm: torch.ones(3)}, {}, "is [3], the model expects [32]"),
    ]
    load_state = runpy.run_path(str(example))["load_state"]
    for number, (model, changed, message) in enumerate(cases):
        place = folder / f"wrong-{number}"
        dcp.save({"model": model, "optimizer": {"state": state | changed}}, checkpoint_id=place, no_dist=True)
        said = "no error"
        try:
            load_state(place, folder / "none", folder / "start/step-1")
        except SystemExit as ended:  # a text is printed, and the exit status is 1
            said = str(ended.code)
        assert said.startswith("error: ") and message in said and "\n" not in said, said
        assert not (folder / "none").exists()


def main():
    example = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        train(folder)
        run(folder, sys.executable, example, "save", "state/step-5", "dcp")
        check_weights(folder, example)
        check_round_trip(folder, example)
        check_torch(folder, example)
    print("dcp: ok")


if __name__ == "__main__":
    main()
