"""Modules that use many ops of PyTorch, so that the meaning of each is compared: ways to write what models write.

A module is an embedding, the sum of what its functions make of it, and a matrix to logits. Numbers in them are exact in
f32, so that a run in f64 has the same.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

import cases

BATCH, SEQ = cases.BATCH, cases.SEQ
VOCAB, WIDTH = 32, 16


class Sum(nn.Module):
    def __init__(self, functions):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.functions = functions

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        return self.head(sum(function(x) for function in self.functions))


def heads(x):
    return x.view(BATCH, SEQ, 4, 4).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).reshape(BATCH, SEQ, WIDTH)


ELEMENTS = [
    lambda x: F.elu(x) + F.celu(x, 0.5) + F.elu(x, 2.0),
    lambda x: F.mish(x) + F.softsign(x) + F.logsigmoid(x) + F.tanhshrink(x),
    lambda x: F.gelu(x) + F.gelu(x, approximate="tanh") + F.silu(x) + F.relu6(x * 32),
    lambda x: F.leaky_relu(x, 0.25) + F.relu(x) + F.threshold(x, 0.0625, 0.5) + F.hardtanh(x),
    lambda x: F.softplus(x * 4, beta=2.0) + F.softplus(x) + F.hardshrink(x, 0.0625) + F.softshrink(x, 0.03125),
    lambda x: torch.cat([F.glu(x, -1), F.glu(x, -1)], -1),
    lambda x: x**2 + x**3 - x**4 + x**5 + x**7 + (x.abs() + 0.25) ** 1.5 + (x.abs() + 0.25) ** -0.5,
    lambda x: (x.abs() + 0.25) ** 0.75 + (x.abs() + 0.25) ** x,
    lambda x: (x * x + 0.5).sqrt() + (x * x + 0.5).rsqrt() + 1 / (x + 2) + torch.reciprocal(x + 3) + 3 / (x + 2),
    lambda x: torch.log1p(x.abs()) + torch.log(x.abs() + 1) + torch.expm1(x) + torch.erf(x) - torch.erfc(x),
    lambda x: x.sin() + x.cos() + torch.tan(x) + torch.sinh(x) - torch.cosh(x),
    lambda x: x * torch.sign(x) + x.abs() + x * torch.floor(x * 8) + x * (x * 8).int().float(),
    lambda x: torch.lerp(x, x * 2, 0.25) + torch.addcmul(x, x, x, value=0.5) + torch.addcdiv(x, x, x + 2, value=2),
    lambda x: x * x.new_full((SEQ, WIDTH), 0.5) + torch.full_like(x, 0.25) * x + torch.full((WIDTH,), 0.125),
    lambda x: torch.where(x > 0, x, x * 0.125) + x.clamp(-0.0625, 0.125) + x.clamp(min=0.03125),
    lambda x: x * ((x > 0) & (x < 0.125)).float() + x * (~(x > 0.25) | (x < -0.25)),
    lambda x: x.masked_fill(torch.tril(torch.ones(SEQ, WIDTH)).bool(), 0.25) + torch.triu(x) + torch.tril(x, -2) * 2,
    lambda x: x * (torch.arange(SEQ) // 3 - 1)[None, :, None] + x * ((torch.arange(WIDTH) - 8) // 3),
    lambda x: x * (torch.arange(SEQ) % 5)[None, :, None] + x * ((torch.arange(WIDTH) - 7) % 3),
    lambda x: x * torch.fmod(torch.arange(WIDTH) - 7, 3),
]

SHAPES = [
    lambda x: torch.cat([x[:, :, -4:], x[:, :, :-4]], -1) + x[:, -1:, :] * 0.5 + x[:, :, -2, None],
    lambda x: x[:, :, [3, -1, 0, -2, 5, 5, 1, 2, -3, 4, 6, 7, -16, 8, 9, 10]] + torch.flip(x, [1, -1]),
    lambda x: torch.roll(x, 3, 1) + torch.roll(x, -2, -1) + torch.cat([x[..., ::2], x[..., 1::2]], -1),
    lambda x: torch.gather(x, -1, x.topk(WIDTH, -1).indices) + F.pad(x.topk(4, -1).values, (0, WIDTH - 4)),
    lambda x: x * torch.zeros_like(x).scatter_(-1, x.topk(3, -1).indices, 1.0) + x * F.one_hot(x.argmax(-1), WIDTH),
    lambda x: x.repeat(1, 1, 2)[:, :, 5 : 5 + WIDTH] + x.repeat_interleave(2, dim=-1)[:, :, 3 : 3 + WIDTH],
    lambda x: torch.cat(list(reversed(x.chunk(4, -1))), -1) + torch.cat(x.split([3, 5, 8], -1)[::-1], -1),
    lambda x: torch.stack(x.unbind(1)[::-1], 1) + torch.stack([x, x * 2, -x], -1).sum(-1),
    lambda x: x.movedim(1, 2).reshape(x.shape) + x.swapaxes(1, 2).contiguous().view(x.shape),
    lambda x: F.pad(x, (2, 1, 1, 0))[:, :SEQ, :WIDTH] + F.pad(x, (0, 0, 1, 0), value=0.5)[:, :-1],
    lambda x: F.pad(F.pad(x, (-3, 0)), (0, 3)) + F.pad(torch.diff(x, dim=1), (0, 0, 1, 0)),
    lambda x: x.index_select(1, torch.arange(SEQ - 1, -1, -1)) + x[:, :1].expand(-1, SEQ, -1),
]

SUMS = [
    lambda x: x * x.var(-1, keepdim=True) + x * x.var(-1, unbiased=False, keepdim=True) + x.std(-1, keepdim=True),
    lambda x: x / x.norm(dim=-1, keepdim=True) + F.normalize(x, dim=1) + x.cumsum(1) + x * x.mean() + x.sum((0, 1)),
    lambda x: x * F.softmax(x, dim=1) + F.log_softmax(x, -1) - torch.logsumexp(x, -1, keepdim=True),
    lambda x: x - x.amax(1, keepdim=True) + x.amin(2, keepdim=True) + x * x.max(-1, keepdim=True).values,
    lambda x: x * x.min(1, keepdim=True).values + x * x.topk(2, -1).values[..., 1:],
    lambda x: torch.einsum("bsd,btd->bst", x, x) @ x + torch.einsum("bsd,bsd->bs", x, x)[..., None],
    lambda x: torch.einsum("bsd,btd,bse->bte", x, x, x) + torch.einsum("...d->d", x) + torch.einsum("bsd,bsd", x, x),
    lambda x: torch.einsum("bsd->sbd", x).transpose(0, 1) + torch.einsum("bd,sd,be->bse", x[:, 0], x[0], x[:, 1]),
    lambda x: F.group_norm(x.transpose(1, 2), 4).transpose(1, 2) + F.group_norm(x, 3, x[0, :, 0], x[1, :, 1], 1e-4),
    lambda x: (x + 1).prod(-1, keepdim=True) + (x[..., :5] + 0.5).prod(1, keepdim=True)[..., :1] * x,
    lambda x: x.index_add(1, torch.arange(SEQ) // 2, x * 2, alpha=0.5) + x.sum(0).index_add(0, torch.tensor([3, 3]), x[0, :2]),
    lambda x: x.scatter_add(-1, x.topk(4, -1).indices, x[..., :4]) + x * x.new_zeros(WIDTH).scatter_add(
        0, x.topk(3, -1).indices.flatten(), x[..., :3].flatten()
    ),
    lambda x: torch.bmm(x, torch.bmm(x.transpose(1, 2), x)) + torch.outer(x[0, 0], x[1, 1])[None, :SEQ],
    lambda x: torch.baddbmm(x, x, torch.eye(WIDTH, dtype=x.dtype).expand(BATCH, WIDTH, WIDTH), beta=0.5, alpha=2.0),
    lambda x: F.layer_norm(x, (WIDTH,)) + F.rms_norm(x, (WIDTH,), eps=1e-5),
    lambda x: x * F.cosine_similarity(x, x.roll(1, 1), dim=-1)[..., None] + ((x[:, :, None] - x[:, None]) ** 2).sum(2),
    lambda x: joined(F.scaled_dot_product_attention(*[heads(x)] * 3, is_causal=True, scale=2.0)),
    lambda x: joined(F.scaled_dot_product_attention(*[heads(x)] * 3)),
    lambda x: joined(F.scaled_dot_product_attention(*[heads(x)] * 3, attn_mask=torch.ones(SEQ, SEQ).tril(1).bool())),
    lambda x: joined(F.scaled_dot_product_attention(heads(x), *[heads(x)[:, :2]] * 2, is_causal=True, enable_gqa=True)),
]



def channels(x):
    return x.transpose(1, 2)


def rows(y):
    """Of [batch, channels, places] so many rows as x has, zeros behind those that there are."""
    y = channels(y)
    return F.pad(y, (0, WIDTH - y.shape[2], 0, SEQ - y.shape[1]))


WINDOWS = [
    lambda x: rows(F.conv1d(channels(x), x[0].reshape(WIDTH, 4, 3), x[1, 0], padding=2, dilation=2, groups=4)),
    lambda x: rows(F.conv1d(channels(x), x[1].reshape(WIDTH, 4, 3), stride=2, padding=1, groups=4)),
    lambda x: rows(F.conv1d(F.pad(channels(x), (3, 0)), x[0, :4].t().reshape(WIDTH, 1, 4), groups=WIDTH)),
    lambda x: rows(F.conv1d(channels(x), x.reshape(8, WIDTH, 3), padding="same")),
    lambda x: rows(F.conv1d(channels(x), x[0, :, :8].reshape(WIDTH * 2, 1, 3)[:, :, :2], padding="same", groups=WIDTH)[:, ::2]),
    lambda x: F.conv2d(x[:, None], x[0, 0, :12].reshape(2, 1, 2, 3), padding=1, stride=(1, 2)).mean(1)[:, :SEQ, :1] * x,
    lambda x: F.max_pool1d(x, 3, 1, 1) + rows(F.avg_pool1d(channels(x), 2)) + rows(F.max_pool1d(channels(x), 2, stride=3)),
    lambda x: rows(F.max_pool2d(x[:, None], 2)[:, 0]) + rows(F.avg_pool2d(x[:, None], (3, 2), stride=(1, 2))[:, 0]),
    lambda x: F.avg_pool1d(x, 5, 1, 2) * x.unfold(1, 3, 2).mean((1, 3))[:, None],
    lambda x: x * F.unfold(x[:, None], (2, 3), padding=(0, 1)).reshape(BATCH, 6, SEQ - 1, WIDTH).sum((1, 2))[:, None],
    lambda x: torch.sort(x, -1).values * x + torch.sort(x, 1, descending=True)[0] * x.roll(1, 1),
    lambda x: torch.gather(x, 1, torch.argsort(x, 1)) * x + x * x.argsort(-1, descending=True).float() / WIDTH,
    lambda x: F.pad(x[:, 1::5], (0, 0, 9, 0)) + F.pad(x[:, :, 2:15:3], (0, 11)) + F.pad(x[:, ::7], (0, 0, 0, 10)),
]



def without_gradient(x):
    with torch.no_grad():
        return torch.softmax(x, -1) + x.abs().amax(1, keepdim=True)


# Numbers that any slow rotation is near.
SMALL = torch.randint(-8, 8, (SEQ, WIDTH), generator=torch.Generator().manual_seed(1)) / 65536

STOPS = [
    lambda x: x + (torch.floor(x * 8) / 8 - x).detach() + x * x.detach().norm(dim=-1, keepdim=True),
    lambda x: x * (torch.round(x * 8) + torch.ceil(x * 8) - torch.trunc(x * 8)) + x * torch.frac(x * 8).detach(),
    lambda x: F.softplus(x * 8, beta=2.0, threshold=1.0) + x * SMALL * 16384,
    lambda x: x * torch.div(x.argmax(-1) - 8, 3, rounding_mode="trunc")[..., None] + x[:, (x.argmax(-1)[0] - 8).sort().values],
    lambda x: x * without_gradient(x) + x * x.detach().clone().roll(1, 1),
]

# Slopes at bounds and of equal values, and values without which 0 / 0 or 0 inf would be. `zero` is 0 and has a gradient.


def zero(x):
    return x - x.detach()


def known(x):
    """Keys that may be attended to: none for some queries."""
    return (x.argmax(-1) > 4)[:, None, None, :] & torch.ones(SEQ, SEQ).tril().bool()


def added(mask, x):
    return torch.zeros(BATCH, 1, SEQ, SEQ, dtype=x.dtype).masked_fill(~mask, -math.inf)


TIES = [
    lambda x: F.relu(zero(x)) + F.relu6(zero(x)) * 2 + F.leaky_relu(zero(x), 0.25) * 4 + F.elu(zero(x), 0.5) * 8,
    lambda x: zero(x).abs() * 16 + F.selu(zero(x)) + F.threshold(zero(x), 0.0, 1.0) + F.relu(zero(x)) ** 2,
    lambda x: zero(x).clamp(0, 1) + (zero(x) + 1).clamp(0, 1) * 2 + F.hardtanh(zero(x) + 1) * 4 + F.relu6(zero(x) + 6) * 8,
    lambda x: F.hardsigmoid(zero(x) + 3) + F.hardswish(zero(x) + 3) * 2 + F.hardswish(zero(x) - 3) * 4 + F.hardswish(x * 64),
    lambda x: torch.maximum(x, x.detach()) + torch.minimum(x.detach(), x) * 2 + torch.maximum(zero(x), torch.zeros(WIDTH)),
    lambda x: F.softplus(zero(x)) + F.logsigmoid(zero(x)) + F.mish(zero(x)) + F.softsign(zero(x)),
    lambda x: F.max_pool1d(zero(x), 3, 1, 1) + zero(x).amax(-1, keepdim=True) + zero(x).clamp(max=x.detach() * 0),
    lambda x: F.normalize(zero(x), dim=-1) + zero(x).norm(dim=-1, keepdim=True) + zero(x).std(-1, keepdim=True) * x,
    lambda x: x * x.std(1, keepdim=True) + x.norm(p=1) * x + x.norm(p=3, dim=1, keepdim=True) + x.norm(p=math.inf, dim=-1)[..., None],
    lambda x: F.relu(x) ** 1.5 + F.relu(x) ** 1.25 + (x + 3) ** -2 + (x * 4) ** 17 + x**0 + (x.abs() + 0.25) ** -0.75,
    lambda x: joined(F.scaled_dot_product_attention(*[heads(x)] * 3, attn_mask=known(x))),
    lambda x: joined(F.scaled_dot_product_attention(*[heads(x)] * 3, attn_mask=added(known(x), x))),
]


def to_classes(x):
    return x.transpose(1, 2)


def some(x):
    """Targets, some of which are left out."""
    best = x.argmax(-1)
    return torch.where(best > 12, -100, best)


def weights(x):
    return torch.linspace(0.5, 2, WIDTH, dtype=x.dtype)


def entropy(x, targets, **options):
    return F.cross_entropy(to_classes(x), targets, **options)


LOSSES = [
    lambda x: x * F.cross_entropy(x.flatten(0, 1), some(x).flatten(), label_smoothing=0.125),
    lambda x: x * entropy(x, some(x), weight=weights(x)) + x * entropy(x, some(x), weight=weights(x), label_smoothing=0.125),
    lambda x: x * entropy(x, some(x), reduction="none")[..., None] + x * entropy(x, x.argmax(-1), ignore_index=3) * 2,
    lambda x: x * entropy(x, some(x), reduction="none", label_smoothing=0.25, weight=weights(x))[..., None],
    lambda x: x * (entropy(x, some(x), reduction="sum", label_smoothing=0.125) + entropy(x, some(x), reduction="sum")) / 8,
    lambda x: x * F.cross_entropy(x.flatten(0, 1), x.roll(1, 1).softmax(-1).flatten(0, 1)),
    lambda x: x * entropy(x, to_classes(x.softmax(-1)), weight=weights(x), label_smoothing=0.125, reduction="none")[..., None],
    lambda x: x * F.nll_loss(F.log_softmax(x, -1).flatten(0, 1), some(x).flatten()),
    lambda x: x * F.nll_loss(to_classes(F.log_softmax(x, -1)), some(x), weight=weights(x), reduction="none")[..., None],
    lambda x: x * F.kl_div(x.log_softmax(-1), x.flip(1).softmax(-1), reduction="batchmean"),
    lambda x: x * F.kl_div(x.log_softmax(-1), x.flip(1).log_softmax(-1), log_target=True, reduction="sum") / 8,
    lambda x: x * F.huber_loss(x, x.flip(1), delta=0.125) + x * F.smooth_l1_loss(x, x.flip(-1), beta=0.125),
    lambda x: x * F.mse_loss(x, x * x) + x * F.l1_loss(x, x * x),
    lambda x: x * F.binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype), pos_weight=weights(x)),
    lambda x: x * F.binary_cross_entropy(x.sigmoid(), x.flip(1).sigmoid()),
]


def placed(found):
    """Values and where they are, both in use."""
    values, indices = found
    return values + indices / 8


ORDERS = [
    lambda x: x * placed(x.max(-1))[..., None] + x * placed(x.min(1, keepdim=True)),
    lambda x: x * x.argmax(1, keepdim=True) / 8 + x * x.argmin(-1, keepdim=True) / 8 + x * x.argmax() / 64,
    lambda x: x * (x * 16).int().argmax(-1, keepdim=True) + x * F.one_hot(x.argmax(-1), WIDTH).argmax(-1)[..., None],
    lambda x: x.topk(2, 1).values.sum(1, keepdim=True) * x + F.pad(x.topk(3, -1, largest=False).values, (0, WIDTH - 3)),
    lambda x: x * placed(x.median(-1, keepdim=True)) + x * placed(x.kthvalue(3, -1))[..., None] + x * x.median(1).values[:, None],
    lambda x: (x + 1).cumprod(-1) + x.cummax(1).values * x + x.cummin(-1).values * 2,
    lambda x: x.logcumsumexp(1) + torch.logaddexp(x, x * 2),
    lambda x: x * torch.bucketize(x, torch.tensor([-0.125, 0, 0.125])) + x * torch.searchsorted(
        torch.tensor([-0.125, 0, 0.125], dtype=x.dtype), x, right=True
    ),
    lambda x: x * torch.diagonal(x, dim1=1, dim2=2).sum(-1)[:, None, None] + x * torch.diagonal(x, 2, 2, 1)[:, None, :3].mean(),
    lambda x: x * torch.isin(x.argmax(-1), torch.tensor([1, 2, 7]))[..., None] + x * (x < 1).all(),
    lambda x: x * (x > 0.25).any(-1, keepdim=True) + x * (x > -0.25).all(1, keepdim=True),
    lambda x: x * x[:, [0, 2, 1], [3, -1, 5]].sum() + x * x[[1, 0], :, [2, 3]].mean(0)[None, :, None] + x * x[[0, 1], [[1], [2]]].sum(),
    lambda x: F.layer_norm(x, (SEQ, WIDTH), x[0], x[1]) + F.rms_norm(x, (SEQ, WIDTH), eps=1e-5) + F.layer_norm(x, (WIDTH,), None, x[0, 0]),
    lambda x: to_classes(F.batch_norm(to_classes(x), None, None, weights(x), weights(x), training=True)) * x,
    lambda x: to_classes(F.batch_norm(to_classes(x), weights(x) - 1, weights(x))) + to_classes(F.instance_norm(to_classes(x))),
    lambda x: torch.log1p(x * x / 65536) * 65536 + torch.expm1(x / 65536) * 65536 + torch.expm1(x * 8),
    lambda x: x * torch.einsum("bsd,bsd->bs", x, x[:, :1])[..., None] + torch.einsum("bsd,btd->bst", x, x[:1]) @ x,
    lambda x: x * (-torch.arange(SEQ))[:, None] + x * (torch.arange(WIDTH) - 3).abs() + torch.atanh(x),
    lambda x: torch.remainder(x, 0.25) + torch.fmod(x, 0.125) * 2 + torch.remainder(x, -0.375) + torch.fmod(x, x.roll(1, 1) + 3),
    lambda x: x * torch.remainder(x.argmax(-1) - 8, 3)[..., None] + x * (x.detach() // 0.125),
]

MODULES = {
    "ops-elements": ELEMENTS, "ops-shapes": SHAPES, "ops-sums": SUMS, "ops-windows": WINDOWS, "ops-stops": STOPS,
    "ops-ties": TIES, "ops-losses": LOSSES, "ops-orders": ORDERS,
}  # fmt: skip
