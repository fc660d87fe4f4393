"""Writes a PyTorch module as a model of the kerf dialect."""

import inspect
import os
from pathlib import Path

import torch

from . import complexes, constants, gradients, layers, leaves, losses, ops, orders, parameters, shapes, weights, windows  # noqa: F401 (fill the table)
from .text import Value, Writer, quoted, type_of

DEFAULT_OPTIMIZER = "#kerf.adamw<beta2 = 0.95, weight_decay = 0.1>"


class ExportError(Exception):
    """The module cannot be exported; the text says what is missing and where it stands in the user's source."""


class _Step(torch.nn.Module):
    """The module with its loss: what a step computes."""

    def __init__(self, module, loss):
        super().__init__()
        self.module = module
        self.loss = loss

    def forward(self, *inputs):
        if self.loss is None:
            return _loss_of(self.module(*inputs))
        *inputs, targets = inputs
        return self.loss(self.module(*inputs), targets)


def _tensors(output):
    if isinstance(output, torch.Tensor):
        return [output]
    if hasattr(output, "values") and not isinstance(output, (tuple, list)):
        output = list(output.values())
    if isinstance(output, (tuple, list)):
        return [tensor for part in output for tensor in _tensors(part)]
    return []


def _loss_of(output):
    """The scalar among what the module returns."""
    scalars = [t for t in _tensors(output) if t.dim() == 0 and t.is_floating_point()]
    if len(scalars) != 1:
        raise ExportError(
            f"the module returns {len(scalars)} scalars, expected one: its loss. A module that returns logits needs "
            "loss='cross_entropy' or a function of (output, targets)"
        )
    return scalars[0]


def _logits_of(output):
    if hasattr(output, "logits"):
        return output.logits
    wide = [t for t in _tensors(output) if t.dim() == 3]
    if len(wide) != 1:
        raise ExportError(f"the module returns {len(wide)} tensors [batch, sequence, vocabulary], expected one: logits")
    return wide[0]


def cross_entropy(output, targets):
    """Mean over targets that are not -100; `output` is logits, or has `logits`."""
    logits = _logits_of(output)
    flat = logits.reshape(-1, logits.shape[-1]).float()
    return torch.nn.functional.cross_entropy(flat, targets.reshape(-1))


def _trace(step, inputs):
    """The graph of the step in ATen ops that the table knows, as far as PyTorch can decompose others."""
    gradients.check_hooks(step, ExportError)
    try:
        with gradients.own_gradients(ExportError):
            program = torch.export.export(step, inputs, strict=False)
    except ExportError:
        raise
    except Exception as error:
        text = str(error).strip().splitlines() or [type(error).__name__]
        if "fake tensor in the exported program constant's list" in text[0]:
            text = ["a value is read by .data (use detach()), or kept from another trace in an attribute"]
        raise ExportError(f"torch.export cannot trace the module: {text[0]}") from error
    table = torch.export.default_decompositions()
    for known in [op for op in table if str(op) in ops.OPS]:
        del table[known]
    gradients.check_places(program, ExportError, _place)
    program = gradients.keep_stops(program, ExportError).run_decompositions(table)
    gradients.check_state(program, ExportError)
    return program


def _check_memory(named):
    """Raises ExportError where a step that changes one of (name, tensor) would change another."""
    places = {}
    for name, tensor in named:
        if tensor.device.type == "meta" or not tensor.numel():
            continue
        other = places.setdefault(tensor.untyped_storage().data_ptr(), name)
        if other != name:
            raise ExportError(f"'{other}' and '{name}' are two parameters in one memory: make them one, or give one a clone()")


def _place(node):
    """File and line of the user's source that a node comes from: the innermost frame outside of libraries."""
    trace = node.meta.get("stack_trace")
    frames = []
    for line in (trace or "").splitlines():
        line = line.strip()
        if line.startswith("File "):
            file, number, *_ = line.removeprefix("File ").split(", ")
            frames.append((file.strip('"'), int(number.removeprefix("line "))))
    library = os.path.dirname(torch.__file__)
    own = os.path.dirname(__file__)
    frames = [f for f in frames if not f[0].startswith((library, own, "<"))]  # <...>: made by a trace
    if not frames:
        return None
    file, line = frames[-1]
    return os.path.basename(file), line


