#!/usr/bin/env python3
"""Trains tiny models in many layouts, on real processes, against one rank.

    layouts.py BIN SOURCE [FAMILY...] [--ranks-up-to N] [--only NAME]... [--quick] [--jobs N]

A layout is named by what it is made of: `tp2.sp.dp2.m2.zero1` is two tensor ranks with sequence
parallelism, two data ranks, two micro-batches and cut optimizer state. The words:

    tp2 dp2 cp2 ep2 pp2  ranks of tensor, data, context (ring), expert and pipeline parallelism
    sp                   between the matmuls of a layer tensor ranks cut the sequence
    vocab                the output vocabulary is cut over tensor ranks, and stays so for the loss
    thirds               the fused query-key-value weight is cut in three blocks (gpt2)
    plain                context ranks have parts by position, not of equal causal work
    m4                   micro-batches
    gpipe 1f1b zb-h1     schedule of a pipeline; v2: interleaved, with two chunks per stage
    defer1               so many weight gradients wait on a stage of zb-h1 at most
    zero1 zero2 zero3    what of the state is cut over data ranks; group2: over so many of them
    full selective       recomputation
    tied untied          the other choice for the output table than the family's
    inner                data ranks are neighbours, not tensor ranks
    a2a                  rows of experts are exchanged, in room for all of them
    room150              so; in room for 1.5 times the even share
    buckets              gradients are summed over ranks in the last backward pass
    early                so; those of each layer one by one
    found                the rest is what the search finds with these pins

Each is compiled, trained for 10 steps by one process per rank with one thread each, twice, and
compared with one rank by kerf-same: losses, norms, optimizer state after the first step (the
gradient), the sum of all updates, and that both runs give the same bits. One rank is compared
with the interpreter. Exit status 1 when any row fails.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BATCH, SEQUENCE = 8, 16

# Largest errors; all but the loss as parts of a tensor's largest element.
BOUNDS = {"loss": 1e-5, "metrics": 1e-4, "experts": 0, "states": 1e-4, "updates": 1e-3, "noise": 1}

CLUSTER = """
name: eight-processes
device:
  name: cpu-core
  memory: 4 GB
  memory_bandwidth: 20 GB/s
  peak: {f32: 0.1 TFLOP/s}
  efficiency: {matmul: 1, attention: 0.5, memory: 1, network: 1}
  launch: 5 us
  backend: {target: TARGET}
tiers:
  - {name: memory, size: 8, bandwidth: 10 GB/s, latency: 10 us}
"""

# Of every family.
COMMON = """
    dp2 dp4 dp8 m2 m8 full selective dp2.m4 dp4.m2.full
    tp2 tp2.sp tp4 tp4.sp tp2.vocab tp2.sp.vocab tp2.sp.vocab.m2.selective
    dp2.tp2 dp2.tp2.sp.m2 dp4.tp2.sp dp2.tp2.inner dp2.tp4.vocab
    dp2.zero1 dp2.zero2 dp2.zero3 dp4.m2.zero1 dp4.m2.zero2 dp4.m2.zero3 dp8.zero3
    dp4.zero1.group2 dp4.m2.zero2.group2 dp4.zero3.group2 dp8.zero3.group4
    dp2.tp2.sp.zero1 dp2.tp2.vocab.m2.zero3 dp4.tp2.zero2 dp2.tp2.inner.zero3.full
    cp2 cp4 cp4.plain cp2.m2.full cp2.dp2 cp2.dp2.zero1 cp2.dp2.m2.zero3 cp2.tp2 cp2.tp2.dp2.zero2
    pp2.gpipe.m4 pp2.1f1b.m4 pp2.1f1b.m8.full pp2.zb-h1.m4 pp2.v2.m4 pp4.gpipe.m4 pp4.1f1b.m8
    pp4.zb-h1.m8 pp4.zb-h1.m8.defer1 pp2.v2.m2.selective pp2.zb-h1.m4.full
    pp2.dp2.1f1b.m4 pp2.dp2.gpipe.m2.zero1 pp2.dp2.zb-h1.m4.zero2 pp2.dp2.1f1b.m2.zero3
    pp2.dp2.v2.m2.zero1 pp2.dp4.1f1b.m2.zero3.group2 pp2.tp2.1f1b.m4 pp2.tp2.sp.vocab.1f1b.m2
    pp2.tp2.sp.v2.m4 pp2.tp2.zb-h1.m4 pp4.tp2.1f1b.m4 pp4.dp2.zb-h1.m4.zero1.defer0
    pp2.cp2.1f1b.m4 pp2.cp2.dp2.1f1b.m2.zero1 pp2.tp2.dp2.sp.1f1b.m4.zero1
    pp2.tp2.dp2.sp.v2.m2.zero3.full pp2.tp2.dp2.vocab.zb-h1.m4.zero2.inner
    dp2.early dp4.m2.early dp2.m2.zero1.early dp4.zero1.group2.early dp2.tp2.sp.m2.early
    cp2.dp2.m2.full.early pp2.dp2.1f1b.m4.early pp2.dp2.v2.m2.zero1.early
    pp2.dp2.zb-h1.m4.zero1.early dp2.buckets dp4.m2.zero1.buckets pp2.dp2.zb-h1.m4.buckets
    found.tp2 found.tp2.dp2.zero1 found.pp2.dp2.m2.zero3 found.tp2.pp2.m4 found.dp4.zero2.full
    found.dp2.m2.zero1.buckets found.tp2.dp2.pp2.m2.zero1 found.cp2 found.cp2.dp2.m2.zero1 found.tp2.cp2.pp2.m4
