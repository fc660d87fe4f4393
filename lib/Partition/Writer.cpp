#include "Writer.h"

using namespace mlir;
using namespace kerf;

ArrayAttr kerf::axesAttr(MLIRContext *context, const PlanAxes &axes,
                         llvm::ArrayRef<unsigned> list) {
  llvm::SmallVector<Attribute> names;
  for (unsigned axis : list)
    names.push_back(StringAttr::get(context, axes.nameOf(axis)));
  return ArrayAttr::get(context, names);
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
  auto made = spmd::OffsetOp::create(builder, func.getLoc(), names,
                                     builder.getDenseI64ArrayAttr(strides));
  endHead(made);
  offsets.push_back(made);
  return made.getResult();
}

Value FunctionWriter::buildStep(OpBuilder &builder, Location loc, Value value,
                                const ConversionStep &step) {
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

Value FunctionWriter::convert(OpBuilder &builder, Value global,
                              const Layout &layout, Operation *reader) {
  LocalValue own = get(global);
  for (const LocalValue &known : converted[global])
    if (known.layout == layout)
      return known.value;
  std::string error;
  auto steps = planConversion(own.layout, layout, axes, error);
  assert(succeeded(steps) && "checked with the plan");
  if (steps->empty())
    return own.value;
  OpBuilder at = builder;
  // What does not change in the repeat is converted once, before it.
  if (repeat && global.getParentBlock()->getParentOp() != original)
    at.setInsertionPoint(repeat);
  Value value = own.value;
  for (const ConversionStep &step : *steps) {
    value = buildStep(at, reader->getLoc(), value, step);
    if (PhaseAttr phase = getPhase(reader))
      value.getDefiningOp()->setAttr(kPhaseAttrName, phase);
  }
  converted[global].push_back({value, layout});
  return value;
}
