"""clang-format leaves every C++ file as it is."""

import re
import subprocess

import common


def check(root, clang_format="clang-format-22"):
    files = common.select(root, ("include", "lib", "tools", "runtime", "test"), (".h", ".cpp", ".cu"))
    if not files:
        return ["no C++ file found: the check looks at nothing"]
    command = [clang_format, "--dry-run", "-Werror", "--style=file", *map(str, files)]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    wrong = dict.fromkeys(re.findall(r"^(\S+?):\d+:\d+: error", result.stderr, re.MULTILINE))
    findings = [f"{path}: run clang-format -i on it" for path in wrong]
    if result.returncode != 0 and not findings:
        findings.append(result.stderr.strip() or "clang-format failed")
    return findings


if __name__ == "__main__":
    common.main(check)
