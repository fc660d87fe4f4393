"""torch.distributed.checkpoint.async_save beside a loop of products: a line of JSON.

    dcp_torch.py FOLDER BYTES STEP_SEC

The state is BYTES of tensors of the sizes of a Llama's weights, a third in bf16 and the rest f32 masters. A
"step" is a loop of bf16 products for STEP_SEC, as many each time. Two saves: the first makes the buffers
that later ones have (cached staging), the second is measured.
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29517")


def state(size):
    tensors, left, number = {}, size, 0
    while left > 0:
        rows = max(1, min(5632, left // (2048 * 6)))
        tensors[f"param.{number}"] = torch.randn(rows, 2048).bfloat16()
        tensors[f"master.{number}"] = torch.randn(rows, 2048)
        left -= rows * 2048 * 6
        number += 1
    return tensors, size - left


def main():
    folder, size, wanted = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    dist.init_process_group("gloo", rank=0, world_size=1)
    tensors, size = state(size)
    a, b = torch.randn(1024, 2048).bfloat16(), torch.randn(2048, 2048).bfloat16()
    start, products = time.time(), 0
    while time.time() - start < wanted:
        a @ b
        products += 1

    def step():
        begin = time.time()
        for _ in range(products):
            a @ b
        return time.time() - begin

    before = statistics.median(step() for _ in range(3))
    stager = None
    try:
        from torch.distributed.checkpoint.staging import BlockingAsyncStager

        # Cached buffers would be pinned, which needs a GPU.
        stager = BlockingAsyncStager(cache_staged_state_dict=False)
    except ImportError:
        pass
    for number in range(2):
        begin = time.time()
        future = dcp.async_save(tensors, checkpoint_id=f"{folder}/{number}", async_stager=stager)
        stall, beside = time.time() - begin, []
        while not future.done():
            beside.append(step())
        future.result()
        write = time.time() - begin - stall
    print(json.dumps({"step": before, "stall": stall, "write": write, "bytes": size, "torch": torch.__version__,
                      "slower": statistics.median(beside) / before if beside else 1}))  # fmt: skip
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
