"""No file names a folder of somebody's machine."""

import pathlib
import re

import common

# Anchored: 'docs/work/' or '$HOME/root/' are relative, so they are fine.
PATH = re.compile(rb"(?:(?<![\w.}~-])|(?<=-[IL]))/(?:work|root|home/[a-z_][\w-]*)(?:/|\b(?![\w-]))")


def check(root):
    findings = []
    for path in common.repository_files(root):
        data = (pathlib.Path(root) / path).read_bytes()
        for number, line in enumerate(data.split(b"\n"), 1):
            match = PATH.search(line)
            if match:
                findings.append(f"{path}:{number}: path of a machine: {match.group().decode()}")
    return findings


if __name__ == "__main__":
    common.main(check)
