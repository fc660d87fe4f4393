//===- KerfAttrs.td - enums and attributes of the model language ----------===//

#ifndef KERF_ATTRS_TD
#define KERF_ATTRS_TD

include "kerf/Dialect/Kerf/KerfDialect.td"
include "kerf/Dialect/Kerf/KerfPlanAttrs.td"
include "kerf/Interfaces/KerfInterfaces.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

class Kerf_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::kerf";
  let genSpecializedAttr = 0;
}

def Kerf_PhaseKind : Kerf_Enum<"PhaseKind", "part of the training step", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"InputGradient", 1, "input_gradient">,
  I32EnumAttrCase<"WeightGradient", 2, "weight_gradient">,
  I32EnumAttrCase<"Update", 3, "update">,
]>;

def Kerf_InitKind : Kerf_Enum<"InitKind", "distribution of initial values", [
  I32EnumAttrCase<"Zeros", 0, "zeros">,
  I32EnumAttrCase<"Ones", 1, "ones">,
  I32EnumAttrCase<"Constant", 2, "constant">,
  I32EnumAttrCase<"Normal", 3, "normal">,
  I32EnumAttrCase<"Uniform", 4, "uniform">,
  I32EnumAttrCase<"Nf4", 5, "nf4">,
]>;

def Kerf_ReduceKind : Kerf_Enum<"ReduceKind", "how elements are combined", [
  I32EnumAttrCase<"Sum", 0, "sum">,
  I32EnumAttrCase<"Max", 1, "max">,
]>;

def Kerf_CompareKind : Kerf_Enum<"CompareKind", "order relation", [
  I32EnumAttrCase<"EQ", 0, "eq">, I32EnumAttrCase<"NE", 1, "ne">,
  I32EnumAttrCase<"LT", 2, "lt">, I32EnumAttrCase<"LE", 3, "le">,
  I32EnumAttrCase<"GT", 4, "gt">, I32EnumAttrCase<"GE", 5, "ge">,
]>;

def Kerf_GeluKind : Kerf_Enum<"GeluKind", "form of the gelu", [
  I32EnumAttrCase<"Exact", 0, "exact">,
  I32EnumAttrCase<"Tanh", 1, "tanh">,
]>;

def Kerf_MuonRate : Kerf_Enum<"MuonRate", "factor on the rate of a matrix", [
  I32EnumAttrCase<"Original", 0, "original">,
  I32EnumAttrCase<"MatchRmsAdamW", 1, "match_rms_adamw">,
]>;

/// Prints a blank before the keyword: op formats write "`` $kind".
class Kerf_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<Kerf_Dialect, info, mnemonic>;
def Kerf_ReduceKindAttr : Kerf_EnumAttr<Kerf_ReduceKind, "reduce_kind">;
def Kerf_CompareKindAttr : Kerf_EnumAttr<Kerf_CompareKind, "compare_kind">;
def Kerf_GeluKindAttr : Kerf_EnumAttr<Kerf_GeluKind, "gelu_kind">;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Kerf_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Kerf_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

/// A finite real number; printed so that it reads back to the same bits.
class Kerf_Real<string desc, string default = ""> : AttrOrTypeParameter<"::kerf::Real", desc, "double"> {
  let parser = "::kerf::parseReal($_parser)";
  let printer = "::kerf::printReal($_printer, $_self)";
  let defaultValue = default;
}

def Kerf_PhaseAttr : Kerf_Attr<"Phase", "phase"> {
  let summary = "Which part of the training step an op belongs to";
  let description = [{
    `#kerf.phase<forward 3>` numbers a forward op; `#kerf.phase<input_gradient 3>`
    and `<weight_gradient 3>` belong to the gradient of that op (a sum of gradients of
    a value with several readers to that of the reader visited last), -1 to no
    single one. Set by `kerf-differentiate` on every op of a
    training step, as the discardable attribute `kerf.phase`.
  }];
  let parameters = (ins EnumParameter<Kerf_PhaseKind>:$kind, "int64_t":$op);
  let assemblyFormat = "`<` $kind $op `>`";
}

