//===- BuildUpdates.cpp - optimizer steps and sums, as commands -----------===//

#include "CommandBuilder.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kerf;

/// `tensor<type>` scalar.
static RankedTensorType scalarOf(Type element) {
  return RankedTensorType::get({}, element);
}

/// What a step that does not count leaves: the values before it.
static void keepUnless(PlainBuilder p, Value condition, ValueRange before,
                       llvm::MutableArrayRef<Value> after) {
  for (auto [old, value] : llvm::zip_equal(before, after)) {
    auto counts = p.broadcast(condition, {}, typeOf(value).getShape());
    value = p.select(counts, value, old);
  }
}

namespace {
/// The ops of an update. Arguments of the block: weight (or master), gradient,
/// rate, step, [scale], [condition], states; then the sums.
struct UpdateBody {
  Block block;
  llvm::SmallVector<Value> results; ///< weight, states, [rounded weight]
  std::vector<RecordedSums::Sum> sums;
  size_t firstState = 4;

  UpdateBody(UpdateOp update, const StorageMap::Param &param);
  llvm::SmallVector<Value> inputs() {
    size_t count = block.getNumArguments() - sums.size();
    return llvm::SmallVector<Value>(block.getArguments().take_front(count));
  }
};
} // namespace

UpdateBody::UpdateBody(UpdateOp update, const StorageMap::Param &param) {
  auto rule = cast<OptimizerRuleInterface>(update.getRule());
  auto type = typeOf(update.getGradient());
  Location loc = update.getLoc();
  OpBuilder builder(update.getContext());
  builder.setInsertionPointToEnd(&block);
  auto f32 = scalarOf(builder.getF32Type());
  block.addArguments({type, type, f32, scalarOf(builder.getI32Type())},
                     llvm::SmallVector<Location>(4, loc));
  if (update.getScale())
    block.addArgument(f32, loc), ++firstState;
  if (update.getCondition())
    block.addArgument(scalarOf(builder.getI1Type()), loc), ++firstState;
  llvm::SmallVector<Value> state;
  for (const StorageMap::State &each : param.states)
    state.push_back(block.addArgument(stateType(each.facts, type), loc));
  PlainBuilder p{builder, loc};
  Type element = type.getElementType();
  Value rate = p.mul(p.cast(block.getArgument(2), element),
                     update.getRateScale().convertToDouble());
  Value gradient = block.getArgument(1);
  if (update.getScale())
    gradient =
        p.mul(gradient, p.broadcast(p.cast(block.getArgument(4), element), {},
                                    type.getShape()));
  RecordedSums recorded(
      builder, cast<RankedTensorType>(param.op.getGlobal()).getShape());
  results =
      rule.buildUpdate(builder, loc, block.getArgument(0), gradient, state,
                       rate, p.cast(block.getArgument(3), element), recorded);
  sums = std::move(recorded.sums);
  if (update.getCondition()) {
    llvm::SmallVector<Value> before = {block.getArgument(0)};
    llvm::append_range(before, state);
    keepUnless(p, block.getArgument(firstState - 1), before, results);
  }
  if (param.master)
    results.push_back(
        p.cast(results[0], param.op.getLocalType().getElementType()));
}

/// A kernel of the ops that make `results`, other than arguments, from
/// `inputs`.
exec::KernelOp CommandBuilder::makeKernelOf(Location loc,
                                            llvm::ArrayRef<Value> inputs,
                                            llvm::ArrayRef<Value> results) {
  exec::KernelOp kernel =
      makeKernel(loc, TypeRange(ValueRange(inputs)), ValueRange(results));
  Block &body = kernel.getBody().front();
  IRMapping mapping;
  for (auto [from, to] : llvm::zip_equal(inputs, body.getArguments()))
    mapping.map(from, to);
  llvm::SmallPtrSet<Operation *, 32> needed;
  llvm::SmallVector<Value> open(results);
  while (!open.empty())
    if (Operation *op = open.pop_back_val().getDefiningOp();
        op && needed.insert(op).second)
      llvm::append_range(open, op->getOperands());
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  Block *block = Value(results.front()).getParentBlock();
  for (Operation &op : *block)
    if (needed.contains(&op))
      builder.clone(op, mapping);
  exec::YieldOp::create(builder, loc,
                        llvm::map_to_vector(results, [&](Value value) {
                          return mapping.lookupOrDefault(value);
                        }));
  return kernel;
}

/// The sum of what ranks have, over those that hold other parts of these
/// dimensions of the parameter.
void CommandBuilder::addTotal(UpdateOp update, spmd::ParamOp param,
                              const RecordedSums::Sum &sum,
                              PlannedOperand part) {
  int64_t mask = 0;
  ArrayAttr cut = param.getCut();
  for (int64_t dim : sum.of)
    for (auto axis :
         cast<ArrayAttr>(cut[cut.size() - dim]).getAsValueRange<StringAttr>())
      mask |= int64_t(1) << source.getMesh().find(axis);
  if (mask == 0)
    return;
  auto type = typeOf(sum.part);
  PlannedOperand total = part;
  total.access = KERF_WRITE;
  add(exec::Opcode::AllReduce, update, "update",
      {mask, dtypeOf(type), KERF_SUM, type.getNumElements()})
      .operands = {part, total};
}

