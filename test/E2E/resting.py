#!/usr/bin/env python3
"""Checks that weights, gradients and optimizer state take the bytes that the layout says.

    resting.py BIN SOURCE [--quick]

For each layout, what a rank of each stage holds is added up here from the shapes of the model's
parameters: the tensor cuts, the stage that a layer belongs to, and the pieces of ZeRO. That is
compared with the classes that `kerf-inspect memory` prints of the compiled file: weights, masters
and optimizer state to the byte. Gradients rest as long as micro-batches are added up, and
beside those at rest may be one layer's, and one table's, whole ones: they are checked to lie
between the two.
"""

import re
import sys
import tempfile

sys.dont_write_bytecode = True

import layouts as e2e

LAYERS = 4
ALIGNMENT = 64  # of a buffer: the layers of a chunk are one

# Family, layout, number type.
CASES = [
    ("gpt2", "m2", "f32"),
    ("gpt2", "tp2.sp.m2", "f32"),
    ("gpt2", "pp2.1f1b.m4", "f32"),
    ("gpt2", "tp2.thirds.dp2.m2.zero2", "f32"),
    ("llama", "tp2.vocab.m2", "f32"),
    ("llama", "pp4.1f1b.m8", "f32"),
    ("llama", "pp2.v2.m4", "f32"),
    ("llama", "dp4.m2.zero1", "f32"),
    ("llama", "dp4.m2.zero2", "f32"),
    ("llama", "dp4.m2.zero3", "f32"),
    ("llama", "dp4.m2.zero3.group2", "f32"),
    ("llama", "dp4.m2.zero1", "bf16"),
    ("llama", "dp4.m2.zero3", "bf16"),
    ("llama", "pp2.tp2.dp2.1f1b.m4.zero1", "f32"),
    ("llama", "pp2.tp2.dp2.v2.m2.zero3", "bf16"),
    ("mistral", "cp2.dp2.m2.zero3", "f32"),
    ("mixtral", "tp2.m2", "f32"),
    ("mixtral", "ep2.m2", "f32"),
    ("mixtral", "pp2.ep2.1f1b.m4", "f32"),
]

# Parameters that tensor ranks cut: outputs of the first matmuls of a pair with their biases,
# inputs of the second ones.
CUT = re.compile(
    r"\.(c_attn|c_fc)\.(weight|bias)$|\.c_proj\.weight$"
    r"|\.([qkv]_proj|gate_proj|up_proj|o_proj|down_proj)\.weight$|\.w[123]\.weight$"
)


def parameters(bench, family):
    """Name, whether there is one per layer, and elements of each parameter."""
    text = e2e.call(bench.bin / "kerf-inspect", "params", bench.base(family, False) / "model.mlir")
    found = []
    for name, copies, shape in re.findall(r"^  (\S+) +(\d+)  \[([\d x]*)\]", text, re.M):
        elements = 1
        for size in shape.split(" x "):
            elements *= int(size)
        assert int(copies) in (1, LAYERS)
        found.append((name, "{i}" in name, elements))
    return found


def local_elements(layout, name, elements):
    """Elements of a parameter that a rank computes with."""
    if CUT.search(name) or (name.startswith("lm_head") and "vocab" in layout):
        elements //= layout.sizes["tp"]
    return elements // layout.sizes["ep"] if ".experts." in name else elements


def held(layout, name, repeated, stage, tied):
    """How many layers' parameters of the name each chunk of the stage has."""
    stages = layout.sizes["pp"]
    if repeated:
        return [LAYERS // (stages * layout.chunks)] * layout.chunks
    first = stage == 0 and bool(re.search("wte|wpe|embed_tokens", name))
    last = stage == stages - 1 and not re.search("wpe|embed_tokens", name)
    return [1] if first or (last and (tied or "wte" not in name)) else []


def piece(layout, name, elements, level):
    """Elements of a rank's piece, where the layout cuts what `level` of ZeRO does."""
    # The sum over the batch that a table of positions gets is taken, over all ranks, before it is
    # spread over the table: its gradient is whole on every rank.
    if layout.zero < level or "wpe" in name:
        return elements
    ranks = layout.group or layout.sizes["dp"] * layout.sizes["cp"]
    return -(-elements // ranks)


def expected(layout, params, stage, tied, dtype):
    """Bytes of a rank of the stage by class; of gradients the least and the most."""
    width = 4 if dtype == "f32" else 2
    sums = dict.fromkeys(("parameters", "masters", "optimizer state", "at rest", "whole"), 0)
    for name, repeated, elements in params:
        local = local_elements(layout, name, elements)
        state = piece(layout, name, local, 1)
        of_layer = {
            "parameters": [width * piece(layout, name, local, 3)],
            "masters": [] if dtype == "f32" else [4 * state],
            "optimizer state": [4 * state, 4 * state],
            "at rest": [4 * piece(layout, name, local, 2)],
            "whole": [4 * local],
        }
        for count in held(layout, name, repeated, stage, tied):
            for kind, sizes in of_layer.items():
                sums[kind] += sum(-(-size * count // ALIGNMENT) * ALIGNMENT for size in sizes)
    return sums, sums.pop("at rest"), sums.pop("whole")


def classes(text):
    """Of each stage of `kerf-inspect memory`: bytes by class."""
    stages = re.split(r"^stage \d+.*$", text, flags=re.M)[1:] or [text]
    return [
        {name: int(size) for name, size in re.findall(r"^  ([a-z ]+?) +(\d+) bytes", s, re.M)}
        for s in stages
    ]


def check(bench, family, name, dtype):
    """What is wrong with a case, as lines."""
    layout = e2e.Layout(name)
    _, file = bench.compile(family, layout, f"--precision={dtype}")
    found = classes(e2e.call(bench.bin / "kerf-inspect", "memory", file))
    if len(found) != layout.sizes["pp"]:
        return [f"{len(found)} stages"]
    wrong = []
    for stage, bytes_of in enumerate(found):
        sums, least, most = expected(
            layout, parameters(bench, family), stage, e2e.TIED[family], dtype
        )
        for kind, size in sums.items():
            if bytes_of[kind] != size:
                wrong.append(f"stage {stage}: {kind} {bytes_of[kind]} bytes, expected {size}")
        if not least <= bytes_of["gradients"] <= most + least:
            wrong.append(f"stage {stage}: gradients {bytes_of['gradients']} of {least} .. {most}")
        figures = ", ".join(f"{kind} {bytes_of[kind]}" for kind in [*sums, "gradients"])
        print(f"{family:8} {dtype:4} {name:28} stage {stage}: {figures} (at rest {least})")
    return wrong


def main():
    failed = 0
    cases = CASES[2::4] if "--quick" in sys.argv else CASES
    with tempfile.TemporaryDirectory(prefix="kerf-resting-") as folder:
        bench = e2e.Bench(sys.argv[1], sys.argv[2], folder)
        for family in dict.fromkeys(family for family, _, _ in cases):
            bench.import_model(family, False)
        for case in cases:
            for line in check(bench, *case):
                print("  WRONG: " + line)
                failed += 1
    print(f"{len(cases)} layouts, {failed} figures wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
