"""Violations whose causes are known, and how large they may be."""

# (law, kind of comparison): (the largest part by which it may be broken, why); those of LAUNCHES only for
# models of a few thousand parameters a layer.
LAUNCHES = {(2, "more rate")}
KNOWN = {
    (2, "more rate"): (0.3, "where launches are all: those of what is made again are shared out by time, and its points are chosen without them"),
    (4, "t(B) <= t(2B)"): (0.02, "with adapters, where launches are all: at the larger size there is one kernel less"),
    (5, "own values pinned"): (1e-3, "of layouts that take equally long to the last digit the larger is found; bytes differ"),
    (8, "--prove proves"): (0.05, "where one layout has millions of splits into stages, they are not all played"),
}


def cause_of(law, check):
    """Why a violation is expected; "" where it is not."""
    most, why = KNOWN.get((law, check.kind), (0.0, ""))
    if (law, check.kind) in LAUNCHES and not all(case.model.startswith("tiny-") for case in check.cases):
        return ""
    return why if check.excess <= most else ""
