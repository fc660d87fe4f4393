"""Makes or checks the reference results of tiny models of the transformers library.

    pip install -r test/Reference/requirements.txt
    python test/Reference/generate.py                # write all reference files
    python test/Reference/generate.py --only CASE    # write one
    python test/Reference/generate.py --check        # compare with the stored ones

`README.md` describes the cases and the format.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import sys
from collections import Counter, defaultdict
from functools import partial

import torch
import transformers

import adapters
import by_hand
import cases
import checkpoint
import checks
import compare
import training
from float64 import Float64, NoFloat32


def float64_run(case, model, tokens, targets, sites):
    """Trains `model` (f32) in float64 and checks the result; gives model and run."""
    mode = Float64()
    model = checkpoint.to_float64(case, model, mode)
    with Float64():
        checks.check_rope(model)
    with Float64(), NoFloat32():
        checks.check_attention(model, tokens[0])
    initial = [p.detach().clone() for p in training.trained(model)]
    with mode, NoFloat32():
        run = training.train(model, tokens, targets, cases.has_muon(case))
    sites[model.config.model_type].update(mode.sites)
    config = model.config
    for step, output in enumerate(run.outputs):
        aux = 0.0
        if getattr(output, "aux_loss", None) is not None:
            aux = checks.aux_loss(config, [r.detach() for r in output.router_logits])
            checks.near("auxiliary loss", aux, output.aux_loss.detach())
            aux = config.router_aux_loss_coef * aux
        checks.check_loss(output, targets[step], aux)
    if not cases.has_muon(case):
        checks.check_optimizer(initial, run)
    return model, run


def check_routing(config, exact, rounded):
    """The margin of the routers; float32 must choose the experts that float64 chooses."""
    for (*_, ours), (*_, theirs) in zip(exact.routing, rounded.routing, strict=True):
        if not torch.equal(ours.sort(-1).values, theirs.sort(-1).values):
            raise ValueError("float32 chooses other experts than float64: change the seed")
    margin = checks.router_margin(config, exact.routing)
    if margin < cases.ROUTER_MARGIN:
        raise ValueError(f"a routing decision is as close as {margin:.1e}: change the seed")
    return margin


def produce(case, sites):
    """Tensors and metadata of the reference file of `case`."""
    config = checkpoint.config_of(case)
    skeleton = checkpoint.tensors_of(checkpoint.untrained(case))
    shapes = {name: tuple(tensor.shape) for name, tensor in skeleton.items()}
    weights = cases.weights(case, shapes, getattr(config, "initializer_range", None) or config.init_std)
    model = checkpoint.load(case, weights)
    if checks.has_experts(config):
        checks.check_experts(config, model, weights)
    pad = config.pad_token_id
    tokens, targets = cases.batches(case, config.vocab_size, pad)
    model64, exact = float64_run(case, model, tokens, targets, sites)
    rounded = training.train(model, tokens, targets, cases.has_muon(case))

    tensors = {"tokens": tokens, "targets": targets}
    tensors |= {f"param.{name}": tensor for name, tensor in weights.items()}
    for prefix, trained, run in (("f64", model64, exact), ("f32", model, rounded)):
        tensors |= training.stored(prefix, run, partial(checkpoint.tensors_of, trained))
    metadata = training.metadata(case, transformers)
    if exact.loads[0]:
        metadata["router_bias_rate"] = str(training.BIAS_RATE)
    if exact.routing:
        metadata["router_margin"] = f"{check_routing(config, exact, rounded):.3e}"
    return tensors, metadata


def redirected(sites):
    """The text of redirected.md: what the float64 runs computed in float64 instead."""
    families = sorted(sites)
    rows = defaultdict(Counter)
    for family in families:
        for key, count in sites[family].items():
            rows[key][family] += count
    lines = [
        "# What the float64 runs redirect",
        "",
        "Written by `generate.py`. Every call below asks for float32 whatever the type of the",
        "model is; in the float64 runs it got float64 (see `float64.py`). Counts are calls over",
        "all cases of the family: building the model, three training steps with their backward",
        "passes and updates. No operator of those steps takes or makes a float32 tensor: a",
        "dispatch mode below would fail.",
        "",
        "| call | where | in | " + " | ".join(families) + " |",
        "|---|---|---|" + "---:|" * len(families),
    ]
    for key in sorted(rows, key=lambda key: (key[1], key[0])):
        function, site, caller = key
        counts = " | ".join(str(rows[key][family] or "") for family in families)
        lines.append(f"| `{function}` | {site} | `{caller}` | {counts} |")
    return "\n".join(lines) + "\n"


def main():
    """Writes or checks the chosen cases; exit status 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--only", metavar="CASE", choices=cases.names())
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    sites = defaultdict(Counter)
    chosen = [options.only] if options.only else cases.names()
    good = True
    if options.check:
        print(compare.header())
    for case in chosen:
        if cases.by_hand(case):
            tensors, metadata = by_hand.produce(case)
        elif cases.has_adapters(case):
            tensors, metadata = adapters.produce(case)
        else:
            tensors, metadata = produce(case, sites)
        path = cases.folder(case) / "reference.safetensors"
        if options.check:
            good &= compare.report(case, path, tensors, metadata)
        else:
            checkpoint.write_reference(path, tensors, metadata)
            losses = [f"{loss:.6f}" for loss in tensors["f64.loss"].tolist()]
            margin = metadata.get("router_margin", "-")
            size = path.stat().st_size
            print(f"{case:24} {size:8} bytes, losses {' '.join(losses)}, router margin {margin}")
    text = redirected(sites)
    table = cases.ROOT / "redirected.md"
    if options.check and not options.only:
        same = table.exists() and table.read_text() == text
        print(f"redirected.md: {'same' if same else 'DIFFERS'}")
        good &= same
    elif not options.check and not options.only:
        table.write_text(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
