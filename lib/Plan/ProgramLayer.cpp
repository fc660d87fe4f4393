//===- ProgramLayer.cpp - where the values of a layer lie -----------------===//
//
// What a layer's loop keeps and hands on, how its parameters rest, and what its
// library calls need.
//
//===----------------------------------------------------------------------===//

#include "ProgramSketch.h"

#include "kerf/Artifact/CpuWorkspace.h"

#include <cmath>
#include <functional>
#include <numeric>

using namespace kerf;
using namespace kerf::program_sketch;

//===----------------------------------------------------------------------===//
// Where values lie
//===----------------------------------------------------------------------===//

static constexpr int kContext = static_cast<int>(InnerAxis::Context);
static constexpr int kExpert = static_cast<int>(InnerAxis::Expert);

static LayerQuery queryOf(const OuterChoice &outer, int kind) {
  LayerQuery query;
  query.key = keyOf(outer, kind);
  query.microBatches = outer.microBatches;
  return query;
}

SketchedLayer::SketchedLayer(const LayerContext &context,
                             const OuterChoice &outer, int kind,
                             const LayerLayout &layout, int64_t workers)
    : kind(context.step->kinds[kind]), outer(outer), facts(this->kind),
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

/// The states in which a layer hands on what it makes, if that is whole.
static bool isWhole(const States &states) {
  return llvm::none_of(states, [](AxisState state) {
    return state == kPending || isRagged(state);
  });
}

void SketchedLayer::setBoundary(const SketchedLayer *embedding,
                                const SketchedLayer *head) {
  for (int axis = 0; axis < kInnerAxes; ++axis) {
    bool isCut = terms.has(axis) && !layout.axes[axis].ops.empty();
    input.push_back(isCut ? layout.axes[axis].input : kReplicated);
    outputGradient.push_back(isCut ? layout.axes[axis].outputGradient
                                   : kReplicated);
  }
  if (embedding && embedding->kind.output >= 0)
    if (States made = embedding->madeStates(embedding->kind.output);
        isWhole(made))
      input = made;
  if (head && head->kind.inputGradient >= 0)
    if (States made = head->madeStates(head->kind.inputGradient); isWhole(made))
      outputGradient = made;
  findRoots();
}

double SketchedLayer::bytesIn(int value,
                              llvm::ArrayRef<AxisState> states) const {
  const LayerValue &facts = kind.values[value];
  double bytes = facts.bytes();
  if (llvm::is_contained(facts.classes, IndexClass::Batch))
    bytes /= double(terms.batchCut());
  for (int axis = 0; axis < kInnerAxes; ++axis)
    bytes *= terms.heldShare(states[axis], axis);
  return bytes;
}

Sizes SketchedLayer::shapeIn(int value,
                             llvm::ArrayRef<AxisState> states) const {
  const LayerValue &facts = kind.values[value];
  Sizes shape(facts.shape.begin(), facts.shape.end());
  for (auto [size, index] : llvm::zip(shape, facts.classes))
    if (index == IndexClass::Batch)
      size = std::max<int64_t>(1, size / terms.batchCut());
  for (int axis = 0; axis < kInnerAxes; ++axis)
    if (isExchanged(states[axis])) {
      int64_t &size = shape[splitDim(states[axis])];
      size = std::llround(
          std::ceil(double(size) * terms.heldShare(states[axis], axis)));
    } else if (isSplit(states[axis]) && !isRagged(states[axis])) {
      shape[splitDim(states[axis])] /= terms.ranks[axis];
    }
  return shape;
}

/// True for a sum that is still to be made, into another place.
static bool isPartial(const States &states) {
  return llvm::is_contained(states, kPending);
}

/// Values that lie in one place: reshapes, and the parts of a fused projection,
/// which attention reads and writes in place.
void SketchedLayer::findRoots() {
  size_t count = kind.values.size();
  roots.resize(count);
  std::iota(roots.begin(), roots.end(), 0);
  std::function<int(int)> find = [&](int v) {
    return roots[v] == v ? v : roots[v] = find(roots[v]);
  };
  for (const LayerOp &op : kind.ops)
    if (op.view)
      for (auto [k, operand] : llvm::enumerate(op.operands))
        if (!isPartial(madeStates(operand)))
          roots[find(operand)] = find(op.results[0]);
  places.resize(count);
  const AxisLayout &tensor = layout.axes[static_cast<int>(InnerAxis::Tensor)];
  for (size_t v = 0; v < count; ++v) {
    Place &place = places[roots[v] = find(v)];
    place.bytes = std::max(place.bytes, bytesIn(v, madeStates(v)));
    if (!tensor.kept.empty()) {
      place.isKept |= tensor.kept[v] >= 0;
    }
  }
  findPutOff();
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
  return llvm::any_of(op.factors, [](const LayerFactor &factor) {
    return factor.index == IndexClass::Batch && factor.factor.size > 1;
  });
}

