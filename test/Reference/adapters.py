"""Reference results of models with low-rank adapters, by the peft library.

A case with an `adapter_config.json` is such a model. All but the adapters is frozen. In a
case whose name ends with "-qlora" the linear layers of the base, but for the head, are
kept in 4-bit codes: the file has codes (`param.<name>`, i8) and scales
(`param.<name>.absmax`) in place of weights, and the library trains with the numbers that
they mean. Quantization is stated here by itself, in numpy.
"""

import json
import warnings

import numpy
import peft
import torch
from torch import nn

import cases
import checkpoint
import checks
import training
from float64 import Float64, NoFloat32

# The library looks for files of a base that has none, and warns about a name of its own.
warnings.filterwarnings("ignore", message=".*(config file|is_gradient_checkpointing)")

PREFIX = "base_model.model."
BLOCK = 64


# NF4 as Dettmers et al. 2023 print it, appendix E.
NUMBERS = numpy.array(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
        -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
        0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ],
    numpy.float32,
)  # fmt: skip


def check_numbers():
    """The printed numbers are quantiles of the normal distribution, and zero.

    8 on the positive side and 7 on the negative, evenly spaced in probability up to the
    0.9677083rd, over the largest.
    """
    last = 0.9677083

    def quantiles(count):
        return torch.special.ndtri(torch.linspace(last, 0.5, count + 1, dtype=torch.float64)[:-1])

    both = torch.cat([quantiles(8), torch.zeros(1, dtype=torch.float64), -quantiles(7)])
    expected = (both / both.max()).sort().values.numpy()
    if numpy.abs(NUMBERS - expected).max() > 1e-6:
        raise ValueError("the numbers of NF4 are not what their definition says")


def quantize(weight):
    """Codes i8 [N, K / 2] and scales f32 [N, K / 64] of an f32 weight, and its numbers, f64.

    Byte j of a block's 32 is 16 a + b - 128 for the codes of its numbers j and 32 + j.
    """
    blocks = weight.numpy().reshape(len(weight), -1, BLOCK)
    scales = numpy.abs(blocks).max(-1)
    distance = numpy.abs(blocks[..., None] / scales[..., None, None] - NUMBERS)
    codes = distance.argmin(-1)
    packed = 16 * codes[..., : BLOCK // 2] + codes[..., BLOCK // 2 :] - 128
    numbers = NUMBERS.astype(numpy.float64)[codes] * scales.astype(numpy.float64)[..., None]
    packed = packed.astype(numpy.int8).reshape(len(weight), -1)
    return torch.from_numpy(packed), torch.from_numpy(scales), numbers.reshape(weight.shape)


def quantized(case, model, weights):
    """Checkpoint name -> what `quantize` gives, of the weights that are kept in codes."""
    if not case.endswith("-qlora"):
        return {}
    check_numbers()
    names = [name for name, m in model.named_modules() if isinstance(m, nn.Linear)]
    names.remove("lm_head")
    return {f"{name}.weight": quantize(weights[f"{name}.weight"]) for name in names}


def set_base(model, codes):
    """Gives the model, of either type, the numbers that the codes mean."""
    for name, (_, _, numbers) in codes.items():
        parameter = model.get_parameter(name)
        parameter.data.copy_(torch.from_numpy(numbers).to(parameter.dtype))


def adapter_tensors(model, values=None):
    """Name in the base's checkpoint -> tensor of an adapter, as peft saves them."""
    state = peft.get_peft_model_state_dict(model)
    if values is not None:
        trained = [name for name, p in model.named_parameters() if p.requires_grad]
        own = dict(zip(trained, values, strict=True))
        state = peft.get_peft_model_state_dict(model, state_dict=own)
    return {name.removeprefix(PREFIX): tensor.clone() for name, tensor in state.items()}


def wrap(case, model, mode):
    """The model with untrained adapters, in the type that `mode` makes."""
    settings = json.loads((cases.folder(case) / "adapter_config.json").read_text())
    with mode:
        return peft.get_peft_model(model, peft.LoraConfig(**settings), autocast_adapter_dtype=False)


def set_adapters(model, values):
    """Loads adapters the way a user does; fails if the library misses one."""
    state = {PREFIX + name: tensor for name, tensor in values.items()}
    result = peft.set_peft_model_state_dict(model, state)
    if result.unexpected_keys or any("lora" in name for name in result.missing_keys):
        raise ValueError(f"adapters do not load: {result}")


def produce(case):
    """Tensors and metadata of the reference file of `case`."""
    config = checkpoint.config_of(case)
    skeleton = checkpoint.tensors_of(checkpoint.untrained(case))
    shapes = {name: tuple(tensor.shape) for name, tensor in skeleton.items()}
    weights = cases.weights(case, shapes, config.initializer_range)
    model = checkpoint.load(case, weights)
    codes = quantized(case, model, weights)
    mode = Float64()
    exact = checkpoint.to_float64(case, model, mode)
    set_base(model, codes)
    set_base(exact, codes)
    tokens, targets = cases.batches(case, config.vocab_size, config.pad_token_id)

    model, exact = wrap(case, model, torch.no_grad()), wrap(case, exact, mode).double()
    shapes = {name: tuple(t.shape) for name, t in adapter_tensors(model).items()}
    values = cases.weights(case + " adapters", shapes, config.initializer_range)
    double = {name: value.double() for name, value in values.items()}
    set_adapters(exact, double)
    initial = [p.detach().clone() for p in training.trained(exact)]
    with mode, NoFloat32():
        done = training.train(exact.train(), tokens, targets)
    checks.check_optimizer(initial, done)

    tensors = {"tokens": tokens, "targets": targets}
    for name, tensor in weights.items():
        if name not in codes:
            tensors[f"param.{name}"] = tensor
            continue
        tensors[f"param.{name}"], tensors[f"param.{name}.absmax"], _ = codes[name]
    tensors |= {f"param.{name}": tensor for name, tensor in values.items()}
    tensors |= training.stored("f64", done, lambda values, _: adapter_tensors(exact, values))
    set_adapters(model, values)
    rounded = training.train(model.train(), tokens, targets)
    tensors |= training.stored("f32", rounded, lambda values, _: adapter_tensors(model, values))
    return tensors, training.metadata(case, peft)
