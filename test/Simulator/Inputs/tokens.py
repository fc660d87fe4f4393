"""tokens.py VOCABULARY FILE: 4000 tokens of 16 bits, each the square of its
number by the size of the vocabulary."""

import struct
import sys

size = int(sys.argv[1])
with open(sys.argv[2], "wb") as file:
    file.write(b"".join(struct.pack("<H", i * i % size) for i in range(4000)))
