"""One word for one thing: old words of ours, and what the field says (docs/glossary.md).

Words with another meaning beside (a product of sizes, a file that is cut short) are for reviewers.
"""

import re

import common

WORDS = {
    r"(?i:put[- _]?off)|puts? (?:\w+ ){0,2}off": "defer",
    r"(?:made|done|makes? \w+|make) (?:once )?again(?! by| later)": "recompute",
    r"matrix products?|spmd\.product|quantize-products|pad-products|widen-products": "matmul",
    r"\bkindest\b|\bProgramFloors\b|\bStateFloor\b": "lower bound",
    r"\bHeadBounds\b|\bLeafTimes\b": "search node, candidate plan",
    r"global tensor<[^>]*> cuts? |\bis_?[cC]ut(?:By)?\b|\bcut(?:s[A-Z]\w*|Dim|By)\b|\bget_?Cuts?\b": "sharded",
    r"\b(?:weights?|state|parameter|it) rests (?:as|in|over|where|apart)\b": "is stored",
}
FOLDERS = {"include", "lib", "runtime", "tools", "docs"}
SUFFIXES = {".h", ".cpp", ".td", ".cu", ".md"}
OLD = re.compile("|".join(f"({word})" for word in WORDS))


def check(root):
    findings = []
    for path in common.select(root, FOLDERS, SUFFIXES):
        if path.name == "changelog.md":  # tells what words were
            continue
        for number, line in enumerate(common.read(root, path).split("\n"), 1):
            for match in OLD.finditer(line):
                say = list(WORDS.values())[match.lastindex - 1]
                findings.append(f"{path}:{number}: '{match.group()}': say {say}")
    return findings


if __name__ == "__main__":
    common.main(check)
