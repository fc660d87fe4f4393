"""Assembles PTX with ptxas and prints what each kernel takes of a processor.

assemble.py ARCHITECTURES FILE.ptx... [--for ARCHITECTURES FILE.ptx...]: exit
status 1 where a kernel keeps registers in memory ("spills") or ptxas makes its
matmuls wait for each other, 77 where there is no ptxas.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for '(?P<arch>\w+)'"
    r".*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)


def find_ptxas():
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("ptxas") or shutil.which("ptxas", path=os.path.join(home, "bin"))


def assemble(ptxas, arch, path):
    """The kernels of a file as matches of ENTRY."""
    command = [ptxas, f"-arch={arch}", "-v", "-o", os.devnull, str(path)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{path} for {arch}: {result.stderr.strip()}")
    text = result.stderr
    if "wgmma.mma_async instructions are serialized" in text:
        sys.exit(f"{path} for {arch}: {text.strip()}")
    # One piece per kernel: functions that it calls are told of in between.
    pieces = re.split(r"(?=ptxas info\s*: Compiling entry function)", text)
    found = [match for match in map(ENTRY.search, pieces) if match]
    expected = len(re.findall(r"^\.visible \.entry", pathlib.Path(path).read_text(), re.M))
    if len(found) != expected:
        sys.exit(f"{path} for {arch}: found {len(found)} of {expected} kernels in\n{text}")
    return found


def groups(arguments):
    """Architectures and files that stand together, as pairs of lists."""
    while arguments:
        end = arguments.index("--for") if "--for" in arguments else len(arguments)
        yield arguments[0].split(","), arguments[1:end]
        arguments = arguments[end + 1 :]


def show(kernel, arch):
    """Prints a line for a kernel; returns the bytes that it spills."""
    shared = re.search(r"(\d+) bytes smem", kernel["rest"])
    spilled = int(kernel["stores"]) + int(kernel["loads"])
    print(
        f"{kernel['name']:36} {arch:6} {kernel['registers']:>9} "
        f"{shared[1] if shared else 0:>7} {spilled:>8}"
    )
    return spilled


def main():
    ptxas = find_ptxas()
    if not ptxas:
        print("no ptxas: neither on PATH nor in $CUDA_HOME/bin")
        sys.exit(77)
    spills = 0
    print(f"{'kernel':36} {'GPU':6} registers  shared  spilled (bytes)")
    for archs, files in groups(sys.argv[1:]):
        for arch, path in ((arch, path) for arch in archs for path in files):
            for kernel in assemble(ptxas, arch, path):
                spills += show(kernel, arch)
    if spills:
        print("kernels keep registers in memory")
    sys.exit(1 if spills else 0)


main()
