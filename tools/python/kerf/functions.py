"""Writes a loss function of JAX as text that kerf-import reads: StableHLO in its generic form."""

from pathlib import Path

from . import parameters
from .trees import leaf_names, leaves_of


class LowerError(Exception):
    """The function cannot be lowered for Kerf; the text says what is wrong and where it stands in the user's source."""


def from_jax(loss, params, *inputs, path=None, frozen=None, deviation=0.02):
    """Lowers `loss(params, *inputs)` and writes it as text for `kerf-import PATH`; returns the text.

    loss       function of JAX that gives the loss, a scalar float (or also more scalars, to be reported). Plain JAX,
               or the `apply` of a Flax or Equinox model; dropout off, and gradients that follow from what is computed:
               Kerf differentiates the lowered function, in which gradients of one's own are gone.
    params     tree of arrays, or of jax.ShapeDtypeStruct for a model that would not fit this machine.
    inputs     trees of integers [batch, sequence], the global batch: tokens, then targets, or by names
               (`batch['targets']`). Shapes matter, values do not.
    path       file to write to (NAME.stablehlo.mlir), whole or not at all.
    frozen     function of a parameter's name that is true for those that are not trained.
    deviation  of initial weights where `params` has no values.

    Raises LowerError, which names the line of the user's source.
    """
    import jax

    if not leaves_of(params):
        raise LowerError("params has no arrays")
    jitted = jax.jit(loss, keep_unused=True)
    _check_gradients(jax.make_jaxpr(loss)(params, *inputs))
    module = _lowered(jitted, params, *inputs).compiler_ir("stablehlo")
    _mark(module, params, frozen or (lambda name: False), deviation)
    text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    if path is not None:
        path = Path(path)
        part = path.with_name(path.name + ".part")
        part.write_text(text)
        part.replace(path)
    return text


# Gradients that the lowered text would lose


def _lowered(jitted, *given):
    """Lowered with marks of what JAX leaves out: where a gradient is stopped, and slopes where values are equal."""
    from jax._src.interpreters import mlir
    from jax._src.lax.lax import _nary_lower_hlo
    from jax.lax import max_p, min_p, stop_gradient_p

    def stop(context, x):
        if _is_known(_frames(getattr(context, "traceback", None))):
            return [x]
        return mlir.custom_call("kerf.stop_gradient", result_types=[x.type], operands=[x]).results

    def choice(lower):
        def rule(context, *operands, **named):
            (result,) = _nary_lower_hlo(lower, context, *operands, **named)
            ties = _ties(getattr(context, "traceback", None))
            if ties:
                result.owner.attributes["ties"] = mlir.ir.StringAttr.get(ties)
            return [result]

        return rule

    rules = {stop_gradient_p: stop, max_p: choice(mlir.max_hlo), min_p: choice(mlir.min_hlo)}
    traced = jitted.trace(*given)
    marked = mlir.LoweringParameters(override_lowering_rules=tuple(rules.items()))
    # A lowering that is kept for the next equation knows no line.
    kept = getattr(mlir, "_uncacheable_primitives", set())
    new = set(rules) - kept
    kept.update(new)
    try:
        return traced.lower(_private_parameters=marked)
    finally:
        kept.difference_update(new)


def _equations(jaxpr):
    """All equations, inner ones too."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for part in value if isinstance(value, (tuple, list)) else [value]:
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from _equations(inner)


def _frames(traceback):
    """(file, line), innermost first."""
    return [(f.file_name, f.line_num) for f in traceback.frames] if traceback else []


# Functions of JAX with a gradient of their own where two values are equal: which one has it, as they write them.
_TIES = {"relu": "second", "relu6": "second", "logaddexp": "first", "logaddexp2": "first"}


def _ties(traceback):
    """Of a maximum or minimum in one of those; None of others, whose equal values share the gradient."""
    of_jax = [f.function_name for f in (traceback.frames if traceback else []) if "jax/_src/" in f.file_name.replace("\\", "/")]
    return next((_TIES[name] for name in of_jax if name in _TIES), None)


def _is_library(file):
    return "site-packages" in file or "dist-packages" in file or file.startswith("<")


def _line(equation):
    own = [frame for frame in _frames(equation.source_info.traceback) if not _is_library(frame[0])]
    return f"{Path(own[0][0]).name}:{own[0][1]}" if own else "the function"


# Where these stop gradients or have their own, the gradient is that of what is computed: a softmax subtracts its maximum.
_KNOWN = ("jax/_src/nn/", "jax/_src/ops/", "jax/_src/numpy/", "jax/_src/scipy/", "optax/")


def _is_known(frames):
    """Whether the caller, the first frame that is none of JAX's tracing, is one of those."""
    files = [file.replace("\\", "/") for file, _ in frames]
    callers = [f for f in files if "jax/_src/" not in f or any(part in f for part in _KNOWN)]
    return any(part in callers[0] for part in _KNOWN) if callers else False


def _is_of_jax(equation):
    """Whether JAX itself defines the function that has its own gradient."""
    inner = equation.params.get("call_jaxpr")
    described = getattr(getattr(inner, "jaxpr", inner), "debug_info", None)
    return "jax/_src/" in str(getattr(described, "func_src_info", "")).replace("\\", "/")


def _check_gradients(closed):
    for equation in _equations(closed.jaxpr):
        name = equation.primitive.name
        frames = _frames(equation.source_info.traceback)
        if name.startswith(("custom_vjp", "custom_jvp")) and not _is_known(frames) and not _is_of_jax(equation):
            raise LowerError(f"{_line(equation)}: a gradient of one's own ({name}): Kerf derives what is computed")


# What the text does not say of parameters


def _mark(module, params, frozen, deviation):
    """Notes names, initial values and what is frozen at the function's arguments."""
    from jax._src.lib.mlir import ir

    names, leaves = leaf_names(params), leaves_of(params)
    drawn = parameters.inits(list(zip(names, leaves)), deviation)
    main = next(op for op in module.body.operations if op.attributes["sym_name"].value == "main")
    with module.context:
        module.context.allow_unregistered_dialects = True
        marks = []
        for i, given in enumerate(main.attributes["arg_attrs"]):
            entries = {named.name: named.attr for named in given} if isinstance(given, ir.DictAttr) else {}
            if i < len(names):
                entries["kerf.name"] = ir.StringAttr.get(names[i])
                entries["kerf.init"] = ir.StringAttr.get(drawn[names[i]])
                if frozen(names[i]):
                    entries["kerf.frozen"] = ir.UnitAttr.get()
            marks.append(ir.DictAttr.get(entries))
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(marks)
