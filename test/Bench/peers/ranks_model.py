"""Sizes of the models of `ranks.py`: GPTs, without numpy, so that any Python reads them."""

# Eight layers and heads, sixteen sequences: each of 1, 2, 4 and 8 ranks divides them.
SIZES = {
    "tiny": {"layers": 8, "hidden": 64, "heads": 8, "vocab": 256, "seq": 32, "batch": 16},
    "small": {"layers": 8, "hidden": 256, "heads": 8, "vocab": 2048, "seq": 128, "batch": 16},
}
EPS = 1e-5


def parameters(name):
    """How many there are, with the tied output."""
    s = SIZES[name]
    h = s["hidden"]
    return s["layers"] * (12 * h * h + 13 * h) + (s["vocab"] + s["seq"]) * h + 2 * h


def config(name):
    """The model as a Hugging Face configuration, without dropout."""
    s = SIZES[name]
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "activation_function": "gelu_new",
        "vocab_size": s["vocab"],
        "n_positions": s["seq"],
        "n_embd": s["hidden"],
        "n_layer": s["layers"],
        "n_head": s["heads"],
        "layer_norm_epsilon": EPS,
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


def shape(name):
    """The same as the peers' Shape."""
    from models import Shape

    s = SIZES[name]
    h = s["hidden"]
    return Shape(
        name=name, gpt=True, layers=s["layers"], hidden=h, heads=s["heads"], kv=s["heads"],
        ffn=4 * h, vocab=s["vocab"], positions=s["seq"], eps=EPS, theta=0.0, experts=0, top=0,
        seq=s["seq"], batch=s["batch"],
    )  # fmt: skip
