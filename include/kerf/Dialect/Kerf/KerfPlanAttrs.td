//===- KerfPlanAttrs.td - how a step is distributed -----------------------===//
//
// The plan as data on the model and its ops. Partition reads nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_PLAN_ATTRS_TD
#define KERF_PLAN_ATTRS_TD

include "kerf/Dialect/Kerf/KerfDialect.td"
include "mlir/IR/AttrTypeBase.td"

def Kerf_MeshAttr : AttrDef<Kerf_Dialect, "Mesh"> {
  let mnemonic = "mesh";
  let summary = "Named axes of the ranks, the first one slowest";
  let description = [{
    `#kerf.mesh<dp = 2, tp = 4>`: eight ranks; rank r has the coordinates
    (r / 4, r mod 4). `#kerf.mesh<>` is one rank. At most 8 axes, each of at
    least one rank; `micro` and `pending` are no names of axes.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"int64_t">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Number of ranks.
    int64_t getRankCount() const;
    /// Index of an axis, or -1.
    int64_t find(::llvm::StringRef name) const;
    /// Coordinates of a rank, one per axis.
    ::llvm::SmallVector<int64_t> getCoordinates(int64_t rank) const;
  }];
}

def Kerf_PlanAttr : AttrDef<Kerf_Dialect, "Plan"> {
  let mnemonic = "plan";
  let summary = "How a step is distributed, as far as the whole model goes";
  let description = [{
    `#kerf.plan<mesh = <dp = 2, tp = 2>, micro_batches = 2, schedule = "1f1b",
    recompute = none>`, on a `kerf.model` as its attribute `plan`. `recompute`
    is `none`, `full`, or `[3, 7]`: the numbers of the forward ops whose results
    are computed again in the backward pass. `schedule` is "1f1b" or "gpipe". How
    single ops are cut say their `#kerf.assign`.
  }];
  let parameters = (ins "::kerf::MeshAttr":$mesh, "int64_t":$microBatches,
    StringRefParameter<"order of the micro-batches">:$schedule,
    "bool":$recomputeAll, OptionalArrayRefParameter<"int64_t">:$recompute);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Kerf_AssignAttr : AttrDef<Kerf_Dialect, "Assign"> {
  let mnemonic = "assign";
  let summary = "The axes that cut the factors of an op";
  let description = [{
    `#kerf.assign<b = [dp, micro], n = [tp], pending = [tp]>`: each factor that is
    cut, with its axes, the first one slowest. `micro` stands for the
    micro-batches, a cut in time. `pending` names axes over which an operand is an
    unreduced sum that passes through the op, which is linear in it. On an op
    of a step as the discardable attribute `kerf.assign`; without it nothing is
    cut. On a `kerf.param` it says where the parameter rests.
  }];
  let parameters = (ins
    "::mlir::DictionaryAttr":$factors,
    OptionalArrayRefParameter<"::mlir::StringAttr">:$pending);
  let hasCustomAssemblyFormat = 1;
}

#endif // KERF_PLAN_ATTRS_TD
