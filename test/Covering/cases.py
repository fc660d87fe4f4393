"""From a case of the covering array to a tiny model and the commands that users type."""

import json
import math
import re
import subprocess

from axes import EXPERTS, GRAPH, NONE, degree, part_of
from decoder import Decoder

# Sizes that 2, 3 and 4 divide: the fields of all families' configs.
SMALL = {
    "hidden_size": 24, "n_embd": 24, "ffn_dim": 24, "intermediate_size": 24, "intermediate_size_mlp": 24, "moe_intermediate_size": 12, "vocab_size": 48,
    "num_attention_heads": 12, "n_head": 12, "head_dim": 2, "q_lora_rank": 12, "kv_lora_rank": 12,
    "qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": 2, "max_window_layers": 1,
    "shared_expert_intermediate_size": 12, "partial_rotary_factor": 1.0,
}  # fmt: skip
# 4-bit codes stand for 64 numbers of a row.
QUANTIZED = SMALL | {
    "hidden_size": 64, "n_embd": 64, "ffn_dim": 64, "intermediate_size": 64, "intermediate_size_mlp": 64, "moe_intermediate_size": 64,
    "num_attention_heads": 16, "n_head": 16, "head_dim": 4, "q_lora_rank": 64, "kv_lora_rank": 64,
    "v_head_dim": 4, "shared_expert_intermediate_size": 64, "partial_rotary_factor": 0.5,
}  # fmt: skip
SEQ = 8  # tokens of a sequence, or a few more
# Heads that share keys; of others one has them alone.
GROUPS_OF_HEADS = {"llama": 2, "mistral": 3, "qwen2": 2, "qwen3": 4, "gemma2": 2, "gemma3": 2, "gpt-oss": 2}
GROUPS_OF_HEADS |= {"llama4": 2, "olmo2": 2, "phi3": 3, "cohere2": 2}
PALM_SIZES = {"8": "batch", "16": "seq", "32": 24, "4": 12, "6": 2, "128": 24, "96": 48, "24": 24, "1": 1}


class Unjudged(Exception):
    """A command failed in a way that is no refusal: (what, text)."""


class Refused(Exception):
    """The compiler says no."""


def layers_of(case):
    chunks = degree(case, "pp", "v")
    return max(2, chunks) + (case["layers"] != "even")


def batch_of(case):
    return degree(case, "dp", "m", "mb")


def seq_of(case):
    """A multiple of twice the context ranks, and of the tensor ranks in each part."""
    seq = 2 * degree(case, "cp", "tp")
    return seq * math.ceil(SEQ / seq)


def experts_of(case):
    """Few, so that most are chosen, and in equal parts for the ranks."""
    parts = degree(case, "tp", "ep")
    return 4 if 4 % parts == 0 else 6 if 6 % parts == 0 else 12


def key_heads_of(case, heads):
    group = GROUPS_OF_HEADS.get(case["family"], 1)
    return heads // group if heads % group == 0 else heads // 2


def config_of(case, text):
    config = json.loads(text)
    sizes = QUANTIZED if "+" in case["adapter"] else SMALL
    sizes = sizes | dict.fromkeys(EXPERTS, experts_of(case))
    sizes |= dict.fromkeys(("num_hidden_layers", "n_layer"), layers_of(case))
    if "rotary_pct" in config:  # of heads of 4 channels, 2 turn
        sizes["hidden_size"] = max(sizes["hidden_size"], 4 * sizes["num_attention_heads"])
    config |= {key: size for key, size in sizes.items() if key in config}
    if "n_embd" in config:
        config["n_inner"] = config["n_embd"]
    if "num_key_value_heads" in config:
        config["num_key_value_heads"] = key_heads_of(case, config["num_attention_heads"])
    return config


BESIDE_MUON = "rule = #kerf.adamw<beta2 = 0.95>"  # of vectors


