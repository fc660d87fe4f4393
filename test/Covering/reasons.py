"""What is refused, and why that is right."""

import re

# (pattern of the error with its numbers as N, why)
REASONS = [
    (
        "this model's optimizer updates whole parameters",
        "Adafactor's state is of rows and columns, Muon's matmuls are of whole matrices, so ZeRO has no pieces of them",
    ),
    (
        "the interpreter is for up to",
        "of the check alone: decoding weights of 4 bits takes the interpreter longest; fewer ranks are checked",
    ),
    (
        "no way to shard state is left",
        "groups are made of whole axes of the mesh, the innermost first, and of a part of the next",
    ),
]


def reason_of(said):
    """The first error without its place and its numbers."""
    line = next((line for line in said.splitlines() if "error:" in line), said.split("\n")[0])
    line = line.split("error:", 1)[-1].strip()
    line = re.sub(r"'(kerf|spmd)\.(\w+)' op", r"'\2'", line)
    return re.sub(r"<[^>]*>", "<...>", re.sub(r"\d+(\.\d+)?(e[+]\d+)?", "N", line))


def explained(reason):
    return next((why for pattern, why in REASONS if pattern in reason), None)
