"""Saved states and weights of Kerf as folders of torch.distributed.checkpoint, and back.

    pip install torch safetensors numpy
    python3 examples/python/dcp.py save state/step-1000 FOLDER       # a saved state, with the optimizer
    python3 examples/python/dcp.py save weights.safetensors FOLDER   # weights alone
    python3 examples/python/dcp.py load FOLDER weights.safetensors   # for kerf-run --init-from
    python3 examples/python/dcp.py load FOLDER state start/step-1    # for kerf-run --resume=state, with the optimizer

A folder has `model.NAME` for each weight and, of a state, `optimizer.state.NAME.exp_avg`, `.exp_avg_sq` and `.step`,
the names that get_state_dict gives a model with AdamW. Of other folders `load` takes what is below `model.`, or,
where nothing is, all that is not the optimizer's. Both may lie one level deeper, as below `app.`, and the optimizer may
have another name that begins with `optim`.

A state is made like another one of the same compiled model, which says which tensors it has, and how many samples a
step takes:

    kerf-run MODEL.kerf --data=DATA --steps=1 --save-state=start

Weights, moments and step are the folder's. Seed and data are those of `start`; the place in the data is where Kerf
would be after as many steps, in its own order. The learning rate is constant, the one that PyTorch had last, or goes on
as that of `start` where the folder names none; options of kerf-run (--lr-schedule, --lr, --min-lr, --warmup,
--decay-steps) set another schedule. Betas, eps and weight decay are the compiled model's: `load` prints those of
PyTorch. Experts that PyTorch stores under other names than Kerf, and moments of other optimizers, are refused.
"""

import json
import pathlib
import re
import sys

import numpy
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
         "I32": torch.int32, "I8": torch.int8, "U8": torch.uint8}  # fmt: skip
TYPE_NAMES = {dtype: name for name, dtype in TYPES.items()}
MOMENTS = {"m": "exp_avg", "v": "exp_avg_sq"}  # Kerf's names and PyTorch's
# Of PyTorch's AdamW: what a state of it has, what its groups say that Kerf is told otherwise or cannot do.
ADAMW_STATE = {"exp_avg", "exp_avg_sq", "step"}
ADAMW_OPTIONS = ["lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay"]
# Constants that models of the transformers library store beside the weights, as kerf-run --init-from knows them.
CONSTANTS = tuple(f".{name}" for name in ("attn.bias", "attn.masked_bias", "attention.bias", "attention.masked_bias",
                                          "rotary_emb.inv_freq"))  # fmt: skip
RANK_FILE = "rank-00000.safetensors"
TILE_BYTES, TILE_WIDTH = 4096, 512  # what a checksum of a saved state is of


def fail(message):
    """Ends the program with a line of what is wrong."""
    sys.exit(f"error: {message}")


def read_tensor(folder, index, entry):
    """A tensor of a saved state, put together from its pieces."""
    dtype = TYPES[entry["dtype"]]
    whole = torch.empty(entry["shape"], dtype=dtype)
    for piece in entry["pieces"]:
        file = index["files"][piece["file"]]
        raw = numpy.fromfile(folder / file["name"], numpy.uint8, piece["bytes"], offset=file["data"] + piece["offset"])
        part = torch.from_numpy(raw).view(dtype)
        box = tuple(slice(begin, end) for begin, end in zip(piece["begin"], piece["end"]))
        whole[box] = part.view([end - begin for begin, end in zip(piece["begin"], piece["end"])])
    return whole


