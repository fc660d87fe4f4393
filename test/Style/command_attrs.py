"""Attributes of commands are read by name (kerf/Artifact/Format.h), not by number."""

import re

import common

NUMBER = re.compile(r"\b(?:attrs|attr)(?:\[|\()\d+(?:\]|\))|\bfirst_attr\]")


def check(root):
    findings = []
    for path in common.select(root, ("include", "lib", "runtime"), (".h", ".cpp", ".cu")):
        if "test" in path.parts:
            continue
        for number, line in enumerate(common.read(root, path).splitlines(), 1):
            if match := NUMBER.search(line):
                findings.append(f"{path}:{number}: '{match.group()}': say which attribute, by its name in kerf/Artifact/Format.h")
    return findings


if __name__ == "__main__":
    common.main(check)
