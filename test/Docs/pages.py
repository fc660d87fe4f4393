"""Markdown pages of the documentation and what is in them."""

import dataclasses
import re

FENCE = re.compile(r"^(`{3,}) ?(.*)$")
HEADING = re.compile(r"^#{1,6} +(.*?)\s*$")


@dataclasses.dataclass
class Block:
    """A fenced block: ```language key=value ..."""

    language: str
    attributes: dict
    lines: list
    line: int  # of the first line inside, from 1


def blocks_of(text):
    """The fenced blocks of a page, in order."""
    blocks, inside, fence = [], None, ""
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if inside is not None and line.strip() == fence:
            inside = None
        elif inside is not None:
            inside.lines.append(line)
        elif match:
            fence = match.group(1)
            words = match.group(2).split() or [""]
            attributes = dict(word.partition("=")[::2] for word in words[1:])
            inside = Block(words[0], attributes, [], number + 1)
            blocks.append(inside)
    if inside is not None:
        raise ValueError(f"block of line {inside.line} has no end")
    return blocks


def prose_of(text):
    """(number, line) of the lines outside fenced blocks."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if fence is not None:
            fence = None if line.strip() == fence else fence
        elif match:
            fence = match.group(1)
        else:
            yield number, line


def anchors_of(text):
    """Anchors of the headings, as the usual renderers name them."""
    anchors = set()
    for _, line in prose_of(text):
        match = HEADING.match(line)
        if match:
            kept = re.sub(r"[^\w\- ]", "", match.group(1).lower())
            anchors.add(kept.replace(" ", "-"))
    return anchors


def pages_of(root):
    """README.md and the pages below docs that people write."""
    written = [
        path
        for path in sorted((root / "docs").rglob("*.md"))
        if "reference" not in path.relative_to(root).parts
    ]
    return [root / "README.md", *written]
