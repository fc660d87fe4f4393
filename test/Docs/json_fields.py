"""Every field of --explain-json stands on its page, and every field of the page is written by somebody.

  json_fields.py PAGE JSON...
"""

import json
import re
import sys


def of_page(text):
    """Paths in the first column: `a.b`, `.c` is a.b and a.c."""
    paths = set()
    for row in re.findall(r"^\| (.*?) \|", text, re.M):
        parent = ""
        for name in re.findall(r"`([^`]+)`", row):
            if name.startswith("."):
                name = parent + name
            parent = name.rpartition(".")[0]
            paths.add(name)
    return paths


def of_value(value, path=""):
    """Paths of everything that is no object and no list of objects."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from of_value(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield from (p for part in value for p in of_value(part, path + "[]"))
        if not value:
            yield path + "[]"
    else:
        yield path


page = of_page(open(sys.argv[1]).read())
found = {re.sub(r"^points\[\]\.run\.", "run.", path) for file in sys.argv[2:] for path in of_value(json.load(open(file)))}
empty = {path for path in found if path.endswith("[]")}
missing = sorted(p for p in found - page if not (p in empty and any(q.startswith(p) for q in page)))
unknown = sorted(page - found - {"points[].run"})
assert not missing and not unknown, f"not on the page: {missing}\nwritten by nobody: {unknown}"
