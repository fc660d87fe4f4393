"""Violations whose causes are known, and how large they may be."""

CLOSED_FORM = ("the search ranks layouts by a closed form, and plays on the timeline only those whose closed form is within 8 % of "
               "the best; where the two disagree (sends between stages, weight gradients that are put off, uneven stages) the "
               "plan is the best of the closed form only")  # fmt: skip
# (law, kind of comparison): (the largest part by which it may be broken, why)
KNOWN = {
    (1, "no faster than the bound"): (0.1, "the printed bound is one of the closed form, which is above the timeline where stages are uneven"),
    (2, "more devices"): (0.05, CLOSED_FORM),
    **{(2, kind): (0.02, CLOSED_FORM) for kind in ("more rate", "more memory bandwidth", "more bandwidth", "less latency", "less launch time")},
    (4, "t(B) <= t(2B)"): (0.02, "with adapters, where launches are all: at the larger size there is one kernel less"),
    (5, "own values pinned"): (1e-3, "of layouts that take equally long to the last digit the larger is found; bytes differ"),
    (6, "one pin less"): (0.05, CLOSED_FORM),
    (9, "pinned plan"): (0.1, CLOSED_FORM),
}


def cause_of(law, check):
    """Why a violation is expected; "" where it is not."""
    most, why = KNOWN.get((law, check.kind), (0.0, ""))
    return why if check.excess <= most else ""
