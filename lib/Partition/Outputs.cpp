//===- Outputs.cpp - what a step returns ----------------------------------===//
//
// Every rank holds every output. What ranks have parts of in every micro-batch
// (the loss of data ranks) each adds up in a buffer of its own, and at the end
// of the step all parts are added, once. Of a pipeline, one stage makes an
// output; it keeps it in such a buffer, and the others have zero.
//
//===----------------------------------------------------------------------===//

#include "ProgramWriter.h"

#include "kerf/Dialect/Kerf/Metrics.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include <map>

using namespace mlir;
using namespace kerf;

spmd::OutputOp ProgramWriter::outputFor(unsigned index, bool sum) {
  ReturnOp end = training.model.getReturn();
  Value value = end.getValues()[index];
  llvm::StringRef label = getResultLabel(value);
  std::string name = end.getOutputName(index);
  if (Operation *known = SymbolTable::lookupSymbolIn(program, name))
    return cast<spmd::OutputOp>(known);
  OpBuilder builder(program.getContext());
  builder.setInsertionPoint(functions.begin()->second.getFunc());
  StringAttr shown =
      index && label != "value" ? builder.getStringAttr(label) : StringAttr();
  return spmd::OutputOp::create(builder, value.getLoc(), name,
                                sum ? spmd::OutputKind::Sum
                                    : spmd::OutputKind::Last,
                                shown, value.getType());
}

/// What the stage that makes an output keeps of it until the end of the step.
spmd::BufferOp ProgramWriter::partFor(spmd::OutputOp output) {
  std::string name = output.getSymName().str() + ".part";
  if (Operation *known = SymbolTable::lookupSymbolIn(program, name))
    return cast<spmd::BufferOp>(known);
  OpBuilder builder(output);
  return spmd::BufferOp::create(builder, output.getLoc(), name,
                                spmd::BufferKind::Step, output.getLocalType());
}

/// The layout in which an output is added up over micro-batches, as output
/// `index` of the model: sums over ranks wait for the end of the step.
Layout ProgramWriter::partLayout(unsigned index) {
  ReturnOp end = now->model.getReturn();
  Layout layout = now->plan.ops[end].operands[index];
  const Layout &made = now->plan.values[end.getValues()[index]];
  if (!layout.sums.empty() && made.dims == layout.dims)
    layout.sums = made.sums;
  return layout;
}

/// Axes over which the end of the step adds up an output: those of ranks that
/// have parts of it, and stages, of which one made it.
AxisList ProgramWriter::sumsAtEnd(unsigned index) {
  Value value = now->model.getReturn().getValues()[index];
  Operation *maker = value.getDefiningOp();
  bool isMade = maker && !isSource(maker);
  if (isMade && partOf(maker).kind == PartKind::Update)
    return {};
  AxisList sums = partLayout(index).sums;
  llvm::erase(sums, axes().micro());
  if (isPipeline())
    sums.push_back(*axes().find(kPipelineAxis));
  llvm::sort(sums);
  return sums;
}

void ProgramWriter::writeOutput(Value value, unsigned index) {
  ReturnOp end = now->model.getReturn();
  Layout need = partLayout(index);
  Operation *maker = value.getDefiningOp();
  bool isMade = maker && !isSource(maker), sum = !need.sums.empty();
  bool later = !sumsAtEnd(index).empty();
  spmd::OutputOp output = outputFor(index, sum && !later);
  int64_t last = now->placement.stages() - 1;
  if (later && stage != (isMade ? now->placement.ownerOf(maker) : last))
    return;
  Part part = isMade         ? partOf(maker)
              : evaluating() ? Part{PartKind::Evaluate, last}
                             : Part{PartKind::Update};
  // The prologue of the evaluation is that of training.
  if (part.kind == PartKind::Prologue && originOf(value, part) != value)
    return;
  OpBuilder builder = functionOf(part).atEnd();
  Value local = use(value, need, part, builder, end);
  // Close to the value: it need not live to the end of the function.
  builder.setInsertionPointAfterValue(local);
  llvm::StringRef target =
      later ? partFor(output).getSymName() : output.getSymName();
  if (sum)
    spmd::AccumulateOp::create(builder, value.getLoc(), local, target);
  else
    spmd::WriteOp::create(builder, value.getLoc(), local, target);
}

void ProgramWriter::writeOutputs() {
  for (auto [index, value] :
       llvm::enumerate(now->model.getReturn().getValues()))
    writeOutput(value, index);
}

/// What this rank has of an output at the end of the step: zero where another
/// stage makes it.
Value ProgramWriter::partAtEnd(unsigned index, OpBuilder &builder) {
  spmd::OutputOp output = outputFor(index, /*sum=*/false);
  Operation *maker = now->model.getReturn().getValues()[index].getDefiningOp();
  int64_t owner = maker && !isSource(maker) ? now->placement.ownerOf(maker)
                                            : now->placement.stages() - 1;
  Location loc = output.getLoc();
  RankedTensorType type = output.getLocalType();
  if (stage == owner)
    return spmd::ReadOp::create(builder, loc, type,
                                partFor(output).getSymName());
  return PlainBuilder{builder, loc}.constant(type, 0.0);
}

/// Adds up outputs over the same axes, several of them side by side in one
/// collective: counts of layers are many small ones.
void ProgramWriter::writeSums(llvm::ArrayRef<unsigned> indices,
                              const AxisList &sums, OpBuilder &builder) {
  llvm::SmallVector<Value> parts;
  for (unsigned index : indices)
    parts.push_back(partAtEnd(index, builder));
  Location loc = outputFor(indices.front(), /*sum=*/false).getLoc();
  PlainBuilder p{builder, loc};
  auto flat = [&](Value x) {
    return p.reshape(x, {typeOf(x).getNumElements()});
  };
  Value joined = parts.front();
  if (parts.size() > 1)
    joined = p.concat(0, llvm::map_to_vector(parts, flat));
  Value whole = spmd::AllReduceOp::create(
      builder, loc, joined.getType(), ReduceKind::Sum, joined,
      axesAttr(builder.getContext(), axes(), sums));
  int64_t offset = 0;
  for (auto [index, part] : llvm::zip(indices, parts)) {
    int64_t size = typeOf(part).getNumElements();
    Value own = whole;
    if (parts.size() > 1)
      own =
          p.reshape(p.slice(whole, {offset}, {size}), typeOf(part).getShape());
    offset += size;
    spmd::WriteOp::create(builder, loc, own,
                          outputFor(index, /*sum=*/false).getSymName());
  }
}

/// Adds up what ranks have parts of, and tells all stages what each made.
void ProgramWriter::writeFinish() {
  ReturnOp end = now->model.getReturn();
  auto here = [&] {
    return functionOf(
               {evaluating() ? PartKind::FinishEvaluation : PartKind::Finish})
        .atEnd();
  };
  std::map<AxisList, llvm::SmallVector<unsigned>> counts;
  for (unsigned index = 0; index < end.getValues().size(); ++index) {
    AxisList sums = sumsAtEnd(index);
    if (sums.empty())
      continue;
    if (parseLayerMetric(end.getOutputName(index))) {
      counts[sums].push_back(index);
      continue;
    }
    OpBuilder builder = here();
    writeSums(index, sums, builder);
  }
  for (auto &[sums, indices] : counts) {
    OpBuilder builder = here();
    writeSums(indices, sums, builder);
  }
}
