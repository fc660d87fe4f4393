//===- KerfInterfaces.td - one small interface per op fact ----------------===//
//
// What a stage may ask of an op. An interface returns facts (factors, flops,
// bytes, the gradient, the meaning), never decisions and never times, so that
// adding an op edits no stage.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_INTERFACES_TD
#define KERF_INTERFACES_TD

include "mlir/IR/OpBase.td"

def FactorOpInterface : OpInterface<"FactorOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    The iteration space of an op as named factors (the letters of its einsum)
    and which factors make up each dimension of each operand and result. See
    `kerf/Interfaces/Factors.h` for the data and its invariants.
  }];
  let methods = [
    InterfaceMethod<"Factors of this op at its present shapes.",
                    "::kerf::Factors", "getFactors", (ins)>,
  ];
}

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    Reverse-mode derivative of an op. An op without this interface is an error
    if a trainable parameter reaches the loss through it.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the gradient of the loss with respect to the operands that
        `gradients.needs(...)`, from the gradients of the results, and hands
        them over with `gradients.add(operand, value)`.
      }],
      "::llvm::LogicalResult", "buildGradient",
      (ins "::kerf::GradientBuilder &":$gradients)>,
    InterfaceMethod<[{
        True for an op that hands its only operand on as a constant: it has no
        gradient, and its operand takes its place once gradients are built.
      }],
      "bool", "stopsGradient", (ins), [{}], [{ return false; }]>,
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    Work of an op at its present shapes: flops on the matrix units, flops on the
    vector units, bytes it must read and write. Facts, no times.
  }];
  let methods = [
    InterfaceMethod<"Work of this op at its present shapes.",
                    "::kerf::OpCost", "getCost", (ins), "",
                    "return ::kerf::pointwiseCost($_op);">,
  ];
}

def DecomposeOpInterface : OpInterface<"DecomposeOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    Meaning of a high-level op as plain ops. The interpreter runs this, and a
    stage that has no better way for the op may use it too.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds ops at the builder's insertion point that compute the results of
        this op; returns one value per result, of the result's type.
      }],
      "::llvm::SmallVector<::mlir::Value>", "decompose",
      (ins "::mlir::OpBuilder &":$builder)>,
    InterfaceMethod<[{
        True when rows of its operands are read as a whole or in other places:
        neighbours cannot share its loops.
      }],
      "bool", "hasOwnLoops", (ins), "", "return false;">,
  ];
}

def EvaluateOpInterface : OpInterface<"EvaluateOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    Meaning of a plain op on host tensors. Results arrive shaped and filled
    with zeros; arithmetic is exact f64, the interpreter rounds each result to
    its element type afterwards.
  }];
  let methods = [
    InterfaceMethod<"Computes the results from the operands.",
      "void", "evaluate",
      (ins "::llvm::ArrayRef<const ::kerf::HostTensor *>":$operands,
           "::llvm::MutableArrayRef<::kerf::HostTensor>":$results)>,
  ];
}

def ScalarOpInterface : OpInterface<"ScalarOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    An op of one element each: how an element follows from those of the operands.
    Kernels are generated of it, together with those of its neighbours. Results
    and operands have one shape.
  }];
  let methods = [
    InterfaceMethod<[{
        The element from those of the operands. Numbers of 16 bits are f32 here;
        others have the operands' element types.
      }],
      "::mlir::Value", "buildElement",
      (ins "::kerf::ScalarBuilder &":$scalars,
           "::llvm::ArrayRef<::mlir::Value>":$elements)>,
    InterfaceMethod<[{
        True for a function of many instructions: where an element is needed
        several times, it is stored.
      }],
      "bool", "isExpensive", (ins), "", "return false;">,
    InterfaceMethod<"True for what changes the element type alone.",
      "bool", "isConversion", (ins), "", "return false;">,
  ];
}

def ViewOpInterface : OpInterface<"ViewOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    An op that computes nothing: each element of its result is one of its first
    operand (of all operands, where it joins them), or zero. Stages may take it
    for another address, or another place of the same loop.
  }];
  let methods = [
    InterfaceMethod<"Where the elements come from: `kerf/Interfaces/View.h`.",
                    "::kerf::View", "getView", (ins)>,
  ];
}

def LibraryOpInterface : OpInterface<"LibraryOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    An op that a library, or a device's own routine, computes in one call where
    element types allow it. Its meaning is still stated: elsewhere it becomes a
    kernel.
  }];
  let methods = [
    InterfaceMethod<"Which call.", "::kerf::LibraryCall", "getLibraryCall", (ins)>,
  ];
}

def AttentionOpInterface : OpInterface<"AttentionOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    Attention, or its gradient: operands q, k, v `[B,S,H,D]` come first.
  }];
  let methods = [
    InterfaceMethod<"Which scores count, and how.", "::kerf::AttentionFacts", "getAttentionFacts", (ins)>,
    InterfaceMethod<"First global batch row, head, query and key, or none.",
                    "::mlir::Operation::operand_range", "getOffsets", (ins)>,
  ];
}

def RowOrderOpInterface : OpInterface<"RowOrderOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    An op that reads the positions of rows and can be told that rows lie in
    another order. An op that reads positions (`Factors::positions`) without this
    interface keeps a sequence from being reordered.
  }];
  let methods = [
    InterfaceMethod<"True for factors whose positions follow the order it is told.",
                    "bool", "followsOrder", (ins "unsigned":$factor)>,
    InterfaceMethod<"Tells the order of those dimensions that have the rows.",
                    "void", "tellOrder", (ins "::kerf::RowOrders &":$orders)>,
  ];
}

