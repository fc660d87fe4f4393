"""Violations whose causes are known, and how large they may be."""

from cases import is_small


def has_many_layers(case):
    return not is_small(case.model)


def is_tiny(case):
    return case.model.startswith("tiny-")


def is_small_model(case):
    return is_small(case.model)


def any_case(_case):
    return True


LAUNCHES = "of small models launches are most of a step; the solver of a layer does not count them, so another layout may have a few less"

# (law, kind of comparison): (the largest part by which it may be broken, of which cases, why)
KNOWN = {
    (2, "more rate"): (0.005, is_small_model, LAUNCHES),
    (4, "t(B) <= t(2B)"): (0.03, is_tiny, "of the smallest models launches are all: which kernels are joined depends on which tensor is the largest"),
    (5, "own values pinned"): (5e-3, any_case, "of layouts that take equally long to the last digit the larger is found; bytes differ"),
    (8, "--prove proves"): (0.05, has_many_layers, "where one layout has millions of splits into stages, they are not all simulated"),
}


def cause_of(law, check):
    """Why a violation is expected; "" where it is not."""
    most, of_cases, why = KNOWN.get((law, check.kind), (0.0, any_case, ""))
    return why if check.excess <= most and all(map(of_cases, check.cases)) else ""
