"""The axes of the covering array: their values, from the compiler's own lists, and what clashes by definition."""

import json
import os
import re
import subprocess

NONE = "-"  # the axis means nothing in this case
MOST_RANKS = 16
MOST_DECODED = 12  # ranks x micro-batches x layers of weights in 4 bits: the interpreter decodes them all

# Options and pins that are no axis. One that is in neither list fails the command.
LEFT_OUT = {
    "kerf-import": """help help-list version o log batch seq list-fields locations name beta1 beta2 eps momentum
        weight-decay muon-rate state-block z-loss aux-loss capacity-factor router-bias-rate lora-alpha
        lora-targets lora-dropout plain flat debug inputs params group""",
    "kerfc": """help help-list version o log emit plan cluster devices cpu gpu target dump-stages-to start-after
        stop-after run-after max-threads fuse explain explain-json html new-cluster device per-node nodes nic cluster-name prove search-sensitivity svg sweep within budget tokens price trace versus
        load-dialect-plugin load-pass-plugin recompute check sampler survive""",
    "pins": "devices",
}
COVERED = {
    "kerf-import": "optimizer clip-norm packed lora-rank quantize-base fuse-projections",
    "kerfc": "precision pin bucket-gradients overlap moe-buffer",
    "pins": "tp cp ep pp dp mb m v zero shard schedule recompute order layers moe cp_order defer",
}


# Families whose parts others have: family -> those. test/Reference compares each with the library.
ALIKE = {
    "arcee": "llama, palm",  # an MLP without a gate
    "cohere": "cohere2",
    "dots1": "deepseek-v3, qwen3, qwen2",
    "ernie4_5": "llama, cohere2",
    "ernie4_5_moe": "deepseek-v3, llama, cohere2",  # probabilities and biases
    "exaone4": "olmo2, qwen3, cohere2",  # norms behind, of heads, layers without rotation
    "gemma": "gemma3",
    "glm": "phi3, gpt-neox, cohere2",  # gate and up in one, a part turns, neighbours turn
    "glm4": "phi3, gpt-neox, cohere2, gemma3",
    "granite": "llama, gemma3",  # factors
    "granitemoe": "mixtral, llama4, gemma3",  # factors, stacked experts
    "hunyuan_v1_dense": "llama, qwen3",  # norms behind the rotation
    "hunyuan_v1_moe": "deepseek-v3, qwen3-moe",
    "minimax_m2": "deepseek-v3, mixtral, olmo2, glm4-moe",
    "nemotron": "gpt-neox, gemma3, palm",  # norms with bias and 1 + weight
    "olmo3": "olmo2, gemma3",
    "olmoe": "olmo2, qwen3-moe",
    "phi": "gpt-neox, cohere2",  # a part turns, one norm for attention and MLP
    "seed_oss": "qwen2",
    "smollm3": "llama, cohere2",
    "stablelm": "gpt-neox, llama",
    "starcoder2": "gpt-neox, mistral",
}
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")  # in configs
KINDS = {}  # family -> dense, experts, or by hand: a model without a config
FUSED = set()  # families with linear layers that --fuse-projections joins
GRAPH = "graph"  # what exporters write, in whose plain ops kerf-import finds layers and loops


class Missing(Exception):
    """The compiler has what the array does not know."""


def words(text):
    """`a, b or c` as a list."""
    return re.split(r", | or ", text)