/// Ranks over which a gradient is a sum when it is made.
double SketchedLayer::summedOver(int value) const {
  if (!sumsBatch(kind, value))
    return 1;
  States states = madeStates(value);
  double ranks = double(outer.dp) / double(terms.ranks[kExpert]);
  for (int axis : {kContext, kExpert})
    if (states[axis] == kPending)
      ranks *= double(terms.ranks[axis]);
  return ranks;
}

void SketchedLayer::findParams() {
  for (const LayerParam &facts : kind.params) {
    Param &param = params.emplace_back();
    param.param = &facts;
    param.isTied = facts.shared && outer.pp == 1;
    param.elements = terms.paramElements(int(params.size()) - 1, layout, -1,
                                         &AxisLayout::Rest::weight);
    param.gradient = param.elements;
  }
  for (const LayerOp &op : kind.ops)
    for (int value : op.results) {
      int p = kind.values[value].gradientOf;
      if (p < 0)
        continue;
      Param &param = params[p];
      param.isProduct = op.work.matmulFlops > 0 && op.maps.empty();
      param.gradient =
          bytesIn(value, madeStates(value)) / kind.values[value].elementBytes;
      param.copies = summedOver(value);
      if (outer.zero > 0)
        param.ranks = std::min(param.copies, double(outer.shardGroup));
    }
  for (Param &param : params)
    param.piece = std::ceil(param.elements / param.ranks);
}

void SketchedLayer::tie(SketchedLayer &first) {
  for (Param &param : params)
    for (Param &other : first.params)
      if (param.param->shared && param.param->name == other.param->name) {
        param.elements = other.elements;
        param.piece = other.piece;
        param.isAcross = other.isAcross = outer.pp > 1;
      }
}

double SketchedLayer::keptBytes(bool isLate) const {
  double bytes = 0;
  for (size_t v = 0; v < places.size(); ++v)
    if (roots[v] == int(v) && places[v].isKept && places[v].isLate == isLate &&
        (kind.input < 0 || roots[kind.input] != int(v)))
      bytes += roundedBytes(places[v].bytes);
  return bytes;
}