def read_state(folder):
    """Weights and optimizer of a folder that kerf-run --save-state wrote."""
    index = json.loads((folder / "index.json").read_text())
    manifest = json.loads((folder / "manifest.json").read_text())
    step = float(int(manifest["step"]) - int(manifest.get("skipped_steps", 0)))  # AdamW counts updates
    tensors, optimizer = index["tensors"], {}
    model = {name.removeprefix("param:"): read_tensor(folder, index, entry)
             for name, entry in tensors.items() if name.startswith("param:")}  # fmt: skip
    for name, entry in tensors.items():
        if name.startswith("master:"):  # more exact than the weight itself
            model[name.removeprefix("master:")] = read_tensor(folder, index, entry)
        elif name.startswith("state:"):
            _, kind, param = name.split(":", 2)
            if kind in MOMENTS:
                own = optimizer.setdefault(param, {"step": torch.tensor(step)})
                own[MOMENTS[kind]] = read_tensor(folder, index, entry)
    return {"model": model, "optimizer": {"state": optimizer}} if optimizer else {"model": model}


def save(source, folder):
    """Writes a saved state, or weights of a safetensors file, as a folder."""
    state = {"model": load_file(source)} if source.is_file() else read_state(source)
    dcp.save(state, checkpoint_id=folder, no_dist=True)
    print(f"wrote '{folder}': {len(state['model'])} weights" + (", with the optimizer" if "optimizer" in state else ""))


def is_part(name):
    """Whether what is below this name is of the model or of the optimizer."""
    return name == "model" or name.startswith("optim")


def split_keys(metadata):
    """Keys of a folder: of weights by their names, and of the optimizer by what follows its own name."""
    planned = metadata.planner_data or {}
    weights, optimizer, others = {}, {}, {}
    for key, stored in metadata.state_dict_metadata.items():
        path = list(map(str, planned.get(key, (key,))))
        if len(path) > 2 and not is_part(path[0]) and is_part(path[1]):  # below `app.`
            del path[0]
        if path[0].startswith("optim"):
            optimizer[".".join(path).partition(".")[2]] = key
        elif isinstance(stored, TensorStorageMetadata):
            is_weight = path[0] == "model" and len(path) > 1
            (weights if is_weight else others)[".".join(path[1:] if is_weight else path)] = key
    return weights or others, optimizer


def read_keys(folder, found, keys):
    """Tensors and other values of a folder by key."""
    state = {key: torch.empty(found[key].size, dtype=found[key].properties.dtype)
             if isinstance(found[key], TensorStorageMetadata) else None for key in keys}  # fmt: skip
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    return state


def load_weights(folder, target):
    """Writes the weights of a folder as safetensors."""
    metadata = dcp.FileSystemReader(folder).read_metadata()
    weights, _ = split_keys(metadata)
    state = read_keys(folder, metadata.state_dict_metadata, weights.values())
    save_file({name: state[key] for name, key in weights.items()}, target)
    print(f"wrote '{target}': {len(weights)} weights")


# PyTorch's optimizer


def split_optimizer(keys):
    """Keys of the optimizer: moments and step of each parameter by kind, options of each group by name."""
    parts = {"state": {}, "param_groups": {}}
    for name, key in keys.items():
        if match := re.fullmatch(r"(state|param_groups)\.(.+)\.(\w+)", name):
            part, owner, kind = match.groups()
            parts[part].setdefault(owner, {})[kind] = key
    return parts["state"], parts["param_groups"]


def read_options(folder, found, groups):
    """The options of AdamW of each group."""
    keys = [key for group in groups.values() for option, key in group.items() if option in ADAMW_OPTIONS]
    values = {key: value.item() if torch.is_tensor(value) else value
              for key, value in read_keys(folder, found, keys).items()}  # fmt: skip
    return [{option: values[key] for option, key in group.items() if key in values} for group in groups.values()]


def check_adamw(moments, groups):
    """Refuses optimizers whose moments AdamW could not go on with."""
    for name, own in moments.items():
        for kind in own.keys() - ADAMW_STATE:
            fail(f"the optimizer is not AdamW: it keeps '{kind}' of '{name}'")
    for group in groups:
        for option in ("amsgrad", "maximize"):
            if group.get(option):
                fail(f"the optimizer is not the AdamW that Kerf has: '{option}' is on")
        if group.get("weight_decay") and not group.get("decoupled_weight_decay", True):
            fail(f"the optimizer is Adam with a weight decay of {group['weight_decay']:g} in its gradients, not AdamW")


