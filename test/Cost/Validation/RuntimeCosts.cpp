//===- RuntimeCosts.cpp - what published runtimes do to a layer -----------===//

#include "RuntimeCosts.h"

#include "kerf/Cost/Collectives.h"
#include "kerf/Cost/Kernels.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <set>

using namespace kerf;
using namespace kerf::validate;

Again kerf::validate::againOf(const Row &row) {
  if (row.recompute == "full")
    return Again::All;
  if (row.recompute != "selective")
    return Again::Nothing;
  llvm::StringRef notes = row.notes;
  if (notes.contains("selective layer"))
    return Again::HalfLayers;
  bool isPerOp = notes.contains("\"op\" policy") ||
                 notes.contains("selective op") || notes.contains("per-op") ||
                 notes.contains("op-SAC");
  return isPerOp ? Again::EveryOther : Again::Attention;
}

//===----------------------------------------------------------------------===//
// What the row says
//===----------------------------------------------------------------------===//

/// Norms of several kernels: the layout study names kernels, and "RMS kernel"
/// where norms have one.
static bool hasUnfusedNorms(const Row &row) {
  llvm::StringRef notes = row.notes;
  return notes.contains("kernel=") && !notes.contains("RMS kernel");
}

/// Sequence parallelism by plain gathers in front of matmuls, which keep what
/// they gathered.
static bool keepsGathered(const Row &row) {
  return llvm::StringRef(row.source).contains("Aleph");
}

/// Bytes that attention without flash keeps per score: 2 of the softmax, with
/// dropout 1 of the mask and 2 of what is left (Korthikanti et al. 2022,
/// section 4.1), without it 2 of the matmul; 8 in eager PyTorch, which keeps
/// scaled and masked scores as well.
static double bytesPerScore(const Row &row, const LayerKind &kind) {
  if (llvm::StringRef(row.notes).contains("kernel=torch"))
    return 8;
  bool drops = llvm::any_of(
      kind.ops, [](const LayerOp &op) { return op.name == "dropout"; });
  return drops ? 5 : 4;
}

static TimeParts times(const TimeParts &parts, double factor) {
  TimeParts result = parts;
  result.matmulSec *= factor;
  result.attentionSec *= factor;
  result.rowSec *= factor;
  for (double &comm : result.commSec)
    comm *= factor;
  return result;
}

namespace {
/// One layer, its point being changed.
class RuntimeLayer {
public:
  RuntimeLayer(const LayerCase &layer, LayerPoint &point)
      : layer(layer), context(layer.context), key(layer.key),
        kind(context.step->kinds[key.kind]), layout(layer.layout),
        point(point) {}
  void run();

private:
  const LayerCase &layer;
  const LayerContext &context;
  const TableKey &key;
  const LayerKind &kind;
  const LayerLayout &layout;
  LayerPoint &point;

  double bytesPerSec() const {
    const Device &device = context.machine->device;
    return device.memoryBytesPerSec * device.efficiency.memory;
  }
  /// Sequences of a data rank and micro-batch, as part of the step's.
  double batchShare() const {
    return double(key.microBatch) / double(context.step->batch);
  }
  bool isKept(int value) const { return layout.axes[0].kept[value] >= 0; }
  bool isLayer() const;
  double keptBytes(int value) const;
  std::set<int> inputsOfMatmuls(llvm::StringRef type) const;

  double savedBytes() const;
  double maskBytes() const;
  double scoreBytes() const;
  double savedByFloat8() const;
  double savedByGathers() const;
  void addUnfusedNorms();
  void addUnalignedHeads();
  void addLogitCopies();
  void recompute(Again again);
};
} // namespace

