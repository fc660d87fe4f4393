//===- ExplainBuffers.cpp - the largest buffers of a plan -----------------===//

#include "kerf/Report/ExplainDetail.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
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
  return says ? name : name + ", backward";
}

/// What a plan calls the op.
static std::string ruleOf(const LayerOp &op) {
  constexpr const char *phases[] = {"forward ", "input_gradient ",
                                    "weight_gradient "};
  return phases[static_cast<size_t>(op.phase)] + std::to_string(op.number) +
         " " + std::to_string(op.order);
}

/// Pins that split a dimension further than the plan does and the others as it
/// does: fewer sequences of a micro-batch, more context or tensor ranks where
/// these shard the value or there are none yet.
static std::vector<std::string> pinsFor(const LayerValue &value,
                                        const LayerBuffer &buffer,
                                        const OuterChoice &outer) {
  std::map<std::string, int64_t> now;
  std::map<std::string, int64_t> more;
  auto note = [&](InnerAxis axis, const char *name, int64_t ranks) {
    if (buffer.whole >> static_cast<int>(axis) & 1)
      return;
    if (ranks > 1)
      now[name] = ranks;
    more[name] = 2 * ranks;
  };
  for (auto [meaning, size] : llvm::zip(value.classes, buffer.shape)) {
    if (meaning == IndexClass::Batch) {
      now["mb"] = outer.microBatch;
      if (outer.microBatch > 1)
        more["mb"] = outer.microBatch / 2;
    }
    if (meaning == IndexClass::Sequence && size > 1)
      note(InnerAxis::Context, "cp", outer.cp);
    if (meaning == IndexClass::Other && size > 1)
      note(InnerAxis::Tensor, "tp", outer.tp);
  }
  std::vector<std::string> pins;
  for (auto [name, degree] : more) {
    std::map<std::string, int64_t> all = now;
    all[name] = degree;
    int64_t ranks = 1;
    std::string pin;
    for (auto [own, count] : all) {
      ranks *= own == "mb" ? 1 : count;
      pin += (pin.empty() ? "" : ",") + own + "=" + std::to_string(count);
    }
    if (outer.ranks() % ranks == 0)
      pins.push_back(pin);
  }
  return pins;
}

static BufferRow describe(const LayerKind &kind, const LayerBuffer &buffer,
                          const OuterChoice &outer) {
  const LayerValue &value = kind.values[buffer.value];
  const LayerOp &op = kind.ops[value.producer];
  BufferRow row;
  row.layer = kind.name;
  row.op = nameOf(kind, op);
  row.place = op.place;
  row.pins = pinsFor(value, buffer, outer);
  if (buffer.whole)
    row.rule = ruleOf(op);
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
  std::map<int, std::set<int64_t>> stages; // by kind
  for (auto [number, stage] : llvm::enumerate(plan.stages))
    for (const PlacedChunk &chunk : stage.chunks)
      for (const PlacedLayers &layers : chunk.layers)
        stages[layers.kind].insert(static_cast<int64_t>(number));
  std::set<int> kinds;
  for (const PlacedStage &stage : plan.stages)
    for (const PlacedChunk &chunk : stage.chunks)
      for (const PlacedLayers &layers : chunk.layers)
        if (kinds.insert(layers.kind).second)
          for (const LayerBuffer &buffer :
               input.buffersOf(plan.outer, layers.kind, layers.point)) {
            BufferRow &row = rows.emplace_back(
                describe(input.step->kinds[layers.kind], buffer, plan.outer));
            llvm::append_range(row.stages, stages[layers.kind]);
          }
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
