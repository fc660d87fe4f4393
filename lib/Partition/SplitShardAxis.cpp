//===- SplitShardAxis.cpp - an axis for a part of the data ranks ----------===//
//
// Problem: state that is sharded over a few of the data ranks (hybrid sharding)
// needs collectives among these few; groups are made of whole axes of the mesh.
//
// Idea: the axis that is split in two becomes two axes. Ranks keep their
// numbers: the new one is the inner part of the old.
//
// Example: <dp = 8, tp = 2>, shard_group = 2: <dp = 4, dp.shard = 2, tp = 2>;
// an op with b = [dp, micro] gets b = [dp, dp.shard, micro].
//
//===----------------------------------------------------------------------===//

#include "SplitShardAxis.h"

#include "kerf/Partition/Passes.h"

namespace kerf {
#define GEN_PASS_DEF_SPLITSHARDAXISPASS
#include "kerf/Partition/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
/// The axis to split, and the ranks of its inner part.
struct Split {
  int64_t axis = -1;
  int64_t inner = 1;
};
} // namespace

/// Fails where the group is no product of inner axes and a part of the next.
static FailureOr<Split> findSplit(ModelOp model, PlanAttr plan) {
  MeshAttr mesh = plan.getMesh();
  int64_t rest = plan.getShardGroup();
  for (int64_t axis = mesh.getNames().size(); axis-- > 0;) {
    llvm::StringRef name = mesh.getNames()[axis].getValue();
    int64_t size = mesh.getSizes()[axis];
    if (name == "tp" || name == kPipelineAxis || size == 1)
      continue;
    if (rest == 1)
      return Split();
    if (rest % size == 0) {
      rest /= size;
      continue;
    }
    if (size % rest == 0)
      return Split{axis, rest};
    break;
  }
  if (rest == 1)
    return Split();
  auto diagnostic = model.emitOpError()
                    << "is planned with shard_group = " << plan.getShardGroup()
                    << ", which is no part of the data ranks of " << mesh;
  diagnostic.attachNote() << "expected the product of the sizes of inner axes, "
                             "tp and pp aside, and a divisor of the next";
  return diagnostic;
}

static PlanAttr withMesh(PlanAttr plan, MeshAttr mesh) {
  return PlanAttr::get(plan.getContext(), mesh, plan.getMicroBatches(),
                       plan.getSchedule(), plan.getRecomputeAll(),
                       plan.getRecompute(), plan.getChunks(), plan.getDefer(),
                       plan.getZero(), plan.getShardGroup(), plan.getStages(),
                       plan.getMoeBuffer(), plan.getPlainOrder());
}

/// `[dp, micro]` with the inner part of the axis after it.
static Attribute insertAfter(Attribute list, StringAttr axis,
                             StringAttr inner) {
  llvm::SmallVector<Attribute> names;
  for (Attribute name : cast<ArrayAttr>(list)) {
    names.push_back(name);
    if (name == axis)
      names.push_back(inner);
  }
  return ArrayAttr::get(axis.getContext(), names);
}

static AssignAttr renamed(AssignAttr assign, StringAttr axis,
                          StringAttr inner) {
  llvm::SmallVector<NamedAttribute> factors;
  for (NamedAttribute factor : assign.getFactors())
    factors.push_back(
        {factor.getName(), insertAfter(factor.getValue(), axis, inner)});
  llvm::SmallVector<StringAttr> pending;
  for (StringAttr name : assign.getPending()) {
    pending.push_back(name);
    if (name == axis)
      pending.push_back(inner);
  }
  MLIRContext *context = axis.getContext();
  return AssignAttr::get(context, DictionaryAttr::get(context, factors),
                         pending, assign.getVariants(), assign.getBlocks(),
                         assign.getRouted());
}

/// The axis to split, if there is one; fails as `findSplit`.
static FailureOr<Split> splitOf(ModelOp model) {
  PlanAttr plan = getPlan(model);
  if (plan.getZero() == 0 || plan.getShardGroup() == 0)
    return Split();
  return findSplit(model, plan);
}

LogicalResult kerf::checkShardAxes(ModelOp model) {
  FailureOr<Split> split = splitOf(model);
  if (failed(split) || split->axis < 0)
    return split;
  auto diagnostic = model.emitOpError()
                    << "is planned with a shard group that ends inside axis "
                    << getPlan(model).getMesh().getNames()[split->axis];
  diagnostic.attachNote() << "run 'kerf-split-shard-axis' before";
  return diagnostic;
}

static LogicalResult splitShardAxis(ModelOp model) {
  PlanAttr plan = getPlan(model);
  FailureOr<Split> split = splitOf(model);
  if (failed(split) || split->axis < 0)
    return split;
  MLIRContext *context = model.getContext();
  llvm::SmallVector<StringAttr> names(plan.getMesh().getNames());
  llvm::SmallVector<int64_t> sizes(plan.getMesh().getSizes());
  StringAttr axis = names[split->axis];
  auto inner = StringAttr::get(context, axis.getValue() + ".shard");
  sizes[split->axis] /= split->inner;
  names.insert(names.begin() + split->axis + 1, inner);
  sizes.insert(sizes.begin() + split->axis + 1, split->inner);
  model->setAttr(kPlanAttrName,
                 withMesh(plan, MeshAttr::get(context, names, sizes)));
  model.getBody().walk([&](Operation *op) {
    if (auto assign = op->getAttrOfType<AssignAttr>(kAssignAttrName))
      op->setAttr(kAssignAttrName, renamed(assign, axis, inner));
  });
  return success();
}

namespace {
struct SplitShardAxis : kerf::impl::SplitShardAxisPassBase<SplitShardAxis> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>())
      if (failed(splitShardAxis(model)))
        return signalPassFailure();
  }
};
} // namespace
