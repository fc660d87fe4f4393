//===- FuseEpilogues.cpp - matmuls that compute what follows them ---------===//
//
// Which matmuls end in what is decided on plain data
// (kerf/Kernels/Epilogues.h), as the planner decides it, too.
// Steps, per block: the units of 8-bit floats with the matmul that they scale;
// then write its ops as plain data, and build one `spmd.fused_matmul` for each
// matmul that has an end.
// Cost: linear in the ops of a block.
//
//   p = einsum x8, w8; y = p * broadcast (cast (unit x) * cast (unit w))
//     becomes  y = fused_matmul { einsum, cast, mul, broadcast, mul }, which
//     reads
//              both units
//
//===----------------------------------------------------------------------===//

#include "Classify.h"

#include "kerf/Dialect/Kerf/MatmulEnd.h"
#include "kerf/Fuse/Passes.h"
#include "kerf/Kernels/Epilogues.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "fuse"

namespace kerf {
#define GEN_PASS_DEF_FUSEEPILOGUESPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;
namespace epilogues = kerf::kernels::epilogues;

//===----------------------------------------------------------------------===//
// What fits
//===----------------------------------------------------------------------===//

/// The form of a matmul that a library computes, without a batch and with a
/// dense result; or nothing. Those of 8-bit floats have rules of their own.
static std::optional<MatmulForm> formOf(Operation *op) {
  if (!isLibraryMatmul(op) || llvm::any_of(op->getOperandTypes(), isFloat8))
    return std::nullopt;
  std::optional<MatmulForm> form = getMatmulForm(op);
  bool fits =
      form && form->batch == 1 && (form->m == 1 || form->c.row == form->n);
  return fits ? form : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

/// Replaces `members`, which stand in the order of their edges, by one
/// `spmd.fused_matmul` before `at` that gives `results`.
static void build(llvm::ArrayRef<Operation *> members,
                  llvm::ArrayRef<Value> results, Operation *at) {
  llvm::SetVector<Value> reads;
  llvm::SmallVector<Location> locations;
  llvm::SmallVector<llvm::StringRef> kinds;
  for (Operation *op : members) {
    locations.push_back(op->getLoc());
    kinds.push_back(op->getName().stripDialect());
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(members, operand.getDefiningOp()))
        reads.insert(operand);
  }
  OpBuilder builder(at);
  Location loc = FusedLoc::get(at->getContext(), locations);
  auto matmul = spmd::FusedMatmulOp::create(
      builder, loc, ValueRange(results).getTypes(), reads.getArrayRef());
  if (PhaseAttr phase = getPhase(members.front()))
    matmul->setAttr(kPhaseAttrName, phase);
  matmul->setAttr(kKindAttrName, builder.getStringAttr(llvm::join(kinds, "+")));
  Block &body = matmul.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value read : reads)
    mapping.map(read, body.addArgument(read.getType(), read.getLoc()));
  builder.setInsertionPointToStart(&body);
  for (Operation *op : members)
    builder.clone(*op, mapping);
  llvm::SmallVector<Value> yields;
  for (Value result : results)
    yields.push_back(mapping.lookup(result));
  spmd::YieldOp::create(builder, loc, yields);
  for (auto [old, made] : llvm::zip_equal(results, matmul.getResults()))
    Value(old).replaceAllUsesWith(made);
  for (Operation *op : llvm::reverse(members))
    if (op->use_empty()) // scalars may have other readers
      op->erase();
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

static bool isF32Scalar(Value value) {
  return typeOf(value).getRank() == 0 && elementOf(value).isF32();
}

/// Collects the ops from f32 powers of two to the scalar `scale`, casts and
/// products of scalars, in the order of their edges, and counts those powers.
/// False where `scale` is something else.
static bool collectScale(Value scale, Block *block,
                         llvm::SetVector<Operation *> &ops, int &powers) {
  Operation *def = scale.getDefiningOp();
  if (isF32Scalar(scale) && isPowerOfTwo(scale) && !isConversion(def)) {
    ++powers;
    return true;
  }
  if ((!isConversion(def) && !isa_and_nonnull<MulOp>(def)) ||
      def->getBlock() != block || typeOf(scale).getRank() != 0 ||
      (isConversion(def) && !keepsPowers(def)))
    return false;
  for (Value operand : def->getOperands())
    if (!collectScale(operand, block, ops, powers))
      return false;
  ops.insert(def);
  return true;
}

/// A product by units joins the matmul that makes it. Scalars that others read
/// as well are computed for them outside, too.
static void fuseScale(MulOp mul, bool wide) {
  Operation *matmul = mul.getLhs().getDefiningOp();
  Operation *factor = mul.getRhs().getDefiningOp();
  if (!isLibraryMatmul(matmul) || matmul->getBlock() != mul->getBlock() ||
      !mul.getLhs().hasOneUse() || !isView(factor, ViewKind::Repeat) ||
      !viewOf(factor)->dims.empty() || matmul->getNumOperands() != 2 ||
      (!wide && !llvm::all_of(matmul->getOperandTypes(), isFloat8)))
    return;
  std::optional<MatmulForm> form = getMatmulForm(matmul);
  llvm::SetVector<Operation *> scalars;
  int powers = 0;
  if (!form || form->batch != 1 ||
      !collectScale(factor->getOperand(0), mul->getBlock(), scalars, powers) ||
      powers > 2)
    return;
  llvm::SmallVector<Operation *> members = {matmul};
  llvm::append_range(members, scalars);
  members.push_back(factor);
  members.push_back(mul);
  build(members, {mul.getResult()}, mul);
}

//===----------------------------------------------------------------------===//
// Blocks as plain data
//===----------------------------------------------------------------------===//

namespace {
/// The ops of a block, and those inside them, which only read.
class BlockOps {
public:
  explicit BlockOps(Block &block) : block(block) {
    for (Operation &op : block.without_terminator())
      op.walk<WalkOrder::PreOrder>([this](Operation *inner) {
        add(inner);
        bool isOne = isa<spmd::FusedOp, spmd::FusedMatmulOp>(inner);
        return isOne ? WalkResult::skip() : WalkResult::advance();
      });
    for (Value value : block.getTerminator()->getOperands())
      graph.tensors[tensorOf(value)].leaves = true;
  }

