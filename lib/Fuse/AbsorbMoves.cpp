//===- AbsorbMoves.cpp - slices and concatenations inside kernels ---------===//
//
// Problem: a slice that a kernel reads and a concatenation of what kernels make
// are passes over memory that compute nothing: a rotary embedding of some of a
// head's channels is a slice, a rotation, a slice and a concatenation.
// Idea: elements of a kernel are pulled, so a slice is only another address,
// and a concatenation a choice between its parts.
// Steps, per block: a slice that kernels alone read is done by each of them; a
// concatenation computes the parts that it alone reads.
//
//   a = slice q; b = rope a; c = slice q; d = concat b, c: one kernel, which
//   reads q once and writes d.
//
//===----------------------------------------------------------------------===//

#include "Classify.h"

#include "kerf/Fuse/Passes.h"
#include "kerf/Interfaces/KernelInterface.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

namespace kerf {
#define GEN_PASS_DEF_ABSORBMOVESPASS
#include "kerf/Fuse/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
/// What a kernel reads: another kernel's result, perhaps reshaped.
struct Read {
  spmd::FusedOp maker;
  unsigned result = 0;
  llvm::SmallVector<Operation *> views; ///< the first of them reads the result
};
} // namespace

static Read readOf(Value value, Block *block) {
  Read read;
  while (isView(value, ViewKind::Rename)) {
    Operation *view = value.getDefiningOp();
    if (view->getBlock() != block)
      return {};
    read.views.insert(read.views.begin(), view);
    value = view->getOperand(0);
  }
  auto maker = value.getDefiningOp<spmd::FusedOp>();
  if (maker && maker->getBlock() == block) {
    read.maker = maker;
    read.result = cast<OpResult>(value).getResultNumber();
  }
  return read;
}

static bool hasOnly(spmd::FusedOp kernel,
                    llvm::function_ref<bool(Operation &)> holds) {
  return llvm::all_of(kernel.getBody().front().without_terminator(), holds);
}

static bool isSlice(spmd::FusedOp kernel) {
  return kernel && hasOnly(kernel, [](Operation &op) {
           return isView(&op, ViewKind::Part, ViewKind::Rename);
         });
}

static bool isConcat(spmd::FusedOp kernel) {
  return hasOnly(kernel, [](Operation &op) {
    return isView(&op, ViewKind::Join, ViewKind::Part, ViewKind::Rename);
  });
}

/// True for a kernel that asks its operands for elements where it makes its
/// own, at places that are known when it is compiled.
static bool pulls(spmd::FusedOp kernel) {
  return hasOnly(kernel, [](Operation &op) {
    bool isMoved = isView(&op, ViewKind::Part, ViewKind::Rename, ViewKind::Pad,
                          ViewKind::Join);
    return (isPulled(op) || isMoved || isa<ReduceOp>(op)) && !getOwnKernel(&op);
  });
}

/// True for a kernel whose elements can be computed one by one.
static bool isPulledWhole(spmd::FusedOp kernel) {
  return kernel && pulls(kernel) &&
         hasOnly(kernel, [](Operation &op) { return !isa<ReduceOp>(op); });
}

/// True if kernels that pull are all that reads a value, perhaps reshaped.
static bool isPulledByAll(Value value, Block *block) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (user->getBlock() != block)
      return false;
    if (isView(user, ViewKind::Rename))
      return isPulledByAll(user->getResult(0), block);
    auto reader = dyn_cast<spmd::FusedOp>(user);
    return reader && pulls(reader);
  });
}

/// True for a slice that each of its readers takes.
static bool isTaken(spmd::FusedOp kernel) {
  return isSlice(kernel) && kernel->getNumResults() == 1 &&
         isPulledByAll(kernel->getResult(0), kernel->getBlock());
}

/// The only op that reads a value, perhaps reshaped, or null.
static Operation *onlyReader(Value value) {
  while (value.hasOneUse() && isView(*value.user_begin(), ViewKind::Rename))
    value = value.user_begin()->getResult(0);
  return value.hasOneUse() ? *value.user_begin() : nullptr;
}

/// True if one op reads all that a kernel makes.
static bool hasOneReader(spmd::FusedOp maker) {
  Operation *reader = onlyReader(maker->getResult(0));
  return reader && llvm::all_of(maker->getResults(), [&](Value result) {
           return onlyReader(result) == reader;
         });
}

/// The kinds of two kernels, each once.
static std::string joinKinds(Operation *first, Operation *second) {
  llvm::SetVector<llvm::StringRef> kinds;
  for (Operation *op : {first, second})
    if (auto kind = op->getAttrOfType<StringAttr>(kKindAttrName)) {
      llvm::SmallVector<llvm::StringRef> parts;
      kind.getValue().split(parts, '+');
      kinds.insert(parts.begin(), parts.end());
    }
  return llvm::join(kinds, "+");
}

