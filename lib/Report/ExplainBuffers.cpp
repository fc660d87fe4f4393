//===- ExplainBuffers.cpp - the largest buffers of a plan -----------------===//

#include "kerf/Report/ExplainDetail.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>
#include <tuple>

using namespace kerf;
using namespace kerf::explain_detail;

/// How many buffers are named.
static constexpr size_t kNamed = 5;

/// What an op is called: its weight, or its kind.
static std::string nameOf(const LayerKind &kind, const LayerOp &op) {
  std::string weight = shortNames(kind)[op.weight];
  std::string name = weight.empty() ? op.name : op.name + " " + weight;
  bool says = op.phase == LayerPhase::Forward ||
              llvm::StringRef(op.name).contains("backward");
  return says ? name : name + ", backward pass";
}

static BufferRow describe(const LayerKind &kind, const LayerBuffer &buffer) {
  const LayerValue &value = kind.values[buffer.value];
  BufferRow row;
  row.layer = kind.name;
  row.op = nameOf(kind, kind.ops[value.producer]);
  row.shape = buffer.shape;
  row.bytes = buffer.bytes;
  row.elementBytes = value.elementBytes;
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (buffer.whole >> axis & 1)
      row.wholeOver.push_back(
          explain_detail::axisName(static_cast<InnerAxis>(axis)));
  return row;
}

std::vector<BufferRow>
explain_detail::describeBuffers(const ExplainInput &input,
                                const PlanPoint &plan) {
  if (!input.buffersOf)
    return {};
  std::vector<BufferRow> rows;
  std::set<int> kinds;
  for (const PlacedStage &stage : plan.stages)
    for (const PlacedChunk &chunk : stage.chunks)
      for (const PlacedLayers &layers : chunk.layers)
        if (kinds.insert(layers.kind).second)
          for (const LayerBuffer &buffer :
               input.buffersOf(plan.outer, layers.kind, layers.point))
            rows.push_back(describe(input.step->kinds[layers.kind], buffer));
  llvm::sort(rows, [](const BufferRow &a, const BufferRow &b) {
    return std::tie(b.bytes, a.layer, a.op, a.shape) <
           std::tie(a.bytes, b.layer, b.op, b.shape);
  });
  auto isSame = [](const BufferRow &a, const BufferRow &b) {
    return std::tie(a.layer, a.op, a.shape) == std::tie(b.layer, b.op, b.shape);
  };
  rows.erase(std::unique(rows.begin(), rows.end(), isSame), rows.end());
  if (rows.size() > kNamed)
    rows.resize(kNamed);
  return rows;
}