/// Computes the sums of an update, those that need no other sums first: one
/// kernel for all of a round. Their values and places are added to `inputs` and
/// `operands`.
void CommandBuilder::buildSums(UpdateOp update, spmd::ParamOp param,
                               llvm::ArrayRef<RecordedSums::Sum> sums,
                               Block &block, llvm::SmallVector<Value> &inputs,
                               llvm::SmallVector<PlannedOperand> &operands) {
  // The round after which a value can be made.
  llvm::DenseMap<Value, int64_t> rounds;
  for (Operation &op : block) {
    int64_t round = 0;
    for (Value operand : op.getOperands())
      round = std::max(round, rounds.lookup(operand));
    for (Value result : op.getResults())
      rounds[result] = round;
    for (const RecordedSums::Sum &sum : sums)
      if (sum.part.getDefiningOp() == &op)
        rounds[sum.total] = round + 1;
  }
  auto isIn = [&](int64_t round) {
    return llvm::make_filter_range(sums, [&, round](const auto &sum) {
      return rounds.lookup(sum.part) == round;
    });
  };
  for (int64_t round = 0; !isIn(round).empty(); ++round) {
    llvm::SmallVector<Value> parts;
    llvm::SmallVector<PlannedOperand> places;
    for (const RecordedSums::Sum &sum : isIn(round)) {
      auto type = typeOf(sum.part);
      unsigned buffer =
          map.add({update.getName().str() + ".sum", KERF_CLASS_TEMPORARY,
                   BufferScope::Function, denseBytes(type)});
      parts.push_back(sum.part);
      places.push_back(
          at({buffer, 0, 0, denseStrides(type.getShape())}, type, KERF_READ));
    }
    llvm::SmallVector<PlannedOperand> all(operands);
    all.append(places);
    launch(makeKernelOf(update.getLoc(), inputs, parts), all, update, "update");
    for (auto [sum, place] : llvm::zip_equal(isIn(round), places)) {
      addTotal(update, param, sum, place);
      inputs.push_back(sum.total);
      operands.push_back(place);
    }
  }
}

/// Where the update writes the weight: its storage; or, of a rank that makes a
/// piece of it, a temporary that `spmd.gather_param` reads, filled with the own
/// piece unless a master is updated.
PlannedOperand CommandBuilder::weightOf(UpdateOp update,
                                        const StorageMap::Param &param) {
  int64_t start = update.getStart().value_or(0);
  auto type = withElement(typeOf(update.getGradient()),
                          param.op.getLocalType().getElementType());
  Storage storage{param.buffer, param.offsetOf(start, param.stride), 0,
                  denseStrides(type.getShape())};
  if (!param.updatesPiece())
    return at(storage, type, KERF_READ);
  unsigned buffer =
      map.add({update.getName().str() + ".piece", KERF_CLASS_TEMPORARY,
               BufferScope::Function, denseBytes(type)});
  int64_t end = update.getEnd().value_or(1);
  pieces[{param.op, start}] = {buffer, end, update};
  PlannedOperand piece = at({buffer, 0, 0, storage.strides}, type, KERF_READ);
  if (param.master)
    return piece;
  ArrayAttr axes = *param.op.getStateAxes();
  int64_t ranks = source.getAxesSize(axes), count = end - start;
  auto whole = withShape(type, {count, ranks * param.op.getPieceSize()});
  storage.strides = denseStrides(whole.getShape());
  PlannedOperand written = piece;
  written.access = KERF_WRITE;
  add(exec::Opcode::Take, update, "take",
      {count, ranks, denseBytes(type) / count})
      .operands = {at(storage, whole, KERF_READ), written, placeIn(axes)};
  return piece;
}

