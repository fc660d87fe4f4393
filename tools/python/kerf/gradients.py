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


@contextlib.contextmanager
def own_gradients(error):
    """Within it a `torch.autograd.Function` of the user's raises `error`: a trace has its forward alone. What is
    computed again in the backward pass is traced as it stands."""
    original = torch.autograd.Function.__dict__["apply"]

    def apply(cls, *given, **named):
        if cls is torch.utils.checkpoint.CheckpointFunction:
            function, _, *arguments = given
            return function(*arguments)
        if cls.__module__.split(".")[0] != "torch":
            raise error(f"{_user_line()}: a gradient of one's own ({cls.__qualname__}): Kerf derives what is computed")
        return original.__get__(None, cls)(*given, **named)

    torch.autograd.Function.apply = classmethod(apply)
    try:
        yield
    finally:
        torch.autograd.Function.apply = original


def _stopped(node):
    """True for what is computed without gradients."""
    return node.op == "call_function" and node.target is torch.ops.higher_order.wrap_with_set_grad_enabled and node.args[0] is False


def _regions(module):
    """All modules of a trace that stand for regions with other settings, inner ones too."""
    for inner in module.children():
        if isinstance(inner, torch.fx.GraphModule):
            yield inner
            yield from _regions(inner)


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
