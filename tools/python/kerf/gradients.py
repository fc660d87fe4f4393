"""What a trace of PyTorch would lose of gradients: where they are stopped, and those that a module brings itself."""

import contextlib
import os
import traceback

import torch
import torch.utils.checkpoint


def _user_line():
    """The innermost line of the stack that is neither PyTorch's nor ours."""
    own = (os.path.dirname(torch.__file__), os.path.dirname(__file__))
    frames = [f for f in traceback.extract_stack() if not f.filename.startswith(own)]
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "the module"


def _functions(base=torch.autograd.Function):
    """All functions with gradients of their own that are not PyTorch's."""
    for inner in base.__subclasses__():
        if inner.__module__.split(".")[0] != "torch" and "forward" in vars(inner):
            yield inner
        yield from _functions(inner)


@contextlib.contextmanager
def _replaced(owner, name, value):
    """`owner.name` is `value` within it."""
    before = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


@contextlib.contextmanager
def own_gradients(error):
    """Within it a `torch.autograd.Function` of the user's, a hook on a gradient, and what sets whether a tensor has one
    raise `error`: a trace has the forward alone. What is computed again in the backward pass is traced as it stands, and
    `torch.inference_mode`, which a trace forgets, is `torch.no_grad`."""

    def refused(cls):
        def forward(*given, **named):
            raise error(f"{_user_line()}: a gradient of one's own ({cls.__qualname__}): Kerf derives what is computed")

        return staticmethod(forward)

    def again(cls, function, preserves_random_state, *given):
        return function(*given)

    def hook(tensor, function):
        raise error(f"{_user_line()}: a hook on a gradient (register_hook): Kerf derives what is computed")

    def detached(tensor):
        raise error(f"{_user_line()}: detach_() in forward(): a trace keeps the gradient. Use the result of detach()")

    def trained(tensor, requires_grad=True):
        if isinstance(tensor, torch.nn.Parameter):
            raise error(f"{_user_line()}: requires_grad_() of a parameter in forward(): set it before the export")
        return need(tensor, requires_grad)

    def enter(region):
        region.before = torch.is_grad_enabled()
        torch.set_grad_enabled(region.before and not region.mode)

    def leave(region, *raised):
        torch.set_grad_enabled(region.before)

    need = torch.Tensor.requires_grad_
    with contextlib.ExitStack() as stack:
        for method, replacement in (("detach_", detached), ("requires_grad_", trained)):
            stack.enter_context(_replaced(torch.Tensor, method, replacement))
        for method, replacement in (("__enter__", enter), ("__exit__", leave)):
            stack.enter_context(_replaced(torch.inference_mode, method, replacement))
        for function in set(_functions()):
            stack.enter_context(_replaced(function, "forward", refused(function)))
        stack.enter_context(_replaced(torch.utils.checkpoint.CheckpointFunction, "apply", classmethod(again)))
        stack.enter_context(_replaced(torch.Tensor, "register_hook", hook))
        yield


def check_hooks(module, error):
    """Raises `error` where hooks of a parameter or a module may change gradients."""
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            raise error(f"the parameter '{name.removeprefix('module.')}' has a hook on its gradient (register_hook): remove it")
    for name, inner in module.named_modules():
        if inner._backward_hooks or inner._backward_pre_hooks:
            which = f"the module '{name.removeprefix('module.')}'" if name.startswith("module.") else "the module"
            raise error(f"{which} has a hook on gradients (register_full_backward_hook): remove it")


