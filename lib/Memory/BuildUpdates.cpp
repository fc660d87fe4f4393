//===- BuildUpdates.cpp - optimizer steps, as commands --------------------===//

#include "CommandBuilder.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Dialect/Kerf/Stacks.h"

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

namespace kerf {
/// The ops of an update, of a stack or of one layer of it. Arguments of the
/// block: weight (or master), gradient, rate, step, [scale], [condition],
/// states; then the sums.
struct UpdateBody {
  Block block;
  llvm::SmallVector<Value> results; ///< weight, states, [rounded weight]
  std::vector<RecordedSums::Sum> sums;
  size_t firstState = 4;

  /// `type`: of the gradient.
  UpdateBody(UpdateOp update, const StorageMap::Param &param,
             RankedTensorType type);
  llvm::SmallVector<Value> inputs() const {
    auto all = const_cast<Block &>(block).getArguments();
    return llvm::SmallVector<Value>(all.drop_back(sums.size()));
  }
};
} // namespace kerf

UpdateBody::UpdateBody(UpdateOp update, const StorageMap::Param &param,
                       RankedTensorType type) {
  auto rule = cast<OptimizerRuleInterface>(update.getRule());
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

/// A kernel of the ops that make `results` from `inputs`.
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
    if (Value value = open.pop_back_val();
        !mapping.contains(value) && needed.insert(value.getDefiningOp()).second)
      llvm::append_range(open, value.getDefiningOp()->getOperands());
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
  ArrayAttr sharded = param.getSharded();
  for (int64_t dim : sum.of)
    for (auto axis : cast<ArrayAttr>(sharded[sharded.size() - dim])
                         .getAsValueRange<StringAttr>())
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

namespace {
/// The values of an update that lie in buffers between its commands, by the
/// round in which they are made: a sum over ranks and a matmul are there in
/// the round after their operands.
struct UpdateRounds {
  llvm::SmallVector<llvm::SmallVector<Value>> made; ///< by a kernel
  llvm::SmallVector<llvm::SmallVector<const RecordedSums::Sum *>> sums;
  llvm::SmallVector<llvm::SmallVector<Operation *>> matmuls;

  explicit UpdateRounds(UpdateBody &body);

private:
  llvm::DenseMap<Value, int64_t> rounds;
  llvm::SetVector<Value> wanted;

  void visit(Operation &op, llvm::ArrayRef<RecordedSums::Sum> all);
  template <typename T>
  static void put(llvm::SmallVector<llvm::SmallVector<T>> &list, size_t round,
                  T value) {
    list.resize(std::max(list.size(), round + 1));
    list[round].push_back(value);
  }
};
} // namespace

void UpdateRounds::visit(Operation &op, llvm::ArrayRef<RecordedSums::Sum> all) {
  int64_t round = 0;
  for (Value operand : op.getOperands())
    round = std::max(round, rounds.lookup(operand));
  bool matmul = isCall(&op, LibraryCall::Matmul);
  if (matmul) {
    put(matmuls, round, &op);
    wanted.insert_range(op.getOperands());
  }
  for (Value result : op.getResults())
    rounds[result] = round + (matmul ? 1 : 0);
  for (const RecordedSums::Sum &sum : all) {
    if (sum.part.getDefiningOp() != &op)
      continue;
    wanted.insert(sum.part);
    put(sums, rounds[sum.part], &sum);
    rounds[sum.total] = rounds[sum.part] + 1;
  }
}

UpdateRounds::UpdateRounds(UpdateBody &body) {
  for (Operation &op : body.block)
    visit(op, body.sums);
  for (Value value : wanted)
    if (value.getDefiningOp() &&
        !isCall(value.getDefiningOp(), LibraryCall::Matmul))
      put(made, rounds[value], value);
  size_t count = std::max({made.size(), sums.size(), matmuls.size()});
  made.resize(count);
  sums.resize(count);
  matmuls.resize(count);
}

/// Where values of an update lie, by their operands.
struct CommandBuilder::UpdatePlaces {
  llvm::MapVector<Value, PlannedOperand> places;

  /// Those that lie here already and of which `results` are made.
  llvm::SmallVector<Value> readBy(llvm::ArrayRef<Value> results) const {
    llvm::SmallPtrSet<Value, 32> seen;
    llvm::SmallVector<Value> open(results), read;
    while (!open.empty()) {
      Value value = open.pop_back_val();
      if (seen.insert(value).second && !places.contains(value))
        llvm::append_range(open, value.getDefiningOp()->getOperands());
    }
    for (Value value : llvm::make_first_range(places))
      if (seen.contains(value))
        read.push_back(value);
    return read;
  }
  /// The arguments of an update before its sums, and what else its results are
  /// made of.
  llvm::SmallVector<Value> needed(const UpdateBody &body) const;
  llvm::SmallVector<PlannedOperand> of(llvm::ArrayRef<Value> values) const {
    return llvm::map_to_vector(
        values, [&](Value value) { return places.find(value)->second; });
  }
};

llvm::SmallVector<Value>
CommandBuilder::UpdatePlaces::needed(const UpdateBody &body) const {
  llvm::SmallVector<Value> inputs = body.inputs();
  for (Value value : readBy(body.results))
    if (!llvm::is_contained(inputs, value))
      inputs.push_back(value);
  return inputs;
}

/// Room for a value of an update, also as an operand of a matmul.
void CommandBuilder::addRoom(UpdateOp update, Value value,
                             UpdatePlaces &places) {
  auto type = typeOf(value);
  Storage storage{
      map.add({update.getName().str() + ".sum", KERF_CLASS_TEMPORARY,
               BufferScope::Function, denseBytes(type)}),
      0, 0, denseStrides(type.getShape())};
  map.values[value] = storage;
  places.places.insert({value, at(storage, type, KERF_READ)});
}

/// Computes what lies between the commands of an update: one kernel for all of
/// a round, then sums over ranks, then matmuls.
LogicalResult CommandBuilder::buildRounds(UpdateOp update, spmd::ParamOp param,
                                          UpdateBody &body,
                                          UpdatePlaces &places) {
  for (auto &[value, operand] : places.places)
    if (operand.buffer >= 0)
      map.values[value] = {static_cast<unsigned>(operand.buffer),
                           operand.offset, operand.iter,
                           denseStrides(typeOf(value).getShape())};
  UpdateRounds rounds(body);
  auto buildRound = [&](size_t round) {
    if (llvm::ArrayRef<Value> made = rounds.made[round]; !made.empty()) {
      llvm::SmallVector<Value> reads = places.readBy(made);
      llvm::SmallVector<PlannedOperand> operands = places.of(reads);
      for (Value value : made)
        addRoom(update, value, places);
      llvm::append_range(operands, places.of(made));
      launch(makeKernelOf(update.getLoc(), reads, made), operands, update,
             "update");
    }
    for (const RecordedSums::Sum *sum : rounds.sums[round]) {
      PlannedOperand place = places.of(sum->part).front();
      addTotal(update, param, *sum, place);
      Storage storage = map.values[sum->part];
      map.values[sum->total] = storage;
      // The part is there no longer.
      places.places.erase(sum->part);
      places.places.insert({sum->total, place});
    }
    for (Operation *matmul : rounds.matmuls[round]) {
      addRoom(update, matmul->getResult(0), places);
      if (failed(buildMatmul(matmul)))
        return failure();
    }
    return success();
  };
  LogicalResult result = success();
  for (size_t round = 0; succeeded(result) && round < rounds.made.size();
       ++round)
    result = buildRound(round);
  // They are no values of the program.
  for (Value argument : body.block.getArguments())
    map.values.erase(argument);
  for (Operation &op : body.block)
    for (Value value : op.getResults())
      map.values.erase(value);
  return result;
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

/// Where the arguments of an update lie, in order; of an update by layers those
/// of the loop's iteration.
llvm::SmallVector<PlannedOperand>
CommandBuilder::argumentsOf(UpdateOp update, const StorageMap::Param &param,
                            PlannedOperand weight) {
  auto type = typeOf(update.getGradient());
  int64_t start = update.getStart().value_or(0);
  int64_t layers = goesByLayer(update) ? type.getDimSize(0) : 1;
  auto layerOf = [&](PlannedOperand operand, int64_t stride) {
    operand.iter = goesByLayer(update) ? stride : operand.iter;
    operand.bytes /= layers;
    return operand;
  };
  auto stateAt = [&](unsigned buffer, int64_t stride, RankedTensorType type) {
    return layerOf(at({buffer, param.offsetOf(start, stride), 0,
                       denseStrides(type.getShape())},
                      type, KERF_READ),
                   stride);
  };
  PlannedOperand gradient = operand(update.getGradient(), KERF_READ);
  llvm::SmallVector<PlannedOperand> operands = {
      param.master ? stateAt(*param.master, param.masterStride, type)
                   : layerOf(weight, param.stride),
      layerOf(gradient, gradient.bytes / layers),
      operand(update.getRate(), KERF_READ),
      operand(update.getStep(), KERF_READ)};
  if (update.getScale())
    operands.push_back(operand(update.getScale(), KERF_READ));
  if (update.getCondition())
    operands.push_back(operand(update.getCondition(), KERF_READ));
  for (const StorageMap::State &state : param.states)
    operands.push_back(
        stateAt(state.buffer, state.stride, stateType(state.facts, type)));
  return operands;
}
/// Ends an update: one kernel makes the weight and the state from what lies
/// there.
void CommandBuilder::buildResults(UpdateOp update,
                                  const StorageMap::Param &param,
                                  const UpdateBody &body,
                                  const UpdatePlaces &places,
                                  PlannedOperand weight) {
  llvm::SmallVector<Value> inputs = places.needed(body);
  llvm::SmallVector<PlannedOperand> operands = places.of(inputs);
  exec::KernelOp kernel = makeKernelOf(update.getLoc(), inputs, body.results);
  OpBuilder builder(kernel);
  llvm::SmallVector<Attribute> pairs;
  llvm::SmallVector<PlannedOperand> after, beside;
  auto type = typeOf(inputs.front());
  for (size_t i = 0; i <= param.states.size(); ++i) {
    size_t input = i == 0 ? 0 : body.firstState + i - 1;
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
}

LogicalResult CommandBuilder::buildUpdate(UpdateOp update) {
  const StorageMap::Param &param =
      map.getParam(source, update.getName(), update.getStart().value_or(0));
  auto type = typeOf(update.getGradient());
  PlannedOperand weight = weightOf(update, param);
  llvm::SmallVector<PlannedOperand> operands =
      argumentsOf(update, param, weight);
  if (goesByLayer(update)) {
    weight.iter = param.stride;
    weight.bytes /= type.getDimSize(0);
    loop = int64_t(func->loops.size());
    func->loops.push_back({0, type.getDimSize(0), /*reverse=*/false});
    type = withShape(type, type.getShape().drop_front());
  }
  UpdateBody body(update, param, type);
  UpdatePlaces places;
  for (auto [value, operand] : llvm::zip_first(body.inputs(), operands))
    places.places.insert({value, operand});
  LogicalResult result = buildRounds(update, param.op, body, places);
  buildResults(update, param, body, places, weight);
  loop = -1;
  return result;
}
