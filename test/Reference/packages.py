"""Makes or checks the cases of packages: models that others publish on PyPI, exported and trained by PyTorch.
Beside them modules that use many of its ops.

    pip install -r test/Reference/requirements.txt -r test/Reference/requirements-packages.txt
    python test/Reference/packages.py                # write packages/*
    python test/Reference/packages.py --only CASE
    python test/Reference/packages.py --check        # make everything again and compare

A case is a folder of `packages`: `graph.mlir`, as kerf.export writes it, and `reference.safetensors`, as README.md
describes it, of the same module under PyTorch. Names of parameters are the module's own.
"""

import argparse
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2] / "tools/python"))

import cases
import checkpoint
import kerf
import torch_ops
import training
from float64 import Float64

ROOT = Path(__file__).parent / "packages"
VOCAB, WIDTH, SEQ = 32, 16, cases.SEQ


def x_transformers(**options):
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=WIDTH, depth=2, heads=2, attn_dim_head=8, **options)
    return TransformerWrapper(num_tokens=VOCAB, max_seq_len=SEQ, attn_layers=layers)


def litgpt(**options):
    from litgpt import GPT, Config

    defaults = {"n_layer": 2, "n_embd": WIDTH, "n_head": 4, "block_size": SEQ, "padded_vocab_size": VOCAB}
    return GPT(Config(**{**defaults, **options}))


def torchtune_llama3():
    from torchtune.models.llama3 import llama3

    return llama3(
        vocab_size=VOCAB, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=WIDTH, max_seq_len=SEQ, intermediate_dim=24
    )


def torchtune_gemma():
    from torchtune.models.gemma import gemma

    return gemma(
        vocab_size=VOCAB, num_layers=2, num_heads=2, head_dim=8, num_kv_heads=1, embed_dim=WIDTH, intermediate_dim=24,
        max_seq_len=SEQ,
    )  # fmt: skip


def torchtune_qwen2():
    from torchtune.models.qwen2 import qwen2

    return qwen2(
        vocab_size=VOCAB, num_layers=2, num_heads=4, num_kv_heads=2, embed_dim=WIDTH, intermediate_dim=24, max_seq_len=SEQ,
        tie_word_embeddings=True,
    )  # fmt: skip


def palm_rlhf():
    from palm_rlhf_pytorch import PaLM

    return PaLM(num_tokens=VOCAB, dim=WIDTH, depth=2, dim_head=8, heads=2)


def transformers(family, attention="eager", **options):
    """A family that Kerf does not read by config, or trains otherwise then: the library leaves biases of routers as they are."""
    from transformers import AutoConfig, AutoModelForCausalLM

    kind = type(AutoConfig.for_model(family))
    config = kind(vocab_size=VOCAB, use_cache=False, pad_token_id=None, **options)
    experts = {"experts_implementation": "eager"} if "num_experts_per_tok" in options else {}
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention, **experts)


class FastGelu(nn.Module):
    """BLOOM's, which writes sqrt(2 / pi) with eight digits: in f32 the same number, and in f64 what it means."""

    def forward(self, x):
        return x * 0.5 * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)))


def bloom():
    net = transformers("bloom", hidden_size=WIDTH, n_layer=2, n_head=4, hidden_dropout=0.0, attention_dropout=0.0)
    for layer in net.transformer.h:
        layer.mlp.gelu_impl = FastGelu()
    return net


