"""Every `#include "kerf/..."` must be allowed by layering.txt.

A line allows components, or single headers of a component: `Artifact/Format.h`.
"""

import pathlib
import re

import common

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"](kerf/[^">]+)[">]')


def read_table(path):
    """component -> components and headers it may include, itself among them; and findings about
    the table."""
    table, findings = {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        component, colon, allowed = line.partition(":")
        if not colon or component in table:
            findings.append(f"{path.name}:{number}: expected 'COMPONENT: COMPONENT...', each component once")
            continue
        table[component] = {component, *allowed.split()}
    for component, allowed in table.items():
        for other in sorted(allowed):
            if other.split("/")[0] in table:
                continue
            findings.append(f"{path.name}: '{component}' names '{other}', which has no line")
    return table, findings


def room_of(path):
    """The component of a source file, or None where anything may be included."""
    if path.parts[0] == "lib":
        return path.parts[1]
    if path.parts[:2] == ("include", "kerf"):
        return path.parts[2]
    return None


def check(root, table_path=None):
    table, findings = read_table(
        pathlib.Path(table_path or pathlib.Path(__file__).with_name("layering.txt"))
    )
    suffixes = (".h", ".cpp", ".td")
    for path in common.select(root, ("include", "lib", "tools"), suffixes):
        component = room_of(path)
        if component is not None and component not in table:
            findings.append(f"{path}: component '{component}' has no line in layering.txt")
            continue
        for number, line in enumerate(common.read(root, path).splitlines(), 1):
            match = re.match(r'^\s*include\s*"(kerf/[^"]+)"', line)
            if path.suffix != ".td":
                match = INCLUDE.match(line)
            if not match:
                if re.match(r'\s*#\s*include\s*"(\.\./|lib/)', line):
                    findings.append(f"{path}:{number}: include by a 'kerf/...' path")
                continue
            header = match.group(1).removeprefix("kerf/")
            target = header.split("/")[0]
            if component is not None and not table[component] & {target, header}:
                findings.append(
                    f"{path}:{number}: '{component}' may not include '{target}' ({match.group(1)})"
                )
    return findings


if __name__ == "__main__":
    common.main(check)
