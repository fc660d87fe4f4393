"""The top level holds exactly the agreed entries, besides dot files."""

import pathlib

import common

ENTRIES = {
    "CMakeLists.txt", "README.md", "cmake", "docs", "examples", "include", "lib", "runtime",
    "test", "tools",
}  # fmt: skip
# May be missing until its first file is written.
OPTIONAL = {"runtime"}


def check(root):
    findings = [
        f"'{name}' is missing at the top level"
        for name in sorted(ENTRIES - OPTIONAL)
        if not (pathlib.Path(root) / name).exists()
    ]
    tracked = {path.parts[0] for path in common.repository_files(root, untracked=False)}
    for name in sorted(tracked - ENTRIES):
        if not name.startswith("."):
            findings.append(f"'{name}' does not belong at the top level")
    return findings


if __name__ == "__main__":
    common.main(check)