def check_state(program, error):
    """Raises `error` where the forward pass changes a parameter, or a buffer that the loss is made of: a step would begin
    with the first values again."""
    signature = program.graph_signature
    changed = {spec.target for spec in signature.output_specs if spec.target and spec.kind.name.endswith("_MUTATION")}
    (outputs,) = next(node for node in program.graph.nodes if node.op == "output").args
    left, read = [outputs[-1]], set()
    while left:
        node = left.pop()
        if node not in read:
            read.add(node)
            left.extend(node.all_input_nodes)
    names = {node.name for node in read}
    for spec in signature.input_specs:
        is_parameter = spec.kind is torch.export.graph_signature.InputKind.PARAMETER
        if spec.target in changed and (is_parameter or spec.arg.name in names):
            name = spec.target.removeprefix("module.")
            raise error(f"'{name}' is changed in forward(): Kerf keeps nothing from one step to the next but what it trains")


def _stopped(node):
    """True for what is computed without gradients."""
    return node.op == "call_function" and node.target is torch.ops.higher_order.wrap_with_set_grad_enabled and node.args[0] is False


def _regions(module):
    """All modules of a trace that stand for regions with other settings, inner ones too."""
    for inner in module.children():
        if isinstance(inner, torch.fx.GraphModule):
            yield inner
            yield from _regions(inner)


def _changed(node):
    """What an op in a trace changes in place; none in most."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.is_mutable:
        return []
    named = [(a, node.args[i] if i < len(node.args) else node.kwargs.get(a.name)) for i, a in enumerate(schema.arguments)]
    return [value for a, value in named if a.alias_info and a.alias_info.is_write and isinstance(value, torch.fx.Node)]


def _bases(node):
    """A value and those that it is a view of, detached ones apart."""
    while True:
        yield node
        schema = getattr(node.target, "_schema", None)
        first = node.args[0] if node.args else None
        if schema is None or not isinstance(first, torch.fx.Node) or not schema.arguments[0].alias_info:
            return
        node = first


def _places(graph):
    """(node, value) where a node changes the value in place, or what it is a view of."""
    return [(node, base) for node in graph.nodes for value in _changed(node) for base in _bases(value)]


def check_places(program, error, place):
    """Raises `error` where the trace has other values than PyTorch or other gradients, as a value is changed in place:
    within a region without gradients, or by a detached one that shares its memory. `place` of a node is (file, line)."""

    def refuse(node, what):
        raise error(f"{'%s:%d' % (place(node) or ('forward', 0))}: {what}")

    for module in [program.graph_module, *_regions(program.graph_module)]:
        order = {node: i for i, node in enumerate(module.graph.nodes)}
        for node, base in _places(module.graph):
            shares = base.args[0].users if base.target is torch.ops.aten.detach.default else ()
            if any(order[user] > order[node] for user in shares):
                refuse(node, "a detached value is changed in place, and so is what it was detached from: detach a clone()")
        for call in [n for n in module.graph.nodes if _stopped(n)]:
            region = getattr(module, call.args[1].target).graph
            given = dict(zip((n for n in region.nodes if n.op == "placeholder"), call.args[2:]))
            for node, base in _places(region):
                if base in given and given[base].op != "placeholder":  # of parameters `check_state` says it
                    refuse(node, "within torch.no_grad a value from outside is changed in place: change a clone()")


def keep_stops(program, error):
    """What regions without gradients (`torch.no_grad`) give is detached: decompositions forget the regions."""
    detach = torch.ops.aten.detach.default
    for module in [program.graph_module, *_regions(program.graph_module)]:
        for node in [n for n in module.graph.nodes if _stopped(n)]:
            region = getattr(module, node.args[1].target)
            for inner in [region, *_regions(region)]:
                if any("set_grad_enabled" in str(n.target) and n.args[0] is True for n in inner.graph.nodes if n.op == "call_function"):
                    raise error("gradients are enabled again within a region without them (torch.no_grad)")
            for result in [user for user in node.users if user.target.__name__ == "getitem"]:
                with module.graph.inserting_after(result):
                    constant = module.graph.call_function(detach, (result,))
                constant.meta = dict(result.meta)
                result.replace_all_uses_with(constant, delete_user_cb=lambda user, constant=constant: user is not constant)
        module.recompile()
    return program
