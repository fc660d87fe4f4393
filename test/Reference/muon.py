"""Muon, from its authors' formula, in whatever type the tensors have.

Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; the factors on the rate are those of `torch.optim.Muon`,
whose own matmuls are in bfloat16.

    python test/Reference/muon.py    # compares with torch.optim.Muon
"""

import math

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalized(x, steps=5, coefficients=COEFFICIENTS, eps=1e-7):
    """Newton and Schulz on each matrix of the last two dimensions, through x x^T whatever the shape."""
    a, b, c = coefficients
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def factor(rows, columns, adjust):
    """On the rate of a matrix."""
    if adjust == "original":
        return math.sqrt(max(1, rows / columns))
    return 0.2 * math.sqrt(max(rows, columns))


@torch.no_grad()
def update(w, g, m, rate, momentum=0.95, nesterov=True, adjust="match_rms_adamw", weight_decay=0.0, **options):
    """One step in place, of a matrix or a stack of them."""
    m.mul_(momentum).add_((1 - momentum) * g)
    x = momentum * m + (1 - momentum) * g if nesterov else m
    step = orthogonalized(x, **options)
    w.mul_(1 - rate * weight_decay).sub_(rate * factor(*w.shape[-2:], adjust) * step)


def compare(rows, columns, steps=20, rate=0.02):
    """The norm of the difference from what torch makes of a matrix, as a part of what 20 steps move it."""
    generator = torch.Generator().manual_seed(1)
    draw = lambda: torch.randn(rows, columns, generator=generator)
    theirs = torch.nn.Parameter(draw())
    ours = theirs.detach().clone()
    m, start = torch.zeros_like(ours), ours.clone()
    optimizer = torch.optim.Muon([theirs], lr=rate, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(steps):
        theirs.grad = draw()
        update(ours, theirs.grad, m, rate, weight_decay=0.1)
        optimizer.step()
    moved = ours - start
    return ((theirs.detach() - ours).norm() / moved.norm()).item()


def main():
    for shape in ((64, 64), (128, 32), (32, 512)):
        print(f"{shape[0]} x {shape[1]}: {compare(*shape):.1e} of what 20 steps move")


if __name__ == "__main__":
    main()
