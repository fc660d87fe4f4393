"""What the style checks share: which files there are, and how findings are told.

A check is a function check(root, *extra) -> list of findings (strings).
"""

import pathlib
import subprocess
import sys


def repository_files(root, untracked=True):
    """Paths (relative, sorted) that git tracks below root; with `untracked` also
    new files that it does not ignore. Without git: every file outside build*/."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached"]
    if untracked:
        command += ["--others", "--exclude-standard"]
    if (pathlib.Path(root) / ".git").exists():
        listed = subprocess.run(command, check=True, capture_output=True).stdout
        paths = {pathlib.PurePosixPath(p) for p in listed.decode().split("\0") if p}
        return sorted(p for p in paths if (pathlib.Path(root) / p).is_file())
    found = []
    for path in pathlib.Path(root).rglob("*"):
        relative = path.relative_to(root)
        if path.is_file() and not relative.parts[0].startswith("build"):
            found.append(pathlib.PurePosixPath(relative))
    return sorted(found)


def select(root, folders, suffixes):
    """The repository's files below one of `folders` that end in one of `suffixes`."""
    return [
        path
        for path in repository_files(root)
        if path.parts[0] in folders and path.suffix in suffixes
    ]


def read(root, path):
    return (pathlib.Path(root) / path).read_text(encoding="utf-8")


def main(check):
    """Runs `check` on the command line's root; exit status 1 if it finds anything."""
    root = pathlib.Path(sys.argv[1]).resolve()
    findings = check(root, *sys.argv[2:])
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} finding(s)")
    sys.exit(1 if findings else 0)
