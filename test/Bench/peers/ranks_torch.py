"""Training steps of PyTorch on several ranks over gloo, on request.

    ranks_torch.py --model NAME

Reads requests as lines of JSON, {"ranks": 2, "variant": "ddp+eager", "threads": 1,
"steps": 3}, and answers each with a line: seconds of the steps on rank 0 and the mean of
the first loss. The first request of a kind starts its ranks, which are forked so that
PyTorch is loaded once, and makes the warm-up steps; they then wait for the next request
without using a core. With 0 steps its ranks end.

Variants are words joined by '+':
  ddp | fsdp          gradients reduced by DistributedDataParallel, or weights, gradients
                      and state cut by fully_shard, each block and the rest
  eager | compile     blocks as they are, or each compiled
"""

import argparse
import json
import logging
import multiprocessing
import os
import sys
import tempfile
import time
import warnings

import models
import ranks_model
import torch
import torch._dynamo
import torch._inductor.compile_fx  # before ranks are forked, which takes seconds each
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

WARMUP = 2
# gloo listens on this machine alone; blocks of memory stay in the process, as in
# peer_torch.py.
ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME": "lo",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        h = s.hidden
        self.heads = s.heads
        self.ln1, self.ln2 = nn.LayerNorm(h, s.eps), nn.LayerNorm(h, s.eps)
        self.qkv, self.proj = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.fc, self.out = nn.Linear(h, s.ffn), nn.Linear(s.ffn, h)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.ln1(x)).chunk(3, -1)
        )
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(seen.transpose(1, 2).flatten(2))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Model(nn.Module):
    """The loss of a GPT with the weights of models.py."""

    def __init__(self, s):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(s.vocab, s.hidden), nn.Embedding(s.positions, s.hidden)
        self.blocks = nn.ModuleList(Block(s) for _ in range(s.layers))
        self.lnf = nn.LayerNorm(s.hidden, s.eps)
        self.fill(models.weights(s))

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.lnf(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def fill(self, values):
        """Matrices of layers are [in, out] there and [out, in] here."""
        self.wte.weight.copy_(torch.from_numpy(values["wte"]))
        self.wpe.weight.copy_(torch.from_numpy(values["wpe"]))
        for name in ("ln1", "ln2", "qkv", "proj", "fc", "out"):
            for index, block in enumerate(self.blocks):
                part = getattr(block, name)
                part.weight.copy_(torch.from_numpy(values["." + name][index].T))
                part.bias.copy_(torch.from_numpy(values["." + name + "_b"][index]))


class Training:
    """A rank's part of the training."""

    def __init__(self, s, rank, ranks, words):
        rows = s.batch // ranks
        self.data = [
            torch.from_numpy(x[rank * rows : (rank + 1) * rows]).long() for x in models.tokens(s)
        ]
        self.model = Model(s)
        if "compile" in words:
            self.compile(rank)
        if "fsdp" in words:
            mesh = init_device_mesh("cpu", (ranks,))
            for part in (*self.model.blocks, self.model):
                fully_shard(part, mesh=mesh)
        elif ranks > 1:
            self.model = nn.parallel.DistributedDataParallel(
                self.model, gradient_as_bucket_view=True
            )
        matrices = [p for p in self.model.parameters() if p.ndim >= 2]
        vectors = [p for p in self.model.parameters() if p.ndim < 2]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": models.DECAY},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=models.LEARNING_RATE,
            betas=(models.BETA1, models.BETA2),
            eps=models.EPS,
            fused=True,
        )

    def compile(self, rank):
        """Rank 0 compiles, the others then find in the cache what it made."""
        for block in self.model.blocks:
            block.compile()
        for turn in (True, False):
            if (rank == 0) == turn:
                self.model(*self.data).backward()
                self.model.zero_grad(set_to_none=True)
            dist.barrier()

    def step(self):
        loss = self.model(*self.data)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), models.CLIP, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


def mean_over_ranks(value, ranks):
    total = torch.tensor(value)
    dist.all_reduce(total)
    return total.item() / ranks


def be_rank(rank, job, shape, store, pipe):
    """A rank: the warm-up, then steps as asked, until the pipe is closed."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)  # of the compiler, that there is no CUDA
    ranks = job["ranks"]
    os.environ["OMP_NUM_THREADS"] = str(job["threads"])
    torch.set_num_threads(job["threads"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    training = Training(shape, rank, ranks, job["variant"].split("+"))
    first = mean_over_ranks(training.step(), ranks)
    for _ in range(WARMUP - 1):
        training.step()
    pipe.send(first)
    while (steps := pipe.recv()) > 0:
        dist.barrier()
        seconds = []
        for _ in range(steps):
            start = time.perf_counter()
            training.step()
            seconds.append(time.perf_counter() - start)
        pipe.send(seconds)
    os._exit(0)


class Job:
    """The ranks of one kind of request."""

    def __init__(self, job, shape, folder):
        context = multiprocessing.get_context("fork")
        store = os.path.join(folder, f"{job['ranks']}-{job['variant']}-{job['threads']}")
        self.pipes, self.ranks = [], []
        for rank in range(job["ranks"]):
            ours, theirs = context.Pipe()
            process = context.Process(target=be_rank, args=(rank, job, shape, store, theirs), daemon=True)
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.ranks.append(process)
        self.first = [pipe.recv() for pipe in self.pipes][0]

    def run(self, steps):
        for pipe in self.pipes:
            pipe.send(steps)
        return {"seconds": [pipe.recv() for pipe in self.pipes][0], "first_loss": self.first}

    def close(self):
        for pipe in self.pipes:
            pipe.send(0)
        for process in self.ranks:
            process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=ranks_model.SIZES, required=True)
    args = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    shape = ranks_model.shape(args.model)
    print(json.dumps({"version": f"PyTorch {torch.__version__}"}), flush=True)
    jobs = {}
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            request = json.loads(line)
            key = (request["ranks"], request["variant"], request["threads"])
            if key not in jobs:
                jobs[key] = Job(request, shape, folder)
            if request["steps"]:
                print(json.dumps(jobs[key].run(request["steps"])), flush=True)
            else:
                jobs.pop(key).close()


main()