def palm_of(case, text, optimizer):
    """The model in the dialect, in other sizes."""
    sizes = PALM_SIZES | {"8": batch_of(case), "16": seq_of(case)}
    swap = lambda found: "tensor<" + "".join(f"{sizes[size]}x" for size in found[1].split("x")[:-1])
    text = re.sub(r"tensor<((?:\d+x)+)", swap, text)
    text = text.replace("= 0 to 4 ", f"= 0 to {layers_of(case)} ")
    if "#kerf.muon" in optimizer:
        text = text.replace("weight_decay = 0.0>", f"weight_decay = 0.0, {BESIDE_MUON}>")
    return re.sub(r"optimizer = #kerf\.\w+<[^>]*>", lambda _: optimizer, text)


def graph_of(case, optimizer):
    """A decoder as exporters write it."""
    if "#kerf.muon" in optimizer:
        optimizer += f', groups = [#kerf.group<match = "*norm*", weight_decay = 0.0, {BESIDE_MUON}>]'
    return Decoder(batch_of(case), seq_of(case), layers_of(case), optimizer).text()


def pins_of(case):
    """As text; `-` leaves a pin out."""
    same = "tp cp ep pp dp m mb v zero schedule defer recompute"
    pins = {key: case[key] for key in same.split()}
    pins["shard"] = {"all": degree(case, "dp", "cp"), "part": part_of(case)}.get(case["shard"], NONE)
    pins["moe"] = "all_to_all" if case["moe"] == "room" else case["moe"]
    pins["cp_order"] = case["cp_order"]
    pins["order"] = NONE if case["order"] == "free" else case["order"]
    if case["layers"] == "listed":  # the first stage has one more
        even, more = divmod(layers_of(case), int(case["pp"]))
        pins["layers"] = ".".join(str(even + (i < more)) for i in range(int(case["pp"])))
    return ",".join(f"{key}={value}" for key, value in pins.items() if value != NONE)


def import_options(case):
    options = [f"--optimizer={case['optimizer']}", f"--batch={batch_of(case)}", f"--seq={seq_of(case)}"]
    options += ["--clip-norm=0"] * (case["clipping"] == "no")
    if case["optimizer"] == "adamw_8bit":
        options.append("--state-block=2")
    if case["adapter"] != NONE:
        options.append("--lora-rank=2")
    if "+" in case["adapter"]:
        options.append("--quantize-base=" + case["adapter"].split("+")[1])
    options += ["--fuse-projections"] * (case["projections"] == "fused")
    return options + ["--packed"] * (case["packed"] == "yes")


def compile_options(case):
    options = [f"--precision={case['precision']}"]
    options.append("--bucket-gradients=" + ("true" if case["buckets"] == "yes" else "false"))
    # What --overlap does, in a stage that the interpreter can still run.
    options += ["--run-after=schedule:kerf-overlap-collectives"] * (case["overlap"] == "yes")
    return options + [f"--moe-buffer={case['ep']}"] * (case["moe"] == "room")


def plan_options(case, clusters):
    ranks = degree(case, "tp", "cp", "pp", "dp")
    return [f"--cluster={clusters[case['links']]}", f"--devices={ranks}", "--pin", pins_of(case)]


def set_attention(case, plan, ops):
    """Context ranks gather keys, or have the variant `ring`. Sums that this may move are made at once."""
    rules = [rule for rule in plan["assign"] if rule["op"] in ops]
    moved = {"cp"}.union(*(rule["factors"].get("q", []) for rule in rules))
    for rule in plan["assign"]:
        rule["pending"] = [axis for axis in rule.get("pending", []) if axis not in moved]
    for rule in rules:
        factors = {name: [axis for axis in axes if axis != "cp"] for name, axes in rule["factors"].items()}
        factors |= {"q": ["cp"], "k": ["cp"] if case["attention"] == "ring" else []}
        rule["factors"] = {name: axes for name, axes in factors.items() if axes}
        rule["variant"] = ["ring"] if case["attention"] == "ring" else []