class _Exporter:
    """Translates one graph."""

    def __init__(self, program, roles, deviation, locations, names):
        self.program = program
        self.signature = program.graph_signature
        self.roles = roles  # of the inputs, in order
        self.deviation = deviation
        self.locations = locations
        self.names = names or (lambda name: name)
        self.writer = Writer()
        self.context = ops.Context(self.writer, self._role)
        self.context.drop_name = self._drop_name
        self.values = {}
        self.header = []  # (role, name, type)
        self.read = {}  # parameters by name
        self._drops = {}

    def _role(self, role):
        """Name of an input that the step is given besides: seed or step."""
        for known, name, _ in self.header:
            if known == role:
                return name
        name = self.writer.fresh(role)
        self.header.append((role, name, "tensor<i32>"))
        return name

    def _drop_name(self):
        name = layers.module_name(self.context)
        count = self._drops[name] = self._drops.get(name, 0) + 1
        return name if count == 1 else f"{name}.{count}"

    def run(self):
        kinds = torch.export.graph_signature.InputKind
        specs = {spec.arg.name: spec for spec in self.signature.input_specs}
        state = {**self.program.state_dict, **self.program.constants}
        self.weights = self._weights(specs, state, kinds)
        drawn = parameters.inits([(n, t) for n, t in self.weights.values()], self.deviation)
        inputs = iter(self.roles)
        for node in self.program.graph.nodes:
            self.context.node, self.writer.place = node, None
            if node.op == "placeholder":
                self._placeholder(node, specs[node.name], state, kinds, drawn, inputs)
            elif node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op == "output":
                return self._result(node)
        raise ExportError("the graph has no output")

    def _weights(self, specs, state, kinds):
        """(name, tensor) by placeholder; one tensor under several names is one parameter, of the first. Buffers that a
        checkpoint fills are parameters, too, which are not trained."""
        found, first = {}, {}
        named = {spec.arg.name: (spec.target.removeprefix("module."), state.get(spec.target)) for spec in specs.values() if spec.target}
        kept = {name for name, spec in specs.items() if spec.kind == kinds.BUFFER and spec.persistent}
        buffers = parameters.states([named[name] for name in kept if named[name][1].is_floating_point()])
        for name, spec in specs.items():
            if spec.kind == kinds.PARAMETER or (name in kept and named[name][0] in buffers):
                found[name] = first.setdefault(id(named[name][1]), named[name])
        _check_memory(first.values())
        return found

    def _placeholder(self, node, spec, state, kinds, drawn, inputs):
        used = bool(node.users)
        if spec.kind == kinds.USER_INPUT:
            node.meta["depends_on_inputs"] = True
            self._input(node, next(inputs))
        elif node.name in self.weights and used:
            node.meta["depends_on_weights"] = True
            self.values[node] = self._parameter(*self.weights[node.name], drawn)
        elif used and spec.kind in (kinds.BUFFER, kinds.CONSTANT_TENSOR):
            self.values[node] = self._constant(node, spec, state[spec.target])

    def _parameter(self, name, tensor, drawn):
        """The value of a parameter, which is read once."""
        if name in self.read:
            return self.read[name]
        saved, shape = self.names(name), tuple(tensor.shape)
        frozen = "" if tensor.requires_grad else " frozen"

        def emit(saved, shape):
            text = f"param {quoted(saved)} init<{drawn[name]}>{frozen} : {type_of(shape, 'f32')}"
            return self.writer.emit(text, shape, "f32", saved)

        if isinstance(saved, str):
            value = emit(saved, shape)
        else:
            halves = [emit(half, (shape[0], shape[1] // 2, *shape[2:])) for half in saved]
            value = self.writer.concat(halves, 1)
            self.context.parts[value.name] = halves
        self.read[name] = value
        return value

    def _constant(self, node, spec, tensor):
        name = spec.target.removeprefix("module.")
        if tensor.device.type == "meta":
            raise ExportError(f"the buffer '{name}' has no values (device 'meta'); make it on the CPU")
        value = tensor.detach().cpu()
        if not value.is_floating_point() or not value.numel():
            return value
        value = constants.written(self.writer, value, self.context.dtype)
        if value is None:
            raise ExportError(
                f"the buffer '{name}' {list(tensor.shape)} follows no rule that is known and is too large for the "
                "text; make it a parameter that is not trained (requires_grad=False), or compute it in forward()"
            )
        return value

    def _input(self, node, role):
        tensor = node.meta["val"]
        if not isinstance(tensor, torch.Tensor):
            return
        dtype = ops.DTYPES[tensor.dtype]
        name = self.writer.fresh(role or node.name)
        value = Value(name, tuple(tensor.shape), dtype)
        self.header.append((role, name, value.type))
        if role == "tokens" and len(value.shape) == 2:
            self.context.tokens = value.shape
        self.values[node] = value

    def _call(self, node):
        self.writer.place = _place(node) if self.locations else None
        for source in ("depends_on_weights", "depends_on_inputs"):
            if any(n.meta.get(source) for n in node.all_input_nodes):
                node.meta[source] = True
        if node.target.__name__ == "getitem":
            return self.values[node.args[0]][node.args[1]]
        if isinstance(node.meta.get("val"), (int, float, bool)) or node.target in _CHECKS:
            return node.meta.get("val")
        name = str(node.target)
        known = self._known(node)
        if known is not None:
            return known
        build = ops.OPS.get(name)
        if build is None:
            raise ExportError(f"{self._where(node)}: {_missing(node, name)}")
        self._check_rows(node)
        args, kwargs = (torch.fx.node.map_arg(a, self._value) for a in (node.args, dict(node.kwargs)))
        if node.target in _INDEXES:
            args = self._from_the_front(node, args)
        try:
            if complexes.has_complex(args):
                return complexes.applied(self.context, name, build, args, kwargs)
            result = build(self.context, *args, **kwargs)
        except ops.Unsupported as error:
            raise ExportError(f"{self._where(node)}: {error} ('{name}')") from error
        self._compare(node, result)
        return result

    def _from_the_front(self, node, args):
        """Indices of x[...] below 0 count from the end."""
        x, indices = args[0], list(args[1])
        for d, place in enumerate(node.args[1]):
            if place is None or indices[d].dtype == "i1":
                continue
            known, size = self.values[place], x.shape[d]
            if not isinstance(known, torch.Tensor):
                if _may_be_negative(place):
                    w, index = self.writer, indices[d]
                    is_below = w.compare("lt", index, w.constant(0, index.shape, index.dtype))
                    indices[d] = w.select(is_below, w.binary("add", index, w.constant(size, (), index.dtype)), index)
            elif known.numel() and int(known.min()) < 0:
                indices[d] = constants.written(self.writer, known + size * (known < 0), ops.DTYPES[known.dtype])
        return (x, indices, *args[2:])

    def _check_rows(self, node):
        """Known rows of a table are inside it."""
        if node.target is not torch.ops.aten.embedding.default:
            return
        rows, table = self.values[node.args[1]], self.values[node.args[0]]
        if isinstance(rows, torch.Tensor) and rows.numel() and int(rows.max()) >= table.shape[0]:
            raise ExportError(
                f"{self._where(node)}: position {int(rows.max())} of a table of {table.shape[0]} rows: the sequence is "
                "longer than the module's learned positions"
            )

    def _known(self, node):
        """What the node gives where that follows from sizes alone, and is whole numbers or truth values: they are
        looked at as a whole where a value is needed. None for others."""
        expected = node.meta["val"]
        if not isinstance(expected, torch.Tensor) or expected.is_floating_point() or expected.is_complex() or _is_random(node):
            return None
        if not all(isinstance(self.values[n], (torch.Tensor, int, float, bool)) for n in node.all_input_nodes):
            return None
        return constants.computed(node, self.values, tuple(expected.shape))

    def _value(self, node):
        """What the node gives, as a value."""
        known = self.values[node]
        if not isinstance(known, torch.Tensor) or not known.numel():
            return known
        dtype = ops.DTYPES[known.dtype]
        if (key := (node, "written")) not in self.values:
            self.values[key] = constants.written(self.writer, known, dtype)
        if self.values[key] is None:
            raise ExportError(
                f"{self._where(node)}: a table {list(known.shape)} of positions follows no rule that is known and is "
                "too large for the text"
            )
        return self.values[key]

    def _compare(self, node, result):
        """What was written has the shape and type that PyTorch found."""
        expected = node.meta["val"]
        pairs = zip(result, expected) if isinstance(result, tuple) else [(result, expected)]
        for value, tensor in pairs:
            if value is None or isinstance(value, complexes.Complex):  # a mask that nobody reads
                continue
            if (value.shape, value.dtype) != (tuple(tensor.shape), ops.DTYPES[tensor.dtype]):
                found = type_of(tensor.shape, ops.DTYPES[tensor.dtype])
                raise ExportError(f"{self._where(node)}: '{node.target}' gives {found}, written as {value.type}")

    def _where(self, node):
        place = _place(node)
        return f"{place[0]}:{place[1]}" if place else f"node {node.name}"

    def _result(self, node):
        (outputs,) = node.args
        loss = self._value(outputs[-1])
        if loss.shape != ():
            raise ExportError(f"the loss is {loss.type}, expected a scalar")
        return loss


_CHECKS = {
    torch.ops.aten._assert_scalar.default,
    torch.ops.aten._assert_tensor_metadata.default,
    torch.ops.aten.sym_size.int,
}
_INDEXES = {torch.ops.aten.index.Tensor, torch.ops.aten._unsafe_index.Tensor}
_VIEWS = {"view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "expand", "transpose", "permute", "clone", "_to_copy", "slice"}


def _is_random(node):
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


_ADVICE = {
    "aten._local_scalar_dense.default": "a number is read out of a tensor (item(), int(), float()): use the tensor",
    "aten.nonzero.default": "a result whose size the data decide: use torch.where",
    "aten._unique2.default": "a result whose size the data decide",
}


def _missing(node, name):
    if name in _ADVICE:
        return f"{_ADVICE[name]} ('{name}')"
    drawn = ": random numbers are those of dropout and bernoulli(p)" if _is_random(node) else ""
    return f"no counterpart of '{name}' in the kerf dialect{drawn}"


def _may_be_negative(node):
    """False for what the data gives, which is inside the tables that it indexes, and for chosen places."""
    while node.op == "call_function" and node.target.__name__.partition(".")[0] in _VIEWS:
        node = node.args[0]
    name = node.target.__name__.partition(".")[0] if node.op == "call_function" else ""
    chosen = name in ("argmax", "argsort") or (name == "getitem" and node.args[1] == 1)  # values come first
    return node.op != "placeholder" and not chosen


def _model(exporter, loss, name, optimizer, clip_norm):
    """The text of the model."""
    order = {"tokens": 0, "targets": 1}
    header = sorted(exporter.header, key=lambda entry: order.get(entry[0], 2))
    inputs = ", ".join(f"{role + ' ' if role else ''}{value}: {kind}" for role, value, kind in header)
    weights = [
        (saved, tensor)
        for name, tensor in dict(exporter.weights.values()).items()
        for saved in _listed(exporter.names(name))
    ]
    groups = ", ".join(
        f"#kerf.group<match = {quoted(pattern)}, weight_decay = 0.0>" for pattern in parameters.vectors(weights)
    )
    attributes = [f"optimizer = {optimizer}"]
    attributes += [f"clip_norm = {float(clip_norm)!r}"] if clip_norm else []
    attributes += [f"groups = [{groups}]"] if groups else []
    body = "\n".join(exporter.writer.lines)
    return (
        f"kerf.model @{name}({inputs})\n    attributes {{{', '.join(attributes)}}} {{\n"
        f"{body}\n  kerf.return {loss.name} : {loss.type}\n}}\n"
    )


def _listed(names):
    return [names] if isinstance(names, str) else names


_NEITHER = ("mask", "position", "segment", "type_id", "length")  # in names of what is no target


def _roles_of(module, inputs, roles, has_loss):
    """tokens for the first tensor of integers; targets for the second, or with a loss the last; none for others."""
    if roles is not None:
        return list(roles)
    names = list(inspect.signature(module.forward).parameters)
    whole = [i for i, t in enumerate(inputs) if isinstance(t, torch.Tensor) and not t.is_floating_point()]
    result = [""] * len(inputs)
    for role, i in zip(("tokens", "targets"), whole[:1] + (whole[-1:] if has_loss else whole[1:2])):
        result[i] = role
    for i in whole[1:-1] if has_loss else whole[1:]:
        if i < len(names) and any(part in names[i] for part in _NEITHER):
            raise ExportError(
                f"the input '{names[i]}' of forward() would be {result[i] or 'data without a role'}: a batch has tokens and "
                "targets. Compute it in forward(), or say what inputs are with roles=[...]"
            )
    return result


def export(
    module,
    inputs,
    path=None,
    *,
    loss=None,
    roles=None,
    name=None,
    optimizer=DEFAULT_OPTIMIZER,
    clip_norm=1.0,
    deviation=0.02,
    locations=True,
    names=None,
):
    """Writes the training step of `module` as a `kerf.model`, and returns its text.

    module     torch.nn.Module in the mode (train or eval) in which it shall be trained. Parameters keep the names
               of its state_dict; those that need no gradient are frozen; shared ones are one.
    inputs     tuple of example inputs: tensors of integers [batch, sequence], the global batch that is trained.
               The first is the tokens, the second the targets; shapes matter, values do not.
    path       file to write to, whole or not at all.
    loss       None where the module returns its loss (the only scalar of what it returns); "cross_entropy" where
               it returns logits, against targets of the shape of the first input; else a function of
               (what the module returns, targets).
    roles      roles of the inputs where they are others than tokens and targets (see `kerf.model`).
    name       symbol of the model; default: the module's class in small letters.
    optimizer  a rule of the dialect; vectors get no weight decay.
    clip_norm  largest global norm of the gradient, 0 for none.
    deviation  of initial weights of a module without values (device "meta").
    names      function that gives the name of a parameter in checkpoints, of its name in the module; a list of two
               names where a checkpoint has two halves, along dimension 1, of what the module has as one.
    locations  whether ops carry their line of the user's source.

    Raises ExportError, which names the line of the user's source.
    """
    if not isinstance(module, torch.nn.Module):
        raise ExportError(f"expected a torch.nn.Module, found {type(module).__name__}")
    module = weights.plain(module)
    for part, inner in module.named_modules():
        if isinstance(inner, torch.jit.ScriptModule):
            raise ExportError(f"'{part or 'the module'}' is a script (torch.jit), which has no trace: give the module that it was made of")
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if loss == "cross_entropy":
        loss = cross_entropy
    if loss is not None:
        first = next((t for t in inputs if not t.is_floating_point()), None)
        if first is None:
            raise ExportError("expected an input of integers, the tokens, beside a loss")
        inputs = (*inputs, torch.zeros_like(first))
    # One tensor given twice would be one input.
    inputs = tuple(t.clone() if any(t is s for s in inputs[:i]) else t for i, t in enumerate(inputs))
    with leaves.replaced(module):
        program = _trace(_Step(module, loss), inputs)
        exporter = _Exporter(program, _roles_of(module, inputs, roles, loss is not None), deviation, locations, names)
        result = exporter.run()
    weights.LEFT_OUT[module] = weights.names_of(module) - exporter.read.keys()
    symbol = name or "".join(c if c.isalnum() else "_" for c in type(module).__name__.lower())
    text = _model(exporter, result, symbol, optimizer, clip_norm)
    if path is not None:
        _write(Path(path), text)
    return text


def _write(path, text):
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)
