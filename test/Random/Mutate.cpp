#include "Mutate.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

llvm::StringRef test::describeMistake(Mistake mistake) {
  switch (mistake) {
  case Mistake::DropCollective:
    return "dropped collective";
  case Mistake::WrongGroup:
    return "wrong group";
  case Mistake::WrongFactor:
    return "wrong factor";
  case Mistake::SwapShards:
    return "swapped shards";
  case Mistake::StaleMicro:
    return "stale micro-batch";
  case Mistake::DropGatherParam:
    return "dropped gather of pieces";
  case Mistake::DropMessage:
    return "dropped message";
  case Mistake::WrongOffset:
    return "wrong offset";
  case Mistake::NormAlone:
    return "norm without a group";
  }
  llvm_unreachable("covered switch");
}

static void replace(Operation *op, Value value) {
  op->getResult(0).replaceAllUsesWith(value);
  op->erase();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// Copies of the own part for the parts of all.
static Value repeatPart(OpBuilder &builder, Location loc, Value part,
                        int64_t dim, int64_t count) {
  llvm::SmallVector<Value> parts(count, part);
  return ConcatOp::create(builder, loc, dim, parts);
}

static Value sliceOwn(OpBuilder &builder, Operation *op, Value whole,
                      int64_t dim, ArrayAttr axes, int64_t count) {
  auto type = cast<RankedTensorType>(whole.getType());
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape[dim] /= count;
  return spmd::SliceOwnOp::create(builder, op->getLoc(), type.clone(shape),
                                  whole, dim, axes);
}

/// What a rank has without the others.
static void dropOne(Operation *op) {
  OpBuilder builder(op);
  Value own = op->getOperand(0);
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  int64_t count = op->getParentOfType<spmd::ProgramOp>().getAxesSize(axes);
  if (auto gather = dyn_cast<spmd::AllGatherOp>(op))
    own = repeatPart(builder, op->getLoc(), own, gather.getDim(), count);
  if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op))
    own = sliceOwn(builder, op, own, scatter.getDim(), axes, count);
  if (auto exchange = dyn_cast<spmd::AllToAllOp>(op)) {
    own = sliceOwn(builder, op, own, exchange.getSplit(), axes, count);
    own = repeatPart(builder, op->getLoc(), own, exchange.getConcat(), count);
  }
  replace(op, own);
}

static void drop(Operation *op) {
  for (Operation *partner : getPartners(op))
    dropOne(partner);
}

static void regroup(const Site &site) {
  for (Operation *partner : getPartners(site.op))
    partner->setAttr("axes", site.axes);
}

static Value scale(OpBuilder &builder, Value value, double factor) {
  Value constant =
      ConstantOp::create(builder, value.getLoc(), value.getType(), factor);
  return MulOp::create(builder, value.getLoc(), value, constant);
}

/// Times N, 1/N or 2: of a result, or of what is stored, sent or taken.
static void rescale(Operation *op, int64_t variant) {
  if (op->getNumResults() == 0) {
    OpBuilder builder(op);
    op->setOperand(0, scale(builder, op->getOperand(0), 2));
    return;
  }
  for (Operation *partner : getPartners(op)) {
    OpBuilder builder(partner->getContext());
    builder.setInsertionPointAfter(partner);
    double ranks = partner->getParentOfType<spmd::ProgramOp>().getAxesSize(
        partner->getAttrOfType<ArrayAttr>("axes"));
    double factor = variant == 0 ? ranks : variant == 1 ? 1 / ranks : 2;
    Value result = partner->getResult(0);
    Value scaled = scale(builder, result, factor);
    result.replaceAllUsesExcept(scaled, scaled.getDefiningOp());
  }
}

static Value rotate(OpBuilder &builder, Value value, ArrayAttr axes) {
  return spmd::RotateOp::create(builder, value.getLoc(), value.getType(), value,
                                axes);
}

/// Of a gather and of an update the operand, else the result.
static void swapShards(const Site &site) {
  Operation *op = site.op;
  OpBuilder builder(op);
  auto axes = site.axes ? site.axes : op->getAttrOfType<ArrayAttr>("axes");
  if (isa<spmd::AllGatherOp, UpdateOp>(op)) {
    op->setOperand(0, rotate(builder, op->getOperand(0), axes));
    return;
  }
  builder.setInsertionPointAfter(op);
  Value rotated = rotate(builder, op->getResult(0), axes);
  op->getResult(0).replaceAllUsesExcept(rotated, rotated.getDefiningOp());
}

