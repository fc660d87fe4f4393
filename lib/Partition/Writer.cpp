#include "Writer.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kerf;

ArrayAttr kerf::axesAttr(MLIRContext *context, const PlanAxes &axes,
                         llvm::ArrayRef<unsigned> list) {
  llvm::SmallVector<Attribute> names;
  for (unsigned axis : list)
    names.push_back(StringAttr::get(context, axes.nameOf(axis)));
  return ArrayAttr::get(context, names);
}

Operation *kerf::opBefore(const OpBuilder &builder) {
  Block *block = builder.getInsertionBlock();
  return builder.getInsertionPoint() == block->begin()
             ? nullptr
             : &*std::prev(builder.getInsertionPoint());
}

void kerf::setPhases(Operation *before, const OpBuilder &builder,
                     Operation *madeFor) {
  PhaseAttr phase = getPhase(madeFor);
  Block::iterator op = before ? std::next(before->getIterator())
                              : builder.getInsertionBlock()->begin();
  for (; phase && op != builder.getInsertionPoint(); ++op)
    if (!getPhase(&*op))
      op->setAttr(kPhaseAttrName, phase);
}

OpBuilder FunctionWriter::atHead() {
  Block *body = &func.getBody().front();
  OpBuilder builder = OpBuilder::atBlockBegin(body);
  if (head)
    builder.setInsertionPointAfter(head);
  return builder;
}

OpBuilder FunctionWriter::atEnd() {
  Block *body = &func.getBody().front();
  return OpBuilder::atBlockTerminator(body);
}

Value FunctionWriter::offset(llvm::ArrayRef<unsigned> list, int64_t localSize) {
  if (list.empty())
    return {};
  llvm::SmallVector<int64_t> strides(list.size());
  int64_t stride = localSize;
  for (size_t i = list.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= axes.sizeOf(list[i]);
  }
  ArrayAttr names = axesAttr(func.getContext(), axes, list);
  for (spmd::OffsetOp known : offsets)
    if (known.getAxes() == names &&
        known.getStrides() == llvm::ArrayRef<int64_t>(strides))
      return known.getResult();
  OpBuilder builder = atHead();
  auto made = spmd::OffsetOp::create(builder, func.getLoc(), names, strides);
  endHead(made);
  offsets.push_back(made);
  return made.getResult();
}

/// A dimension that is made of blocks becomes two, the blocks and the part of
/// one; the step works on the latter.
Value FunctionWriter::buildStepInBlocks(OpBuilder &builder, Location loc,
                                        Value value,
                                        const ConversionStep &step) {
  ConversionStep within = step;
  within.blocks = within.concatBlocks = 1;
  llvm::SmallVector<int64_t> split, joined;
  llvm::SmallVector<bool> isSecond;
  auto push = [&](int64_t size, bool second) {
    split.push_back(size);
    isSecond.push_back(second);
  };
  for (auto [d, size] : llvm::enumerate(typeOf(value).getShape())) {
    bool isDim = int64_t(d) == step.dim;
    bool isConcat =
        step.kind == ConversionStep::AllToAll && int64_t(d) == step.concat;
    int64_t blocks = isDim ? step.blocks : isConcat ? step.concatBlocks : 1;
    if (blocks > 1)
      push(blocks, false);
    if (isDim)
      within.dim = split.size();
    else if (isConcat)
      within.concat = split.size();
    push(size / blocks, blocks > 1);
  }
  PlainBuilder p{builder, loc};
  Value result = buildStep(builder, loc, p.reshape(value, split), within);
  for (auto [size, second] :
       llvm::zip_equal(typeOf(result).getShape(), isSecond))
    if (second)
      joined.back() *= size;
    else
      joined.push_back(size);
  return p.reshape(result, joined);
}

