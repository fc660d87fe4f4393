"""Saved states and weights of Kerf as folders of torch.distributed.checkpoint, and back.

    pip install torch safetensors numpy
    python3 examples/python/dcp.py save state/step-1000 FOLDER       # a saved state, with the optimizer
    python3 examples/python/dcp.py save weights.safetensors FOLDER   # weights alone
    python3 examples/python/dcp.py load FOLDER weights.safetensors   # for kerf-run --init-from

A folder has `model.NAME` for each weight and, of a state, `optimizer.state.NAME.exp_avg`, `.exp_avg_sq` and `.step`,
the names that get_state_dict gives a model with AdamW. Of other folders `load` takes what is below `model.`, or,
where nothing is, all that is not the optimizer's.
"""

import json
import pathlib
import sys

import numpy
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
         "I32": torch.int32, "I8": torch.int8, "U8": torch.uint8}  # fmt: skip
MOMENTS = {"m": "exp_avg", "v": "exp_avg_sq"}  # Kerf's names and PyTorch's


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
    step = float(json.loads((folder / "manifest.json").read_text())["step"])
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
    state = {"model": load_file(source)} if source.is_file() else read_state(source)
    dcp.save(state, checkpoint_id=folder, no_dist=True)
    print(f"wrote '{folder}': {len(state['model'])} weights" + (", with the optimizer" if "optimizer" in state else ""))


def load(folder, target):
    metadata = dcp.FileSystemReader(folder).read_metadata()
    found = metadata.state_dict_metadata
    # Names of a weight by its key: what was saved as {"model": {NAME: ...}}, or at the top.
    paths = {key: (metadata.planner_data or {}).get(key, (key,)) for key in found}
    has_model = any(path[0] == "model" and len(path) > 1 for path in paths.values())
    names = {key: ".".join(map(str, path[1:] if has_model else path)) for key, path in paths.items()
             if isinstance(found[key], TensorStorageMetadata) and
             (path[0] == "model" if has_model else not str(path[0]).startswith("optim"))}  # fmt: skip
    state = {key: torch.empty(found[key].size, dtype=found[key].properties.dtype) for key in names}
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    save_file({names[key]: tensor for key, tensor in state.items()}, target)
    print(f"wrote '{target}': {len(state)} weights")


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("save", "load"):
        sys.exit(__doc__)
    try:
        (save if sys.argv[1] == "save" else load)(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
    except OSError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