//===----------------------------------------------------------------------===//
// Micro-batches
//===----------------------------------------------------------------------===//

static void overwrite(spmd::AccumulateOp accumulate) {
  OpBuilder builder(accumulate);
  spmd::WriteOp::create(builder, accumulate.getLoc(), accumulate.getValue(),
                        accumulate.getTarget());
  accumulate.erase();
}

static void runAnother(spmd::CallOp call, bool all) {
  auto program = call->getParentOfType<spmd::ProgramOp>();
  uint64_t micro = *call.getMicro();
  uint64_t next = (micro + 1) % program.getMicroBatches();
  if (!all) {
    call.setMicro(next);
    return;
  }
  for (auto other : call->getParentOfType<ModuleOp>().getOps<spmd::ProgramOp>())
    for (auto each :
         other.getSchedule("train").getBody().getOps<spmd::CallOp>())
      if (each.getMicro() == micro)
        each.setMicro(next);
}

/// A buffer keeps what is received until the next call; zeros before the first.
static void receiveLate(spmd::RecvOp recv) {
  auto program = recv->getParentOfType<spmd::ProgramOp>();
  Location loc = recv.getLoc();
  Type type = recv.getResult().getType();
  auto builder = OpBuilder::atBlockBegin(&program.getBody().front());
  spmd::BufferOp::create(builder, loc, "late", spmd::BufferKind::Step, type);
  auto start = spmd::FuncOp::create(builder, loc, "start_late");
  builder.createBlock(&start.getBody());
  Value zeros = ConstantOp::create(builder, loc, type, 0.0);
  spmd::WriteOp::create(builder, loc, zeros, "late");
  spmd::ReturnOp::create(builder, loc);
  builder.setInsertionPointToStart(
      &program.getSchedule("train").getBody().front());
  spmd::CallOp::create(builder, loc, "start_late", IntegerAttr());
  builder.setInsertionPoint(recv);
  Value late = spmd::ReadOp::create(builder, loc, type, "late");
  recv.getResult().replaceAllUsesWith(late);
  builder.setInsertionPointAfter(recv);
  spmd::WriteOp::create(builder, loc, recv.getResult(), "late");
}

static void mistakeMicro(const Site &site) {
  switch (static_cast<Stale>(site.variant)) {
  case Stale::Overwrite:
    return overwrite(cast<spmd::AccumulateOp>(site.op));
  case Stale::RunAnother:
    return runAnother(cast<spmd::CallOp>(site.op), /*all=*/true);
  case Stale::CallAnother:
    return runAnother(cast<spmd::CallOp>(site.op), /*all=*/false);
  case Stale::ReceiveLate:
    return receiveLate(cast<spmd::RecvOp>(site.op));
  case Stale::OneCopy:
    return cast<spmd::BufferOp>(site.op).setKind(spmd::BufferKind::Step);
  }
}

//===----------------------------------------------------------------------===//
// The rest
//===----------------------------------------------------------------------===//

static void dropMessage(Operation *send) {
  Operation *recv = findReceive(send);
  OpBuilder builder(recv);
  Value zeros = ConstantOp::create(builder, recv->getLoc(),
                                   recv->getResult(0).getType(), 0.0);
  replace(recv, zeros);
  send->erase();
}

static void forgetStride(spmd::OffsetOp offset, int64_t number) {
  llvm::SmallVector<int64_t> strides(offset.getStrides());
  strides[number] = 0;
  offset.setStrides(strides);
}

void test::makeMistake(const Site &site) {
  switch (site.mistake) {
  case Mistake::DropCollective:
  case Mistake::NormAlone:
    return drop(site.op);
  case Mistake::WrongGroup:
    return regroup(site);
  case Mistake::WrongFactor:
    return rescale(site.op, site.variant);
  case Mistake::SwapShards:
    return swapShards(site);
  case Mistake::StaleMicro:
    return mistakeMicro(site);
  case Mistake::DropGatherParam:
    return site.op->erase();
  case Mistake::DropMessage:
    return dropMessage(site.op);
  case Mistake::WrongOffset:
    return forgetStride(cast<spmd::OffsetOp>(site.op), site.variant);
  }
}
