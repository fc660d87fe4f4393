"""Adapters travel between peft and kerf-run and mean the same.

  peft_adapters.py MODEL.kerf CONFIG-FOLDER

MODEL.kerf is compiled from CONFIG-FOLDER/config.json with `kerf-import --lora-rank`, a causal
language model in f32, its base not quantized. Needs peft, torch, transformers and safetensors;
kerf-run is found on the PATH. Each check prints one line; exit status 1 if one fails.

  1. Adapters that kerf-run saves after five steps give the same held-out loss there as here.
  2. Random adapters that peft saves give the same here as there.
"""

import array
import pathlib
import sys
import tempfile

import peft
import torch
import transformers

from huggingface import FAILED, check, heldout_loss, run, torch_loss


def write_data(path, vocabulary):
    text = "".join(f"line {i} of {i * i} and {i % 7}\n" for i in range(3000)).encode()
    path.write_bytes(array.array("H", (b % vocabulary for b in text)).tobytes())


def with_adapter(base, folder):
    """The library's model with the adapters of the folder; fails if one is missing."""
    model = transformers.AutoModelForCausalLM.from_pretrained(base).float()
    return peft.PeftModel.from_pretrained(model, folder).float()


def main(artifact, config_folder):
    config = transformers.AutoConfig.from_pretrained(config_folder)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as held:
        folder = pathlib.Path(held)
        base, ours, theirs = folder / "base", folder / "ours", folder / "theirs"
        data = folder / "tokens.bin"
        write_data(data, config.vocab_size)
        transformers.AutoModelForCausalLM.from_config(config).float().save_pretrained(base)
        start = f"--init-from={base}"

        train = ["--steps=5", "--lr=1e-2", start, f"--save-adapter={ours}"]
        out, records = run(artifact, data, folder, *train)
        model = with_adapter(base, ours)
        check("from kerf-run", heldout_loss(records), torch_loss(model, data, out))

        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_" in name:
                    parameter.copy_(0.1 * torch.randn_like(parameter))
        model.save_pretrained(theirs)
        out, records = run(artifact, data, folder, "--steps=0", start, f"--init-adapter={theirs}")
        check("from peft", heldout_loss(records), torch_loss(model, data, out))
    for what in FAILED:
        print(f"failed: {what}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
