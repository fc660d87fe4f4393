"""The cross entropy in all of PyTorch's variants."""

from .elements import scaled
from .layers import chosen, logsumexp
from .ops import Unsupported, op
from .text import product


def classes_last(c, x):
    """PyTorch has them second."""
    return c.w.transpose(x, [0, *range(2, x.rank), 1]) if x.rank > 2 else x


def picked(c, x, targets):
    """x[..., t] of each row, 0 where t names no class."""
    wide = c.w.broadcast(x, (*targets.shape, x.shape[-1]))
    kept = c.w.select(chosen(c, targets, x.shape[-1]), wide, c.w.constant(0.0, wide.shape, x.dtype))
    return c.w.reduce("sum", kept, [wide.rank - 1])


def reduced(c, rows, reduction, divisor):
    """Rows as they are, their sum, or that over the divisor."""
    if reduction == 0:
        return rows
    total = c.w.reduce("sum", rows, range(rows.rank))
    return total if reduction == 2 else c.w.binary("div", total, divisor())


def mean_of_rows(c, logits, targets, reduction, ignore):
    """The loss in the way for which kernels are made: without weights of classes."""
    ignored = f" ignore {ignore}" if ignore != -100 else ""
    if reduction == 1:
        count = c.w.emit(f"count_valid {targets.name}{ignored} : {targets.type}", (), "f32", "count")
    else:
        count = c.w.constant(1.0)
    text = f"cross_entropy {logits.name}, {targets.name} normalizer {count.name}{ignored} : {logits.type}, {targets.type}"
    return c.w.emit(text, (), "f32", "loss"), count


def own_weights(c, targets, weight, ignore):
    """Of each row: its class's, 0 where it is left out; and which are not."""
    one, zero = (c.w.constant(n, targets.shape) for n in (1.0, 0.0))
    valid = c.w.compare("ne", targets, c.value(ignore, "i32"))
    is_in = c.w.select(valid, one, zero)
    return (is_in if weight is None else c.w.binary("mul", is_in, picked(c, weight, targets))), is_in


def of_classes(c, logits, targets, weight, reduction, ignore, smoothing):
    """With w of the target's class: (1 - smoothing) w (lse - x[t]) + smoothing / V sum_v w_v (lse - x_v)."""
    classes, last = logits.shape[-1], logits.rank - 1
    if weight is None and reduction and not smoothing:
        return mean_of_rows(c, logits, targets, reduction, ignore)[0]
    own, is_in = own_weights(c, targets, weight, ignore)
    if weight is None and reduction:
        # Without weights that is lse - x[t] + smoothing (x[t] - mean(x)).
        loss, count = mean_of_rows(c, logits, targets, reduction, ignore)
        means = scaled(c, c.w.reduce("sum", logits, [last]), 1 / classes)
        rows = c.w.binary("mul", own, c.w.binary("sub", picked(c, logits, targets), means))
        return c.w.binary("add", loss, scaled(c, reduced(c, rows, reduction, lambda: count), smoothing))
    lse = logsumexp(c, logits, [-1], True)
    rows = c.w.binary("sub", c.w.reshape(lse, targets.shape), picked(c, logits, targets))
    rows = c.w.binary("mul", rows, own)
    if smoothing:
        apart = c.w.binary("sub", lse, logits)
        apart = apart if weight is None else c.w.binary("mul", apart, weight)
        others = c.w.binary("mul", is_in, c.w.reduce("sum", apart, [last]))
        rows = c.w.binary("add", scaled(c, rows, 1 - smoothing), scaled(c, others, smoothing / classes))
    return reduced(c, rows, reduction, lambda: c.w.reduce("sum", own, range(own.rank)))


def of_probabilities(c, logits, targets, weight, reduction, smoothing):
    """sum_v t_v w_v (lse - x_v); a mean is over rows."""
    if smoothing:
        share = c.value(smoothing / logits.shape[-1], "f32")
        targets = c.w.binary("add", scaled(c, targets, 1 - smoothing), share)
    rows = c.w.binary("mul", targets, c.w.binary("sub", logsumexp(c, logits, [-1], True), logits))
    rows = rows if weight is None else c.w.binary("mul", rows, weight)
    rows = c.w.reduce("sum", rows, [logits.rank - 1])
    return reduced(c, rows, reduction, lambda: c.value(product(rows.shape), "f32"))


@op("cross_entropy_loss.default")
def cross_entropy(c, logits, targets, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    logits = classes_last(c, c.w.cast(logits, "f32"))
    if targets.dtype == "i32" and logits.rank == targets.rank + 1:
        return of_classes(c, logits, targets, weight, reduction, ignore_index, label_smoothing)
    if targets.dtype == "i32" or logits.rank != targets.rank:
        raise Unsupported("a cross entropy whose targets are neither numbers of classes nor probabilities")
    return of_probabilities(c, logits, classes_last(c, targets), weight, reduction, label_smoothing)


@op("nll_loss_nd.default", "nll_loss.default", "nll_loss2d.default")
def of_log_probabilities(c, x, targets, weight=None, reduction=1, ignore_index=-100):
    x = classes_last(c, c.w.cast(x, "f32"))
    own, _ = own_weights(c, targets, weight, ignore_index)
    rows = c.w.binary("mul", c.w.unary("neg", picked(c, x, targets)), own)
    return reduced(c, rows, reduction, lambda: c.w.reduce("sum", own, range(own.rank)))


@op("nll_loss_forward.default", "nll_loss2d_forward.default")
def of_log_probabilities_forward(c, x, targets, weight, reduction, ignore_index):
    return of_log_probabilities(c, x, targets, weight, reduction, ignore_index), None