"""

EXPERTS = """ep2 ep4 ep2.m2 ep2.dp2 ep2.dp2.m2.zero1 ep2.dp2.zero3 ep4.dp2.zero2 ep2.tp2 ep2.tp2.dp2.m2
    ep2.full pp2.ep2.1f1b.m4 pp2.ep2.dp2.1f1b.m2.zero1 pp2.ep2.zb-h1.m4 pp2.ep4.v2.m2
    ep2.a2a ep4.a2a ep2.dp2.m2.zero1.early pp2.ep2.dp2.1f1b.m2.early found.ep2
    found.ep2.dp2.m2.zero3 found.pp2.ep2.m4 found.ep4.tp2"""

# In as little room as the rows of these models take; experts chosen in groups take more.
ROOMS = """ ep2.room150 ep2.full.room150 ep4.dp2.room250 ep2.tp2.dp2.m2.room195 ep4.dp2.zero2.room220
    pp2.ep2.1f1b.m4.room190"""
GROUP_ROOMS = """ ep2.room165 ep2.full.room165 ep4.dp2.room330 ep2.tp2.dp2.m2.room195 ep4.dp2.zero2.room340
    pp2.ep2.1f1b.m4.room200"""

MORE = {
    "deepseek-v3": EXPERTS + GROUP_ROOMS,
    "gpt2": """tp2.thirds tp4.thirds.dp2.zero1 tp2.thirds.sp.m2 untied.tp2.vocab
        untied.pp2.1f1b.m4 untied.pp2.dp2.v2.m2.zero3 tp4.cp2 pp2.tp2.thirds.1f1b.m4""",
    "llama": """tied.tp2.sp.vocab tied.pp2.1f1b.m4 tied.pp2.dp2.zb-h1.m4.zero2
        tied.pp4.dp2.1f1b.m4.zero3 tied.dp2.zero3 tied.pp2.dp2.zb-h1.m4.zero1.early""",
    "mistral": "tied.pp2.v2.m4 cp4.dp2.zero1 cp4.m2 cp8",
    "mixtral": EXPERTS + ROOMS,
    "palm": "tp4.vocab.dp2.zero1 tp4.cp2 pp2.tp4.1f1b.m4 pp4.tp2.vocab.zb-h1.m4",
    "qwen2": """untied.tp2.vocab untied.pp2.1f1b.m4 untied.pp2.dp2.v2.m2.zero3
        untied.pp4.tp2.1f1b.m4""",
    "qwen3": "tied.tp2.sp.vocab tied.pp2.1f1b.m4 tied.pp2.dp2.zb-h1.m4.zero2 tied.dp2.zero3",
    "qwen3-moe": EXPERTS + ROOMS,
}

# In the everyday suite; each word appears, in the family where it is hardest.
QUICK = {
    "deepseek-v3": "ep2.tp2.dp2.m2 pp2.ep2.1f1b.m4 found.ep2.dp2.m2.zero3",
    "gpt2": "dp4.m2.zero3 pp2.tp2.dp2.sp.1f1b.m4.zero1 pp2.zb-h1.m4 dp4.zero1.group2 "
    "dp2.early dp4.m2.zero1.buckets",
    "llama": "tp2.sp.vocab.m2.selective pp2.dp2.v2.m2.zero1 cp2.dp2.m2.zero3 "
    "pp2.dp2.zb-h1.m4.zero2 tied.pp2.dp2.zb-h1.m4.zero1.early",
    "mixtral": "ep2.dp2.m2.zero1 pp2.ep2.1f1b.m4 ep4.dp2.room250",
    "palm": "tp4.vocab.dp2.zero1 found.tp2.pp2.m4",
    "qwen2": "pp2.tp2.dp2.sp.1f1b.m4.zero1",
    "qwen3-moe": "ep2.tp2.dp2.m2 found.pp2.ep2.m4",
}

TIED = dict.fromkeys(MORE, False) | {"gpt2": True, "palm": True, "qwen2": True}
BY_HAND = ("palm",)  # models in the dialect; of the sizes above
AXES = ("pp", "dp", "cp", "ep", "tp")
# When sums of gradients over ranks are made.
SUMS = {
    "buckets": ["--bucket-gradients"],
    "early": ["--run-after=schedule:kerf-bucket-gradients{message-bytes=1}"],
}


class Layout:
    """The words of a name."""

    def __init__(self, name):
        self.name = name
        self.words = name.split(".")
        number = lambda word, default: next(
            (int(w[len(word) :]) for w in self.words if re.fullmatch(word + r"\d+", w)), default
        )
        self.sizes = {axis: number(axis, 1) for axis in AXES}
        self.micro = number("m", 1)
        self.chunks = number("v", 1)
        self.defer = number("defer", None)
        self.zero = number("zero", 0)
        self.group = number("group", 0)
        self.room = number("room", 0)
        named = [w for w in self.words if w in ("gpipe", "1f1b", "zb-h1")]
        self.schedule = "interleaved" if self.chunks > 1 else (named + ["1f1b"])[0]
        self.ranks = 1
        for size in self.sizes.values():
            self.ranks *= size

    def __contains__(self, word):
        return word in self.words

    def over(self, *axes):
        """Those of the axes that have more than one rank."""
        return [a for a in axes if (self.micro if a == "micro" else self.sizes[a]) > 1]


def factors(**cuts):
    return {name: axes for name, axes in cuts.items() if axes}


def cuts_heads(family, layout):
    """Whether tensor ranks divide the key heads; else attention stays whole."""
    if family == "palm":  # one key head; its four readers are cut
        return layout.sizes["tp"] > 1
    heads = 4 if family in ("deepseek-v3", "gpt2") else 2
    return layout.sizes["tp"] > 1 and heads % layout.sizes["tp"] == 0


def attention_rules(family, layout, batch, sequence):
    """Heads over tensor ranks, keys round the ring of context ranks."""
    heads = ["tp"] if cuts_heads(family, layout) else []
    cut = factors(b=batch, q=sequence, k=sequence, **{"r" if family == "palm" else "g": heads})
    if not sequence:
        return [{"op": "attention", "factors": cut}] if heads else []
    return [
        {"op": op, "factors": cut, "variant": ["ring"]}
        for op in ("attention", "attention_backward")
    ]


def thirds_rules(batch):
    """A fused query-key-value weight in blocks; numbers of ops are those of tiny-gpt2."""
    matmul = {"factors": factors(b=batch, n=["tp"]), "blocks": 3}
    part = {"factors": factors(b=batch, x=["tp"]), "blocks": 3}
    return [
        {"op": "linear", "weight": "*.c_attn.weight", **matmul},
        {"op": "slice", **part},
        {"op": "pad", **part},
        {"op": "input_gradient 17", **part},
        {"op": "input_gradient 15", **part},
        {"op": "input_gradient 14", **matmul},
        {"op": "weight_gradient 14 0", **matmul},
        {"op": "weight_gradient 14 1", **part},
    ]


# Matmuls whose outputs tensor ranks cut, and those whose inputs: of attention, and behind it.
LLAMA = (["q_proj", "k_proj", "v_proj"], ["o_proj"]), (["gate_proj", "up_proj"], ["down_proj"])
MATMULS = {
    "deepseek-v3": ((["q_b_proj", "kv_b_proj"], ["o_proj"]), LLAMA[1]),
    "gpt2": ((["attn.c_attn"], ["attn.c_proj"]), (["mlp.c_fc"], ["mlp.c_proj"])),
    "llama": LLAMA,
    "mistral": LLAMA,
    "mixtral": (LLAMA[0], ([], [])),
    "palm": ((["attn.q"], ["attn.o"]), (["mlp.gate", "mlp.up"], ["mlp.down"])),
    "qwen2": LLAMA,
    "qwen3": LLAMA,
    "qwen3-moe": LLAMA,  # the first layer has no experts
}

# Matmuls of an expert: whose outputs tensor ranks cut, and whose inputs.
EXPERT_MATMULS = {
    "deepseek-v3": (["gate_proj", "up_proj"], ["down_proj"]),
    "mixtral": (["w1", "w3"], ["w2"]),
    "qwen3-moe": (["gate_proj", "up_proj"], ["down_proj"]),
}


def tensor_rules(family, layout, batch, sequence):
    """Column and row parallel matmuls."""
    (heads, out), (up, down) = MATMULS[family]
    if not cuts_heads(family, layout):
        heads, out = [], []
    rules = []
    if "thirds" in layout:
        rules += thirds_rules(batch)
        heads = []
    for names, factor in ((heads + up, "n"), (out + down, "k")):
        for name in names:
            cut = factors(b=batch, s=sequence, **{factor: ["tp"]})
            rules.append({"op": "linear", "weight": f"*.{name}.weight", "factors": cut})
    if "vocab" in layout:
        rules += vocabulary_rules(family, layout, batch, sequence)
    return rules


def vocabulary_rules(family, layout, batch, sequence):
    tied = TIED[family] != bool({"tied", "untied"} & set(layout.words))
    table = "*.wte.weight" if family == "gpt2" else "*.embed_tokens.weight"
    cut = factors(b=batch, s=sequence)
    rules = [
        {
            "op": "linear",
            "weight": table if tied else "lm_head.weight",
            "factors": {**cut, "n": ["tp"]},
        }
    ]
    for op in ("cross_entropy", "cross_entropy_backward"):
        loss = factors(b=batch, s=sequence, v=["tp"])
        rules.append({"op": op, "factors": loss, "variant": ["split_vocabulary"]})
    return rules


def expert_rules(family, layout, batch):
    """Experts and their rows over `ep`, as many as data decides; matmuls over `tp`."""
    outer = [axis for axis in batch if axis != "ep"]
    rows = factors(g=outer, r=layout.over("ep"))
    routed = {"routed": True} if layout.over("ep") else {}
    experts = {**rows, **factors(e=layout.over("ep"))}
    if "a2a" in layout or layout.room:
        routed = {"variant": ["all_to_all"]}
        rows = factors(g=batch, r=layout.over("ep"))
    rules = []
    if layout.over("tp"):
        wide, narrow = EXPERT_MATMULS[family]
        for name in wide + narrow:
            cut = {"factors": {**experts, "n" if name in wide else "k": ["tp"]}, **routed}
            rules.append({"op": "grouped_matmul", "weight": f"*.{name}.weight", **cut})
    if not layout.over("ep"):
        return rules
    for op in ("dispatch", "combine", "combine_weight_gradient"):
        rules.append({"op": op, "factors": rows, **routed})
    for op in ("grouped_matmul", "grouped_weight_gradient"):
        rules.append({"op": op, "factors": experts, **routed})
    return rules


def plan_of(family, layout):
    """The layout as a plan file; the propagation completes it."""
    batch = layout.over("dp", "micro", "ep")
    sequence = layout.over("cp")
    between = sequence + (["tp"] if "sp" in layout else [])
    table = "*.wte.weight" if family == "gpt2" else "*.embed_tokens.weight"
    cut = factors(b=batch, s=between)
    rules = [
        {"op": "embedding", "weight": table, "factors": cut},
        {"op": "weight_gradient 1 0", "factors": cut},
    ]
    if layout.over("tp"):
        rules += tensor_rules(family, layout, batch, sequence)
    rules += attention_rules(family, layout, batch, sequence)
    if family in EXPERT_MATMULS:
        rules += expert_rules(family, layout, batch)
    order = [axis for axis in AXES if layout.sizes[axis] > 1]
    if "inner" in layout:
        order.sort(key=lambda axis: axis == "dp")
    plan = {
        "mesh": {axis: layout.sizes[axis] for axis in order},
        "order": order,
        "micro_batches": layout.micro,
        "schedule": layout.schedule,
        "assign": rules,
    }
    if layout.chunks > 1:
        plan["chunks"] = layout.chunks
    if layout.defer is not None:
        plan["defer"] = layout.defer
    if layout.zero:
        plan["zero"] = layout.zero
    if layout.group:
        plan["shard_group"] = layout.group
    if "plain" in layout:
        plan["cp_order"] = "plain"
    if layout.room:
        plan["moe_buffer"] = layout.room / 100
    return plan


def pins_of(layout):
    pins = dict(layout.sizes)
    pins["dp"] *= pins["ep"]  # the planner counts the ranks of experts among those of data
    pins.update(m=layout.micro, zero=layout.zero)
    recompute = [w for w in layout.words if w in ("full", "selective")] + ["none"]
    pins["recompute"] = recompute[0]
    return ",".join(f"{key}={value}" for key, value in pins.items())


class Failed(Exception):
    pass


def call(*arguments):
    """What a program prints; fails with the last line that it complains with."""
    found = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=300)
    if found.returncode:
        lines = [line for line in found.stderr.splitlines() if "error" in line] or [
            (found.stderr.strip() or found.stdout.strip() or "nothing said").splitlines()[-1]
        ]
        raise Failed(f"{Path(str(arguments[0])).name} ended with {found.returncode}: {lines[0]}")
    return found.stdout


class Bench:
    """Where compiled files of a run lie."""

    def __init__(self, bin, source, folder, target="cpu"):
        self.bin, self.source, self.folder = Path(bin), Path(source), Path(folder)
        self.processor = [f"--target={target}"]
        backend = {"cpu": "cpu", "cuda": "cuda, arch: sm_90"}[target]
        (self.folder / "cluster.yaml").write_text(CLUSTER.replace("TARGET", backend))

    def import_model(self, family, other):
        """The model and its step; `other` ties tables where the family does not."""
        base = self.base(family, other)
        base.mkdir()
        folder = self.source / f"examples/models/tiny-{family}"
        model, step = base / "model.mlir", base / "step.mlir"
        if family in BY_HAND:
            model.write_text((folder / "model.mlir").read_text())
        else:
            config = json.loads((folder / "config.json").read_text())
            config["tie_word_embeddings"] = TIED[family] != other
            (base / "config.json").write_text(json.dumps(config))
            sizes = [f"--batch={BATCH}", f"--seq={SEQUENCE}"]
            call(self.bin / "kerf-import", base / "config.json", *sizes, "-o", model)
        call(self.bin / "kerfc", model, "--stop-after=differentiate", "-o", step)

    def prepare(self, family, other):
        """The file for one rank; how it differs from the interpreter."""
        self.import_model(family, other)
        base = self.base(family, other)
        options = ["--max-threads=1", *self.processor]
        call(self.bin / "kerfc", base / "model.mlir", *options, "-o", base / "one.kerf")
        options = "--steps 3 --tolerance 1e-5 --threads 1 --ignored 60".split()
        step = base / "step.mlir"
        return call(self.bin / "kerf-compiled", step, base / "one.kerf", *options)

    def base(self, family, other):
        return self.folder / (family + ("-other" if other else ""))

    def base_of(self, family, layout):
        return self.base(family, bool({"tied", "untied"} & set(layout.words)))

    def plan(self, family, layout):
        return plan_of(family, layout)

    def options_of(self, family, layout):
        """What tells kerfc the layout."""
        options = ["--max-threads=1"]
        for word in layout.words:
            options += SUMS.get(word, [])
        if "found" in layout:
            cluster = [f"--cluster={self.folder / 'cluster.yaml'}", f"--devices={layout.ranks}"]
            return [*cluster, f"--pin={pins_of(layout)}", *options]
        plan = self.base_of(family, layout) / f"{layout.name}.json"
        plan.write_text(json.dumps(self.plan(family, layout), indent=1))
        recompute = [f"--recompute={w}" for w in layout.words if w in ("full", "selective")]
        return [f"--plan={plan}", *recompute, *options]

    def compile(self, family, layout, *options):
        """Compiles a layout; gives the folder of its model and the file."""
        base = self.base_of(family, layout)
        file = base / f"{layout.name}.kerf"
        options = [*self.options_of(family, layout), *self.processor, *options]
        call(self.bin / "kerfc", base / "model.mlir", *options, "-o", file)
        return base, file

    def programs(self, family, layout, *options):
        """The programs of the stages as text, before anything is fused."""
        model = self.base_of(family, layout) / "model.mlir"
        options = [*self.options_of(family, layout), *options]
        return call(self.bin / "kerfc", model, *options, "--stop-after=schedule")

    def train(self, family, layout):
        """The line of kerf-same."""
        base, file = self.compile(family, layout)
        row = read_row(call(self.bin / "kerf-same", base / "step.mlir", base / "one.kerf", file))
        file.unlink()
        return row


def read_row(text):
    return json.loads(re.sub(r"\b(inf|nan)\b", "1e300", text))


def judge(row, layout, bounds=BOUNDS):
    """What of a row is out of bounds."""
    wrong = [name for name, bound in bounds.items() if not row[name] <= bound]
    wrong += [] if row["same"] else ["not the same bits twice"]
    return wrong + ([] if row["ranks"] == layout.ranks else [f"{row['ranks']} ranks"])


def show(family, layout, row, wrong):
    verdict = "" if not wrong else "  WRONG: " + ", ".join(wrong)
    if wrong:
        verdict += f" ({row['state']}, {row['update']})"
    print(
        f"{family:9} {layout.ranks:2}  {layout.name:42} loss {row['loss']:.1e}  "
        f"state {row['states']:.1e}  update {row['updates']:.1e}  "
        f"arena {row['arena']:9}  {row['seconds']:5.2f} s{verdict}",
        flush=True,
    )


def train_all(bench, family, layouts, jobs):
    """Trains the layouts, and returns how many fail."""
    failed, worst = 0, {name: 0.0 for name in BOUNDS}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        rows = [(layout, pool.submit(bench.train, family, layout)) for layout in layouts]
        for layout, future in rows:
            try:
                row = future.result()
            except (Failed, subprocess.TimeoutExpired) as error:
                print(f"{family:9} {layout.ranks:2}  {layout.name:42} FAILED: {error}", flush=True)
                failed += 1
                continue
            wrong = judge(row, layout)
            failed += bool(wrong)
            for name in worst:
                worst[name] = max(worst[name], row[name])
            show(family, layout, row, wrong)
    figures = ", ".join(f"{name} {value:.1e}" for name, value in worst.items())
    print(f"{family}: {len(layouts) - failed} of {len(layouts)} layouts same; largest: {figures}")
    return failed


def select(family, arguments):
    names = QUICK.get(family, "") if arguments.quick else COMMON + MORE[family]
    layouts = [Layout(name) for name in names.split()]
    if arguments.only:
        layouts = [Layout(name) for name in arguments.only]
    return [layout for layout in layouts if layout.ranks <= arguments.ranks_up_to]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("source")
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--ranks-up-to", type=int, default=8)
    parser.add_argument("--only", action="append", help="this layout, also one of no table")
    parser.add_argument("--quick", action="store_true", help="the everyday suite's")
    parser.add_argument("--target", default="cpu", help="cpu, or cuda (KERF_CUDA_PATH may name a simulator)")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    arguments = parser.parse_intermixed_args()
    failed = 0
    for family in arguments.families or (QUICK if arguments.quick else MORE):
        layouts = select(family, arguments)
        with tempfile.TemporaryDirectory(prefix="kerf-layouts-") as folder:
            bench = Bench(arguments.bin, arguments.source, folder, arguments.target)
            print(f"{family}: one rank and the interpreter: {bench.prepare(family, False)}", end="")
            if any({"tied", "untied"} & set(layout.words) for layout in layouts):
                bench.prepare(family, True)
            failed += train_all(bench, family, layouts, arguments.jobs)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