def Kerf_InitAttr : Kerf_Attr<"Init", "init"> {
  let summary = "Distribution of a parameter's initial values";
  let description = [{
    `zeros`, `ones`, `constant, c`, `normal, std` (mean 0), `uniform, bound`
    (in [-bound, bound)) or `nf4`: pairs of 4-bit codes, as `kerf.dequantize` reads
    them, each code as likely as another (so are normal numbers). Values are a function of (seed, parameter name, index
    in the parameter), never of the layout.
  }];
  let parameters = (ins EnumParameter<Kerf_InitKind>:$kind,
                        Kerf_Real<"std, bound or constant", "0.0">:$value);
  let assemblyFormat = "`<` $kind (`,` $value^)? `>`";
  let genVerifyDecl = 1;
}

def Kerf_AdamWAttr : Kerf_Attr<"AdamW", "adamw",
    [DeclareAttrInterfaceMethods<OptimizerRuleInterface>]> {
  let summary = "AdamW: Adam with decoupled weight decay";
  let description = [{
    Loshchilov and Hutter 2019, Algorithm 2, as `torch.optim.AdamW` computes it:

        w <- w (1 - rate weight_decay)
        m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2
        w <- w - rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)

    State: `m`, `v`.
  }];
  let parameters = (ins
    Kerf_Real<"decay of the first moment", "0.9">:$beta1,
    Kerf_Real<"decay of the second moment", "0.999">:$beta2,
    Kerf_Real<"added to the root of the second moment", "1e-8">:$eps,
    Kerf_Real<"decoupled weight decay", "0.0">:$weight_decay);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kerf_AdamW8bitAttr : Kerf_Attr<"AdamW8bit", "adamw_8bit",
    [DeclareAttrInterfaceMethods<OptimizerRuleInterface>]> {
  let summary = "AdamW with state in 8 bits";
  let description = [{
    As `#kerf.adamw`, but m and v rest as 8-bit codes, block by block (Dettmers et
    al. 2022, arXiv 2110.02861): each `block` neighbours of the last dimension are
    divided by the largest of their magnitudes, and stand for the nearest values
    of a dynamic map (section 1.3): 0, 1, and for e = 0 ... 6 the middles of n equal
    parts of [10^(e-7), 10^(e-6)], n = 2^e with either sign for m, n = 2^(e+1) for
    v, which has no sign. The parameter is updated from m and v before they are
    rounded.

    The code is a number from -127 to 127, -128 for 1 (m); modulo 256, from 0 to 255
    (v): 0 stands for 0.

    Parameters of fewer than `min_elements` elements, and those whose last
    dimension is no multiple of `block`, keep m and v as they are computed.

    State: `m`, `v` (i8) and the magnitudes `m_max`, `v_max`, one per block; or `m`,
    `v`.
  }];
  let parameters = (ins
    Kerf_Real<"decay of the first moment", "0.9">:$beta1,
    Kerf_Real<"decay of the second moment", "0.999">:$beta2,
    Kerf_Real<"added to the root of the second moment", "1e-8">:$eps,
    Kerf_Real<"decoupled weight decay", "0.0">:$weight_decay,
    DefaultValuedParameter<"int64_t", "256", "elements of a block">:$block,
    DefaultValuedParameter<"int64_t", "4096", "least size of a parameter">:$min_elements);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kerf_AdafactorAttr : Kerf_Attr<"Adafactor", "adafactor",
    [DeclareAttrInterfaceMethods<OptimizerRuleInterface, ["mixesElements"]>]> {
  let summary = "Adafactor: AdamW's second moment by rows and columns";
  let description = [{
    Shazeer and Stern 2018 (arXiv 1804.04235), as `torch.optim.Adafactor` computes
    it. With means over the last dimension (rows), the one before (columns), or all
    (rms), of each layer for itself, and b = t^beta2_decay:

        a <- max(eps2, rms(w)) min(rate, 1 / sqrt(t))
        w <- w (1 - rate weight_decay)
        r <- r + b (mean_rows(g^2) - r),  c <- c + b (mean_columns(g^2) - c)
        v <- r c / max(mean(r), eps1)
        u <- g / sqrt(max(v, eps1^2))
        w <- w - a u / max(1, rms(u) / clip)

    A parameter of rank 1 has v <- v + b (g^2 - v) in place of r and c. The model's
    `learning_rate` is relative to the size of parameters.

    State: `row_var` (r) and `col_var` (c), or `variance` (v).
  }];
  let parameters = (ins
    Kerf_Real<"exponent of the decay of the second moment", "-0.8">:$beta2_decay,
    Kerf_Real<"least mean square, and least root of the second moment", "1.1920928955078125e-07">:$eps1,
    Kerf_Real<"least size of a parameter", "0.001">:$eps2,
    Kerf_Real<"largest root mean square of an update", "1.0">:$clip,
    Kerf_Real<"decoupled weight decay", "0.0">:$weight_decay);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kerf_LionAttr : Kerf_Attr<"Lion", "lion",
    [DeclareAttrInterfaceMethods<OptimizerRuleInterface>]> {
  let summary = "Lion: steps of equal length by the sign of a momentum";
  let description = [{
    Chen et al. 2023 (arXiv 2302.06675), Algorithm 2:

        c <- beta1 m + (1 - beta1) g
        w <- w (1 - rate weight_decay) - rate sign(c)
        m <- beta2 m + (1 - beta2) g

    State: `m`.
  }];
  let parameters = (ins
    Kerf_Real<"share of the momentum in the step", "0.9">:$beta1,
    Kerf_Real<"decay of the momentum", "0.99">:$beta2,
    Kerf_Real<"decoupled weight decay", "0.0">:$weight_decay);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kerf_MuonRateParameter : EnumParameter<Kerf_MuonRate> {
  let defaultValue = "::kerf::MuonRate::MatchRmsAdamW";
}

def Kerf_MuonAttr : Kerf_Attr<"Muon", "muon",
    [DeclareAttrInterfaceMethods<OptimizerRuleInterface,
        ["mixesElements", "misfit", "getGramSteps"]>]> {
  let summary = "Muon: a momentum whose singular values are made equal";
  let description = [{
    Jordan et al. 2024, as `torch.optim.Muon` computes it, for a matrix of r rows
    and c columns; of a tensor of rank 3 for each matrix of the stack:

        m <- momentum m + (1 - momentum) g
        x <- nesterov ? momentum m + (1 - momentum) g : m
        x <- x / max(|x|, eps)
        `steps` times (Newton and Schulz): G <- x x^T,  x <- a x + (b G + c G G) x
        w <- w (1 - rate weight_decay) - rate f x

    with |x| the root of the sum of squares, and f = sqrt(max(1, r / c)) where
    `adjust` is `original`, or 0.2 sqrt(max(r, c)), with which an update has the
    size of one by AdamW (Liu et al. 2025, arXiv 2502.16982).

    G is the matrix's product with itself over the dimension that is split over
    ranks (x^T x, from the right, where rows are), else over the longer one: the
    result is the same. A matrix that is split along both is refused, and so is a parameter of another
    rank. The matmuls are computed in the type of the update, f32 or f64.

    State: `momentum` (m).
  }];
  let parameters = (ins
    Kerf_Real<"decay of the momentum", "0.95">:$momentum,
    DefaultValuedParameter<"bool", "true">:$nesterov,
    DefaultValuedParameter<"int64_t", "5", "of Newton and Schulz">:$steps,
    Kerf_Real<"coefficient of x", "3.4445">:$a,
    Kerf_Real<"coefficient of G x", "-4.775">:$b,
    Kerf_Real<"coefficient of G G x", "2.0315">:$c,
    Kerf_Real<"least norm that is divided by", "1e-7">:$eps,
    Kerf_MuonRateParameter:$adjust,
    Kerf_Real<"decoupled weight decay", "0.0">:$weight_decay);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kerf_SGDAttr : Kerf_Attr<"SGD", "sgd",
    [DeclareAttrInterfaceMethods<OptimizerRuleInterface>]> {
  let summary = "Stochastic gradient descent with momentum";
  let description = [{
    With decoupled weight decay, else as `torch.optim.SGD`:

        w <- w (1 - rate weight_decay)
        b <- momentum b + g
        w <- w - rate (nesterov ? g + momentum b : b)

    State: `momentum`, unless momentum is 0.
  }];
  let parameters = (ins
    Kerf_Real<"decay of the velocity", "0.0">:$momentum,
    DefaultValuedParameter<"bool", "false">:$nesterov,
    Kerf_Real<"decoupled weight decay", "0.0">:$weight_decay);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kerf_BalanceAttr : Kerf_Attr<"Balance", "balance",
    [DeclareAttrInterfaceMethods<OptimizerRuleInterface, ["usesLossGradient"]>]> {
  let summary = "Balance experts: raise the bias of those with too little load";
  let description = [{
    Bias-balanced routing (Wang et al. 2024, Algorithm 1) of a parameter whose
    gradient g is the load of its experts, as `expert_load` counts it over the
    whole batch:

        w <- w + rate sign(target - g)

    `target` is the mean load. The learning rate, the clipping of gradients and
    weight decay do not apply. No state.
  }];
  let parameters = (ins Kerf_Real<"length of a step">:$rate,
    Kerf_Real<"load of an expert when all have the same">:$target);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kerf_GroupAttr : Kerf_Attr<"Group", "group"> {
  let summary = "Parameters with their own weight decay, learning rate or rule";
  let description = [{
    Applies to the parameters whose name pattern matches `match` (`*` matches
    any characters, `?` one); the first matching group of the model's `groups`
    counts. `rate_scale` multiplies the learning rate; `rule` replaces the model's
    optimizer.
  }];
  let parameters = (ins StringRefParameter<"glob over parameter names">:$match,
    Kerf_Real<"decoupled weight decay">:$weight_decay,
    Kerf_Real<"factor on the learning rate", "1.0">:$rate_scale,
    OptionalParameter<"::mlir::Attribute", "optimizer rule">:$rule);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kerf_RopeLlama3Attr : Kerf_Attr<"RopeLlama3", "rope_llama3"> {
  let summary = "Llama 3 scaling of rotary frequencies";
  let description = [{
    With wavelength `l = 2 pi / f` of frequency f: `f` where
    `l < original / high`, `f / factor` where `l > original / low`, between them
    `(1 - t) f / factor + t f` with `t = (original / l - low) / (high - low)`.
    Source: Hugging Face `rope_type: llama3`.
  }];
  let parameters = (ins Kerf_Real<"">:$factor, Kerf_Real<"">:$low,
    Kerf_Real<"">:$high, Kerf_Real<"trained context length">:$original);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kerf_RopeLinearAttr : Kerf_Attr<"RopeLinear", "rope_linear"> {
  let summary = "Linear scaling of rotary frequencies: f / factor";
  let parameters = (ins Kerf_Real<"">:$factor);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kerf_RopeYarnAttr : Kerf_Attr<"RopeYarn", "rope_yarn"> {
  let summary = "YaRN scaling of rotary frequencies";
  let description = [{
    Frequency f of pair j becomes `(1 - t) f + t f / factor` with
    `t = min(max((j - low) / (high - low), 0), 1)`: fast pairs stay, slow ones
    are stretched. Cosines and sines are multiplied by `magnitude`.
    Source: Peng et al. 2023; Hugging Face `rope_type: yarn`.
  }];
  let parameters = (ins Kerf_Real<"">:$factor,
    Kerf_Real<"pair up to which frequencies stay">:$low,
    Kerf_Real<"pair from which they are divided">:$high,
    Kerf_Real<"length of a turned pair">:$magnitude);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kerf_RopeTableAttr : Kerf_Attr<"RopeTable", "rope_table"> {
  let summary = "Rotary frequencies as a list";
  let description = [{
    Pair j turns by `position frequencies[j]`, whatever `theta` is. Cosines and
    sines are multiplied by `magnitude`. For scalings that have no attribute of
    their own, as graphs from elsewhere bring them along.
  }];
  let parameters = (ins "::mlir::DenseF64ArrayAttr":$frequencies,
    Kerf_Real<"length of a turned pair", "1.0">:$magnitude);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // KERF_ATTRS_TD
