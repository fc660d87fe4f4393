"""Saved states as tests change them: metadata, and the checksum that fits."""

import json
import struct

WORD = (1 << 64) - 1


class Checksum:
    """As runtime/train/State.cpp has it: eight lanes of 64-bit words."""

    def __init__(self):
        self.lanes, self.total = list(range(1, 9)), 0

    def add(self, data):
        for i in range(0, len(data), 8):
            word = int.from_bytes(data[i : i + 8], "little")
            x = (self.lanes[i // 8 % 8] ^ word) * 0x9E3779B97F4A7C15 & WORD
            self.lanes[i // 8 % 8] = x ^ x >> 32
        self.total += len(data)

    def add_text(self, text):
        data = text.encode()
        self.add(struct.pack("<Q", len(data)))
        self.add(data)

    def text(self):
        total = mixed(self.total)
        for lane in self.lanes:
            total = mixed(total ^ lane)
        return f"{total:016x}"


def mixed(x):
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def parts(data):
    """Header and tensors of a safetensors file."""
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def sealed(header, body):
    """The file of a state with the checksum of what it says; of version 1 that of tensors alone."""
    checksum, meta = Checksum(), header["__metadata__"]
    is_old = meta.get("kerf_state") == "1"
    if not is_old:
        for key in sorted(meta.keys() - {"checksum"}):
            checksum.add_text(key)
            checksum.add_text(meta[key])
    tensors = [item for item in header.items() if item[0] != "__metadata__"]
    for name, entry in sorted(tensors, key=lambda item: item[1]["data_offsets"]):
        if not is_old:
            checksum.add_text(name)
            checksum.add_text(entry["dtype"])
            checksum.add(b"".join(struct.pack("<q", size) for size in entry["shape"]))
        begin, end = entry["data_offsets"]
        checksum.add(body[begin:end])
    meta["checksum"] = checksum.text()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + body


def changed(data, **metadata):
    """The state with other metadata (None: without), sealed."""
    header, body = parts(data)
    for key, value in metadata.items():
        header["__metadata__"].pop(key, None)
        if value is not None:
            header["__metadata__"][key] = value
    return sealed(header, body)