Value FunctionWriter::buildStep(OpBuilder &builder, Location loc, Value value,
                                const ConversionStep &step) {
  if (step.blocks > 1 || step.concatBlocks > 1)
    return buildStepInBlocks(builder, loc, value, step);
  ArrayAttr names = axesAttr(builder.getContext(), axes, step.axes);
  int64_t ranks = axes.sizeOf(step.axes);
  auto type = typeOf(value);
  llvm::SmallVector<int64_t> shape(type.getShape());
  switch (step.kind) {
  case ConversionStep::AllReduce:
    return spmd::AllReduceOp::create(builder, loc, type, step.reduce, value,
                                     names);
  case ConversionStep::ReduceScatter:
    shape[step.dim] /= ranks;
    return spmd::ReduceScatterOp::create(builder, loc, withShape(type, shape),
                                         step.reduce, value, step.dim, names);
  case ConversionStep::AllGather:
    shape[step.dim] *= ranks;
    return spmd::AllGatherOp::create(builder, loc, withShape(type, shape),
                                     value, step.dim, names);
  case ConversionStep::AllToAll:
    shape[step.dim] /= ranks;
    shape[step.concat] *= ranks;
    return spmd::AllToAllOp::create(builder, loc, withShape(type, shape), value,
                                    step.dim, step.concat, names);
  case ConversionStep::SliceOwn:
    shape[step.dim] /= ranks;
    return spmd::SliceOwnOp::create(builder, loc, withShape(type, shape), value,
                                    step.dim, names);
  }
  llvm_unreachable("covered switch");
}

Value FunctionWriter::convertFrom(OpBuilder &builder, const LocalValue &from,
                                  const Layout &layout, Operation *reader) {
  std::string error;
  auto steps = planConversion(from.layout, layout, axes, error);
  assert(succeeded(steps) && "checked with the plan");
  Operation *before = opBefore(builder);
  Value value = from.value;
  for (const ConversionStep &step : *steps)
    value = buildStep(builder, reader->getLoc(), value, step);
  setPhases(before, builder, reader);
  return value;
}

bool kerf::isLocal(const Layout &from, const Layout &to, const PlanAxes &axes) {
  std::string error;
  auto steps = planConversion(from, to, axes, error);
  return succeeded(steps) &&
         llvm::all_of(*steps, [](const ConversionStep &step) {
           return step.kind == ConversionStep::SliceOwn;
         });
}

bool FunctionWriter::exchangesFor(Value global, const Layout &layout) const {
  auto reaches = [&](const LocalValue &from) {
    return from.layout == layout || isLocal(from.layout, layout, axes);
  };
  auto known = converted.find(global);
  return !reaches(get(global)) &&
         (known == converted.end() || llvm::none_of(known->second, reaches));
}

/// Rows of experts that are all one number.
Value FunctionWriter::makeNumber(OpBuilder &builder, Value global,
                                 const Layout &layout, Operation *reader) {
  SplatElementsAttr splat;
  matchPattern(global, m_Constant(&splat));
  Operation *before = opBefore(builder);
  auto type = localType(global.getType(), layout, axes);
  Value value =
      ConstantOp::create(builder, reader->getLoc(), splat.resizeSplat(type));
  setPhases(before, builder, reader);
  return value;
}

/// What another reader has gathered is sliced again, where that spares an
/// exchange: the gradient of a bias reads its columns of what a matmul
/// gathers.
Value FunctionWriter::convert(OpBuilder &builder, Value global,
                              const Layout &layout, Operation *reader) {
  LocalValue own = get(global);
  for (const LocalValue &known : converted[global])
    if (known.layout == layout)
      return known.value;
  if (layout.ragged >= 0 && isOneNumber(global))
    return makeNumber(builder, global, layout, reader);
  if (!isLocal(own.layout, layout, axes))
    for (const LocalValue &known : converted[global])
      if (isLocal(known.layout, layout, axes)) {
        own = known;
        break;
      }
  OpBuilder at = builder;
  // What does not change in the repeat is converted once, before it.
  if (repeat && global.getParentBlock()->getParentOp() != original)
    at.setInsertionPoint(repeat);
  Value value = convertFrom(at, own, layout, reader);
  if (value != get(global).value)
    converted[global].push_back({value, layout});
  return value;
}
