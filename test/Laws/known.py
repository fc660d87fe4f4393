"""Violations whose causes are known, and how large they may be."""

import json
from pathlib import Path

MODELS = Path(__file__).parents[2] / "examples/models"


def heads_of(model):
    config = json.loads((MODELS / model / "config.json").read_text())
    return next(config[key] for key in ("num_attention_heads", "n_head") if key in config)


def pins_ranks_beyond_heads(check):
    return any(int(dict(case.pins).get("tp", 1)) > max(heads_of(case.model), 16) for case in check.cases)


def always(_check):
    return True


# (law, kind of comparison): (the largest part by which it may be broken, where, why)
KNOWN = {
    (6, "one pin less"): (
        0.0001, pins_ranks_beyond_heads,
        "more than 16 tensor ranks and more than there are heads are tried only where they are pinned"),
}


def cause_of(law, check):
    """Why a violation is expected; "" where it is not."""
    most, where, why = KNOWN.get((law, check.kind), (0.0, always, ""))
    return why if check.excess <= most and where(check) else ""
