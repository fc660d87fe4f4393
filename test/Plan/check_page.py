#!/usr/bin/env python3
"""Looks at a page of `kerfc --html` as a browser does.

    check_page.py PAGE.html [--sheets N] [--picture FILE.png]

Fails where tags are not closed, where the page asks for anything from elsewhere, where its script does not
run, where it is wider than a window of 1,000 pixels, or where it prints on more than N sheets (2). --picture
keeps what a window shows. Needs chromium-headless-shell.
"""

import argparse
import html.parser
import re
import subprocess
import sys
import tempfile
from pathlib import Path

VOID = {"meta", "br", "link", "img", "input", "hr"}
MEASURE = "<script>document.title = 'width ' + document.documentElement.scrollWidth;</script></body>"


class Page(html.parser.HTMLParser):
    """Open tags, headings and links of a page."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.links, self.headings = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name in ("src", "href", "xlink:href") and not value.startswith("#")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at line {self.getpos()[0]} closes another element")

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


def browse(*arguments):
    """What the browser prints."""
    command = ["chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"the browser ended with {done.returncode}: {done.stderr[-400:]}")
    return done.stdout


def sheets_of(path, folder):
    pdf = folder / "page.pdf"
    browse(f"--print-to-pdf={pdf}", "--no-pdf-header-footer", path.as_uri())
    return len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes()))


def findings(path, most, folder):
    text = path.read_text()
    page = Page()
    page.feed(text)
    yield from page.wrong
    if page.open:
        yield f"not closed: {' '.join(page.open)}"
    yield from (f"asks for {link}" for link in page.links)
    if "url(" in text or "@import" in text:
        yield "the style asks for something"
    print("\n".join(page.headings))
    measured = folder / "measured.html"
    measured.write_text(text.replace("</body>", MEASURE))
    shown = browse("--dump-dom", "--window-size=1000,800", measured.as_uri())
    if 'id="zoom"' in text and 'id="zoom">100 %' not in shown:
        yield "the script did not run"
    width = int(re.search(r"<title>width (\d+)", shown)[1])
    if width > 1000:
        yield f"{width} pixels wide in a window of 1,000"
    sheets = sheets_of(path, folder)
    print(f"{sheets} sheet{'s' if sheets > 1 else ''}")
    if not 1 <= sheets <= most:
        yield f"prints on {sheets} sheets, expected {most} at most"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--sheets", type=int, default=2)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    path = arguments.page.resolve()
    with tempfile.TemporaryDirectory() as folder:
        wrong = list(findings(path, arguments.sheets, Path(folder)))
    if arguments.picture:
        browse(f"--screenshot={arguments.picture.resolve()}", "--window-size=1200,1500", path.as_uri())
    for finding in wrong:
        print(f"error: {finding}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