class Compiler:
    """What the tools say that they know."""

    def __init__(self, folder, repo):
        self.folder, self.models = folder, repo / "examples/models"

    def said(self, tool, *arguments):
        command = [str(word) for word in (self.folder / tool, *arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stdout + done.stderr

    def values(self, pattern, tool, *arguments):
        """The list in the error that a wrong value gives."""
        said = self.said(tool, *arguments)
        found = re.search(pattern, said)
        if not found:
            raise Missing(f"{tool} {' '.join(map(str, arguments))}: expected a list of values, found: {said}")
        return words(found[1])

    def of_import(self, option):
        config = self.models / "tiny-llama/config.json"
        arguments = (config, "--batch=1", "--seq=4", "--lora-rank=2", f"--{option}=?")
        return self.values(r"to be one of (.*), found", "kerf-import", *arguments)

    def fuses(self, config):
        """Whether --fuse-projections, which refuses to do nothing, does something."""
        return "no effect" not in self.said(
            "kerf-import", config, "--batch=1", "--seq=4", "--fuse-projections", "-o", os.devnull
        )

    def of_pin(self, model, cluster, key):
        pattern = rf"pin '?{key}'.*expected one of (.*);"
        return self.values(pattern, "kerfc", model, f"--cluster={cluster}", "--pin", f"{key}=?")

    def of_precision(self, model):
        return self.values(r"expected (.*)", "kerfc", model, "--precision=?")

    def families(self):
        """Folders of small models; each family of kerf-import has one, or its parts are in others."""
        known = set()
        for folder in sorted(self.models.glob("tiny-*")):
            path = folder / "config.json"
            config = json.loads(path.read_text()) if path.exists() else {}
            known.add(config.get("model_type"))
            kind = "experts" if any(key in config for key in EXPERTS) else "dense" if config else "by hand"
            KINDS[folder.name.removeprefix("tiny-")] = kind
            if config and self.fuses(path):
                FUSED.add(folder.name.removeprefix("tiny-"))
        KINDS[GRAPH] = "by hand"
        for family in self.values(r"expected one of (.*)", "kerf-import", "--list-fields=?"):
            alike = words(ALIKE.get(family, "?"))
            if family not in known and not set(alike) <= KINDS.keys():
                raise Missing(f"no folder {self.models}/tiny-* has a config of family '{family}'")
        return list(KINDS)

    def check_known(self, model, cluster):
        """Each option and each pin is an axis, or named above as none."""
        found = {
            tool: re.findall(r"^ +-{1,2}([a-z][\w-]*)[ =]", self.said(tool, "--help"), re.MULTILINE)
            for tool in ("kerf-import", "kerfc")
        }
        found["pins"] = self.of_pin(model, cluster, "unknown")
        for tool, names in found.items():
            for name in set(names) - set(COVERED[tool].split()) - set(LEFT_OUT[tool].split()):
                raise Missing(f"'{name}' of {tool} is new: make it an axis in axes.py, or list it as none")


def axes_of(compiler, model, clusters):
    """Name -> values, all as text. The first value is the usual one."""
    compiler.check_known(model, clusters[0])
    pin = lambda key: compiler.of_pin(model, clusters[0], key)
    degrees = ["1", "2", "3", "4"]
    quantized = [kind for kind in compiler.of_import("quantize-base") if kind != "none"]
    return {
        "family": compiler.families(),
        "adapter": [NONE, "lora", *(f"lora+{kind}" for kind in quantized)],
        "optimizer": compiler.of_import("optimizer"),
        "clipping": ["yes", "no"],
        "precision": compiler.of_precision(model),
        **{key: degrees for key in ("tp", "cp", "ep", "pp", "dp")},
        "zero": ["0", "1", "2", "3"],
        "shard": [NONE, "all", "part"],
        "schedule": [NONE, *pin("schedule")],
        "defer": [NONE, "0", "1", "3"],
        "v": ["1", "2", "3"],
        "m": degrees,
        "mb": ["1", "2"],
        "layers": ["even", "uneven", "listed"],
        "recompute": pin("recompute"),
        "order": ["free", "tp.cp.dp.pp", "pp.dp.cp.tp", "cp.tp.pp.dp"],
        "cp_order": [NONE, *pin("cp_order")],
        "attention": [NONE, "gather", "ring"],
        "moe": [NONE, *pin("moe"), "room"],
        "packed": ["no", "yes"],
        "projections": ["each", "fused"],
        "overlap": ["no", "yes"],
        "buckets": ["no", "yes"],
        "links": [cluster.stem for cluster in clusters],
    }


def part_of(case):
    """A group of data and context ranks that is neither one nor all: of the innermost of their axes."""
    order = case.get("order", "free").replace("free", "tp.cp.dp.pp").split(".")
    sizes = [size for axis in order for size in {"cp": [degree(case, "cp")], "dp": data_sizes(case)}.get(axis, [])]
    first = next((size for size in sizes if size > 1), 1)
    part = next((g for g in range(2, first + 1) if first % g == 0), 1)
    return part if 1 < part < degree(case, "dp", "cp") else None


def data_sizes(case):
    """The expert ranks are the inner part of the data ranks."""
    return [degree(case, "ep"), degree(case, "dp") // degree(case, "ep")]


def degree(case, *names):
    product = 1
    for name in names:
        product *= int(case[name])
    return product


def decoded(case):
    """In parts of a dense model."""
    return degree(case, *DECODING) * (2 if KINDS[case["family"]] == "experts" else 1)


def is_one_of(case, axis, condition):
    return (case[axis] != NONE) == condition


DECODING = ("tp", "cp", "dp", "m", "pp", "v")

# What means nothing, or contradicts itself: (axes, whether their values fit).
RULES = [
    (("family", "adapter"), lambda c: KINDS[c["family"]] != "by hand" or c["adapter"] == NONE),
    (("adapter", "family", *DECODING), lambda c: "+" not in c["adapter"] or decoded(c) <= MOST_DECODED),
    (("family", "packed"), lambda c: KINDS[c["family"]] != "by hand" or c["packed"] == "no"),
    (("family", "projections"), lambda c: c["projections"] == "each" or c["family"] in FUSED),
    (("adapter", "projections"), lambda c: c["projections"] == "each" or c["adapter"] == NONE),
    (("family", "ep"), lambda c: c["ep"] == "1" or KINDS[c["family"]] == "experts"),
    (("ep", "moe"), lambda c: is_one_of(c, "moe", c["ep"] != "1")),
    (("ep", "dp"), lambda c: int(c["dp"]) % int(c["ep"]) == 0),
    (("pp", "schedule"), lambda c: is_one_of(c, "schedule", c["pp"] != "1")),
    (("defer", "schedule"), lambda c: c["defer"] == NONE or c["schedule"] == "zb-h1"),
    (("v", "schedule"), lambda c: (c["schedule"] == "interleaved") == (c["v"] != "1")),
    (("pp", "m", "schedule"), lambda c: c["schedule"] != "interleaved" or int(c["m"]) % int(c["pp"]) == 0),
    (("pp", "v", "layers"), lambda c: c["layers"] != "listed" or (c["pp"] != "1" and c["v"] == "1")),
    (("zero", "shard"), lambda c: is_one_of(c, "shard", c["zero"] != "0")),
    (("zero", "dp", "cp"), lambda c: c["zero"] == "0" or degree(c, "dp", "cp") > 1),
    (("shard", "dp", "cp", "ep", "order"), lambda c: c["shard"] != "part" or part_of(c) is not None),
    (("cp", "cp_order"), lambda c: is_one_of(c, "cp_order", c["cp"] != "1")),
    (("cp", "attention"), lambda c: is_one_of(c, "attention", c["cp"] != "1")),
]
BOUND = {name for names, _ in RULES for name in names}


def fits(case, axis):
    """Whether a case, of which some axes are chosen, may have the value of `axis`."""
    if degree(case, *(name for name in ("tp", "cp", "pp", "dp") if name in case)) > MOST_RANKS:
        return False
    return all(rule(case) for names, rule in RULES if axis in names and all(name in case for name in names))


def complete(case, axes):
    """Gives the axes that are bound by rules the first values that fit together; false where none do."""
    rest = [axis for axis in BOUND if axis not in case]
    if not rest:
        return True
    # What the others leave least of comes first.
    ready = lambda axis: sum(axis in names and len(set(names) - case.keys()) == 1 for names, _ in RULES)
    axis = max(sorted(rest), key=ready)
    for value in axes[axis]:
        case[axis] = value
        if fits(case, axis) and complete(case, axes):
            return True
        del case[axis]
    return False
