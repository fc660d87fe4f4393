"""Fails unless two files of weights are the same tensors, to the bit, or two logs have the same losses and norms, as
f32 has them.

usage: same.py weights|losses FILE FILE"""

import json
import struct
import sys


def weights(path):
    """Name -> type, shape and bytes of a safetensors file."""
    data = open(path, "rb").read()
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    header.pop("__metadata__", None)
    return {
        name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])]) for name, entry in header.items()
    }


def losses(path):
    lines = [json.loads(line) for line in open(path)]
    return [(line["loss"], line["grad_norm"]) for line in lines if "loss" in line]


def check_weights(first, second):
    assert first.keys() == second.keys(), f"only in one file: {first.keys() ^ second.keys()}"
    others = [name for name in first if first[name] != second[name]]
    assert first and not others, f"not the same: {others}"


def check_losses(first, second):
    assert len(first) == len(second) > 0, f"{len(first)} and {len(second)} steps"
    for step, (a, b) in enumerate(zip(first, second), 1):
        for x, y in zip(a, b):
            assert abs(x - y) <= 1e-5 * abs(x), f"step {step}: {a} and {b}"


read, check = {"weights": (weights, check_weights), "losses": (losses, check_losses)}[sys.argv[1]]
check(*map(read, sys.argv[2:]))
