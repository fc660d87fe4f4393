"""Weights travel between transformers and kerf-run and mean the same.

  huggingface.py MODEL.kerf CONFIG-FOLDER

MODEL.kerf is compiled from CONFIG-FOLDER/config.json, a causal language model in f32. Needs torch, transformers and safetensors; kerf-run is found on the PATH. Each check
prints one line; exit status 1 if one fails.

  1. Weights that transformers saves (one file, shards, and the base model's names without the
     common prefix) give the same held-out loss here as there.
  2. Weights that kerf-run saves after three steps (one file, shards) give the same there as here.
"""

import array
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
import transformers

TOLERANCE = 1e-5
FAILED = []


def run(model, data, folder, *arguments):
    """Text and records of a run."""
    log = folder / "log.json"
    log.unlink(missing_ok=True)
    command = ["kerf-run", model, f"--data={data}", f"--log-json={log}", "--heldout=0.05", *arguments]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return out, [json.loads(line) for line in log.read_text().splitlines() if '"run"' not in line]


def heldout_loss(records):
    return [r["heldout_loss"] for r in records if "heldout_loss" in r][-1]


def torch_loss(model, data, out):
    """The held-out loss of kerf-run's samples, computed by transformers."""
    tokens = int(re.search(r"the last ([\d,]+) tokens", out)[1].replace(",", ""))
    samples = int(re.search(r"held-out loss .*samples: (\d+)", out)[1])
    length = int(re.search(r"of (\d+) tokens; \d+ per step", out)[1])
    held = torch.tensor(array.array("H", pathlib.Path(data).read_bytes())[-tokens:])
    windows = torch.stack([held[k * length : k * length + length + 1] for k in range(samples)])
    model.eval()
    with torch.no_grad():
        logits = model(windows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()).item()


def check(what, ours, theirs):
    error = abs(ours - theirs) / abs(theirs)
    print(f"{what:44} kerf {ours:.8f}  transformers {theirs:.8f}  relative {error:.1e}")
    if not error <= TOLERANCE:
        FAILED.append(what)


def main(artifact, config_folder):
    config = transformers.AutoConfig.from_pretrained(config_folder)
    torch.manual_seed(0)
    theirs = transformers.AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(1.5).add_(0.01 * torch.randn_like(parameter))
    with tempfile.TemporaryDirectory() as held:
        folder = pathlib.Path(held)
        text = "".join(f"line {i} of {i * i} and {i % 7}\n" for i in range(3000)).encode()
        data = folder / "tokens.bin"
        data.write_bytes(array.array("H", (b % config.vocab_size for b in text)).tobytes())
        theirs.save_pretrained(folder / "one")
        theirs.save_pretrained(folder / "shards", max_shard_size="30KB")
        theirs.base_model.save_pretrained(folder / "base")
        names = ["one", "shards"] + (["base"] if config.tie_word_embeddings else [])
        for name in names:
            out, records = run(artifact, data, folder, "--steps=0", f"--init-from={folder / name}")
            check(f"from transformers, {name}", heldout_loss(records), torch_loss(theirs, data, out))
        for path, size in ((folder / "back", 5000), (folder / "backs", 0.03)):
            out, records = run(artifact, data, folder, "--steps=3", "--lr=1e-3", f"--shard-size={size}",
                               f"--init-from={folder / 'one'}", f"--save-weights={path}")  # fmt: skip
            config.save_pretrained(path)
            again, info = transformers.AutoModelForCausalLM.from_pretrained(
                path, output_loading_info=True)  # fmt: skip
            wrong = {key: value for key, value in info.items() if value}
            if wrong:
                FAILED.append(f"transformers loads {path.name}: {wrong}")
            check(f"to transformers, {path.name}", heldout_loss(records), torch_loss(again.float(), data, out))
    for what in FAILED:
        print(f"failed: {what}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
