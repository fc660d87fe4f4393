//===- ProgramLayer.cpp - where the values of a layer lie -----------------===//
//
// What a layer's loop keeps and hands on, and how its parameters rest.
//
//===----------------------------------------------------------------------===//

#include "ProgramSketch.h"

#include <cmath>
#include <functional>
#include <numeric>

using namespace kerf;
using namespace kerf::program_sketch;

//===----------------------------------------------------------------------===//
// Where values lie
//===----------------------------------------------------------------------===//

static LayerQuery queryOf(const OuterChoice &outer, int kind) {
  LayerQuery query;
  query.key = keyOf(outer, kind);
  query.microBatches = outer.microBatches;
  return query;
}

SketchedLayer::SketchedLayer(const LayerContext &context,
                             const OuterChoice &outer, int kind,
                             const LayerFacts &facts, const LayerLayout &layout,
                             int64_t workers)
    : kind(context.step->kinds[kind]), outer(outer),
      query(queryOf(outer, kind)), terms(context, query, this->kind, facts),
      layout(layout), workers(workers) {
  findParams();
}

States SketchedLayer::madeStates(int value) const {
  if (value == kind.input && !input.empty())
    return input;
  if (value == kind.outputGradient && !outputGradient.empty())
    return outputGradient;
  States states;
  for (int axis = 0; axis < kInnerAxes; ++axis)
    states.push_back(terms.has(axis) && !layout.axes[axis].ops.empty()
                         ? terms.madeState(value, layout.axes[axis])
                         : kReplicated);
  return states;
}

States SketchedLayer::neededStates(const LayerOp &op, size_t operand) const {
  size_t index = &op - kind.ops.data();
  States states;
  for (int axis = 0; axis < kInnerAxes; ++axis)
    states.push_back(terms.has(axis) && !layout.axes[axis].ops.empty()
                         ? layout.axes[axis].ops[index].operands[operand]
                         : kReplicated);
  return states;
}

/// True for states in which a layer hands on what it makes.
static bool areHandedOn(const States &states) {
  return llvm::all_of(states, isHandedOn);
}

void SketchedLayer::setBoundary(const SketchedLayer *embedding,
                                const SketchedLayer *head) {
  for (int axis = 0; axis < kInnerAxes; ++axis) {
    bool isSharded = terms.has(axis) && !layout.axes[axis].ops.empty();
    input.push_back(isSharded ? layout.axes[axis].input : kReplicated);
    outputGradient.push_back(isSharded ? layout.axes[axis].outputGradient
                                       : kReplicated);
  }
  if (embedding && embedding->kind.output >= 0)
    if (States made = embedding->madeStates(embedding->kind.output);
        areHandedOn(made))
      input = made;
  if (head && head->kind.inputGradient >= 0)
    if (States made = head->madeStates(head->kind.inputGradient);
        areHandedOn(made))
      outputGradient = made;
  auto settle = [&](int value, States &given) {
    if (value < 0 || kind.values[value].producer < 0)
      return;
    States made = madeStates(value);
    if (areHandedOn(made))
      given = made;
  };
  settle(kind.output, input);
  settle(kind.inputGradient, outputGradient);
  findRoots();
}

void SketchedLayer::setBoundary(const SketchedLayer &layer) {
  input = layer.input;
  outputGradient = layer.outputGradient;
  findRoots();
}

double SketchedLayer::bytesIn(int value,
                              llvm::ArrayRef<AxisState> states) const {
  const LayerValue &facts = kind.values[value];
  double bytes = facts.bytes();
  if (llvm::is_contained(facts.classes, IndexClass::Batch))
    bytes /= double(terms.batchShards());
  for (int axis = 0; axis < kInnerAxes; ++axis)
    bytes *= terms.heldShare(states[axis], axis);
  return bytes;
}

/// True for a sum that is still to be made, into another place.
static bool isPartial(const States &states) {
  return llvm::is_contained(states, kPending);
}