LogicalResult CommandBuilder::buildUpdate(UpdateOp update) {
  int64_t start = update.getStart().value_or(0);
  const StorageMap::Param &param =
      map.getParam(source, update.getName(), start);
  auto type = typeOf(update.getGradient());
  auto stateAt = [&](unsigned buffer, int64_t stride, RankedTensorType type) {
    return at({buffer, param.offsetOf(start, stride), 0,
               denseStrides(type.getShape())},
              type, KERF_READ);
  };
  PlannedOperand weight = weightOf(update, param);
  PlannedOperand updated =
      param.master ? stateAt(*param.master, param.masterStride, type) : weight;
  llvm::SmallVector<PlannedOperand> operands = {
      updated, operand(update.getGradient(), KERF_READ),
      operand(update.getRate(), KERF_READ),
      operand(update.getStep(), KERF_READ)};
  if (update.getScale())
    operands.push_back(operand(update.getScale(), KERF_READ));
  if (update.getCondition())
    operands.push_back(operand(update.getCondition(), KERF_READ));
  for (const StorageMap::State &state : param.states)
    operands.push_back(
        stateAt(state.buffer, state.stride, stateType(state.facts, type)));
  UpdateBody body(update, param);
  llvm::SmallVector<Value> inputs = body.inputs();
  size_t firstState = body.firstState;
  buildSums(update, param.op, body.sums, body.block, inputs, operands);
  exec::KernelOp kernel = makeKernelOf(update.getLoc(), inputs, body.results);
  OpBuilder builder(kernel);
  llvm::SmallVector<Attribute> pairs;
  llvm::SmallVector<PlannedOperand> after, beside;
  for (size_t i = 0; i <= param.states.size(); ++i) {
    size_t input = i == 0 ? 0 : firstState + i - 1;
    after.push_back(operands[input]);
    if (body.sums.empty() || inputs[input].getType() == type) {
      pairs.push_back(builder.getI64ArrayAttr({int64_t(i), int64_t(input)}));
      continue;
    }
    // Elements of the parameter read it in any order.
    auto own = typeOf(inputs[input]);
    unsigned buffer =
        map.add({update.getName().str() + ".state", KERF_CLASS_TEMPORARY,
                 BufferScope::Function, denseBytes(own)});
    after.back() =
        at({buffer, 0, 0, denseStrides(own.getShape())}, own, KERF_READ);
    beside.append({after.back(), operands[input]});
  }
  kernel.setInplaceAttr(builder.getArrayAttr(pairs));
  if (param.master)
    after.push_back(weight);
  operands.append(after);
  launch(kernel, operands, update, "update");
  for (size_t i = 0; i < beside.size(); i += 2)
    copy(update, beside[i], beside[i + 1]);
  return success();
}

/// Adds the rows of a kernel to the table `target`: in each call where another
/// sum is there before, else the first one sets it.
void CommandBuilder::buildTable(spmd::AccumulateOp accumulate,
                                const Storage &target) {
  spmd::FusedOp rows = map.tables[accumulate];
  bool isAlone = accumulate.getValue() == rows->getResult(0);
  auto type = typeOf(accumulate.getValue());
  auto kind = rows->getAttrOfType<StringAttr>("spmd.kind");
  auto addKernel = [&](bool adds, uint32_t flags) {
    llvm::SmallVector<Type> types(rows->getOperandTypes());
    if (adds)
      types.push_back(type);
    exec::KernelOp kernel = makeKernel(rows.getLoc(), types, {type});
    Value sum = cloneBody(rows, kernel).front();
    Block &body = kernel.getBody().front();
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    int64_t last = static_cast<int64_t>(types.size()) - 1;
    if (adds)
      sum =
          PlainBuilder{builder, rows.getLoc()}.add(body.getArgument(last), sum);
    exec::YieldOp::create(builder, rows.getLoc(), sum);
    llvm::SmallVector<PlannedOperand> operands;
    for (Value value : rows->getOperands())
      operands.push_back(operand(value, KERF_READ));
    if (adds) {
      kernel.setInplaceAttr(
          builder.getArrayAttr({builder.getI64ArrayAttr({0, last})}));
      operands.push_back(at(target, type, KERF_READ));
    }
    operands.push_back(at(target, type, KERF_WRITE));
    launch(kernel, operands, rows, kind ? kind.getValue() : "fused", flags);
  };
  if (isAlone && !continues)
    addKernel(/*adds=*/false, KERF_IF_FIRST);
  addKernel(/*adds=*/true, isAlone && !continues ? KERF_UNLESS_FIRST : 0);
}

/// The first call of a step sets the sum, later ones add to it.
LogicalResult CommandBuilder::buildAccumulate(spmd::AccumulateOp accumulate) {
  if (map.inPlace.contains(accumulate))
    return success();
  Value value = accumulate.getValue();
  auto type = typeOf(value);
  Storage target{map.symbols[accumulate.getTarget()], 0, 0,
                 denseStrides(type.getShape())};
  if (!map.tables.contains(accumulate)) {
    addUp(accumulate, value, target);
    return success();
  }
  if (Value beside = map.besideTables.lookup(accumulate))
    addUp(accumulate, beside, target);
  buildTable(accumulate, target);
  return success();
}

/// Sets `target` to a value in the first call, and adds it in later ones.
void CommandBuilder::addUp(spmd::AccumulateOp accumulate, Value value,
                           const Storage &target) {
  auto type = typeOf(value);
  if (!continues)
    copy(accumulate, operand(value, KERF_READ), at(target, type, KERF_WRITE),
         KERF_IF_FIRST);
  exec::KernelOp kernel = makeKernel(accumulate.getLoc(), {type, type}, {type});
  Block &body = kernel.getBody().front();
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  PlainBuilder p{builder, accumulate.getLoc()};
  exec::YieldOp::create(builder, accumulate.getLoc(),
                        p.add(body.getArgument(0), body.getArgument(1)));
  kernel.setInplaceAttr(
      builder.getArrayAttr({builder.getI64ArrayAttr({0, 0})}));
  launch(kernel,
         {at(target, type, KERF_READ), operand(value, KERF_READ),
          at(target, type, KERF_WRITE)},
         accumulate, "accumulate", continues ? 0 : KERF_UNLESS_FIRST);
}
