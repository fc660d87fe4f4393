"""Every `#include "kerf/..."` must be allowed by layering.txt.

A line allows rooms, or single headers of a room: `Artifact/Format.h`.
"""

import pathlib
import re

import common

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"](kerf/[^">]+)[">]')


def read_table(path):
    """room -> rooms and headers it may include, itself among them; and findings about
    the table."""
    table, findings = {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        room, colon, allowed = line.partition(":")
        if not colon or room in table:
            findings.append(f"{path.name}:{number}: expected 'ROOM: ROOM...', each room once")
            continue
        table[room] = {room, *allowed.split()}
    for room, allowed in table.items():
        for other in sorted(allowed):
            if other.split("/")[0] in table:
                continue
            findings.append(f"{path.name}: '{room}' names '{other}', which has no line")
    return table, findings


def room_of(path):
    """The room of a source file, or None where anything may be included."""
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
        room = room_of(path)
        if room is not None and room not in table:
            findings.append(f"{path}: room '{room}' has no line in layering.txt")
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
            if room is not None and not table[room] & {target, header}:
                findings.append(
                    f"{path}:{number}: '{room}' may not include '{target}' ({match.group(1)})"
                )
    return findings


if __name__ == "__main__":
    common.main(check)