bool SketchedLayer::keepsInput() const {
  return kind.input >= 0 && places[roots[kind.input]].isKept;
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

double SketchedLayer::boundaryBytes() const {
  int value = kind.input >= 0 ? kind.input : kind.output;
  return value < 0 ? 0 : bytesIn(value, input);
}

double SketchedLayer::gradientBoundaryBytes() const {
  int value =
      kind.outputGradient >= 0 ? kind.outputGradient : kind.inputGradient;
  return value < 0 ? 0 : bytesIn(value, outputGradient);
}

/// Marks the ops that are made again for what input gradients read.
void SketchedLayer::findRemade(int value) {
  const LayerValue &facts = kind.values[value];
  if (!facts.forward || facts.producer < 0 || places[roots[value]].isKept ||
      isRemade[facts.producer])
    return;
  isRemade[facts.producer] = true;
  for (int operand : kind.ops[facts.producer].operands)
    findRemade(operand);
}

/// A put-off op reads a value. What is made again for it alone is made beside
/// it; what the input gradients have is handed over.
void SketchedLayer::readLate(int value) {
  const LayerValue &facts = kind.values[value];
  Place &place = places[roots[value]];
  place.isLate = true;
  if (!facts.forward) {
    place.isPutOff |= facts.producer < 0 ? value == kind.outputGradient
                                         : kind.ops[facts.producer].phase ==
                                               LayerPhase::InputGradient;
    return;
  }
  if (facts.producer < 0 || place.isKept)
    return;
  const LayerOp &producer = kind.ops[facts.producer];
  if (isRemade[facts.producer] && !producer.view)
    place.isPutOff |= !producer.operands.empty();
  else
    for (int operand : producer.operands)
      readLate(operand);
}

void SketchedLayer::findPutOff() {
  isRemade.assign(kind.ops.size(), false);
  for (const LayerOp &op : kind.ops)
    if (op.phase == LayerPhase::InputGradient)
      for (int value : op.operands)
        findRemade(value);
  for (const LayerOp &op : kind.ops)
    if (op.phase == LayerPhase::WeightGradient && !op.view)
      for (int value : op.operands)
        readLate(value);
}

double SketchedLayer::putOffBytes() const {
  double bytes = 0;
  for (size_t v = 0; v < places.size(); ++v)
    if (roots[v] == int(v) && places[v].isPutOff)
      bytes += roundedBytes(places[v].bytes);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Workspaces
//===----------------------------------------------------------------------===//

static bool appearsIn(const TensorFactors &dims, unsigned factor) {
  return llvm::any_of(dims, [factor](const DimFactors &dim) {
    return llvm::is_contained(dim, factor);
  });
}

/// Bytes of the product of two tensors, whose factors have these sizes.
static double productWorkspace(const LayerOp &op, llvm::ArrayRef<int64_t> sizes,
                               bool isRounded, int64_t workers) {
  int64_t batch = 1, k = 1, own[2] = {1, 1};
  int first = -1; // of the operands: whose factor leads the result
  for (const DimFactors &dim : op.resultFactors[0])
    for (unsigned f : dim) {
      bool lhs = appearsIn(op.operandFactors[0], f),
           rhs = appearsIn(op.operandFactors[1], f);
      if (first < 0 && lhs != rhs)
        first = lhs ? 0 : 1;
    }
  for (unsigned f = 0; f < op.factors.size(); ++f) {
    bool lhs = appearsIn(op.operandFactors[0], f),
         rhs = appearsIn(op.operandFactors[1], f),
         out = appearsIn(op.resultFactors[0], f);
    if (lhs && rhs)
      (out ? batch : k) *= sizes[f];
    else if (out)
      own[lhs ? 0 : 1] *= sizes[f];
  }
  int64_t m = own[std::max(first, 0)], n = own[1 - std::max(first, 0)];
  kerf_cpu_product product =
      kerf_cpu_plan_product(m, n, k, isRounded, batch > 1);
  return double(kerf_cpu_product_bytes(&product, workers));
}

static double groupedWorkspace(llvm::ArrayRef<int64_t> x,
                               llvm::ArrayRef<int64_t> y, bool isRounded,
                               int64_t workers) {
  int64_t attrs[11] = {};
  bool isGradient = y.size() != x.size() || y.take_front(2) != x.take_front(2);
  attrs[0] = isGradient;
  attrs[3] = isRounded ? KERF_BF16 : KERF_F32;
  attrs[4] = x[0];
  attrs[5] = x[1];
  attrs[7] = isGradient ? y[1] : y[2];
  attrs[8] = isGradient ? y[2] : x[2];
  return double(kerf_cpu_grouped_workspace(attrs, workers));
}

/// Of queries that come in the order that shares causal work evenly over
/// `contexts` ranks (1: by position), out of `whole`.
static double attentionWorkspace(llvm::ArrayRef<int64_t> q,
                                 llvm::ArrayRef<int64_t> k,
                                 llvm::ArrayRef<int64_t> v, bool isBackward,
                                 int64_t contexts, int64_t whole,
                                 int64_t workers) {
  int64_t attrs[KERF_ATTN_ATTR_COUNT] = {};
  attrs[KERF_ATTN_SQ] = q[1];
  attrs[KERF_ATTN_H] = q[2];
  attrs[KERF_ATTN_D] = q[3];
  attrs[KERF_ATTN_SK] = k[1];
  attrs[KERF_ATTN_G] = k[2];
  attrs[KERF_ATTN_DV] = v[3];
  attrs[KERF_ATTN_ZIGZAG] = contexts > 1 ? contexts : 0;
  attrs[KERF_ATTN_GLOBAL + 2] = whole;
  return double(isBackward
                    ? kerf_cpu_attention_backward_workspace(attrs, workers)
                    : kerf_cpu_attention_workspace(attrs, workers));
}

double SketchedLayer::workspaceOf(int index) const {
  const LayerOp &op = kind.ops[index];
  if (op.work.products() <= 0 || terms.device.target != BackendTarget::Cpu)
    return 0;
  auto shapeOf = [&](bool isResult, int i) {
    States states;
    for (int axis = 0; axis < kInnerAxes; ++axis) {
      bool cuts = terms.has(axis) && !layout.axes[axis].ops.empty();
      const OpOption *option = cuts ? &layout.axes[axis].ops[index] : nullptr;
      states.push_back(!option    ? kReplicated
                       : isResult ? option->results[i]
                                  : option->operands[i]);
    }
    return shapeIn(isResult ? op.results[i] : op.operands[i], states);
  };
  bool isRounded = kind.values[op.results[0]].elementBytes < 4;
  if (op.work.attentionFlops > 0) {
    AxisState queries = neededStates(op, 0)[kContext];
    const StepModel &step = *terms.context.step;
    bool isOrdered = isSplit(queries) && splitDim(queries) == 1 && op.causal &&
                     !step.plainOrder && step.sequence % (2 * outer.cp) == 0;
    return attentionWorkspace(
        shapeOf(false, 0), shapeOf(false, 1), shapeOf(false, 2),
        op.phase != LayerPhase::Forward, isOrdered ? outer.cp : 1,
        kind.values[op.operands[0]].shape[1], workers);
  }
  if (!op.maps.empty())
    return groupedWorkspace(shapeOf(false, 0), shapeOf(true, 0), isRounded,
                            workers);
  llvm::SmallVector<int64_t, 8> sizes;
  auto cuts = terms.cutsOf(index, layout, -1);
  for (auto [factor, cut] : llvm::zip(op.factors, cuts))
    sizes.push_back(std::max<int64_t>(1, factor.factor.size / cut));
  return productWorkspace(op, sizes, isRounded, workers);
}