  void fuse(epilogues::Ends ends) {
    for (const epilogues::Epilogue &found :
         epilogues::findEpilogues(graph, ends)) {
      llvm::SmallVector<Operation *> members;
      llvm::SmallVector<Value> results;
      for (int member : found.members)
        members.push_back(ops[member]);
      for (int tensor : found.results)
        results.push_back(values[tensor]);
      LDBG() << members.back()->getName() << " ends the matmul at "
             << members.front()->getLoc();
      build(members, results, ops[found.at]);
    }
  }

private:
  Block &block;
  epilogues::Graph graph;
  std::vector<Operation *> ops; ///< of the graph
  std::vector<Value> values;    ///< of the graph's tensors
  llvm::DenseMap<Value, int> tensors;
  llvm::DenseMap<Type, int> types;

  int tensorOf(Value value) {
    auto [at, isNew] = tensors.try_emplace(value, values.size());
    if (isNew) {
      values.push_back(value);
      epilogues::Tensor &tensor = graph.tensors.emplace_back();
      if (auto type = dyn_cast<RankedTensorType>(value.getType())) {
        tensor.type = types.try_emplace(type.getElementType(), types.size())
                          .first->second;
        tensor.columns = type.getRank() ? type.getShape().back() : 0;
      }
      tensor.inKernel = isInKernel(value);
    }
    return at->second;
  }

  /// True for a value from outside the block that a kernel there makes, perhaps
  /// through views, or reads.
  bool isInKernel(Value value) const {
    auto isInside = [&](Region *region) {
      return block.getParent()->isAncestor(region);
    };
    Operation *def = value.getDefiningOp();
    if (!def || isInside(value.getParentRegion()))
      return false;
    bool isMade = isStridedView(def)
                      ? llvm::any_of(def->getOperands(),
                                     [&](Value x) { return isInKernel(x); })
                      : isKernelOp(def);
    return isMade || llvm::any_of(value.getUsers(), [&](Operation *user) {
             return !isInside(user->getParentRegion()) && isKernelOp(user);
           });
  }

  void add(Operation *op) {
    epilogues::Op plain;
    plain.isKernel = isKernelOp(op);
    for (Value operand : op->getOperands())
      plain.reads.push_back(tensorOf(operand));
    for (Value result : op->getResults())
      plain.writes.push_back(tensorOf(result));
    if (op->getBlock() == &block)
      setRole(op, plain);
    ops.push_back(op);
    graph.ops.push_back(std::move(plain));
  }

  static epilogues::Role roleOf(Operation *op) {
    using epilogues::Role;
    switch (matmulEndOf(op)) {
    case MatmulEnd::Gelu:
      return Role::Gelu;
    case MatmulEnd::GeluBackward:
      return Role::GeluBackward;
    case MatmulEnd::RowSum:
      return Role::RowSum;
    case MatmulEnd::None:
      break;
    }
    if (isConversion(op))
      return Role::Cast;
    return isStridedView(op) ? Role::View : Role::Other;
  }

  void setRole(Operation *op, epilogues::Op &plain) {
    std::optional<MatmulForm> form = formOf(op);
    plain.role = form ? epilogues::Role::Matmul : roleOf(op);
    if (!form)
      return;
    plain.columns = form->n;
    plain.hasOneType =
        llvm::all_equal(llvm::map_range(
            plain.reads,
            [&](int tensor) { return graph.tensors[tensor].type; })) &&
        graph.tensors[plain.reads[0]].type ==
            graph.tensors[plain.writes[0]].type;
    if (op->getNumOperands() != 2 || plain.reads[0] == plain.reads[1] ||
        graph.tensors[plain.reads[0]].type !=
            graph.tensors[plain.reads[1]].type)
      return;
    for (unsigned operand : {0, 1})
      if (int tensor = plain.reads[operand];
          sumsOverRows(*form, operand, graph.tensors[tensor].columns))
        plain.sumsRowsOf.push_back(tensor);
  }
};
} // namespace

namespace {
struct FuseEpilogues : kerf::impl::FuseEpiloguesPassBase<FuseEpilogues> {
  using FuseEpiloguesPassBase::FuseEpiloguesPassBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<spmd::SpmdDialect>();
  }

  void runOnOperation() override {
    for (Block *block : kernelBlocks(getOperation())) {
      for (MulOp mul : llvm::make_early_inc_range(block->getOps<MulOp>()))
        fuseScale(mul, wideScales);
      if (gelu || sums)
        BlockOps(*block).fuse({gelu, sums});
    }
  }
};
} // namespace
