"""Compares live results with a stored reference file.

On the machine and versions that wrote the file everything is equal bit by bit. On
another machine sums may be ordered differently, so results are compared by their
error, max|a - b| / max|b|. Parameters after Adam are compared only where the first
gradient is not tiny: where it is rounding noise, Adam may take any step up to lr.
"""

import torch
from safetensors import safe_open

import training

# Inputs must be equal; results may differ by this error.
LIMITS = {"f64": 1e-9, "f32": 1e-3}
TINY_GRADIENT = 1e-5
GROUPS = ["inputs"] + [
    f"{run}.{kind}" for run in LIMITS for kind in ("loss", "grad_norm", "grad", "after")
]


def _error(live, old):
    """max|a - b| / max|b|; the plain maximum where the stored tensor is all zero."""
    scale = old.double().abs().max().item()
    return (live.double() - old.double()).abs().max().item() / (scale or 1.0)


def _after_error(live, old, gradient, steps):
    """Error of a trained parameter; infinite if an entry moved more than Adam can."""
    gradient = gradient.abs()
    firm = gradient >= TINY_GRADIENT * gradient.max()
    difference = (live.double() - old.double()).abs()
    if (difference > 2 * training.LR * steps).any():
        return float("inf")
    return difference[firm].max().item() / old.double().abs().max().item()


def _judge(name, live, old, stored):
    """(group, error, within the limit) of one tensor."""
    if live.shape != old.shape or live.dtype != old.dtype:
        return "inputs", float("inf"), False
    run, _, rest = name.partition(".")
    if run not in LIMITS:
        return "inputs", _error(live, old), torch.equal(live, old)
    kind, _, parameter = rest.partition(".")
    if kind == "after":
        gradient = stored[f"{run}.grad.{parameter}"]
        error = _after_error(live, old, gradient, len(stored[f"{run}.loss"]))
    else:
        error = _error(live, old)
    return f"{run}.{kind}", error, error <= LIMITS[run]


def _same_contents(case, tensors, metadata, stored, old_metadata):
    """Prints what only one side has, and other metadata; True if there is nothing."""
    complaints = [
        f"'{name}' is only {'stored' if name in stored else 'live'}"
        for name in sorted(stored.keys() ^ tensors.keys())
    ]
    for key in sorted(metadata.keys() | old_metadata.keys()):
        # Printed with few digits, so it may round another way elsewhere.
        if key != "router_margin" and metadata.get(key) != old_metadata.get(key):
            complaints.append(f"'{key}' is {metadata.get(key)}, stored {old_metadata.get(key)}")
    for complaint in complaints:
        print(f"{case}: {complaint}")
    return not complaints


def header():
    """The head of the table that `report` prints rows of."""
    return f"{'case':24}{'bit-equal':>10}" + "".join(f"{g:>14}" for g in GROUPS)


def report(case, path, tensors, metadata):
    """Prints the errors of one case; True if the file holds what is computed now."""
    if not path.exists():
        print(f"{case}: no reference file")
        return False
    with safe_open(path, "pt") as file:
        stored = {name: file.get_tensor(name) for name in file.keys()}
        good = _same_contents(case, tensors, metadata, stored, file.metadata())
    worst = dict.fromkeys(GROUPS, 0.0)
    equal, bad = 0, []
    for name in sorted(stored.keys() & tensors.keys()):
        group, error, fine = _judge(name, tensors[name], stored[name], stored)
        equal += torch.equal(tensors[name], stored[name])
        worst[group] = max(worst[group], error)
        bad += [] if fine else [f"'{name}' (error {error:.1e})"]
    errors = "".join(f"{worst[group]:14.1e}" for group in GROUPS)
    print(f"{case:24}{f'{equal}/{len(stored)}':>10}{errors}  {'DIFFERS' if bad else 'ok'}")
    for text in bad:
        print(f"{case}: {text} differs")
    return good and not bad
