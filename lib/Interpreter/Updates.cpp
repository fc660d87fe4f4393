#include "Updates.h"

using namespace mlir;
using namespace kerf;

void kerf::roundTensor(HostTensor &tensor, bool f64) {
  roundToType(tensor.data, tensor.type.getElementType(), f64);
}

llvm::SmallVector<HostTensor>
kerf::evaluatePlain(EvaluateOpInterface op,
                    llvm::ArrayRef<const HostTensor *> operands, bool f64) {
  llvm::SmallVector<HostTensor> results;
  for (Value result : op->getResults())
    results.emplace_back(typeOf(result));
  op.evaluate(operands, results);
  for (HostTensor &result : results)
    roundTensor(result, f64);
  return results;
}

HostTensor kerf::sliceOf(const HostTensor &stack, int64_t at) {
  HostTensor slice(withShape(stack.type, stack.shape().drop_front()));
  std::copy_n(stack.data.begin() + at * slice.size(), slice.size(),
              slice.data.begin());
  return slice;
}

HostTensor kerf::stateOr(const HostTensor &known, const StateTensor &state,
                         RankedTensorType updated) {
  return known.type ? known : HostTensor(stateType(state, updated));
}

UpdateRules::Program &UpdateRules::programOf(UpdateOp update,
                                             llvm::ArrayRef<int64_t> whole,
                                             const Operands &operands) {
  Program &program = programs[update];
  if (program.block)
    return program;
  auto rule = cast<OptimizerRuleInterface>(update.getRule());
  program.block = std::make_unique<Block>();
  Block &block = *program.block;
  Location loc = update.getLoc();
  RankedTensorType type = operands.gradient.type;
  auto scalar = RankedTensorType::get({}, type.getElementType());
  Value param = block.addArgument(type, loc);
  Value gradient = block.addArgument(type, loc);
  Value rate = block.addArgument(scalar, loc);
  Value step = block.addArgument(scalar, loc);
  llvm::SmallVector<Value> state;
  for (const HostTensor &tensor : operands.state)
    state.push_back(block.addArgument(tensor.type, loc));
  OpBuilder builder(update.getContext());
  builder.setInsertionPointToEnd(&block);
  RecordedSums sums(builder, whole);
  program.results =
      rule.buildUpdate(builder, loc, param, gradient, state, rate, step, sums);
  program.sums = std::move(sums.sums);
  return program;
}

using Values = llvm::DenseMap<Value, HostTensor>;

/// The arguments of an update before its sums.
static Values argumentsOf(Block &block, UpdateOp update,
                          UpdateRules::Operands &operands, bool f64) {
  HostTensor &gradient = operands.gradient;
  RankedTensorType type = gradient.type;
  if (update.getScale())
    for (double &g : gradient.data)
      g *= operands.scale;
  roundTensor(gradient, f64);
  operands.param.type = type;
  auto scalarType = RankedTensorType::get({}, type.getElementType());
  HostTensor rate(scalarType), step(scalarType);
  rate.data[0] = operands.rate * update.getRateScale().convertToDouble();
  step.data[0] = operands.step;
  llvm::SmallVector<HostTensor> arguments = {operands.param, gradient, rate,
                                             step};
  llvm::append_range(arguments, operands.state);
  Values values;
  for (auto [arg, value] : llvm::zip(block.getArguments(), arguments)) {
    roundTensor(value, f64);
    values[arg] = value;
  }
  return values;
}

std::vector<llvm::SmallVector<HostTensor>>
UpdateRules::apply(UpdateOp update, llvm::ArrayRef<int64_t> whole,
                   std::vector<Operands> ranks, Total total, bool f64) {
  Program &program = programOf(update, whole, ranks.front());
  std::vector<Values> values;
  for (Operands &operands : ranks)
    values.push_back(argumentsOf(*program.block, update, operands, f64));
  for (Operation &op : *program.block) {
    for (Values &local : values) {
      auto operands = llvm::map_to_vector(op.getOperands(), [&](Value operand) {
        return static_cast<const HostTensor *>(&local.find(operand)->second);
      });
      auto results =
          evaluatePlain(cast<EvaluateOpInterface>(op), operands, f64);
      for (auto [value, result] : llvm::zip_equal(op.getResults(), results))
        local[value] = result;
    }
    for (const RecordedSums::Sum &sum : program.sums) {
      if (sum.part.getDefiningOp() != &op)
        continue;
      llvm::SmallVector<HostTensor *> parts;
      for (Values &local : values) {
        HostTensor part = local[sum.part];
        local[sum.total] = std::move(part);
        parts.push_back(&local[sum.total]);
      }
      total(sum.of, parts);
      for (HostTensor *part : parts)
        roundTensor(*part, f64);
    }
  }
  std::vector<llvm::SmallVector<HostTensor>> results;
  for (Values &local : values)
    results.push_back(llvm::map_to_vector(
        program.results, [&](Value value) { return local[value]; }));
  return results;
}