/// Copies the body of a kernel whose operands are mapped; its results.
static llvm::SmallVector<Value>
copyBody(spmd::FusedOp kernel, OpBuilder &builder, const IRMapping &outside) {
  Block &body = kernel.getBody().front();
  IRMapping mapping;
  for (auto [argument, operand] :
       llvm::zip(body.getArguments(), kernel->getOperands()))
    mapping.map(argument, outside.lookup(operand));
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  return llvm::map_to_vector(
      body.getTerminator()->getOperands(),
      [&](Value value) { return mapping.lookupOrDefault(value); });
}

namespace {
/// An operand that another kernel makes.
struct Absorbed {
  Value value;
  Read read;
};
} // namespace

/// The operands of a kernel that `maker` makes.
static llvm::SmallVector<Absorbed> absorbedFrom(spmd::FusedOp maker,
                                                spmd::FusedOp reader) {
  llvm::SmallVector<Absorbed> found;
  for (Value operand : reader->getOperands())
    if (Read read = readOf(operand, reader->getBlock()); read.maker == maker)
      found.push_back({operand, read});
  return found;
}

/// The kernel `reader` with `maker`, which makes operands of it, inside.
static spmd::FusedOp absorb(spmd::FusedOp reader, spmd::FusedOp maker,
                            llvm::ArrayRef<Absorbed> absorbed) {
  llvm::SetVector<Value> reads;
  for (Value operand : reader->getOperands())
    if (llvm::none_of(absorbed,
                      [&](auto &own) { return own.value == operand; }))
      reads.insert(operand);
  reads.insert(maker->operand_begin(), maker->operand_end());
  OpBuilder builder(reader);
  auto fused = spmd::FusedOp::create(
      builder,
      FusedLoc::get(reader.getContext(), {maker.getLoc(), reader.getLoc()}),
      reader->getResultTypes(), reads.getArrayRef());
  if (PhaseAttr phase = getPhase(reader))
    fused->setAttr(kPhaseAttrName, phase);
  fused->setAttr(kKindAttrName,
                 builder.getStringAttr(joinKinds(maker, reader)));
  Block &body = fused.getBody().emplaceBlock();
  IRMapping outside;
  for (Value operand : reads)
    outside.map(operand, body.addArgument(operand.getType(), operand.getLoc()));
  builder.setInsertionPointToStart(&body);
  llvm::SmallVector<Value> results = copyBody(maker, builder, outside);
  for (const auto &[value, read] : absorbed) {
    Value made = results[read.result];
    for (Operation *view : read.views)
      made = ReshapeOp::create(builder, view->getLoc(),
                               view->getResult(0).getType(), made);
    outside.map(value, made);
  }
  spmd::YieldOp::create(builder, reader.getLoc(),
                        copyBody(reader, builder, outside));
  reader->replaceAllUsesWith(fused->getResults());
  reader->erase();
  return fused;
}

/// Erases what nothing reads any more: what it read has a reader less.
static void eraseUnread(spmd::FusedOp maker,
                        llvm::ArrayRef<Absorbed> absorbed) {
  for (const Absorbed &own : absorbed)
    for (Operation *view : llvm::reverse(own.read.views))
      if (view->use_empty())
        view->erase();
  if (maker->use_empty())
    maker->erase();
}

/// Absorbs the makers that `takes` allows, and what these read in turn.
static void absorbInto(spmd::FusedOp reader,
                       llvm::function_ref<bool(spmd::FusedOp)> takes) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Value value : reader->getOperands()) {
      spmd::FusedOp maker = readOf(value, reader->getBlock()).maker;
      if (!maker || !takes(maker))
        continue;
      llvm::SmallVector<Absorbed> absorbed = absorbedFrom(maker, reader);
      reader = absorb(reader, maker, absorbed);
      eraseUnread(maker, absorbed);
      changed = true;
      break;
    }
  }
}

static llvm::SmallVector<spmd::FusedOp> kernelsOf(Block &block) {
  return llvm::to_vector(block.getOps<spmd::FusedOp>());
}

static void absorbMoves(Block &block) {
  // Makers come before their readers: none is erased before its turn.
  for (spmd::FusedOp kernel : kernelsOf(block))
    if (!isTaken(kernel) && pulls(kernel))
      absorbInto(kernel, isTaken);
  for (spmd::FusedOp kernel : kernelsOf(block))
    if (isConcat(kernel))
      absorbInto(kernel, [&](spmd::FusedOp maker) {
        return isPulledWhole(maker) && hasOneReader(maker);
      });
}

namespace {
struct AbsorbMoves : kerf::impl::AbsorbMovesPassBase<AbsorbMoves> {
  void runOnOperation() override {
    for (Block *block : kernelBlocks(getOperation()))
      absorbMoves(*block);
  }
};
} // namespace
