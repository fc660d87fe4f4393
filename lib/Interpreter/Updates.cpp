#include "Updates.h"

using namespace mlir;
using namespace kerf;

void kerf::roundTensor(HostTensor &tensor, bool f64) {
  Type element = tensor.type.getElementType();
  for (double &x : tensor.data)
    x = roundToType(x, element, f64);
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

UpdateRules::Program &UpdateRules::programOf(UpdateOp update,
                                             RankedTensorType type) {
  Program &program = programs[update];
  if (program.block)
    return program;
  auto rule = cast<OptimizerRuleInterface>(update.getRule());
  program.block = std::make_unique<Block>();
  Block &block = *program.block;
  Location loc = update.getLoc();
  auto scalar = RankedTensorType::get({}, type.getElementType());
  Value param = block.addArgument(type, loc);
  Value gradient = block.addArgument(type, loc);
  Value rate = block.addArgument(scalar, loc);
  Value step = block.addArgument(scalar, loc);
  llvm::SmallVector<Value> state;
  for (size_t i = 0; i < rule.getStateNames().size(); ++i)
    state.push_back(block.addArgument(type, loc));
  OpBuilder builder(update.getContext());
  builder.setInsertionPointToEnd(&block);
  program.results =
      rule.buildUpdate(builder, loc, param, gradient, state, rate, step);
  return program;
}

llvm::SmallVector<HostTensor>
UpdateRules::apply(UpdateOp update, HostTensor param, HostTensor gradient,
                   llvm::ArrayRef<HostTensor> state, const Scalars &scalars,
                   bool f64) {
  RankedTensorType type = gradient.type;
  if (update.getScale())
    for (double &g : gradient.data)
      g *= scalars.scale;
  roundTensor(gradient, f64);
  param.type = type;
  auto scalarType = RankedTensorType::get({}, type.getElementType());
  HostTensor rate(scalarType), step(scalarType);
  rate.data[0] = scalars.rate * update.getRateScale().convertToDouble();
  step.data[0] = scalars.step;
  llvm::SmallVector<HostTensor> arguments = {param, gradient, rate, step};
  for (const HostTensor &value : state)
    arguments.push_back(value.type ? value : HostTensor(type));
  Program &program = programOf(update, type);
  llvm::DenseMap<Value, HostTensor> local;
  for (auto [arg, value] :
       llvm::zip_equal(program.block->getArguments(), arguments)) {
    roundTensor(value, f64);
    local[arg] = value;
  }
  for (Operation &op : *program.block) {
    auto operands = llvm::map_to_vector(op.getOperands(), [&](Value operand) {
      return static_cast<const HostTensor *>(&local.find(operand)->second);
    });
    auto results = evaluatePlain(cast<EvaluateOpInterface>(op), operands, f64);
    for (auto [value, result] : llvm::zip_equal(op.getResults(), results))
      local[value] = result;
  }
  return llvm::map_to_vector(program.results,
                             [&](Value value) { return local[value]; });
}
