//===- LayerBuffers.cpp - the largest values of a layer -------------------===//
//
// What makes a layer large? Values of one micro-batch as a rank has them, in
// memory, the largest first. Weights and their gradients have classes of their
// own (`StageMemory`).
//
//===----------------------------------------------------------------------===//

#include "kerf/Layer/LayerTerms.h"

#include <cmath>
#include <tuple>

using namespace kerf;

/// Whether programs have memory for a value that an op makes.
static bool isBuffer(const LayerTerms &terms, int index) {
  const LayerValue &value = terms.kind.values[index];
  return value.producer >= 0 && value.param < 0 && value.gradientOf < 0 &&
         terms.traffic.inMemory[index] && !terms.kind.ops[value.producer].view;
}

static LayerBuffer bufferOf(const LayerTerms &terms, const LayerLayout &layout,
                            int index) {
  const LayerValue &value = terms.kind.values[index];
  LayerBuffer buffer;
  buffer.value = index;
  buffer.bytes = terms.heldBytesOf(index, layout, -1, /*kept=*/false);
  buffer.shape = value.shape;
  for (auto [dim, size] : llvm::zip(value.classes, buffer.shape))
    if (dim == IndexClass::Batch)
      size /= terms.batchShards();
  for (int axis = 0; axis < kInnerAxes; ++axis) {
    if (!terms.has(axis) || layout.axes[axis].ops.empty())
      continue;
    AxisState made = terms.madeState(index, layout.axes[axis]);
    // Of routed tokens a rank has the room that programs make.
    double share = terms.heldShare(made, axis);
    if (isSplit(made))
      buffer.shape[splitDim(made)] = static_cast<int64_t>(
          std::llround(double(buffer.shape[splitDim(made)]) * share));
    if (share == 1)
      buffer.whole |= 1U << axis;
  }
  return buffer;
}

std::vector<LayerBuffer> kerf::largestBuffers(const LayerTerms &terms,
                                              const LayerLayout &layout,
                                              size_t count) {
  std::vector<LayerBuffer> buffers;
  for (int value = 0; value < int(terms.kind.values.size()); ++value)
    if (isBuffer(terms, value))
      buffers.push_back(bufferOf(terms, layout, value));
  llvm::sort(buffers, [](const LayerBuffer &a, const LayerBuffer &b) {
    return std::tie(b.bytes, a.value) < std::tie(a.bytes, b.value);
  });
  if (buffers.size() > count)
    buffers.resize(count);
  return buffers;
}
