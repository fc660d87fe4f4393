#!/usr/bin/env python3
"""Makes the pictures of pages in docs/images, or says which of them are out of date.

    docs/pictures.py [BIN] [--only NAME]     writes docs/images/NAME.png and outlines.json
    docs/pictures.py [BIN] --check           compares the pages with outlines.json, writes nothing

BIN has kerfc, kerf-import and kerf-run (default: where kerfc is found, else build/bin). An outline is what a page is made of: headings, cards,
heads of tables, legends and labels, numbers and their units aside. A page whose outline differs from the one that
was kept with its picture looks different, so its picture is to be made again. Pictures are made with
chromium-headless-shell. notebook.png shows a notebook and is made by hand; step.svg is what kerfc --svg writes.
"""

import argparse
import collections
import dataclasses
import difflib
import html.parser
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs/images"
OUTLINES = IMAGES / "outlines.json"
BF16 = "--precision=bf16"


@dataclasses.dataclass(frozen=True)
class Picture:
    """A page that `commands` write to page.html; a window of `size` shows it. `quick` is the same for its outline."""

    commands: tuple
    size: tuple
    quick: tuple = ()


def imported(model, batch, seq):
    return f"kerf-import {ROOT}/examples/models/{model}/config.json --batch={batch} --seq={seq} -o model.mlir"


RUN = (
    imported("gpt-mini", 16, 64),
    "kerfc model.mlir --cluster=this-machine --devices=2 --pin=tp=2 -o model.kerf",
    f"kerf-run model.kerf --data={ROOT}/examples/hand-written.mlir --data-format=bytes --threads=1 --steps=40"
    " --heldout=0.1 --eval-every=10 --profile --html=page.html",
)
PICTURES = {
    "page": Picture((imported("gpt-100b", 1024, 2048), f"kerfc model.mlir {BF16} --cluster=hgx-h100 --devices=64 --html=page.html"), (900, 1095)),
    "mixtral": Picture((imported("mixtral-8x7b", 1024, 4096), f"kerfc model.mlir {BF16} --cluster=hgx-h100 --devices=256 --tokens=400B --html=page.html"), (900, 1095)),
    "sweep": Picture((imported("llama-3-8b", 256, 8192), f"kerfc model.mlir {BF16} --cluster=hgx-h100,dgx-a100-80g,hgx-h200 --sweep=devices=8..64x2 --within=30d --html=page.html"), (1000, 760)),
    "run": Picture(RUN, (1000, 760), (*RUN[:2], RUN[2].replace("--steps=40", "--steps=4").replace("every=10", "every=2"))),
}  # fmt: skip


class Outline(html.parser.HTMLParser):
    """Texts of a page but the cells of tables and the tool tips of pictures."""

    KEPT = {"h1", "h2", "th", "text", "b", "i", "p", "span", "button"}

    def __init__(self):
        super().__init__()
        self.open, self.lines = [], []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if not self.open or self.open[-1] not in self.KEPT or "td" in self.open:
            return
        text = without_numbers(" ".join(data.split()))
        # Ticks and names of points are numbers alone; equal rows follow each other.
        if text.strip("# ,()") and [self.open[-1], text] not in self.lines[-3:]:
            self.lines.append([self.open[-1], text])


def without_numbers(text):
    """Numbers and their units as "#"; what depends on how fast a machine was is the same for all."""
    text = re.sub(r"\d[\d,.]*(?:E[-+]\d+)?", "#", text)
    text = re.sub(r"# (us|ms|s|min|h|days?|years?|KiB|MiB|GiB|[kMBT]|%)(?![\w])", "#", text)
    return re.sub(r"as planned|# (more|less)", "# more or less", text)


def outline_of(path):
    outline = Outline()
    outline.feed(re.sub(r"<(style|script)>.*?</\1>", "", path.read_text(), flags=re.S))
    return [f"{tag}: {text}" for tag, text in outline.lines]


def make(commands, binaries, folder):
    environment = dict(os.environ, PATH=f"{binaries}{os.pathsep}{os.environ['PATH']}")
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            sys.exit(f"`{command}` ended with {done.returncode}:\n{done.stdout[-800:]}")
    return Path(folder) / "page.html"


def photograph(page, name, size):
    path = IMAGES / f"{name}.png"
    command = ["chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size[0]},{size[1]}",
               f"--screenshot={path}", page.as_uri()]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    path.write_bytes(with_palette(path.read_bytes()))


def rows_of(data, width, channels):
    """Rows of an unpacked PNG without their filters (RFC 2083, section 6)."""
    stride, above = width * channels, bytes(width * channels)
    for at in range(0, len(data), stride + 1):
        row = bytearray(data[at + 1 : at + 1 + stride])
        for i in range(stride):
            left = row[i - channels] if i >= channels else 0
            up, corner = above[i], above[i - channels] if i >= channels else 0
            guess = left + up - corner
            nearest = min((left, up, corner), key=lambda value: abs(guess - value))
            row[i] = (row[i] + (0, left, up, (left + up) // 2, nearest)[data[at]]) & 255
        above = bytes(row)
        yield above


def with_palette(png):
    """The picture in 256 colours: the most frequent ones; others become the nearest of these."""
    chunks, at = [], 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        chunks.append((kind, png[at + 8 : at + 8 + length]))
        at += 12 + length
    width, height, _, colours = struct.unpack(">IIBB", chunks[0][1][:10])
    channels = {2: 3, 6: 4}[colours]
    data = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    pixels = [[row[i : i + 3] for i in range(0, len(row), channels)] for row in rows_of(data, width, channels)]
    counts = collections.Counter(pixel for row in pixels for pixel in row)
    palette = [colour for colour, _ in counts.most_common(256)]
    index = {colour: i for i, colour in enumerate(palette)}
    for colour in counts:
        if colour not in index:
            index[colour] = min(range(256), key=lambda i: sum((a - b) ** 2 for a, b in zip(palette[i], colour)))
    packed = zlib.compress(b"".join(b"\0" + bytes(index[pixel] for pixel in row) for row in pixels), 9)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)), (b"PLTE", b"".join(palette)), (b"IDAT", packed), (b"IEND", b"")]
    return png[:8] + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("bin", type=Path, nargs="?", default=Path(shutil.which("kerfc") or ROOT / "build/bin/kerfc").parent)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", choices=PICTURES)
    arguments = parser.parse_args()
    kept = json.loads(OUTLINES.read_text()) if OUTLINES.exists() else {}
    stale = 0
    for name, picture in PICTURES.items():
        if arguments.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            commands = picture.quick if arguments.check and picture.quick else picture.commands
            page = make(commands, arguments.bin.resolve(), folder)
            found = outline_of(page)
            if not arguments.check:
                photograph(page, name, picture.size)
                kept[name] = found
            elif found != kept.get(name):
                stale += 1
                print(f"docs/images/{name}.png shows another page; make it again: docs/pictures.py --only {name}")
                print("\n".join(difflib.unified_diff(kept.get(name, []), found, "then", "now", lineterm="", n=0)))
    if not arguments.check:
        OUTLINES.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{len(PICTURES) if not arguments.only else 1} pictures, {stale} out of date")
    sys.exit(stale > 0)


if __name__ == "__main__":
    main()
