#include "Layers.h"

#include <map>

using namespace kerf;
using namespace mlir;

bool kerf::isLeaf(Operation *op) {
  return isa<ConstantOp, IotaOp, ParamOp>(op) && op->getNumOperands() == 0;
}

Program::Program(Block &block) {
  for (Operation &op : block.without_terminator())
    if (!isLeaf(&op)) {
      placeOf[&op] = ops.size();
      ops.push_back(&op);
    }
}

int64_t Program::place(Value value) const {
  Operation *def = value.getDefiningOp();
  auto it = def ? placeOf.find(def) : placeOf.end();
  return it == placeOf.end() ? -1 : it->second;
}

Layers kerf::findLayers(const Program &program, const Stack &stack) {
  Layers layers;
  std::map<int64_t, std::pair<int64_t, int64_t>> uses; // first and last
  for (auto [place, op] : llvm::enumerate(program.ops))
    for (Value operand : op->getOperands())
      if (auto param = operand.getDefiningOp<ParamOp>())
        if (auto number = stack.numberOf(param.getName())) {
          auto [it, isNew] = uses.try_emplace(*number, place, place);
          it->second.second = place;
        }
  for (auto &[number, places] : uses) {
    int64_t next = layers.firstNumber + int64_t(layers.ranges.size());
    if (layers.ranges.empty() || number != next) {
      layers.ranges.clear();
      layers.firstNumber = number;
    } else if (layers.ranges.back().end > places.first) {
      return {};
    }
    layers.ranges.push_back({places.first, places.second + 1});
  }
  for (size_t i = 0; i + 1 < layers.ranges.size(); ++i)
    layers.ranges[i].end = layers.ranges[i + 1].start;
  return layers;
}
