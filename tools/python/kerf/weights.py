"""Weights of a module for kerf-run --init-from, and back."""

from itertools import chain
from pathlib import Path
from weakref import WeakKeyDictionary

# By module that was exported: what is not in its model, since the loss does not need it or its numbers are in the text.
LEFT_OUT = WeakKeyDictionary()


def _tensors(module):
    """(name, tensor) of parameters and of buffers of floats that checkpoints have."""
    module = plain(module)
    state = module.state_dict(keep_vars=True)
    buffers = ((name, tensor) for name, tensor in module.named_buffers() if name in state and tensor.is_floating_point())
    return chain(module.named_parameters(remove_duplicate=False), buffers)


def plain(module):
    """What `torch.compile` was given."""
    return getattr(module, "_orig_mod", module)


def names_of(module):
    return {name for name, _ in _tensors(module)}


def save_weights(module, path):
    """Writes the parameters of a module as a safetensors file under the names that `export` gives them; of tied ones
    the first, and buffers, some of which are parameters that are not trained. What an export before left out is left
    out here, too. Read by kerf-run --init-from=PATH. A model of `import_hf` is saved by its own save_pretrained: its
    checkpoints may name parameters otherwise."""
    from safetensors.torch import save_file

    tensors, seen, left_out = {}, set(), LEFT_OUT.get(plain(module), ())
    for name, parameter in _tensors(module):
        if id(parameter) not in seen and name not in left_out:
            seen.add(id(parameter))
            tensors[name] = parameter.detach().float().contiguous().cpu()
    path = Path(path)
    part = path.with_name(path.name + ".part")
    save_file(tensors, part)
    part.replace(path)


def load_weights(module, path):
    """Sets the parameters of a module to those of a file or folder that kerf-run --save-weights wrote."""
    import torch
    from safetensors.torch import load_file

    path = Path(path)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    tensors = {name: tensor for file in files for name, tensor in load_file(file).items()}
    parameters = dict(_tensors(module))
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name not in parameters:
                raise ValueError(f"the module has no parameter '{name}' of '{path}'")
            parameters[name].copy_(tensor)