def read_step(state, moments):
    """The step that all parameters are at: Kerf counts one for all."""
    steps = {int(state[own["step"]]): name for name, own in moments.items() if "step" in own}
    if len(steps) != 1:
        places = " and ".join(f"{step} of '{name}'" for step, name in sorted(steps.items())[:2])
        fail(f"the steps of parameters differ: {places}" if steps else "the optimizer has no 'step'")
    return next(iter(steps))


# What a state needs of a folder


def find_moment(folder, moments, moment, name):
    """The key of a moment of a parameter."""
    if moment not in MOMENTS:
        fail(f"the model's optimizer is not AdamW: it keeps '{moment}' of '{name}'")
    kind = MOMENTS[moment]
    if kind in moments.get(name, {}):
        return moments[name][kind]
    numbered = moments and all(owner.isdigit() for owner in moments)
    hint = ": its optimizer numbers parameters, save what get_state_dict gives" if numbered else ""
    fail(f"no '{kind}' of '{name}' in '{folder}'{hint}")


def find_keys(folder, found, wanted, weights, moments):
    """The key of each tensor of a state; all must be there, of the shape that the model has."""
    keys = {}
    for tensor, entry in wanted.items():
        part, _, name = tensor.partition(":")
        if part == "state":
            moment, _, name = name.partition(":")
            keys[tensor] = find_moment(folder, moments, moment, name)
        elif name in weights:
            keys[tensor] = weights[name]
        else:
            fail(f"no weight '{name}' in '{folder}'")
        shape = list(found[keys[tensor]].size)
        if shape != entry["shape"]:
            fail(f"'{keys[tensor]}' in '{folder}' is {shape}, the model expects {entry['shape']}")
        dtype = found[keys[tensor]].properties.dtype
        if dtype.is_floating_point != TYPES[entry["dtype"]].is_floating_point:
            fail(f"'{keys[tensor]}' in '{folder}' is {dtype}, the model expects {entry['dtype']}")
    if {tensor.split(":")[1] for tensor in wanted if tensor.startswith("state:")} != MOMENTS.keys():
        fail("the model's optimizer is not AdamW")
    return keys


def check_others(state, used, weights, moments, trained):
    """Refuses what the model has no place for, but for constants and tied weights."""
    for name in moments.keys() - trained:
        fail(f"the folder has moments of '{name}', which the model does not train")
    for name in sorted(weights.keys() - used):
        own = state[weights[name]]
        tied = any(torch.equal(own, state[weights[other]]) for other in used)
        if not tied and not f".{name}".endswith(CONSTANTS):
            fail(f"the model has no '{name}'")


# Checksums of a saved state (runtime/train/include/kerf/Train/Checksum.h), many at a time


def mix(words):
    """Scrambles the bits of each word (splitmix64)."""
    words = words + numpy.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return words ^ (words >> numpy.uint64(31))


def checksums(parts):
    """Checksums of N byte strings of one size, given as parts [N, bytes] that follow each other."""
    lanes = numpy.arange(1, 9, dtype=numpy.uint64)[:, None].repeat(len(parts[0]), axis=1)
    for part in parts:
        padded = numpy.pad(part, ((0, 0), (0, -part.shape[1] % 8)))
        words = numpy.ascontiguousarray(padded.view(numpy.uint64).T)
        for first in range(0, len(words), 8):
            own = words[first : first + 8]
            own = (lanes[: len(own)] ^ own) * numpy.uint64(0x9E3779B97F4A7C15)
            lanes[: len(own)] = own ^ (own >> numpy.uint64(32))
    sums = mix(numpy.full(lanes.shape[1], sum(part.shape[1] for part in parts), numpy.uint64))
    for lane in lanes:
        sums = mix(sums ^ lane)
    return sums