/// Views of what is kept are recomputed, whatever the layout says: as
/// `kerf-recompute-views` decides.
bool SketchedLayer::isKept(int value) const {
  const AxisLayout &tensor = layout.axes[kInnerTensor];
  return !tensor.kept.empty() && tensor.kept[value] >= 0 && !showsKept(value);
}

bool SketchedLayer::showsKept(int value) const {
  static constexpr llvm::StringLiteral kViews[] = {"reshape", "slice",
                                                   "transpose", "broadcast"};
  int producer = kind.values[value].producer;
  if (producer < 0 || !llvm::is_contained(kViews, kind.ops[producer].name))
    return false;
  int from = kind.ops[producer].operands[0];
  return isKept(from) || showsKept(from);
}

/// True when a value, or a view of it, is kept.
bool SketchedLayer::isKeptAsView(int value) const {
  return isKept(value) || llvm::any_of(kind.ops, [&](const LayerOp &op) {
           return op.view && op.operands[0] == value &&
                  isKeptAsView(op.results[0]);
         });
}

/// True when the slices that are kept of a value are together as large as the
/// value, which is kept in their place: as `kerf-recompute-views` decides.
bool SketchedLayer::isKeptBySlices(int value) const {
  double slices = 0;
  for (const LayerOp &op : kind.ops)
    if (op.name == "slice" && op.operands[0] == value &&
        isKeptAsView(op.results[0]))
      slices += bytesIn(op.results[0], madeStates(op.results[0]));
  return slices >= bytesIn(value, madeStates(value));
}

/// Slices that are kept by themselves, or that others than attention read, are
/// copies unless their elements lie together.
void SketchedLayer::findCopies() {
  isCopy.assign(kind.ops.size(), false);
  for (auto [op, isCopied] : llvm::zip(kind.ops, isCopy)) {
    if (op.name != "slice")
      continue;
    int from = op.operands[0], to = op.results[0];
    bool isAlone = isKeptAsView(to) && !isKeptBySlices(from);
    isCopied = isStrided(shapeIn(terms, from, neededStates(op, 0)),
                         shapeIn(terms, to, madeStates(to))) &&
               (isAlone || !isForAttention(kind, to));
  }
}

/// Values that lie in one place: reshapes, and the parts of a fused projection,
/// which attention reads and writes in place.
void SketchedLayer::findRoots() {
  findCopies();
  size_t count = kind.values.size();
  roots.resize(count);
  std::iota(roots.begin(), roots.end(), 0);
  std::function<int(int)> find = [&](int v) {
    return roots[v] == v ? v : roots[v] = find(roots[v]);
  };
  for (const LayerOp &op : kind.ops)
    if (isView(op))
      for (auto [k, operand] : llvm::enumerate(op.operands))
        if (!isPartial(madeStates(operand)))
          roots[find(operand)] = find(op.results[0]);
  places.resize(count);
  for (size_t v = 0; v < count; ++v) {
    Place &place = places[roots[v] = find(v)];
    place.bytes = std::max(place.bytes, bytesIn(v, madeStates(v)));
    place.isKept |= isKept(v);
  }
  findDeferred();
}

/// True if a value comes as a sum over the batch. Ops without one get what is
/// summed before, over all ranks.
static bool sumsBatch(const LayerKind &kind, int value) {
  int producer = kind.values[value].producer;
  if (producer < 0)
    return true; // The gradient of a tied parameter.
  const LayerOp &op = kind.ops[producer];
  if (op.view || op.name == "add")
    return llvm::all_of(op.operands,
                        [&](int from) { return sumsBatch(kind, from); });
  auto hasBatch = [](const LayerFactor &factor) {
    return factor.index == IndexClass::Batch && factor.factor.size > 1;
  };
  if (op.name == "mul" && llvm::none_of(op.factors, hasBatch)) // by a unit
    return llvm::any_of(op.operands,
                        [&](int from) { return sumsBatch(kind, from); });
  return llvm::any_of(op.factors, hasBatch);
}

