"""Runs library code that asks for float32 in float64 instead, and proves it.

`Float64` rewrites every explicit request for float32 (`x.float()`,
`softmax(..., dtype=torch.float32)`, `torch.arange(..., dtype=torch.float)`) to
float64 and counts where each request came from. `NoFloat32` sees every operator
below that, in the backward pass too, and fails if one of them takes or makes a
float32 tensor: what `Float64` misses cannot go unnoticed.
"""

import os
import sys
from collections import Counter

import torch
import transformers
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def _package_path(path):
    """A source path from the package's name on, or None outside of the libraries."""
    for package in (transformers, torch):
        parent = os.path.dirname(os.path.dirname(package.__file__)) + os.sep
        if path.startswith(os.path.join(parent, package.__name__) + os.sep):
            return path[len(parent) :].replace(os.sep, "/")
    return None


def _call_site():
    """`file:line` and function of the innermost library frame that called torch.

    Frames of transformers come first; a call that only torch itself makes (an
    optimizer's) is given its innermost torch frame.
    """
    torch_site = None
    frame = sys._getframe(2)
    while frame is not None:
        path = _package_path(frame.f_code.co_filename)
        site = (f"{path}:{frame.f_lineno}", frame.f_code.co_qualname)
        if path and path.startswith("transformers/"):
            return site
        wrapper = path in ("torch/overrides.py", "torch/nn/functional.py")
        if path and path.startswith("torch/") and not wrapper and torch_site is None:
            torch_site = site
        frame = frame.f_back
    return torch_site or ("test/Reference", "")


class Float64(TorchFunctionMode):
    """Turns explicit float32 requests into float64; `sites` counts them.

    The keys of `sites` are (called function, file:line, calling function).
    """

    def __init__(self):
        super().__init__()
        self.sites = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        asks = func is torch.Tensor.float or any(
            value is torch.float32 for value in (*args, *kwargs.values())
        )
        if not asks:
            return func(*args, **kwargs)
        site, caller = _call_site()
        self.sites[(func.__name__, site, caller)] += 1
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        args = [torch.float64 if a is torch.float32 else a for a in args]
        kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in kwargs.items()}
        return func(*args, **kwargs)


class NoFloat32(TorchDispatchMode):
    """Raises `TypeError` at the first operator that takes or makes a float32 tensor."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, result)):
            if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32:
                raise TypeError(f"'{func}' takes or makes a float32 tensor in a float64 run")
        return result