bool RuntimeLayer::isLayer() const {
  return llvm::any_of(context.step->runs, [&](const LayerRun &run) {
    return run.kind == key.kind && run.repeat >= 0;
  });
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Whether a value is cut on an axis that its kept state says nothing about.
static bool isCutByNature(const LayerValue &value, int axis) {
  auto inner = static_cast<InnerAxis>(axis);
  if (inner == InnerAxis::Tensor)
    return false;
  IndexClass index =
      inner == InnerAxis::Context ? IndexClass::Sequence : IndexClass::Batch;
  return llvm::is_contained(value.classes, index);
}

/// Bytes of a rank that a value takes as it is kept.
double RuntimeLayer::keptBytes(int value) const {
  double bytes =
      kind.values[value].bytes() * batchShare() * double(key.groups[2].size);
  for (int axis = 0; axis < kInnerAxes; ++axis) {
    if (key.groups[axis].size == 1)
      continue;
    AxisState state = layout.axes[axis].kept[value];
    if (isSplit(state) ||
        (state < 0 && isCutByNature(kind.values[value], axis)))
      bytes /= double(key.groups[axis].size);
  }
  return bytes;
}

/// What the layout keeps; a view of what is kept costs nothing.
double RuntimeLayer::savedBytes() const {
  double bytes = 0;
  for (size_t v = 0; v < kind.values.size(); ++v) {
    int producer = kind.values[v].producer;
    bool isView = producer >= 0 && kind.ops[producer].view &&
                  llvm::all_of(kind.ops[producer].operands,
                               [&](int from) { return isKept(from); });
    if (isKept(v) && !isView)
      bytes += keptBytes(v);
  }
  return bytes;
}

/// Dropout keeps a byte per number, which ours recomputes from its seed.
double RuntimeLayer::maskBytes() const {
  double bytes = 0;
  for (const LayerOp &op : kind.ops)
    if (op.phase == LayerPhase::Forward && op.name == "dropout")
      bytes += point.boundaryBytes / kind.values[op.results[0]].elementBytes;
  return bytes;
}

double RuntimeLayer::scoreBytes() const {
  double scores = 0;
  for (const LayerOp &op : kind.ops)
    if (op.phase == LayerPhase::Forward)
      scores += op.scores;
  return bytesPerScore(layer.row, kind) * scores * batchShare() /
         double(key.groups[0].size * key.groups[1].size);
}

/// Kept values that forward products of a number type read first; "": of any
/// type.
std::set<int> RuntimeLayer::inputsOfMatmuls(llvm::StringRef type) const {
  std::set<int> inputs;
  for (const LayerOp &op : kind.ops)
    if (op.phase == LayerPhase::Forward && op.work.matmulFlops > 0 &&
        (type.empty() || op.type == type) && isKept(op.operands[0]))
      inputs.insert(op.operands[0]);
  return inputs;
}

/// Inputs of fp8 matmuls are kept in fp8 (NVIDIA Transformer Engine).
double RuntimeLayer::savedByFloat8() const {
  double bytes = 0;
  for (int value : inputsOfMatmuls("fp8"))
    bytes += keptBytes(value) / 2;
  return bytes;
}

/// What gathers in front of matmuls keep besides the rank's part.
double RuntimeLayer::savedByGathers() const {
  std::set<int> gathered;
  for (size_t i = 0; i < kind.ops.size(); ++i)
    if (kind.ops[i].phase == LayerPhase::Forward &&
        !layout.axes[0].ops[i].operands.empty() &&
        layout.axes[0].ops[i].operands[0] == kReplicated)
      gathered.insert(kind.ops[i].operands[0]);
  double bytes = 0;
  for (int value : inputsOfMatmuls(""))
    if (gathered.count(value) && isSplit(layout.axes[0].kept[value]))
      bytes += keptBytes(value) * double(key.groups[0].size - 1);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

/// Norms in eager PyTorch, kernel by kernel in f32: casts, squares, mean and
/// two matmuls move 36 bytes per number forward, their gradients about 80
/// backward; one kernel moves 4 and 8. The input and the normed numbers are
/// kept in f32.
void RuntimeLayer::addUnfusedNorms() {
  for (const LayerOp &op : kind.ops) {
    if (op.phase != LayerPhase::Forward ||
        !llvm::StringRef(op.name).ends_with("_norm"))
      continue;
    double numbers =
        point.boundaryBytes / kind.values[op.results[0]].elementBytes;
    point.forward.rowSec += 32 * numbers / bytesPerSec();
    point.backward.rowSec += 72 * numbers / bytesPerSec();
    point.savedBytes += 8 * numbers;
  }
}

/// Batched matmuls of heads whose rows are no multiple of 16 bytes miss the
/// matrix units: BLOOM's layouts with heads of 108 and 150 ran as if these
/// matmuls took 12 times as long.
void RuntimeLayer::addUnalignedHeads() {
  const Device &device = context.machine->device;
  double share = batchShare() / double(key.groups[0].size * key.groups[1].size);
  for (const LayerOp &op : kind.ops) {
    if (op.scores == 0 || std::fmod(op.headSize, 8) == 0)
      continue;
    bool isForward = op.phase == LayerPhase::Forward;
    double flops = (isForward ? 4 : 8) * op.scores * share * op.headSize;
    double rate = peakOf(device, op.type) * device.efficiency.matmul *
                  context.profile.matmul;
    (isForward ? point.forward : point.backward).attentionSec +=
        11 * flops / rate;
  }
}

/// Copies of logits that a runtime makes (`Profile::logitBytes`) are written
/// once and read twice, a third of them forward; whole ones also travel.
void RuntimeLayer::addLogitCopies() {
  const Profile &profile = context.profile;
  double logits = double(key.microBatch) * double(context.step->sequence) *
                  double(context.step->vocabulary) / double(key.groups[1].size);
  if (!profile.logitsWhole)
    logits /= double(key.groups[0].size);
  double seconds = 3 * profile.logitBytes * logits / bytesPerSec();
  point.forward.rowSec += seconds / 3;
  point.backward.rowSec += seconds * 2 / 3;
  if (profile.logitsWhole)
    point.forward.commSec[0] +=
        allGatherSec(*context.machine, profile, key.groups[0], 2 * logits);
}

/// Sets what is recomputed, what is kept for it, and the peak inside.
void RuntimeLayer::recompute(Again again) {
  double whole = point.savedBytes, input = point.boundaryBytes;
  switch (again) {
  case Again::Nothing:
    return;
  case Again::Attention:
    point.recompute.attentionSec = point.forward.attentionSec;
    point.recomputed = "selective";
    return;
  case Again::EveryOther:
    // Half of the matmuls' results stay, about a quarter of all bytes.
    point.recompute = point.forward;
    point.recompute.attentionSec = 0;
    point.recompute.matmulSec /= 2;
    point.savedBytes = input + whole / 4;
    point.workBytes += whole - point.savedBytes;
    return;
  case Again::HalfLayers:
    point.recompute = times(point.forward, 0.5);
    point.savedBytes = (input + whole) / 2;
    point.workBytes += whole / 2;
    return;
  case Again::All:
    point.recompute = point.forward;
    point.savedBytes = input;
    point.workBytes += whole;
    point.recomputed = "all";
    return;
  }
}

void RuntimeLayer::run() {
  const Row &row = layer.row;
  Again again = againOf(row);
  point.recomputed = "nothing";
  point.savedBytes = savedBytes() + maskBytes() - savedByFloat8();
  if (row.sequenceParallel.value_or(false) && keepsGathered(row))
    point.savedBytes += savedByGathers();
  if (hasUnfusedNorms(row))
    addUnfusedNorms();
  if (!context.profile.flash) {
    addUnalignedHeads();
    // Recomputed, scores live for one layer at a time.
    (again == Again::Nothing ? point.savedBytes : point.workBytes) +=
        scoreBytes();
  }
  // Embedding and head are not recomputed.
  if (isLayer())
    return recompute(again);
  if (key.kind == context.step->runs.back().kind)
    addLogitCopies();
  // The paper's formula counts layers only.
  if (row.phase == "analytic")
    point.denseElements = point.sharedElements = point.savedBytes = 0;
}

void kerf::validate::addRuntimeCosts(const LayerCase &layer,
                                     LayerPoint &point) {
  RuntimeLayer(layer, point).run();
}
