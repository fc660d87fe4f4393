"""Lets programs look for all libraries beside themselves: search_path.py PROGRAM...

Turns the entry DT_RUNPATH of a 64-bit ELF file, which counts for a file's own
libraries alone, into DT_RPATH, which counts for the libraries of these, too: those
that come with LLVM have no entry of their own. Exit status 1 where a file has none.
"""

import struct
import sys

DYNAMIC, RPATH, RUNPATH = 2, 15, 29  # kind of a segment, tags of entries
ENTRY = struct.Struct("<qQ")


def dynamic_segment(data):
    """Where the entries begin and end in the file."""
    (headers,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, headers + i * size)
        if kind == DYNAMIC:
            return offset, offset + length
    return 0, 0


def change(path):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    is_elf = data[:6] == b"\x7fELF\x02\x01"
    for at in range(*(dynamic_segment(data) if is_elf else (0, 0)), ENTRY.size):
        if ENTRY.unpack_from(data, at)[0] == RUNPATH:
            struct.pack_into("<q", data, at, RPATH)
            with open(path, "wb") as file:
                file.write(data)
            return True
    return False


failed = [path for path in sys.argv[1:] if not change(path)]
if failed:
    sys.exit(f"expected 64-bit ELF files with a DT_RUNPATH, found {', '.join(failed)}")
