"""Says in a second way what the library computed, and fails where they disagree.

These are the definitions a reader of the reference files needs: the loss, the keys
a query sees, the rotary frequencies, the auxiliary loss, the optimizer. All are
evaluated in float64 on the float64 run.
"""

import math

import torch

import cases
import training

TIGHT = 1e-11


def near(what, ours, theirs):
    """Fails if two float64 tensors differ by more than rounding."""
    ours = torch.as_tensor(ours, dtype=torch.float64)
    error = (ours - theirs).abs().max().item()
    if not error <= TIGHT * max(1.0, theirs.abs().max().item()):
        raise ValueError(f"{what}: the library's value differs by {error:.3e}")


def has_experts(config):
    """Whether the model has layers with experts."""
    return hasattr(config, "num_experts_per_tok")


def visible(sequence, window, chunk=None):
    """[S, S] booleans: query i sees key j if j <= i and, with a window, i - j < window, with chunks in one of them."""
    query = torch.arange(sequence)[:, None]
    key = torch.arange(sequence)[None, :]
    chunk = chunk or sequence
    return (key <= query) & (query - key < (window or sequence)) & (key // chunk == query // chunk)


def check_loss(output, targets, aux):
    """The loss is the mean of -log softmax(logits)[target] over the valid targets."""
    logits = output.logits.detach()
    log_z = torch.logsumexp(logits, -1)
    valid = targets != -100
    picked = logits.gather(-1, targets.clamp(min=0).long()[..., None])[..., 0]
    mean = ((log_z - picked) * valid).sum() / valid.sum()
    near("loss", mean + aux, output.loss.detach())


def check_attention(model, tokens):
    """Attention weights are exactly zero where the mask says so and nowhere else."""
    window = getattr(model.config, "sliding_window", None)
    types = getattr(model.config, "layer_types", None)
    with torch.no_grad():
        mask = training.mask_of(model, tokens.long())
        layers = model(input_ids=tokens.long(), output_attentions=True, **mask).attentions
    if len(layers) != model.config.num_hidden_layers:
        raise ValueError(f"expected attention of every layer, found {len(layers)}")
    for i, weights in enumerate(layers):
        width = None if types and types[i] == "full_attention" else window
        chunk = model.config.attention_chunk_size if types and types[i] == "chunked_attention" else None
        expected = visible(tokens.shape[1], width, chunk).expand_as(weights)
        if not torch.equal(weights != 0, expected):
            raise ValueError("attention weights are not zero exactly where masked")


def frequencies(config, rope):
    """Rotary frequencies [channels that turn / 2] for each type of scaling."""
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    dim = int(dim * (rope.get("partial_rotary_factor") or 1))  # the first channels of a head
    result = [rope["rope_theta"] ** (-2 * i / dim) for i in range(dim // 2)]
    if rope["rope_type"] == "dynamic" and rope.get("alpha"):  # hunyuan's, for all lengths
        base = rope["rope_theta"] * rope["alpha"] ** (dim / (dim - 2))
        return [base ** (-2 * i / dim) for i in range(dim // 2)], None
    if rope["rope_type"] == "dynamic":
        over = max(cases.SEQ / config.max_position_embeddings, 1) * rope["factor"] - (rope["factor"] - 1)
        base = rope["rope_theta"] * over ** (dim / (dim - 2))
        return [base ** (-2 * i / dim) for i in range(dim // 2)], None
    if rope["rope_type"] == "longrope":
        is_long = cases.SEQ > rope["original_max_position_embeddings"]
        stretch = rope["long_factor" if is_long else "short_factor"]
        return [f / s for f, s in zip(result, stretch, strict=True)], None
    if rope["rope_type"] == "linear":
        return [f / rope["factor"] for f in result], None
    if rope["rope_type"] == "yarn":
        return yarn_frequencies(config, rope, result)
    if rope["rope_type"] != "llama3":
        return result, None
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    scaled, bands = [], []
    for f in result:
        # How often this frequency turns within the original context.
        turns = rope["original_max_position_embeddings"] * f / (2 * math.pi)
        keep = min(max((turns - low) / (high - low), 0.0), 1.0)
        scaled.append((1 - keep) * f / rope["factor"] + keep * f)
        bands.append(band(keep))
    return scaled, bands


def band(kept):
    """What a scaling does with a frequency of which this part stays."""
    return "kept" if kept == 1 else "divided" if kept == 0 else "between"


def yarn_factor(config, rope):
    """The factor of yarn; null is how much longer sequences are than the trained ones."""
    grown = config.max_position_embeddings / rope["original_max_position_embeddings"]
    return rope["factor"] or grown


def yarn_frequencies(config, rope, frequencies):
    """Between the pairs that turn beta_fast and beta_slow times, f goes over to f / factor."""

    def pair(turns):
        # The (fractional) pair whose frequency turns so often in the trained context.
        once = rope["original_max_position_embeddings"] / (2 * math.pi)
        return len(frequencies) * math.log(once / turns, rope["rope_theta"])

    low, high = pair(rope.get("beta_fast", 32)), pair(rope.get("beta_slow", 1))
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * len(frequencies) - 1)
    kept = [1 - min(max((j - low) / (high - low), 0.0), 1.0) for j in range(len(frequencies))]
    factor = yarn_factor(config, rope)
    scaled = [k * f + (1 - k) * f / factor for k, f in zip(kept, frequencies, strict=True)]
    return scaled, [band(k) for k in kept]


def magnitude(config, rope):
    """What cosines and sines are multiplied by: other than 1 for yarn and longrope only."""
    if rope["rope_type"] == "longrope":
        trained = rope["original_max_position_embeddings"]
        return math.sqrt(1 + math.log(config.max_position_embeddings / trained) / math.log(trained))
    if rope["rope_type"] != "yarn":
        return 1.0
    if "attention_factor" in rope:
        return rope["attention_factor"]
    grown = 0.1 * math.log(yarn_factor(config, rope))
    if "mscale" in rope:
        return (rope["mscale"] * grown + 1) / (rope["mscale_all_dim"] * grown + 1)
    return grown + 1


def check_rope(model):
    """The frequencies follow the formula; a scaling by bands has all three of them."""
    rotary = getattr(model.base_model, "rotary_emb", None)
    if rotary is None:
        return
    if model.config.rope_parameters.get("rope_type") in ("dynamic", "longrope"):
        with torch.no_grad():  # frequencies follow the sequences
            model(input_ids=torch.zeros(1, cases.SEQ, dtype=torch.long))
    if "rope_theta" in model.config.rope_parameters:
        check_rotation(model.config, model.config.rope_parameters, rotary.inv_freq, rotary.attention_scaling)
        check_scores(model)
        return
    for kind in set(model.config.layer_types):  # layers with a window have their own
        own = getattr(rotary, f"{kind}_inv_freq"), getattr(rotary, f"{kind}_attention_scaling")
        check_rotation(model.config, model.config.rope_parameters[kind], *own)


def check_rotation(config, rope, inv_freq, scaling):
    """The same of one set of parameters."""
    expected, bands = frequencies(config, rope)
    expected = torch.tensor(expected, dtype=torch.float64)
    near("rotary frequencies", expected / inv_freq, torch.ones_like(expected))
    if not math.isclose(scaling, magnitude(config, rope), rel_tol=TIGHT):
        raise ValueError(f"cos and sin are scaled by {scaling}")
    if bands is not None and len(set(bands)) != 3:
        raise ValueError(f"expected three bands of frequencies, found {bands}")


def check_scores(model):
    """The deepseek families multiply scores by the square of what yarn's mscale_all_dim says."""
    config = model.config
    if not config.model_type.startswith("deepseek"):
        return
    rope = config.rope_parameters
    length = 1.0
    if rope["rope_type"] == "yarn" and "mscale_all_dim" in rope:
        length += 0.1 * math.log(yarn_factor(config, rope)) * rope["mscale_all_dim"]
    expected = length**2 / math.sqrt(config.qk_nope_head_dim + config.qk_rope_head_dim)
    for layer in model.base_model.layers:
        if not math.isclose(layer.self_attn.scaling, expected, rel_tol=TIGHT):
            raise ValueError(f"scores are scaled by {layer.self_attn.scaling}")


def aux_loss(config, layers):
    """E * sum_e f_e P_e over the tokens of all layers together.

    `layers` are the router logits [B S, E] of each layer. f_e is the number of times
    expert e is among the K chosen ones, divided by L B S (so the f_e add up to K), and
    P_e is the mean probability of e; both means run over all layers before the product.
    """
    probabilities = torch.cat(list(layers)).softmax(-1)
    chosen = probabilities.topk(chosen_of(config), -1).indices
    count = probabilities.shape[-1]
    hits = torch.nn.functional.one_hot(chosen, count).sum((0, 1))
    fraction = hits.double() / len(probabilities)
    return count * (fraction * probabilities.mean(0)).sum()


def chosen_of(config):
    """How many experts a token chooses; hunyuan_v1_moe has the number for each layer."""
    count = config.num_experts_per_tok
    return count if isinstance(count, int) else count[0]


def gap(values, count):
    """The smallest distance between the last of the `count` largest and the next one."""
    ordered = values.sort(-1, descending=True).values
    if count == ordered.shape[-1]:
        return math.inf
    return (ordered[..., count - 1] - ordered[..., count]).min().item()


def router_margin(config, routing):
    """The smallest gap between the last chosen and the first other probability.

    Of deepseek_v2 with groups: also between the largest ones of groups. Of deepseek_v3: between sigmoids plus biases, of experts in the chosen groups and,
    summed over the best two, of groups (minimax_m2 has none); the chosen experts are checked.
    Of ernie4_5_moe: between probabilities plus biases.
    """
    margins = []
    for logits, bias, experts in routing:
        if bias is None:
            probabilities = logits.double().softmax(-1)
            if getattr(config, "topk_method", None) == "group_limited_greedy":
                grouped = probabilities.unflatten(-1, (config.n_group, -1))
                groups = grouped.max(-1).values
                margins.append(gap(groups, config.topk_group))
                least = groups.sort(-1).values[..., -config.topk_group, None]
                hidden = (groups < least)[..., None].expand_as(grouped).flatten(-2)
                probabilities = probabilities.masked_fill(hidden, 0)
            margins.append(gap(probabilities, chosen_of(config)))
            continue
        is_ernie = config.model_type == "ernie4_5_moe"
        scores = logits.double().softmax(-1) if is_ernie else logits.double().sigmoid()
        scores = scores + bias.double()
        grouped = scores.unflatten(-1, (getattr(config, "n_group", 1), -1))
        groups = grouped.sort(-1).values[..., -2:].sum(-1)
        best = getattr(config, "topk_group", 1)
        margins.append(gap(groups, best))
        least = groups.sort(-1).values[..., -best, None]
        hidden = (groups < least)[..., None].expand_as(grouped).flatten(-2)
        scores = scores.masked_fill(hidden, -math.inf)
        margins.append(gap(scores, chosen_of(config)))
        best = scores.topk(chosen_of(config), -1).indices
        if not torch.equal(best.sort(-1).values, experts.sort(-1).values):
            raise ValueError("the library chooses other experts")
    return min(margins)


def has_gate(state, layer):
    """Whether a layer of the model has experts."""
    return f"model.layers.{layer}.mlp.experts.gate_up_proj" in state


def check_experts(config, model, tensors):
    """The saved expert matrices are slices of the fused ones, in layers that have experts."""
    if config.model_type in ("gpt_oss", "llama4_text", "granitemoe"):  # saved as they are
        return
    state = model.state_dict()
    layers = [i for i in range(config.num_hidden_layers) if has_gate(state, i)]
    if not layers:
        raise ValueError("no layer has experts")
    mixtral = config.model_type in ("mixtral", "minimax_m2")
    count = getattr(config, "n_routed_experts", None) or config.num_experts
    block = "block_sparse_moe" if mixtral else "mlp"
    gate, up, last = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    for layer in layers:
        gate_up = state[f"model.layers.{layer}.mlp.experts.gate_up_proj"]
        down = state[f"model.layers.{layer}.mlp.experts.down_proj"]
        for e in range(count):
            name = f"model.layers.{layer}.{block}.experts.{e}"
            w1, w3, w2 = (tensors[f"{name}.{part}.weight"] for part in (gate, up, last))
            if not torch.equal(gate_up[e], torch.cat([w1, w3])) or not torch.equal(down[e], w2):
                raise ValueError(f"'{name}' is not a slice of the fused weights")


def check_optimizer(initial, run):
    """Replays clipping and AdamW from the unclipped gradients, by their formulas."""
    values = [value.clone() for value in initial]
    first = [torch.zeros_like(value) for value in initial]
    second = [torch.zeros_like(value) for value in initial]
    for step, grads in enumerate(run.grads, start=1):
        norm = math.sqrt(sum((g * g).sum().item() for g in grads))
        near("gradient norm", norm, run.grad_norms[step - 1])
        scale = min(1.0, training.CLIP / (norm + 1e-6))
        for i, gradient in enumerate(grads):
            g, (b1, b2) = scale * gradient, training.BETAS
            first[i] = b1 * first[i] + (1 - b1) * g
            second[i] = b2 * second[i] + (1 - b2) * g * g
            decay = training.WEIGHT_DECAY if g.ndim >= 2 else 0.0
            root = (second[i] / (1 - b2**step)).sqrt()
            update = first[i] / (1 - b1**step) / (root + training.EPS)
            values[i] = values[i] - training.LR * decay * values[i] - training.LR * update
    for value, theirs in zip(values, run.after, strict=True):
        near("parameter after AdamW", value, theirs)