/// Ranks over which a gradient is a sum when it is made.
double SketchedLayer::summedOver(int value) const {
  if (!sumsBatch(kind, value))
    return 1;
  States states = madeStates(value);
  double ranks = double(outer.dp) / double(terms.ranks[kInnerExpert]);
  for (int axis : {kInnerContext, kInnerExpert})
    if (states[axis] == kPending)
      ranks *= double(terms.ranks[axis]);
  return ranks;
}

/// Ranks that hold a frozen parameter whole where nothing is in pieces.
double SketchedLayer::copiesOf(const LayerParam &param) const {
  double ranks = double(outer.dp) * double(terms.ranks[kInnerContext]);
  return param.expert ? ranks / double(terms.ranks[kInnerExpert]) : ranks;
}

/// Ranks among which the state of a parameter with so many copies is divided:
/// as `replicasOf`, of a part of the data ranks every ep-th has the same
/// experts.
double SketchedLayer::piecesOver(double copies, bool shardedByExperts) const {
  auto ranks = double(outer.shardGroup);
  double all = double(outer.dp) * double(terms.ranks[kInnerContext]);
  if (shardedByExperts && ranks < all)
    ranks = std::max(1.0, ranks / double(terms.ranks[kInnerExpert]));
  return std::min(copies, ranks);
}

/// Whether a matmul makes an op's result: it is one, or it multiplies one that
/// nobody else reads by a scalar, which is then the matmul's scale (8 bits).
bool SketchedLayer::isMadeByMatmul(const LayerOp &op) const {
  if (op.work.matmulFlops > 0)
    return true;
  // Deferred, the matmul has its scale from another call: no power of two that
  // it could know.
  bool putsOff = splitsWeightGradient(outer.schedule);
  return !putsOff && scaledMatmul(kind, op) &&
         madeStates(op.operands[0]) == madeStates(op.results[0]);
}

void SketchedLayer::findParams() {
  for (const LayerParam &facts : kind.params) {
    Param &param = params.emplace_back();
    param.param = &facts;
    param.isTied = facts.shared && outer.pp == 1;
    param.elements = terms.paramElements(int(params.size()) - 1, layout, -1,
                                         &AxisLayout::Rest::weight);
    param.gradient = param.elements;
    param.updateBytes =
        terms.gramUpdate(int(params.size()) - 1, layout).workBytes();
  }
  for (const LayerOp &op : kind.ops)
    for (int value : op.results) {
      int p = kind.values[value].gradientOf;
      if (p < 0)
        continue;
      Param &param = params[p];
      param.isMatmul = isMadeByMatmul(op);
      param.isDeferred = op.isDeferred;
      param.gradient =
          bytesIn(value, madeStates(value)) / kind.values[value].elementBytes;
      param.copies = summedOver(value);
      param.isScattered = madeStates(value)[kInnerTensor] == kPending &&
                          param.gradient > param.elements;
      if (outer.zero > 0 && param.param->inPieces)
        param.ranks = piecesOver(param.copies,
                                 madeStates(value)[kInnerExpert] != kPending);
    }
  for (Param &param : params) {
    if (outer.zero >= 3 && !param.param->trainable)
      param.ranks = piecesOver(copiesOf(*param.param), param.param->expert);
    auto granule = double(param.param->granule);
    param.piece = granule * std::ceil(param.elements / granule / param.ranks);
  }
}

/// True where parts are exchanged: each layer has as large a part, sharded
/// along another dimension.
static bool areExchanged(const TiedShards &shards) {
  return llvm::all_of(shards, [](const auto &pair) {
    return (pair.first > 0) == (pair.second > 0);
  });
}

