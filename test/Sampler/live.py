"""kerf-run --sample against `generate` of the transformers library, on the same weights.

  live.py ROOT FOLDER

Weights are drawn wide, so that no two tokens are nearly as likely. Twenty tokens follow five; then thirty follow, with a
sequence of sixteen: the library gets the last sixteen each time.
"""

import pathlib
import subprocess
import sys

import torch
import transformers

ROOT, FOLDER = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
PROMPT = [17, 4, 59, 23, 8]


def model_of(config):
    """A model of the family, with weights that tell tokens apart."""
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
    return model


def greedy(model, count, window):
    """The library's tokens, of the last `window` each."""
    tokens = list(PROMPT)
    for _ in range(count):
        with torch.no_grad():
            logits = model(torch.tensor([tokens[-window:]]), use_cache=False).logits[0, -1]
        tokens.append(int(logits.argmax()))
    return tokens


def generated(model, count):
    with torch.no_grad():
        made = model.generate(torch.tensor([PROMPT]), max_new_tokens=count, min_new_tokens=count, do_sample=False)
    return made[0].tolist()


def sampled(folder, sequence, count):
    call = lambda *command: subprocess.run([*map(str, command)], check=True, capture_output=True, text=True, cwd=FOLDER).stdout
    call("kerf-import", folder, "--batch=4", f"--seq={sequence}", "-o", "m.mlir")
    call("kerfc", "m.mlir", "--sampler", "-o", "m.kerf")
    out = call("kerf-run", "m.kerf", "--threads=1", f"--init-from={folder}", f"--sample=tokens:{','.join(map(str, PROMPT))}",
               f"--sample-tokens={count}", "--sample-temperature=0")  # fmt: skip
    text = "".join(line[4:] for line in out.splitlines() if line.startswith("  | "))
    return [int(token) for token in text.split(",")]


def main():
    compared = 0
    for place in sorted(path.parent for path in ROOT.glob("examples/models/tiny-*/config.json")):
        folder = FOLDER / place.name
        try:
            config = transformers.AutoConfig.from_pretrained(place)
            config.eos_token_id = config.bos_token_id = config.pad_token_id = None
            model = model_of(config)
        except (ValueError, KeyError) as error:
            print(f"{place.name}: the library has none: {error}")
            continue
        model.save_pretrained(folder)
        assert sampled(folder, 32, 20) == generated(model, 20), place.name
        assert sampled(folder, 16, 30) == greedy(model, 30, 16), place.name
        print(f"{place.name}: the same 20 and 30 tokens")
        compared += 1
    assert compared >= 10, compared


main()