SIZES = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA = {
    "norm_class_name": "RMSNorm", "mlp_class_name": "LLaMAMLP", "bias": False, "parallel_residual": False,
    "rotary_percentage": 1.0, "n_query_groups": 2, "intermediate_size": 24,
}  # fmt: skip
CASES = {
    "x-transformers": lambda: x_transformers(),
    "x-transformers-rotary": lambda: x_transformers(rotary_pos_emb=True, ff_glu=True, ff_swish=True, use_rmsnorm=True),
    "x-transformers-alibi": lambda: x_transformers(alibi_pos_bias=True, alibi_num_heads=2, attn_kv_heads=1),
    "litgpt-pythia": lambda: litgpt(),
    "litgpt-llama": lambda: litgpt(**LLAMA),
    "torchtune-llama3": torchtune_llama3,
    "torchtune-gemma": torchtune_gemma,
    "torchtune-qwen2": torchtune_qwen2,
    "palm-rlhf": palm_rlhf,
    # activations by expm1
    "apertus": lambda: transformers("apertus", **SIZES, num_key_value_heads=2, intermediate_size=24),
    # queries, keys and values by indices that count from the end
    "falcon": lambda: transformers("falcon", "sdpa", **SIZES, new_decoder_architecture=True, num_kv_heads=2, alibi=False, hidden_dropout=0.0,
                                   attention_dropout=0.0),
    # biases by distance behind a mask
    "falcon-alibi": lambda: transformers("falcon", "sdpa", **SIZES, new_decoder_architecture=False, multi_query=False, alibi=True,
                                         hidden_dropout=0.0, attention_dropout=0.0),
    # biases by distance, part of longer ones
    "mpt": lambda: transformers("mpt", d_model=WIDTH, n_layers=2, n_heads=4, max_seq_len=64),
    # products of batch and heads as one dimension
    "bloom": bloom,
    # masks of numbers, part of larger ones
    "openai-gpt": lambda: transformers("openai-gpt", n_embd=WIDTH, n_layer=2, n_head=4, n_positions=64, embd_pdrop=0.0, attn_pdrop=0.0,
                                       resid_pdrop=0.0),
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 3, "norm_topk_prob": True, "moe_intermediate_size": 12, "intermediate_size": 24}
CASES |= {
    # the best of some groups of experts, by logistic functions and biases
    "deepseek-v3-fixed-bias": lambda: transformers("deepseek_v3", **SIZES, **EXPERTS, num_key_value_heads=4, n_group=3, topk_group=2, n_routed_experts=6,
                                        n_shared_experts=1, first_k_dense_replace=1, q_lora_rank=6, kv_lora_rank=5, qk_nope_head_dim=4,
                                        qk_rope_head_dim=4, v_head_dim=4, routed_scaling_factor=2.5),
    # biases alone
    "minimax-m2-fixed-bias": lambda: transformers("minimax_m2", "sdpa", **SIZES, num_key_value_heads=2, head_dim=8, num_local_experts=6,
                                       num_experts_per_tok=2, intermediate_size=12),
    # weights divided by a sum that is not what a route divides by
    "lfm2-moe": lambda: transformers("lfm2_moe", "sdpa", **SIZES, **EXPERTS, num_key_value_heads=2, num_experts=5, num_dense_layers=1,
                                     layer_types=["full_attention", "conv"], use_expert_bias=True),
}  # fmt: skip
CASES |= {name: lambda functions=functions: torch_ops.Sum(functions) for name, functions in torch_ops.MODULES.items()}


class Loss(nn.Module):
    """A package's model, called like one of the library."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, input_ids, labels):
        output = self.net(input_ids)
        logits = getattr(output, "logits", output)
        # The model says at position i what stands at i + 1.
        flat, wanted = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        return SimpleNamespace(loss=nn.functional.cross_entropy(flat, wanted.long()))


def biases(net):
    """Of routers: buffers."""
    return {name: buffer for name, buffer in net.named_buffers() if name.endswith(("e_score_correction_bias", "expert_bias"))}


def built(name, mode=None):
    """The model of a case with seeded weights of size 0.1; in `mode` what it computes once is in float64."""
    torch.manual_seed(0)
    if mode is None:
        net = CASES[name]()
    else:
        with mode:
            net = CASES[name]().double()
    rng = numpy.random.default_rng(sum(map(ord, name)))
    with torch.no_grad():
        for parameter in net.parameters():
            drawn = torch.tensor(rng.standard_normal(tuple(parameter.shape)) * 0.1, dtype=torch.float32)
            parameter.copy_(drawn + (parameter.ndim == 1))
        for buffer in biases(net).values():
            buffer.copy_(torch.tensor(rng.standard_normal(tuple(buffer.shape)) * 0.1, dtype=torch.float32))
    return net.train()


def produce(name):
    """The graph, and tensors and metadata of the reference file."""
    mode = Float64()
    net, net64 = built(name), built(name, mode)
    text = kerf.export(
        built(name, mode), (torch.zeros(cases.BATCH, SEQ, dtype=torch.long),), loss="cross_entropy", name="graph", locations=False
    )
    tokens, targets = cases.batches(name, VOCAB, None)
    names = [n for n, p in net.named_parameters() if p.requires_grad]
    tensors = {"tokens": tokens, "targets": targets}
    tensors |= {f"param.{n}": p.detach().clone() for n, p in [*net.named_parameters(), *biases(net).items()]}
    with mode:
        exact = training.train(Loss(net64), tokens, targets)
    rounded = training.train(Loss(net), tokens, targets)
    for prefix, run in (("f64", exact), ("f32", rounded)):
        tensors |= training.stored(prefix, run, lambda values, _: dict(zip(names, values, strict=True)))
    return text, tensors, training.metadata(name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    failed = 0
    for name in [arguments.only] if arguments.only else CASES:
        folder = ROOT / name
        try:
            text, tensors, metadata = produce(name)
        except kerf.ExportError as error:
            print(f"{name}: {error}")
            failed += 1
            continue
        if arguments.check:
            same = text == (folder / "graph.mlir").read_text()
            print(f"{name}: {'same' if same else 'DIFFERS'}")
            failed += not same
            continue
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "graph.mlir").write_text(text)
        checkpoint.write_reference(folder / "reference.safetensors", tensors, metadata)
        print(f"{name}: losses {' '.join(f'{loss:.6f}' for loss in tensors['f64.loss'].tolist())}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