def checksum(*parts):
    """The checksum of bytes in some parts, as hexadecimal digits."""
    return f"{int(checksums([numpy.frombuffer(part, numpy.uint8)[None] for part in parts])[0]):016x}"


def text_parts(*texts):
    """Texts as a checksum takes them: each after its length."""
    return [part for text in map(str.encode, texts) for part in (len(text).to_bytes(8, "little"), text)]


def spans(size, step):
    """Begin, end and step of what makes up a size: whole steps, and what is left."""
    whole = size // step * step
    return [span for span in ((0, whole, step), (whole, size, size - whole)) if span[0] < span[1]]


def tile_sums(rows):
    """The checksums of the tiles of rows [count, bytes], band by band."""
    count, row_bytes = rows.shape
    width = min(row_bytes, max(TILE_WIDTH, TILE_BYTES // min(count, TILE_BYTES)))
    height = max(1, TILE_BYTES // width)
    sums = numpy.empty((-(-count // height), -(-row_bytes // width)), numpy.uint64)
    for top, bottom, high in spans(count, height):
        for left, right, wide in spans(row_bytes, width):
            tiles = rows[top:bottom, left:right].reshape(-1, high, (right - left) // wide, wide).transpose(1, 0, 2, 3)
            tiles = tiles.reshape(high, -1, wide)  # a row of each tile
            if wide == row_bytes:  # whole rows lie together
                tiles = tiles.transpose(1, 0, 2).reshape(1, -1, high * wide)
            own = sums[top // height : -(-bottom // height), left // width : -(-right // width)]
            own[:] = checksums(list(tiles)).reshape(own.shape)
    return sums


# Writing a saved state (runtime/train/include/kerf/Train/StateIndex.h)


def rows_of(tensor):
    """The bytes of a tensor, [rows, bytes of a row]."""
    last = tensor.shape[-1] if tensor.dim() else 1
    return tensor.reshape(-1, last).contiguous().view(torch.uint8).numpy()


def write_tensors(path, tensors):
    """Writes tensors and the checksums of their tiles; returns the index of the file."""
    header, entries, offset, sums = {}, {}, 0, []
    for name, tensor in tensors.items():
        rows, shape, dtype = rows_of(tensor), list(tensor.shape), TYPE_NAMES[tensor.dtype]
        own = tile_sums(rows).tobytes()
        piece = {"begin": [0] * len(shape), "end": shape, "file": 0, "offset": offset, "bytes": rows.size,
                 "sums": sum(map(len, sums)) // 8, "checksum": checksum(own)}  # fmt: skip
        entries[name] = {"dtype": dtype, "shape": shape, "pieces": [piece]}
        box = ",".join(f"0:{size}" for size in shape)
        header[f"{name}[{box}]"] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + rows.size]}
        offset += rows.size
        sums.append(own)
    sums = b"".join(sums)
    header["checksums"] = {"dtype": "U64", "shape": [len(sums) // 8], "data_offsets": [offset, offset + len(sums)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(rows_of(tensor))
        file.write(sums)
    data = 8 + len(text)
    return {"tile_bytes": TILE_BYTES, "tile_width": TILE_WIDTH,
            "files": [{"name": path.name, "bytes": data + offset + len(sums), "data": data, "sums": offset}],
            "tensors": entries}  # fmt: skip


def write_state(target, manifest, tensors):
    """Writes a saved state as kerf-run does: all under another name first, the manifest last."""
    folder = target / f"step-{manifest['step']}"
    if target.is_dir() and any(target.glob("step-*")):
        fail(f"'{target}' has saved states: give this one a folder of its own")
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(parents=True)
    text = json.dumps(write_tensors(partial / RANK_FILE, tensors)) + "\n"
    (partial / "index.json").write_text(text)
    entries = {**manifest, "index_bytes": str(len(text)), "index_checksum": checksum(*text_parts(text))}
    pairs = [word for pair in sorted(entries.items()) for word in pair]
    entries["checksum"] = checksum(*text_parts(*pairs))
    (partial / "manifest.json").write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n")
    partial.rename(folder)
    return folder


def make_manifest(like, step, groups):
    """What a run of this step says of itself, like another one; with PyTorch's learning rate, where it is known."""
    steps = int(like["step"])
    if steps == 0:
        fail("the state to be like is of step 0, which does not tell the samples of a step: save it with --steps=1")
    samples = int(like["consumed_samples"]) * step // steps
    manifest = {**like, "save": "1", "step": str(step), "consumed_samples": str(samples)}
    for own in ("checksum", "memory"):  # of that state alone, and where its files were in memory
        manifest.pop(own, None)
    if "loss_scale" in like:
        manifest |= {"good_steps": "0", "skipped_steps": "0"}
    rates = [group["lr"] for group in groups if "lr" in group]
    if rates:
        rate = repr(float(max(rates)))
        manifest |= {"decay": "constant", "decay_steps": "1", "lr": rate, "min_lr": rate, "warmup": "0"}
    return manifest


def describe(like, manifest, groups):
    """How the learning rate goes on, and what PyTorch's groups said that the compiled model should say, too."""
    is_told = any("lr" in group for group in groups)
    rates = f"at a constant rate of {manifest['lr']}" if is_told else f"with the learning rates of '{like}'"
    lines = [f"it goes on from step {manifest['step']} {rates}, unless options of kerf-run say otherwise"]
    options = ("betas", "eps", "weight_decay")
    told = {", ".join(f"{option} {group[option]}" for option in options if option in group) for group in groups}
    return lines + [f"PyTorch's AdamW had {line}" for line in sorted(told)]


def load_state(folder, target, like):
    """Writes weights, moments and step of a folder as a saved state like another one."""
    wanted = json.loads((like / "index.json").read_text())["tensors"]
    metadata = dcp.FileSystemReader(folder).read_metadata()
    found = metadata.state_dict_metadata
    weights, optimizer = split_keys(metadata)
    moments, groups = split_optimizer(optimizer)
    if not moments:
        fail(f"no optimizer in '{folder}'")
    groups = read_options(folder, found, groups)
    check_adamw(moments, groups)
    used = {name for part, _, name in (tensor.partition(":") for tensor in wanted) if part == "param"}
    trained = {tensor.split(":", 2)[2] for tensor in wanted if tensor.startswith("state:")}
    if not used & weights.keys():  # of flat keys
        weights = {name.removeprefix("model."): key for name, key in weights.items()}
    keys = find_keys(folder, found, wanted, weights, moments)
    steps = [own["step"] for own in moments.values() if "step" in own]
    state = read_keys(folder, found, {*keys.values(), *weights.values(), *steps})
    check_others(state, used, weights, moments, trained)
    manifest = make_manifest(json.loads((like / "manifest.json").read_text()), read_step(state, moments), groups)
    tensors = {tensor: state[key].to(TYPES[wanted[tensor]["dtype"]]) for tensor, key in keys.items()}
    print(f"wrote '{write_state(target, manifest, tensors)}': {len(used)} weights, with the optimizer")
    print(*describe(like, manifest, groups), sep="\n")


def main():
    arguments = list(map(pathlib.Path, sys.argv[2:]))
    command = {"save": save, "load": load_weights if len(arguments) == 2 else load_state}.get("".join(sys.argv[1:2]))
    if not command or len(arguments) != (3 if command is load_state else 2):
        sys.exit(__doc__)
    if command is load_weights and arguments[1].suffix != ".safetensors":
        fail(f"'{arguments[1]}' is no .safetensors file: name the saved state that it is to be like, too")
    try:
        command(*arguments)
    except OSError as error:
        fail(error)


if __name__ == "__main__":
    main()