void SketchedLayer::tie(SketchedLayer &first) {
  for (auto [p, param] : llvm::enumerate(params))
    for (auto [q, other] : llvm::enumerate(first.params))
      if (param.param->shared && param.param->name == other.param->name) {
        param.elements = other.elements;
        param.ranks = other.ranks;
        param.piece = other.piece;
        param.isAcross = other.isAcross = outer.pp > 1;
        TiedShards shards = shardsOf(first.layout, q, layout, p);
        param.isMoved = llvm::any_of(
            shards, [](const auto &pair) { return pair.first != pair.second; });
        param.isSummedApart =
            param.isMoved && areExchanged(shards) && outer.microBatches > 1;
      }
}

double SketchedLayer::keptBytes(Kept kept) const {
  double bytes = 0;
  for (size_t v = 0; v < places.size(); ++v) {
    const Place &place = places[v];
    bool isInput = kind.input >= 0 && roots[kind.input] == int(v);
    bool counts =
        kept == Kept::Handed
            ? place.isDeferred
            : place.isKept && !isInput && place.isLate == (kept == Kept::Late);
    if (roots[v] == int(v) && counts)
      bytes += roundedBytes(place.bytes);
  }
  return bytes;
}

Kept SketchedLayer::inputKept() const {
  return keepsInput() && places[roots[kind.input]].isLate ? Kept::Late
                                                          : Kept::Early;
}

bool SketchedLayer::keepsInput() const {
  return kind.input >= 0 && places[roots[kind.input]].isKept;
}

double SketchedLayer::movedBytes() const {
  double bytes = 0;
  for (auto [p, param] : llvm::enumerate(params)) {
    if (!isMovedOnce(param))
      continue;
    for (size_t v = 0; v < kind.values.size(); ++v)
      if (kind.values[v].param == int(p)) {
        bytes += roundedBytes(bytesIn(v, madeStates(v)));
        break;
      }
  }
  return bytes;
}

double SketchedLayer::inputBytes() const {
  double bytes = 0;
  double ranks = double(query.key.groups[1].size * outer.dp);
  for (size_t v = 0; v < kind.values.size(); ++v)
    if (terms.isExternal(v) &&
        llvm::is_contained(kind.values[v].classes, IndexClass::Batch))
      bytes += roundedBytes(kind.values[v].bytes() / ranks);
  return bytes;
}

double SketchedLayer::stepTableBytes() const {
  double most = 0;
  if (terms.device.target == BackendTarget::Cuda)
    for (const LayerOp &op : kind.ops)
      most = std::max(most, op.stepTableBytes);
  return roundedBytes(most / double(query.key.groups[1].size));
}

double SketchedLayer::boundaryBytes() const {
  int value = kind.input >= 0 ? kind.input : kind.output;
  return value < 0 ? 0 : bytesIn(value, input);
}

double SketchedLayer::gradientBoundaryBytes() const {
  int value =
      kind.outputGradient >= 0 ? kind.outputGradient : kind.inputGradient;
  return value < 0 ? 0 : bytesIn(value, outputGradient);
}

/// A deferred op reads a value: what the forward pass keeps stays for it, all
/// else the backward pass hands over. Views of what is kept are recomputed.
void SketchedLayer::readLate(int value) {
  const LayerValue &facts = kind.values[value];
  Place &place = places[roots[value]];
  if (facts.param >= 0 || terms.isExternal(value))
    return;
  if (facts.producer < 0 && value != kind.input && value != kind.outputGradient)
    return;
  if (facts.producer >= 0 && (kind.ops[facts.producer].isDeferred ||
                              kind.ops[facts.producer].operands.empty()))
    return;
  place.isLate |= facts.forward && place.isKept;
  place.isDeferred |= !place.isLate;
}

void SketchedLayer::findDeferred() {
  for (const LayerOp &op : kind.ops)
    if (op.isDeferred && !op.view)
      for (int value : op.operands)
        readLate(value);
}

OpOptions SketchedLayer::optionsOf(int op) const {
  OpOptions options = {};
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (terms.has(axis) && !layout.axes[axis].ops.empty())
      options[axis] = &layout.axes[axis].ops[op];
  return options;
}
