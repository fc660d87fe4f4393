"""Saved states as tests read and change them: checkpoints, and the files of earlier versions."""

import json
import math
import struct
from pathlib import Path

WORD = (1 << 64) - 1


class Checksum:
    """As kerf/Train/Checksum.h has it: eight lanes of 64-bit words."""

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


# Checkpoints

WIDTHS = {"F32": 4, "BF16": 2, "F16": 2, "F64": 8, "I32": 4, "I8": 1, "BOOL": 1}


def steps(folder):
    """The whole checkpoints in a folder of states, the one of the first step first."""
    found = [path.parent for path in Path(folder).glob("step-*/manifest.json")]
    return sorted((path for path in found if path.name[5:].isdigit()), key=lambda path: int(path.name[5:]))


def newest(folder):
    """The one that was saved last."""
    return max(steps(folder), key=lambda path: int(manifest(path)["save"]))


def files(folder):
    """Name and bytes of all that a checkpoint has."""
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def content(path):
    """The same, but for how many saves there were before."""
    kept = {key: value for key, value in manifest(Path(path)).items() if key not in ("save", "checksum")}
    return files(path) | {"manifest.json": kept}


def seal(path, entries):
    """Writes a manifest with the checksum of its entries."""
    checksum = Checksum()
    for key in sorted(entries.keys() - {"checksum"}):
        checksum.add_text(key)
        checksum.add_text(entries[key])
    (path / "manifest.json").write_text(json.dumps(entries | {"checksum": checksum.text()}))


def manifest(path):
    return json.loads((path / "manifest.json").read_text())


def change(path, **entries):
    """Gives entries of a manifest other values (None: takes them away)."""
    found = manifest(path) | entries
    seal(path, {key: value for key, value in found.items() if value is not None})


def seal_index(path, index):
    """Writes an index, and its checksum to the manifest."""
    text = json.dumps(index)
    (path / "index.json").write_text(text)
    checksum = Checksum()
    checksum.add_text(text)
    change(path, index_bytes=str(len(text)), index_checksum=checksum.text())


def index(path):
    return json.loads((path / "index.json").read_text())


def tensors(path):
    """The tensors of a checkpoint, whole, as bytes; each element comes from one piece."""
    found = index(path)
    data = [(path / file["name"]).read_bytes()[file["data"] :] for file in found["files"]]
    result = {}
    for name, tensor in found["tensors"].items():
        shape, width = tensor["shape"], WIDTHS[tensor["dtype"]]
        whole, left = bytearray(math.prod(shape) * width), math.prod(shape)
        for piece in tensor["pieces"]:
            own = [end - begin for begin, end in zip(piece["begin"], piece["end"])]
            left -= math.prod(own)
            body = data[piece["file"]][piece["offset"] : piece["offset"] + piece["bytes"]]
            row = (own[-1] if own else 1) * width
            for number in range(len(body) // row):
                rest, at, stride = number, piece["begin"][-1] if own else 0, shape[-1] if own else 1
                for d in reversed(range(len(shape) - 1)):
                    at += (piece["begin"][d] + rest % own[d]) * stride
                    rest //= own[d]
                    stride *= shape[d]
                whole[at * width : at * width + row] = body[number * row : (number + 1) * row]
        if left:
            raise AssertionError(f"{name} has {left} elements that no piece has, or several")
        result[name] = bytes(whole)
    return result


def single_file(path, version):
    """A checkpoint as the one file that earlier versions wrote."""
    kept = {key: value for key, value in manifest(path).items()
            if not key.startswith("index_") and key not in ("model", "save", "kerf_checkpoint")}  # fmt: skip
    header, body = {"__metadata__": kept | {"kerf_state": version, "checksum": "0" * 16}}, b""
    shapes = index(path)["tensors"]
    for name, data in tensors(path).items():
        entry = {"dtype": shapes[name]["dtype"], "shape": shapes[name]["shape"]}
        header[name] = entry | {"data_offsets": [len(body), len(body) + len(data)]}
        body += data
    return sealed(header, body)
