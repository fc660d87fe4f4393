"""Every relative link in README.md and docs leads to a file, and to a heading of it.

    links.py ROOT [PAGE...]
"""

import pathlib
import re
import sys

import pages

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


def check(page):
    """(line, finding) of each broken link; counts the links in `check.count`."""
    for number, line in pages.prose_of(page.read_text(encoding="utf-8")):
        for match in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            target = match.group(1) or match.group(2)
            if re.match(r"[a-z]+:", target):
                continue
            check.count += 1
            path, _, anchor = target.partition("#")
            file = page.parent / path if path else page
            if not file.exists():
                yield number, f"{target} does not exist"
            elif anchor and anchor not in pages.anchors_of(file.read_text(encoding="utf-8")):
                yield number, f"{target}: no such heading"


check.count = 0


def main():
    root = pathlib.Path(sys.argv[1])
    findings = 0
    for page in [pathlib.Path(a) for a in sys.argv[2:]] or pages.pages_of(root):
        for line, finding in check(page):
            findings += 1
            print(f"{page.name}:{line}: {finding}")
    print(f"{check.count} links, {findings} findings")
    sys.exit(1 if findings or check.count == 0 else 0)


if __name__ == "__main__":
    main()
