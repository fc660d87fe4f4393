"""Every op of the dialects is documented, and its constraints are cited and tested.

An op needs a summary and a description with 'Life:', 'Constraints:' and an ```mlir
example. Constraint (C2) of op `matmul` needs the citation `// matmul_c2` beside its
verifier (lib/Dialect, or the .td where a trait enforces it) and the negative test
`@matmul_c2` in test/Dialect. Names are those of a dialect, a folder below these: `yield`
may be an op of several.
"""

import re

import common

DEF = re.compile(
    r"^def\s+([A-Z]\w*?_\w*Op)\s*:\s*[A-Z]\w*?_\w+\s*<\s*\"([\w.]+)\"(.*?)"
    r"(?=^(?:def|class|defm|foreach|let)\b|\Z)",
    re.MULTILINE | re.DOTALL,
)
DEF_START = re.compile(r"^\s*def\s+(\w+Op)\b", re.MULTILINE)
LABEL = re.compile(r"\(C(\d+)\)")


def ops_of(text):
    """(record, mnemonic, body) of each op definition."""
    for match in DEF.finditer(text):
        yield match.group(1), match.group(2), match.group(3)


def constraints_section(description):
    """The text after 'Constraints:' up to the next code block or section."""
    after = description.split("Constraints:", 1)[1]
    return re.split(r"```|^\s*(?:Example|Life)\b[^\n]*:", after, flags=re.MULTILINE)[0]


def check_op(where, mnemonic, body, citations, tests):
    """Findings about one op."""
    if not re.search(r'let\s+summary\s*=\s*"[^"]', body):
        yield f"{where}: no summary"
    match = re.search(r"let\s+description\s*=\s*\[\{(.*?)\}\]", body, re.DOTALL)
    if not match:
        yield f"{where}: no description"
        return
    description = match.group(1)
    if "Life:" not in description:
        yield f"{where}: description without 'Life:'"
    if "```mlir" not in description:
        yield f"{where}: description without an ```mlir example"
    if "Constraints:" not in description:
        yield f"{where}: description without 'Constraints:'"
        return
    section = constraints_section(description)
    labels = [int(n) for n in LABEL.findall(section)]
    if not labels and not re.match(r"\s*none\b", section):
        yield f"{where}: 'Constraints:' needs labels (C1).. or 'none'"
    defined = [n for i, n in enumerate(labels) if n not in labels[:i]]
    if defined != list(range(1, len(defined) + 1)):
        yield f"{where}: constraints are not numbered C1, C2, ... in order"
    for number in defined:
        name = f"{mnemonic.replace('.', '_')}_c{number}"
        if name not in citations:
            yield f"{where}: (C{number}) is cited nowhere: '// {name}' in lib/Dialect or the .td"
        if name not in tests:
            yield f"{where}: (C{number}) has no negative test '@{name}' in test/Dialect"


def check_dialect(root, dialect, td_files):
    """(number of ops, findings) of the dialect in the folder of this name."""

    def of_dialect(top, suffix):
        return [
            path
            for path in common.select(root, (top,), (suffix,))
            if path.parts[1] == "Dialect" and path.parts[2] == dialect
        ]

    citations = set()
    for path in td_files + of_dialect("lib", ".cpp"):
        for comment in re.findall(r"//(.*)", common.read(root, path)):
            citations.update(re.findall(r"\b\w+_c\d+\b", comment))
    tests = set()
    for path in of_dialect("test", ".mlir"):
        tests.update(re.findall(r"@(\w+_c\d+)\b", common.read(root, path)))

    findings, labels, count = [], set(), 0
    for path in td_files:
        if not path.name.endswith("Ops.td"):
            continue
        text = common.read(root, path)
        seen = set()
        for record, mnemonic, body in ops_of(text):
            count += 1
            seen.add(record)
            labels.update(
                f"{mnemonic.replace('.', '_')}_c{n}" for n in LABEL.findall(body)
            )
            findings += check_op(f"{path}: {mnemonic}", mnemonic, body, citations, tests)
        for record in DEF_START.findall(text):
            if record not in seen:
                findings.append(f"{path}: '{record}' is not of a form this check can read")
    for name in sorted((citations | tests) - labels):
        findings.append(
            f"{dialect}: '{name}' is cited or tested, but no op has that constraint"
        )
    return count, findings


def check(root):
    dialects = {}
    for path in common.select(root, ("include",), (".td",)):
        if path.parts[:3] == ("include", "kerf", "Dialect"):
            dialects.setdefault(path.parts[3], []).append(path)
    findings = []
    for dialect, td_files in sorted(dialects.items()):
        count, found = check_dialect(root, dialect, td_files)
        findings += found
        if count == 0:
            findings.append(f"{dialect}: no op found: the check looks at nothing")
    if not dialects:
        findings.append("no op found: the check looks at nothing")
    return findings


if __name__ == "__main__":
    common.main(check)
