"""Draws what is planned."""

import json
import random
import sys

import description as desc
from judges import divisors, pin_sets
from planner import Case

# Sequence of a model, and how often it is drawn, by the start of its name.
SIZES = (("tiny-", 32, 20), ("llama-mini", 256, 20), ("moe-mini", 128, 20), ("gpt-mini", 128, 20), ("gpt2-124m", 1024, 4),
         ("qwen3-8b", 2048, 1), ("mistral-7b", 2048, 1), ("mixtral-8x7b", 2048, 1), ("qwen3-30b-a3b", 2048, 1),
         ("sc21-18b", 2048, 1))  # fmt: skip
CHANGES = (("memory",), ("memory_bandwidth",), ("peak",), ("bandwidth",), desc.LATENCIES)
# Clusters that came later are drawn from a case on: earlier ones stay what they were (`--state`, `--again`).
LATER = dict.fromkeys(("a10-server", "l4-server", "l40s-server", "mi325x", "rtx-pro-6000-server", "rtx6000-ada-workstation", "trn2"), 477)
SAMPLED = 4  # pinned plans of a drawn case
# model, sequences, cluster, devices: every combination of pins is tried.
ENUMERATED = (
    ("llama-mini", 64, "rtx4090-workstation", 8), ("tiny-llama", 16, "hgx-h100", 8), ("gpt-mini", 16, "hgx-h100", 16),
    ("moe-mini", 16, "hgx-h100", 8), ("tiny-mixtral", 16, "rtx4090-workstation", 8), ("gpt-mini", 32, "rtx4090-workstation", 8),
    ("tiny-gpt2", 16, "dgx-a100-80g", 8), ("llama-mini", 16, "dgx-a100-80g", 16), ("tiny-qwen3-moe", 16, "this-machine", 8),
    ("tiny-mistral", 16, "this-machine", 8), ("tiny-deepseek-v3", 16, "hgx-h100", 8),
)  # fmt: skip


def is_small(model):
    return model.startswith("tiny-") or model.endswith("-mini")


def sequence_of(model):
    return next(seq for start, seq, _ in SIZES if model.startswith(start))


class Cases:
    """Draws over the shipped models, or small ones alone, and clusters; `draw` is seeded from outside."""

    def __init__(self, repo, small):
        self.draw = random.Random(0)
        self.sizes = [size for size in SIZES if not small or is_small(size[0])]
        self.configs = {}
        for path in sorted((repo / "examples/models").glob("*/config.json")):
            if path.parent.name.startswith(tuple(start for start, _, _ in SIZES)):
                self.configs[path.parent.name] = json.loads(path.read_text())
        self.clusters = {path.stem: desc.read(path) for path in sorted((repo / "examples/clusters").glob("*.yaml"))}

    def has_experts(self, model):
        return any("expert" in key for key in self.configs[model])

    def models(self):
        start, _, _ = self.draw.choices(self.sizes, [weight for _, _, weight in self.sizes])[0]
        return [model for model in self.configs if model.startswith(start)]

    def cluster(self, number):
        cluster = self.draw.choice([text for name, text in self.clusters.items() if LATER.get(name, 0) <= number])
        for fields in CHANGES:
            if self.draw.random() < 0.2:
                cluster = cluster.changed(desc.scaled, fields, self.draw.choice((0.25, 0.5, 2, 3)))
        return cluster

    def pins(self, devices, batch):
        keys = self.draw.choices(("tp", "pp", "cp", "zero", "mb", "recompute", "schedule", "defer"), k=self.draw.choice((0, 0, 1, 2)))
        some = lambda most: self.draw.choice([n for n in divisors(devices) if n <= most])
        values = {"tp": some(8), "pp": some(4), "cp": some(2), "zero": self.draw.randrange(4), "mb": self.draw.choice((1, 2, 4)),
                  "defer": self.draw.randrange(3), "recompute": self.draw.choice(("none", "selective", "full")),
                  "schedule": self.draw.choice(("gpipe", "1f1b", "interleaved", "zb-h1"))}  # fmt: skip
        return tuple((key, values[key]) for key in dict.fromkeys(keys))

    def case(self, number=sys.maxsize):
        """What is drawn as case `number`."""
        model = self.draw.choice(self.models())
        devices = self.draw.choice((1, 2, 3, 4, 6, 8, 8, 12, 16, 16, 32) if is_small(model) else (8, 16, 32, 64))
        batch = devices * self.draw.choice((4, 8, 16))
        options = (("--moe-buffer=1.25",),) if self.has_experts(model) else ()
        options = self.draw.choice((*options, (), (), ("--precision=f32",)))
        imports = self.draw.choice(((), (), (), (), ("--lora-rank=8",), ("--optimizer=sgd",)))
        return Case(model, batch, sequence_of(model), self.cluster(number), devices, self.pins(devices, batch), options, imports)

    def sample(self, case):
        """Some sets of pins."""
        sets = list(pin_sets(case, self.has_experts(case.model)))
        return self.draw.sample(sets, min(SAMPLED, len(sets)))

    def enumerated(self):
        """(case, all sets of pins)"""
        for model, batch, cluster, devices in ENUMERATED:
            case = Case(model, batch, sequence_of(model), self.clusters[cluster], devices)
            yield case, list(pin_sets(case, self.has_experts(model)))
