"""Violations whose causes are known, and how large they may be."""

from cases import is_small


def is_small_model(case):
    return is_small(case.model)


def any_case(_case):
    return True


FEW = "a layer's table has few layouts; where launches are most of a step, which ones depends on how fast the rest is"
# (law, kind of comparison): (the largest part by which it may be broken, of which cases, why)
KNOWN = {
    (2, "more rate"): (0.007, is_small_model, FEW),
    (2, "more bandwidth"): (0.003, is_small_model, FEW),
    (2, "less latency"): (0.005, is_small_model, FEW),
    (2, "more memory bandwidth"): (0.004, is_small_model, FEW),
    (6, "one pin less"): (0.0001, is_small_model, FEW),
    (8, "--prove proves"): (0.04, any_case, "where memory binds, layers of programs that do not fit are not tried at all their points"),
}


def cause_of(law, check):
    """Why a violation is expected; "" where it is not."""
    most, of_cases, why = KNOWN.get((law, check.kind), (0.0, any_case, ""))
    return why if check.excess <= most and all(map(of_cases, check.cases)) else ""
