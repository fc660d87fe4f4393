"""Kerf for Python: models of PyTorch and JAX for the compiler, and calls of its programs.

    import kerf

    kerf.export(module, (tokens, targets), "model.mlir")
    print(kerf.plan("model.mlir", "hgx-h100", devices=64, precision="bf16"))
    kerf.compile("model.mlir", "this-machine", "model.kerf")
    run = kerf.run("model.kerf", "text.txt", steps=100)
"""

from .programs import KerfError, Plan, Run, compile, plan, run

__version__ = "0.1.0"
__all__ = [
    "ExportError", "KerfError", "LowerError", "Plan", "Run", "compile", "export", "from_jax", "import_hf", "load_tree",
    "load_weights", "plan", "run", "save_tree", "save_weights",
]  # fmt: skip


def __getattr__(name):
    """What needs PyTorch or JAX is loaded when it is asked for."""
    if name in ("export", "ExportError"):
        from . import exporting

        return getattr(exporting, name)
    if name == "import_hf":
        from .huggingface import import_hf

        return import_hf
    if name in ("save_weights", "load_weights"):
        from . import weights

        return getattr(weights, name)
    if name in ("from_jax", "LowerError"):
        from . import functions

        return getattr(functions, name)
    if name in ("save_tree", "load_tree"):
        from . import trees

        return getattr(trees, name)
    raise AttributeError(f"module 'kerf' has no attribute '{name}'")