def ResizeOpInterface : OpInterface<"ResizeOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    An op whose sizes mean more than its types say, or stand in its attributes. A
    step is written with small sizes to check it (`lib/Twin`). An op without this
    interface is sound with any sizes that its factors allow.
  }];
  let methods = [
    InterfaceMethod<"What the op asks of its sizes, whatever they are.",
      "void", "demandSizes", (ins "::kerf::SizeDemands &":$demands), "", "(void)demands;">,
    InterfaceMethod<[{
        Writes the attributes that repeat a size. The op's types are still those of
        the old sizes.
      }],
      "void", "resize", (ins "const ::kerf::NewSizes &":$sizes), "", "(void)sizes;">,
  ];
}

def LocalizeOpInterface : OpInterface<"LocalizeOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    How an op is written on a shard, where local operand and result types alone
    do not say it: it reads global indices (offset operands), or an attribute
    repeats a size. Ops without this interface need nothing.
  }];
  let methods = [
    InterfaceMethod<[{
        Called on a copy of the op whose operands and result types are local
        already. `shards` has one entry per factor of the whole op.
      }],
      "void", "localize",
      (ins "::mlir::OpBuilder &":$builder,
           "::llvm::ArrayRef<::kerf::FactorShard>":$shards)>,
    InterfaceMethod<"Offset operands that the op has, and of what.",
      "::llvm::SmallVector<::kerf::OffsetPlace>", "getOffsetPlaces", (ins), "",
      "return {};">,
  ];
}

def VariantOpInterface : OpInterface<"VariantOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    How an op works by its variants (`Factors::variants`), or on routed rows
    (`Factors::maps`): local ops and communication of its own. Of an op whose
    variants are no more than another layout this need not say anything.
  }];
  let methods = [
    InterfaceMethod<[{
        Called on a copy of the op whose operands and result types are local
        already. `shards` has one entry per factor of the whole op, `variants` are
        the indices of those in use, `routed` as in `#kerf.assign`. Builds ops at
        the builder's insertion point (before the copy, which is erased
        afterwards) and returns one value per result, of its local type; values of
        results that are sums over a split factor stay unsummed, as without
        variants.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildVariant",
      (ins "::kerf::CollectiveBuilder &":$collectives,
           "::llvm::ArrayRef<::kerf::FactorShard>":$shards,
           "::llvm::ArrayRef<unsigned>":$variants, "bool":$routed)>,
  ];
}

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    Which operands of an op keep their type under a mixed-precision policy. An op
    without this interface has none.
  }];
  let methods = [
    InterfaceMethod<"True when a parameter that is only such operands stays f32.",
      "bool", "keepsWide", (ins "::mlir::OpOperand &":$operand)>,
  ];
}

def OptimizerRuleInterface : AttrInterface<"OptimizerRuleInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    An optimizer's update rule: the state it keeps beside a parameter and the new
    parameter and state from the gradient.
  }];
  let methods = [
    InterfaceMethod<[{
        The state of one parameter, all of whose elements are zero before the first
        step. `param` is the whole parameter, neither split nor a stack of layers:
        what is kept must not depend on the layout.
      }],
      "::llvm::SmallVector<::kerf::StateTensor>", "getStates",
      (ins "::mlir::RankedTensorType":$param)>,
    InterfaceMethod<[{
        Builds one update, of the whole parameter, of a part (a shard, or a flat
        piece), or of a stack of such. `param` and `gradient` are f32 or f64, `state`
        has the types that `stateType` gives, `rate` and `step` (1 for the first
        step) are scalars of the gradient's element type. Elements of different
        blocks are mixed through `sums` alone. Returns the new parameter followed by
        the new state tensors.
      }],
      "::llvm::SmallVector<::mlir::Value>", "buildUpdate",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::Location":$loc,
           "::mlir::Value":$param, "::mlir::Value":$gradient,
           "::mlir::ValueRange":$state, "::mlir::Value":$rate,
           "::mlir::Value":$step, "::kerf::UpdateSums &":$sums)>,
    InterfaceMethod<"This rule with another weight decay.",
      "::mlir::Attribute", "withWeightDecay", (ins "double":$decay)>,
    InterfaceMethod<[{
        True when the gradient is the loss's. Else it is a statistic in its place,
        which does not count in the norm of the gradients and is never scaled.
      }],
      "bool", "usesLossGradient", (ins), "", "return true;">,
    InterfaceMethod<[{
        True when the update uses `sums`: shards and stacks of a parameter can be
        updated, flat pieces of it cannot.
      }],
      "bool", "mixesElements", (ins), "", "return false;">,
    InterfaceMethod<[{
        What it updates alone, "matrices", where it cannot update the whole
        parameter `param` of which a rank has a part of the shape `part`; else "".
      }],
      "::llvm::StringRef", "misfit",
      (ins "::mlir::RankedTensorType":$param,
           "::llvm::ArrayRef<int64_t>":$part), "", "return {};">,
    InterfaceMethod<[{
        Steps that multiply a matrix x of r rows and c columns by a Gram matrix:
        G = x x^T, then G G, then a matmul of such a matrix and x. 0: none.
      }],
      "int64_t", "getGramSteps", (ins), "", "return 0;">,
  ];
}

#endif // KERF_INTERFACES_TD
