"""Files over 800 lines, functions over 100, Utils.cpp over 200 and folders of more than
45 sources are refused."""

import collections
import re

import common

FILE_LIMIT = 800
FUNCTION_LIMIT = 100
UTILS_LIMIT = 200
FOLDER_LIMIT = 45

# What may hold braces without being code: raw strings, comments, strings,
# characters, preprocessor lines.
NOISE = re.compile(
    r'R"(?P<tag>\w*)\(.*?\)(?P=tag)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
    re.DOTALL | re.MULTILINE,
)
SCOPE = re.compile(
    r"(?:template\s*<.*>\s*)?(?:inline\s+)?(?:typedef\s+)?"
    r"(?:namespace|class|struct|enum|union|extern)\b",
    re.DOTALL,
)


def blank(text):
    """`text` with everything that is not code removed, line breaks kept."""
    return NOISE.sub(lambda m: "\n" * m.group().count("\n"), text)


def kind_of(head, before):
    """What a '{' opens, from the text since the last ';' or brace and the character
    just before it: 'scope' (namespace or class), 'function' or 'value'."""
    if SCOPE.match(head):
        return "scope"
    if "(" not in head or head[-1] in "=(,&|" or re.match(r"[\w>]", before):
        return "value"
    return "function"


def functions(text):
    """(first line, length in lines) of each outermost function body with its head."""
    code = blank(text)
    opened = []  # (kind, line of the head) of each open brace
    head_start = line_start = 0
    line = 1
    for match in re.finditer(r"[{};\n]|\b(?:public|private|protected):", code):
        token, at = match.group(), match.start()
        if token == "\n":
            line += 1
            continue
        outside = all(kind == "scope" for kind, _ in opened)
        if token == "{":
            head = code[head_start:at].strip()
            kind = kind_of(head, code[at - 1 : at]) if outside else "inner"
            if kind != "value":
                line_start = line - code[head_start:at].lstrip().count("\n")
            opened.append((kind, line_start))
        elif token == "}" and opened:
            kind, first = opened.pop()
            if kind == "function":
                yield first, line - first + 1
            if kind == "value":
                continue  # the head goes on behind an initializer
        if outside or all(kind == "scope" for kind, _ in opened):
            if not (opened and opened[-1][0] == "value"):
                head_start = match.end()


def check(root):
    findings = []
    sources = collections.Counter()
    folders = ("include", "lib", "tools", "runtime", "test", "docs", "examples")
    for path in common.select(root, folders, (".cpp", ".cu", ".h", ".td", ".py")):
        text = common.read(root, path)
        lines = len(text.splitlines())
        sources[path.parent] += path.parts[0] != "test"
        if lines > FILE_LIMIT:
            findings.append(f"{path}: {lines} lines, at most {FILE_LIMIT}")
        if path.parts[0] == "lib" and path.name == "Utils.cpp" and lines > UTILS_LIMIT:
            findings.append(f"{path}: {lines} lines, at most {UTILS_LIMIT} in a Utils.cpp")
        if path.suffix in (".cpp", ".cu", ".h") and path.parts[0] not in ("test", "docs"):
            findings += [
                f"{path}:{first}: function of {length} lines, at most {FUNCTION_LIMIT}"
                for first, length in functions(text)
                if length > FUNCTION_LIMIT
            ]
    findings += [
        f"{folder}: {count} sources, at most {FOLDER_LIMIT} in a folder"
        for folder, count in sources.items()
        if count > FOLDER_LIMIT
    ]
    return findings


if __name__ == "__main__":
    common.main(check)