class Runner:
    """Runs a case in a folder of its own."""

    def __init__(self, tools, repo, clusters, seconds):
        self.tools, self.models, self.clusters, self.seconds = tools, repo / "examples/models", clusters, seconds

    def call(self, *words):
        """Standard output. Exit status 1 is a refusal, all others are crashes."""
        command = [str(word) for word in words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self.seconds)
        except subprocess.TimeoutExpired:
            raise Unjudged("crashed", f"no answer in {self.seconds} s: {command[0]}")
        said = (done.stdout + done.stderr).strip()
        if done.returncode == 1:
            raise Refused(said)
        if done.returncode:
            raise Unjudged("crashed", f"exit status {done.returncode}: {said[-300:]}")
        return done.stdout

    def model(self, case, folder):
        source = self.models / f"tiny-{case['family']}"
        config, model = source / "config.json", folder / "model.mlir"
        by_hand = not config.exists()
        if by_hand:
            config = self.models / "tiny-llama/config.json"
        changed = folder / "config.json"
        changed.write_text(json.dumps(config_of(case, config.read_text())))
        self.call(self.tools / "kerf-import", changed, *import_options(case), "-o", model)
        if by_hand:
            optimizer = re.search(r"optimizer = #kerf\.\w+<[^>]*>", model.read_text())[0]
            text = "" if case["family"] == GRAPH else (source / "model.mlir").read_text()
            text = palm_of(case, text, optimizer) if text else graph_of(case, optimizer)
            model.write_text(text if case["clipping"] == "yes" else text.replace(", clip_norm = 1.0", ""))
        if case["family"] == GRAPH:
            flat = folder / "graph.mlir"
            model.rename(flat)
            self.call(self.tools / "kerf-import", flat, "-o", model)
        return model

    def plan(self, case, model, folder):
        """The options that give the plan."""
        options = plan_options(case, self.clusters)
        if case["attention"] == NONE:
            return options
        path, compile = folder / "plan.json", (self.tools / "kerfc", model, *compile_options(case))
        step = self.call(*compile, "--stop-after=precision")
        ops = re.findall(r"kerf\.attention(?:_backward)? .*kerf\.phase = #kerf\.phase<(\w+ \d+)", step)
        self.call(*compile, *options, "--emit=plan", "-o", path)
        plan = json.loads(path.read_text())
        set_attention(case, plan, [op + " 0" for op in ops])
        path.write_text(json.dumps(plan))
        return [f"--plan={path}"]

    def run(self, case, folder):
        """(what became of it, what was said): right, refused, wrong or crashed."""
        try:
            model, check = self.model(case, folder), folder / "verify.mlir"
            options = compile_options(case) + self.plan(case, model, folder)
            self.call(self.tools / "kerfc", model, *options, "--emit=verify", "-o", check)
            try:
                said = self.call(self.tools / "kerf-inspect", "verify", check)
            except Refused as said:
                return "wrong" if "[FAILED]" in str(said) else "refused", str(said)
            return self.finish(case, model, options, folder) or ("right", said)
        except Refused as said:
            return "refused", str(said)
        except Unjudged as failure:
            return failure.args

    def finish(self, case, model, options, folder):
        """What means the same becomes a file, too: the stages behind the interpreter's take it."""
        overlap = "true" if case["overlap"] == "yes" else "false"
        options = [option for option in options if not str(option).startswith("--run-after")]
        options += [f"--overlap={overlap}", "--check=off", "--max-threads=1", "-o", folder / "case.kerf"]
        try:
            self.call(self.tools / "kerfc", model, *options)
        except Refused as said:
            return "wrong", f"means the same and makes no file: {said}"

    def example(self, case):
        """The commands of a case, in short."""
        words = [case["family"], f"{layers_of(case)} layers", *import_options(case), *compile_options(case)]
        attention = [] if case["attention"] == NONE else [f"(attention: {case['attention']})"]
        return " ".join([*words, f"--cluster={case['links']}", "--pin", pins_of(case), *attention])
