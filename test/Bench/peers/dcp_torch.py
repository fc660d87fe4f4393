"""torch.distributed.checkpoint.async_save beside a loop of matmuls: a line of JSON.

    dcp_torch.py FOLDER BYTES STEP_SEC MODE

The state is BYTES of tensors of the sizes of a Llama's weights, a third in bf16 and the rest f32 masters. A
"step" is a loop of bf16 matmuls for STEP_SEC, as many each time. MODE "between" copies the state between two
steps, "beside" in a thread beside the next one, whose end waits for it. Two saves, of which the second is
measured.
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

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
    folder, size, wanted, mode = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    dist.init_process_group("gloo", rank=0, world_size=1)
    tensors, size = state(size)
    a, b = torch.randn(1024, 2048).bfloat16(), torch.randn(2048, 2048).bfloat16()
    start, matmuls = time.time(), 0
    while time.time() - start < wanted:
        a @ b
        matmuls += 1

    def step():
        begin = time.time()
        for _ in range(matmuls):
            a @ b
        return time.time() - begin

    before = statistics.median(step() for _ in range(5))
    # Cached buffers would be pinned, which needs a GPU.
    options = StagingOptions(use_pinned_memory=False, use_shared_memory=False, use_async_staging=mode == "beside",
                             use_non_blocking_copy=False)  # fmt: skip
    for number in range(2):
        stager = DefaultStager(options)
        begin = time.time()
        saved = dcp.async_save(tensors, checkpoint_id=f"{folder}/{number}", async_stager=stager)
        stall, beside = time.time() - begin, []
        future = saved.upload_completion if mode == "beside" else saved
        while not future.done():
            beside.append(step())
            if mode == "beside":  # what a step updates must be copied
                due = time.time()
                saved.staging_completion.result()
                stall += time.time() - due
        future.result()
        write = time.time() - begin - stall
        stager.close()
    print(json.dumps({"step": before, "stall": stall, "write": write, "bytes": size, "torch": torch.__version__,
                      "slower": statistics.mean(beside) / before if beside else 1}))  # fmt: skip
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
