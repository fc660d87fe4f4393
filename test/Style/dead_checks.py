"""FileCheck ignores what it does not recognise: such lines are found here.

Dead are a directive with a typo ('CHECK_NEXT:', 'CHEKC:'), with a blank or no colon
('CHECK -NEXT:', 'CHECK-NEXT foo'), with a prefix that no RUN line of the file gives to
FileCheck, a prefix without directives, and directives in a file that never runs
FileCheck. A comment of a test that opens with a capital word and a colon counts as a
directive: reword it if it is prose.
"""

import re

import common

SUFFIX = r"(?:-(?:NEXT|SAME|EMPTY|NOT|DAG|LABEL|COUNT-\d+))?"
# Keywords of lit and customary comments.
KNOWN = {"RUN", "XFAIL", "REQUIRES", "UNSUPPORTED", "DEFINE", "REDEFINE", "END",
         "ALLOW_RETRIES", "COM", "TODO", "FIXME", "NOTE"}  # fmt: skip
LOOKS_LIKE_CHECK = re.compile(
    r"che?c?k(?:[-_ ]?(?:next|same|empty|not|dag|label|count)(?:-\d+)?)?\s*:", re.IGNORECASE
)


def run_lines(text):
    """The RUN commands of a test, continued lines joined."""
    commands, open_line = [], False
    for command in re.findall(r"RUN:[ \t]*(.*)", text):
        if open_line:
            commands[-1] += " " + command.rstrip("\\ ")
        else:
            commands.append(command.rstrip("\\ "))
        open_line = command.rstrip().endswith("\\")
    return commands


def prefixes_of(commands):
    """Prefixes that the RUN lines give to FileCheck, and those it seeks in the test itself."""
    used, own = set(), set()
    for command in commands:
        for call in re.findall(r"\bFileCheck\b([^|;&]*)", command):
            given = re.findall(r"--?check-prefix(?:es)?[= ]\s*['\"]?([\w,-]+)", call)
            names = {name for group in given for name in group.split(",")} or {"CHECK"}
            used |= names
            if re.search(r"%s\b", call):
                own |= names
    return used, own


def distance(a, b):
    """Edits (insert, delete, replace, swap neighbours) that turn `a` into `b`."""
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def why_dead(comment, used):
    """Why the comment text is a dead directive; None if it is prose or alive."""
    ordered = "|".join(sorted(map(re.escape, used), key=len, reverse=True))
    if re.match(rf"(?:{ordered}){SUFFIX}(?:\{{\w+\}})?:", comment):
        return None
    word = re.match(r"[A-Z][A-Z0-9_-]*", comment)
    if word and comment[word.end() : word.end() + 1] == ":":
        if word.group() in KNOWN or len(word.group()) < 3:
            return None
        return f"'{word.group()}:' is no directive with a prefix of a RUN line"
    if re.match(rf"(?:{ordered})(?:{SUFFIX}|[-_ ]+[A-Z]+)(?![\w-])", comment):
        return "a directive needs its colon, without a blank before it"
    if LOOKS_LIKE_CHECK.match(comment):
        return "misspelt directive"
    if word and len(word.group()) >= 5 and word.group() not in KNOWN:
        base = re.split(r"[-_]", word.group())[0]
        if any(0 < distance(base, name) <= 2 for name in used if len(name) >= 5):
            return "misspelt directive"
    return None


def check_test(text, is_mlir):
    """(line number, finding) of one test; 0 is the whole file."""
    used, own = prefixes_of(run_lines(text))
    if not used:
        if re.search(rf"(?://|#|;)\s*CHECK{SUFFIX}:", text):
            yield 0, "CHECK lines, but no RUN line calls FileCheck"
        return
    for name in sorted(own):
        if not re.search(rf"(?<![\w-]){re.escape(name)}{SUFFIX}(?:\{{\w+\}})?:", text):
            yield 0, f"no directive has the prefix '{name}' of a RUN line"
    marker = re.compile(r"//+\s*(.*)" if is_mlir else r"(?:^\s*#+|//+|^\s*;+)\s*(.*)")
    for number, line in enumerate(text.splitlines(), 1):
        match = marker.search(line)
        reason = why_dead(match.group(1), used) if match else None
        if reason:
            yield number, f"{reason}: {line.strip()}"


def check(root):
    findings, count = [], 0
    for path in common.select(root, ("test",), (".mlir", ".test")):
        if "Inputs" in path.parts:
            continue
        count += 1
        for number, reason in check_test(common.read(root, path), path.suffix == ".mlir"):
            findings.append(f"{path}:{number}: {reason}" if number else f"{path}: {reason}")
    if count == 0:
        findings.append("no lit test found: the check looks at nothing")
    return findings


if __name__ == "__main__":
    common.main(check)
