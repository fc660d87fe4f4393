"""The cases: their configs, and seeded weights and batches for each.

A case is a folder of `cases/` with a `config.json`. Everything random is drawn
with numpy, seeded with the case's name and with `SEEDS`.
"""

import zlib
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent
STEPS, BATCH, SEQ = 3, 2, 12
IGNORED = -100

# A choice of experts that hangs on rounding would make results incomparable, so these
# seeds were searched for: no routing decision is closer than ROUTER_MARGIN. In
# mixtral-top1-aux an expert gets no token in step 1. With others than that of ernie4-5-moe a gradient
# in f32 is so close to 0 that Adam makes a step of its rounding.
ROUTER_MARGIN = 1e-3
SEEDS = {
    "llama4-two-experts": 1,
    "llama4": 1,
    "deepseek-v2": 3,
    "deepseek-v2-yarn": 1,
    "deepseek-v3": 1,
    "deepseek-v3-plain-query": 1,
    "deepseek-v3-yarn": 2,
    "ernie4-5-moe": 10,
    "ernie4-5-moe-aux": 2,
    "glm4-moe-no-norm": 3,
    "gpt-oss": 1,
    "gpt-oss-aux": 12,
    "hunyuan-moe": 7,
    "minimax-m2": 15,
    "mixtral-aux": 5,
    "mixtral-muon": 4,
    "mixtral-no-aux": 3,
    "mixtral-three-of-five": 24,
    "mixtral-top1-aux": 11,
    "mixtral-window": 10,
    "olmoe": 11,
    "qwen2-moe": 1,
    "qwen3-moe-dense-layers": 50,
    "qwen3-moe-raw-aux": 20,
    "qwen3-moe-step": 11,
}


def names():
    """Names of all cases, sorted."""
    return sorted(path.name for path in (ROOT / "cases").iterdir())


def by_hand(case):
    """Whether the library does not have the model: `by_hand.py` does."""
    return (folder(case) / "model.mlir").exists()


def has_adapters(case):
    """Whether the model has low-rank adapters: `adapters.py` does those."""
    return (folder(case) / "adapter_config.json").exists()


def has_muon(case):
    """Whether matrices of layers are trained by Muon (`muon.py`)."""
    return case.endswith("-muon")


def folder(case):
    """Folder of `case`."""
    return ROOT / "cases" / case


def generator(case, purpose):
    """A numpy generator that depends on the case and on what it is used for."""
    words = [zlib.crc32(case.encode()), zlib.crc32(purpose.encode()), SEEDS.get(case, 0)]
    return np.random.default_rng(words)


def weights(case, shapes, std):
    """Random f32 tensors for `shapes` (checkpoint name -> shape).

    Matrices are normal with standard deviation `std`, norm weights are scattered
    around 1 and biases around 0, so that nothing is trivially 0 or 1.
    """
    rng = generator(case, "weights")
    result = {}
    for name in sorted(shapes):
        value = rng.standard_normal(shapes[name])
        if len(shapes[name]) > 1:
            value = std * value
        else:
            value = 0.2 * value + (0.0 if name.endswith("bias") else 1.0)
        result[name] = torch.from_numpy(value.astype(np.float32))
    return result


def batches(case, vocab, pad):
    """`tokens` and `targets`, i32 [STEPS, BATCH, SEQ].

    A target is the next token. The last column is ignored, and sequence b has
    1 + 2 b more ignored targets at random places, so that sequences have different
    numbers of valid targets. If the config has a padding token, every sequence
    contains it.
    """
    rng = generator(case, "batches")
    tokens = rng.integers(0, vocab, (STEPS, BATCH, SEQ))
    if pad is not None:
        tokens[:, :, SEQ // 3] = pad
    targets = np.full_like(tokens, IGNORED)
    targets[:, :, :-1] = tokens[:, :, 1:]
    for step in range(STEPS):
        for sequence in range(BATCH):
            more = rng.choice(SEQ - 1, 1 + 2 * sequence, replace=False)
            targets[step, sequence, more] = IGNORED
    return torch.from_numpy(tokens.astype(np.int32)), torch.from_numpy(targets.astype(np.int32))
