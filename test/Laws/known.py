"""Violations whose causes are known, and how large they may be."""

# (law, kind of comparison): (the largest part by which it may be broken, why)
KNOWN = {
    (4, "t(B) <= t(2B)"): (0.02, "with adapters, where launches are all: at the larger size there is one kernel less"),
    (5, "own values pinned"): (1e-3, "of layouts that take equally long to the last digit the larger is found; bytes differ"),
}


def cause_of(law, check):
    """Why a violation is expected; "" where it is not."""
    most, why = KNOWN.get((law, check.kind), (0.0, ""))
    return why if check.excess <= most else ""
