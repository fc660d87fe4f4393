//===- LayerOptions.cpp - the ways in which an op can be split ------------===//
//
// From factors alone: any factor that may be split and divides; nothing; a
// pending sum that passes through a linear op; a variant with communication of
// its own; rows that data sends to their owners, and that stay there in ops
// that pass them on. Where a factor makes up a dimension with others before it
// (`{3, n}`: thirds), every block is split, and ops that only pass that
// dimension on may be split in the same pattern.
//
//===----------------------------------------------------------------------===//

#include "kerf/Layer/LayerTerms.h"

#include <algorithm>

using namespace kerf;

//===----------------------------------------------------------------------===//
// Facts of a layer
//===----------------------------------------------------------------------===//

bool kerf::isStrided(llvm::ArrayRef<int64_t> from,
                     llvm::ArrayRef<int64_t> part) {
  const int64_t *first =
      llvm::find_if(part, [](int64_t size) { return size != 1; });
  size_t inner = std::min<size_t>(first - part.begin() + 1, part.size());
  return from.size() != part.size() ||
         from.drop_front(inner) != part.drop_front(inner);
}

bool kerf::isForAttention(const LayerKind &kind, int value) {
  return llvm::all_of(kind.ops, [&](const LayerOp &op) {
    if (!llvm::is_contained(op.operands, value))
      return true;
    return op.view ? op.name == "reshape" && isForAttention(kind, op.results[0])
                   : op.work.attentionFlops > 0;
  });
}

bool kerf::isRowOp(const LayerOp &op) {
  return op.work.matmuls() == 0 && op.maps.empty() && !op.view && !op.alone;
}

/// Of padded parts that are added.
static bool isSumOfParts(const LayerOp &op) {
  return op.view && op.operands.size() > 1;
}

bool kerf::isForKernels(const LayerKind &kind, int value) {
  return llvm::all_of(kind.ops, [&](const LayerOp &op) {
    if (!llvm::is_contained(op.operands, value))
      return true;
    return op.view ? isSumOfParts(op) || isForKernels(kind, op.results[0])
                   : isRowOp(op);
  });
}

/// A value behind views of it.
static int shownBy(const LayerKind &kind, int value) {
  int producer = kind.values[value].producer;
  bool isView = producer >= 0 && kind.ops[producer].view &&
                kind.ops[producer].operands.size() == 1 &&
                kind.ops[producer].name != "slice";
  return isView ? shownBy(kind, kind.ops[producer].operands[0]) : value;
}

std::vector<int> kerf::partsOf(const LayerKind &kind, const LayerOp &op) {
  if (op.name != "concat" && !isSumOfParts(op))
    return {};
  std::vector<int> parts;
  for (int operand : op.operands) {
    int producer = kind.values[operand].producer;
    std::vector<int> inner;
    if (op.view && producer >= 0)
      inner = partsOf(kind, kind.ops[producer]);
    if (inner.empty())
      inner.push_back(shownBy(kind, operand));
    parts.insert(parts.end(), inner.begin(), inner.end());
  }
  return parts;
}

/// Adds the ops that read a value or a view of it; null for what is outside of
/// the layer.
static void addReaders(const LayerKind &kind, int value,
                       llvm::SmallVectorImpl<const LayerOp *> &readers) {
  if (value == kind.output || value == kind.inputGradient)
    readers.push_back(nullptr);
  for (const LayerOp &op : kind.ops)
    if (llvm::is_contained(op.operands, value)) {
      if (op.view && op.operands.size() == 1)
        addReaders(kind, op.results[0], readers);
      else
        readers.push_back(&op);
    }
}

/// The only op that reads a value or a view of it, or null.
static const LayerOp *onlyReader(const LayerKind &kind, int value) {
  llvm::SmallVector<const LayerOp *> readers;
  addReaders(kind, value, readers);
  return readers.size() == 1 ? readers[0] : nullptr;
}

/// True where one op, or what is outside of the layer, reads all results.
static bool hasOneReader(const LayerKind &kind, const LayerOp &op) {
  llvm::SmallVector<const LayerOp *> readers;
  addReaders(kind, op.results[0], readers);
  return readers.size() == 1 &&
         llvm::all_of(llvm::drop_begin(op.results), [&](int result) {
           return readers[0] && onlyReader(kind, result) == readers[0];
         });
}

bool kerf::isMadeInJoin(const LayerKind &kind, int value) {
  int producer = kind.values[value].producer;
  if (producer < 0)
    return false;
  const LayerOp &op = kind.ops[producer];
  bool sums =
      !op.ownLoops && llvm::any_of(op.factors, [](const LayerFactor &f) {
        return f.factor.kind != FactorKind::Parallel;
      });
  return isRowOp(op) && !op.operands.empty() && !sums && hasOneReader(kind, op);
}

const LayerOp *kerf::scaledMatmul(const LayerKind &kind, const LayerOp &op) {
  if (op.name != "mul" || op.operands.size() != 2)
    return nullptr;
  auto makerOf = [&](int value) -> const LayerOp * {
    int producer = kind.values[value].producer;
    return producer < 0 ? nullptr : &kind.ops[producer];
  };
  int value = op.operands[0];
  const LayerOp *matmul = makerOf(value), *scale = makerOf(op.operands[1]);
  bool isScalar = scale && scale->name == "broadcast" &&
                  kind.values[scale->operands[0]].shape.empty();
  auto readers = llvm::count_if(kind.ops, [&](const LayerOp &reader) {
    return llvm::is_contained(reader.operands, value);
  });
  bool isScaled =
      isScalar && matmul && matmul->work.matmulFlops > 0 && readers == 1;
  return isScaled ? matmul : nullptr;
}

/// True when attention makes a value, perhaps as heads: it writes in place.
static bool isOfAttention(const LayerKind &kind, int value) {
  int producer = kind.values[value].producer;
  if (producer < 0)
    return false;
  const LayerOp &op = kind.ops[producer];
  return op.view
             ? llvm::all_of(op.operands,
                            [&](int from) { return isOfAttention(kind, from); })
             : op.work.attentionFlops > 0;
}

/// See `LayerFacts::copied`.
static bool isCopied(const LayerKind &kind, const LayerOp &op) {
  if (op.view && op.name == "slice")
    return isStrided(kind.values[op.operands[0]].shape,
                     kind.values[op.results[0]].shape) &&
           !isForAttention(kind, op.results[0]) &&
           !isForKernels(kind, op.results[0]);
  // Parts that are padded and added, but not sums of such sums.
  bool isSum = op.view && op.operands.size() > 1;
  auto isPart = [&](const LayerOp &reader) {
    return reader.view && reader.operands.size() > 1 &&
           llvm::is_contained(reader.operands, op.results[0]);
  };
  return isSum && llvm::none_of(kind.ops, isPart) &&
         !llvm::all_of(op.operands,
                       [&](int part) { return isOfAttention(kind, part); });
}

/// See `LayerFacts::copiedReads`.
static double copiedReadsOf(const LayerKind &kind, const LayerOp &op) {
  double all = 0, read = 0;
  for (int part : partsOf(kind, op)) {
    all += kind.values[part].bytes();
    read += isMadeInJoin(kind, part) ? 0 : kind.values[part].bytes();
  }
  return all > 0 ? read / all : 1;
}

LayerFacts::LayerFacts(const LayerKind &kind) {
  size_t count = kind.values.size();
  forwardReaders.resize(count);
  backwardReaders.resize(count);
  forwardValues.assign(count, false);
  readBack.assign(count, false);
  for (size_t i = 0; i < kind.ops.size(); ++i)
    for (int value : kind.ops[i].operands) {
      auto &readers = kind.ops[i].phase == LayerPhase::Forward
                          ? forwardReaders[value]
                          : backwardReaders[value];
      if (readers.empty() || readers.back() != static_cast<int>(i))
        readers.push_back(i);
    }
  gradients.assign(kind.params.size(), -1);
  for (size_t v = 0; v < count; ++v) {
    const LayerValue &value = kind.values[v];
    if (value.gradientOf >= 0 && value.producer >= 0)
      gradients[value.gradientOf] = static_cast<int>(v);
    bool isMade =
        value.producer >= 0 && !kind.ops[value.producer].operands.empty();
    forwardValues[v] =
        value.forward && value.param < 0 && (isMade || int(v) == kind.input);
    readBack[v] = forwardValues[v] && !backwardReaders[v].empty();
  }
  findShownAgain(kind);
  findBeside(kind);
  for (const LayerOp &op : kind.ops) {
    copied.push_back(isCopied(kind, op));
    copiedReads.push_back(copiedReadsOf(kind, op));
  }
  for (size_t style = 0; style < traffic.size(); ++style)
    traffic[style] = kernelTrafficOf(kind, static_cast<KernelStyle>(style));
  findPatterns(kind);
}

void LayerFacts::findBeside(const LayerKind &kind) {
  size_t count = kind.ops.size();
  std::vector<bool> feeds(count, false), follows(count, false);
  auto isBackward = [&](size_t op) {
    return kind.ops[op].phase != LayerPhase::Forward;
  };
  std::array<bool, 2> routes = {};
  for (size_t i = 0; i < count; ++i) {
    bool isGrouped = kind.ops[i].isGrouped();
    routes[isBackward(i)] = routes[isBackward(i)] || isGrouped;
    // Also what reads rows that the forward pass routed.
    follows[i] =
        isGrouped || llvm::any_of(kind.ops[i].operands, [&](int value) {
          int maker = kind.values[value].producer;
          return maker >= 0 && follows[maker];
        });
  }
  for (size_t i = count; i-- > 0;)
    feeds[i] = kind.ops[i].isGrouped() ||
               llvm::any_of(kind.ops[i].results, [&](int value) {
                 const auto &readers =
                     isBackward(i) ? backwardReaders : forwardReaders;
                 return llvm::any_of(readers[value],
                                     [&](int reader) { return feeds[reader]; });
               });
  for (size_t i = 0; i < count; ++i)
    beside.push_back(routes[isBackward(i)] && !feeds[i] && !follows[i]);
  findHome(kind);
}

void LayerFacts::findHome(const LayerKind &kind) {
  size_t count = kind.ops.size();
  auto isForward = [&](size_t op) {
    return kind.ops[op].phase == LayerPhase::Forward;
  };
  bool isBeside = false; // the backward pass has such ops
  for (size_t i = 0; i < count; ++i)
    isBeside |= beside[i] && !isForward(i) && !kind.ops[i].isDeferred;
  bringsHome.resize(count);
  besideHome.resize(count);
  bool isFollowed = false;
  for (size_t i = count; i-- > 0;) {
    const LayerOp &op = kind.ops[i];
    isFollowed = isFollowed || (beside[i] && isForward(i));
    bringsHome[i] =
        op.name == "combine" && (isForward(i) ? isFollowed : isBeside);
    besideHome[i] = isBeside && op.name == "combine_weight_gradient";
  }
  for (size_t i = 0; i < count; ++i) {
    if (!isForward(i) || !kind.ops[i].isGrouped())
      continue;
    std::vector<int> readers;
    for (int value : kind.ops[i].results)
      readers.insert(readers.end(), backwardReaders[value].begin(),
                     backwardReaders[value].end());
    besideHome[i] = !readers.empty() && llvm::all_of(readers, [&](int reader) {
      return besideHome[reader];
    });
  }
}

void LayerFacts::findShownAgain(const LayerKind &kind) {
  shownAgain.assign(kind.ops.size(), false);
  for (size_t i = kind.ops.size(); i-- > 0;) {
    const LayerOp &op = kind.ops[i];
    if (op.phase == LayerPhase::Forward && op.view && op.operands.size() == 1)
      shownAgain[i] = llvm::any_of(op.results, [&](int v) {
        return readBack[v] || llvm::any_of(forwardReaders[v], [&](int reader) {
                 return shownAgain[reader];
               });
      });
  }
  convertsAgain.assign(kind.ops.size(), false);
  for (const std::vector<int> &readers : forwardReaders) {
    auto all = llvm::reverse(readers);
    auto last = llvm::find_if(all, [&](int op) { return shownAgain[op]; });
    if (last != all.end())
      convertsAgain[*last] = true;
  }
}

const std::vector<int> &LayerFacts::orderOf(int sort,
                                            const FactorGraph &graph) const {
  auto [it, isNew] = orders.try_emplace({sort, graph.domains});
  if (isNew)
    it->second = eliminationOrder(graph);
  return it->second;
}

Elimination LayerFacts::eliminateOnce(int sort, const FactorGraph &graph,
                                      int64_t budget) const {
  return solved.eliminate(graph, orderOf(sort, graph), budget);
}

/// Calls `fn(value, dim, factors)` for every dimension of an op's tensors.
template <typename Fn> static void forEachDim(const LayerOp &op, Fn fn) {
  for (size_t i = 0; i < op.operands.size(); ++i)
    for (size_t d = 0; d < op.operandFactors[i].size(); ++d)
      fn(op.operands[i], d, op.operandFactors[i][d]);
  for (size_t i = 0; i < op.results.size(); ++i)
    for (size_t d = 0; d < op.resultFactors[i].size(); ++d)
      fn(op.results[i], d, op.resultFactors[i][d]);
}

static int64_t sizeBefore(const LayerOp &op, const DimFactors &dim, size_t at) {
  int64_t size = 1;
  for (size_t i = 0; i < at; ++i)
    size *= op.factors[dim[i]].factor.size;
  return size;
}

/// True for a factor whose parts are as long as the op's data says.
static bool isRaggedIn(const LayerOp &op, unsigned factor) {
  return llvm::any_of(
      op.maps, [&](const FactorMap &map) { return map.ragged == int(factor); });
}

static bool addPattern(std::vector<int64_t> &patterns, int64_t outer) {
  auto at = std::lower_bound(patterns.begin(), patterns.end(), outer);
  if (at != patterns.end() && *at == outer)
    return false;
  if (patterns.size() >= 4)
    return false;
  patterns.insert(at, outer);
  return true;
}

/// Blocks in which an op may split a factor: those of dimensions that the
/// factor is alone in, and 1.
static std::vector<int64_t>
patternsOf(const LayerOp &op, int factor,
           const std::vector<std::vector<std::vector<int64_t>>> &patterns) {
  std::vector<int64_t> all = {1};
  forEachDim(op, [&](int value, size_t d, const DimFactors &dim) {
    if (dim.size() == 1 && int(dim[0]) == factor)
      for (int64_t outer : patterns[value][d])
        addPattern(all, outer);
  });
  return all;
}

void LayerFacts::findPatterns(const LayerKind &kind) {
  for (const LayerValue &value : kind.values)
    patterns.emplace_back(value.shape.size(), std::vector<int64_t>{1});
  for (const LayerOp &op : kind.ops)
    forEachDim(op, [&](int value, size_t d, const DimFactors &dim) {
      for (unsigned f : dim)
        if (isRaggedIn(op, f)) {
          addPattern(patterns[value][d], kRaggedOuter);
          addPattern(patterns[value][d], kExchangedOuter);
        }
      for (size_t i = 1; i < dim.size(); ++i)
        if (op.factors[dim[i]].factor.kind != FactorKind::Whole)
          addPattern(patterns[value][d], sizeBefore(op, dim, i));
    });
  for (bool changed = true; changed;) {
    changed = false;
    for (const LayerOp &op : kind.ops)
      for (size_t f = 0; f < op.factors.size(); ++f)
        for (int64_t outer : patternsOf(op, f, patterns))
          forEachDim(op, [&](int value, size_t d, const DimFactors &dim) {
            if (dim.size() == 1 && dim[0] == f)
              changed |= addPattern(patterns[value][d], outer);
          });
  }
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// The state of a tensor when `factors` of the op are split in `outer` blocks.
static AxisState stateWith(const LayerOp &op, const TensorFactors &dims,
                           llvm::ArrayRef<unsigned> factors, int64_t outer) {
  for (size_t d = 0; d < dims.size(); ++d)
    for (size_t i = 0; i < dims[d].size(); ++i)
      if (llvm::is_contained(factors, dims[d][i])) {
        int64_t before = 1;
        for (size_t k = 0; k < i; ++k)
          before *= op.factors[dims[d][k]].factor.size;
        if (outer >= kRaggedOuter)
          return splitAt(d, outer);
        if (isRaggedIn(op, dims[d][i]))
          return splitAt(d, kRaggedOuter);
        return splitAt(d, outer * before);
      }
  return kReplicated;
}

/// The option that splits factors; results without them are sums if `sums`.
static OpOption splitOption(const LayerOp &op, llvm::ArrayRef<unsigned> factors,
                            int64_t outer, bool sums) {
  OpOption option;
  option.factor = factors[0];
  option.outer = outer;
  for (const TensorFactors &dims : op.operandFactors)
    option.operands.push_back(stateWith(op, dims, factors, outer));
  for (const TensorFactors &dims : op.resultFactors) {
    AxisState state = stateWith(op, dims, factors, outer);
    option.results.push_back(state == kReplicated && sums ? kPending : state);
  }
  return option;
}

static OpOption replicated(const LayerOp &op) {
  OpOption option;
  option.operands.assign(op.operands.size(), kReplicated);
  option.results.assign(op.results.size(), kReplicated);
  return option;
}

/// Rows that data sends to their owners: every tensor with such rows is sharded
/// by them; what gathers them back is a sum.
static void addMapOptions(const LayerOp &op, llvm::ArrayRef<int64_t> sizes,
                          int64_t ranks, std::vector<OpOption> &options) {
  for (const FactorMap &map : op.maps) {
    llvm::SmallVector<unsigned, 4> split;
    for (const auto *list : {&map.from, &map.to})
      for (unsigned f : *list)
        if (op.factors[f].index == IndexClass::Expert &&
            op.factors[f].factor.kind == FactorKind::Whole)
          split.push_back(f);
    bool divides = !split.empty();
    for (unsigned f : split)
      divides &= sizes[f] % ranks == 0;
    if (!divides)
      continue;
    OpOption option = splitOption(op, split, 1, /*sums=*/true);
    option.factor = split.back();
    options.push_back(option);
  }
}

/// Ranks exchange the rows of a table: what splits tokens, or experts, splits
/// the rows of tables.
static OpOption exchanging(const LayerOp &op, int index) {
  const FactorVariant &variant = op.variants[index];
  OpOption option;
  option.variant = index;
  option.factor = variant.together ? variant.factors[1] : variant.factors[0];
  auto stateOf = [&](const TensorFactors &dims) {
    AxisState state = kReplicated;
    for (size_t d = 0; d < dims.size(); ++d)
      for (unsigned f : dims[d]) {
        if (isRaggedIn(op, f))
          return splitAt(d, kExchangedOuter);
        if (int(f) == option.factor)
          state = splitAt(d);
      }
    return state;
  };
  for (const TensorFactors &dims : op.operandFactors)
    option.operands.push_back(stateOf(dims));
  for (const TensorFactors &dims : op.resultFactors)
    option.results.push_back(stateOf(dims));
  return option;
}

static void addVariants(const LayerOp &op, llvm::ArrayRef<int64_t> sizes,
                        int64_t ranks, bool exchanges,
                        std::vector<OpOption> &options) {
  for (size_t i = 0; i < op.variants.size(); ++i) {
    const FactorVariant &variant = op.variants[i];
    auto divides = [&](unsigned f) {
      return sizes[f] % (ranks * op.factors[f].granule) == 0;
    };
    auto add = [&](llvm::ArrayRef<unsigned> factors) {
      if (!llvm::all_of(factors, divides))
        return;
      OpOption option = splitOption(op, factors, 1, variant.leavesSum);
      option.variant = i;
      options.push_back(option);
    };
    if (variant.exchanges) {
      if (exchanges && llvm::all_of(variant.factors, divides))
        options.push_back(exchanging(op, i));
    } else if (variant.together)
      add(variant.factors);
    else
      for (unsigned f : variant.factors)
        add({f});
  }
}

/// A gradient that another kind makes of the same parameter lies as the sum of
/// both does: it is asked for in no state.
static bool isMadeElsewhere(const LayerKind &kind, int value) {
  const LayerValue &facts = kind.values[value];
  return facts.producer < 0 && facts.param < 0 && !facts.forward &&
         value != kind.outputGradient;
}

static void addPassing(const LayerKind &kind, const LayerOp &op,
                       std::vector<OpOption> &options) {
  if (op.work.matmuls() > 0)
    return;
  auto pending = [&](llvm::ArrayRef<unsigned> operands) {
    OpOption option = replicated(op);
    option.passes = operands[0];
    for (unsigned i : operands)
      if (!isMadeElsewhere(kind, op.operands[i]))
        option.operands[i] = kPending;
    for (AxisState &state : option.results)
      state = kPending;
    options.push_back(option);
  };
  if (op.linearOperands.empty())
    return;
  if (op.jointly)
    return pending(op.linearOperands);
  for (unsigned i : op.linearOperands)
    pending({i});
}

static std::vector<OpOption> makeOptions(const LayerKind &kind,
                                         const LayerOp &op, int64_t ranks,
                                         llvm::ArrayRef<int64_t> sizes,
                                         const LayerFacts &facts,
                                         bool exchanges) {
  std::vector<OpOption> options = {replicated(op)};
  if (ranks == 1)
    return options;
  for (unsigned f = 0; f < op.factors.size(); ++f) {
    FactorKind kind = op.factors[f].factor.kind;
    if (kind == FactorKind::Whole || sizes[f] < ranks)
      continue;
    for (int64_t outer : patternsOf(op, f, facts.patterns)) {
      bool sums = kind == FactorKind::Sum || kind == FactorKind::Max;
      bool inBlocks = outer > 1 && outer < kRaggedOuter;
      if ((outer == kExchangedOuter && !exchanges) ||
          (inBlocks && op.readsPositions))
        continue;
      // Only ops that pass rows on take them as long as they are.
      if (outer >= kRaggedOuter
              ? sums || op.work.matmuls() > 0
              : sizes[f] % (outer * ranks * op.factors[f].granule) != 0)
        continue;
      options.push_back(splitOption(op, {f}, outer, sums));
    }
  }
  addMapOptions(op, sizes, ranks, options);
  addVariants(op, sizes, ranks, exchanges, options);
  addPassing(kind, op, options);
  return options;
}

/// True where context ranks would each make the whole gradient of a parameter
/// that is no expert's, though they could sum parts: the sum costs nothing
/// beside that over data ranks, and programs add it to other such sums.
static bool makesWholeOverContext(const LayerKind &kind, const LayerOp &op,
                                  const OpOption &option) {
  auto isDense = [&](int value) {
    int param = kind.values[value].gradientOf;
    return param >= 0 && !kind.params[param].expert;
  };
  auto canSum = [](const LayerFactor &factor) {
    return factor.factor.kind == FactorKind::Sum &&
           factor.index == IndexClass::Sequence;
  };
  return option.factor < 0 && option.passes < 0 && option.variant < 0 &&
         llvm::any_of(op.results, isDense) && llvm::any_of(op.factors, canSum);
}

/// What an axis may split: the tensor axis anything but the batch, the context
/// axis sequences, the expert axis the batch and experts.
bool LayerTerms::allowed(int axis, const LayerOp &op,
                         const OpOption &option) const {
  auto inner = static_cast<InnerAxis>(axis);
  if (query.filter && !query.filter(op, inner, option))
    return false;
  if (inner == InnerAxis::Context && ranks[axis] > 1 &&
      makesWholeOverContext(kind, op, option))
    return false;
  if (option.factor < 0)
    return true;
  IndexClass index = op.factors[option.factor].index;
  switch (inner) {
  case InnerAxis::Tensor:
    return query.anyFactor || index != IndexClass::Batch;
  case InnerAxis::Context:
    return index == IndexClass::Sequence;
  case InnerAxis::Expert:
    return index == IndexClass::Batch || index == IndexClass::Expert;
  }
  return false;
}

/// True when some tensor's rows are with owners, exchanged or not.
static bool hasRows(const OpOption &option, bool exchanged) {
  auto has = [&](AxisState state) {
    return isRagged(state) && isExchanged(state) == exchanged;
  };
  return llvm::any_of(option.operands, has) ||
         llvm::any_of(option.results, has);
}

/// True when one option shards a dimension where data says and the other
/// evenly.
static bool shardsUnlike(const OpOption &option, const OpOption &other) {
  auto unlike = [](AxisState a, AxisState b) {
    return isSplit(a) && isSplit(b) && splitDim(a) == splitDim(b) &&
           isRagged(a) != isRagged(b);
  };
  auto any = [&](llvm::ArrayRef<AxisState> own,
                 llvm::ArrayRef<AxisState> others) {
    return llvm::any_of(llvm::zip_equal(own, others), [&](auto pair) {
      return unlike(std::get<0>(pair), std::get<1>(pair));
    });
  };
  return any(option.operands, other.operands) ||
         any(option.results, other.results);
}

/// True when ranks of one axis exchange rows of a table that another axis has
/// sharded by owners where it is, or shard a dimension evenly whose rows are
/// with owners: programs know one way for all axes of a dimension.
static bool mixRows(const OpOption &option, const OpOption &other) {
  for (bool exchanged : {false, true})
    if (hasRows(option, exchanged) && hasRows(other, !exchanged))
      return true;
  return shardsUnlike(option, other);
}

/// True when ranks of the first option's axis pass parts round while the other
/// axis splits one of these factors alone.
static bool breaksRing(const LayerOp &op, const OpOption &ring,
                       const OpOption &other) {
  return isRing(op, ring) && other.factor >= 0 &&
         other.variant != ring.variant &&
         llvm::is_contained(op.variants[ring.variant].factors,
                            unsigned(other.factor));
}

/// True when programs cannot carry out an option beside that of another axis.
bool LayerTerms::clashes(int axis, int op, const OpOption &option,
                         const LayerLayout &layout) const {
  for (int other = 0; other < kInnerAxes; ++other) {
    if (other == axis || !has(other) || layout.axes[other].ops.empty())
      continue;
    const OpOption &own = layout.axes[other].ops[op];
    if (mixRows(option, own) || breaksRing(kind.ops[op], option, own) ||
        breaksRing(kind.ops[op], own, option))
      return true;
  }
  return false;
}

/// True when an op would pass on a pending operand whose maker has more to do
/// with the sum: it adds a bias to it.
bool LayerTerms::passesUnfinished(const LayerOp &op,
                                  const OpOption &option) const {
  return llvm::any_of(llvm::zip_equal(op.operands, option.operands),
                      [&](auto pair) {
                        auto [value, state] = pair;
                        int maker = kind.values[value].producer;
                        return state == kPending && maker >= 0 &&
                               llvm::any_of(kind.ops[maker].variants,
                                            [](const FactorVariant &variant) {
                                              return variant.leavesSum;
                                            });
                      });
}

/// True when an op would pass on a pending operand that is a maximum: what
/// commutes with sums need not commute with these.
bool LayerTerms::passesMaximum(const LayerOp &op,
                               const OpOption &option) const {
  auto isMaximum = [&](int value) {
    int maker = kind.values[value].producer;
    return maker >= 0 &&
           llvm::any_of(kind.ops[maker].factors, [](const LayerFactor &f) {
             return f.factor.kind == FactorKind::Max;
           });
  };
  return llvm::any_of(llvm::zip_equal(op.operands, option.operands),
                      [&](auto pair) {
                        auto [value, state] = pair;
                        return state == kPending && isMaximum(value);
                      });
}

const std::vector<std::vector<OpOption>> &
LayerTerms::options(int axis, const LayerLayout &layout) const {
  std::vector<std::vector<OpOption>> &all = made[axis];
  bool alone = true;
  for (int other = 0; other < kInnerAxes; ++other)
    alone &= other == axis || !has(other);
  if (alone && !all.empty())
    return all;
  all.clear();
  for (size_t i = 0; i < kind.ops.size(); ++i) {
    const LayerOp &op = kind.ops[i];
    auto shards = shardsOf(i, layout, axis);
    llvm::SmallVector<int64_t, 8> sizes;
    for (size_t f = 0; f < op.factors.size(); ++f)
      sizes.push_back(op.factors[f].factor.size / shards[f]);
    std::vector<OpOption> own;
    for (OpOption &option : makeOptions(kind, op, ranks[axis], sizes, facts,
                                        context.step->moeBuffer > 0))
      if (allowed(axis, op, option) && !passesMaximum(op, option) &&
          !passesUnfinished(op, option) && !clashes(axis, i, option, layout))
        own.push_back(std::move(option));
    all.push_back(std::move(own));
  }
  return all;
}

bool kerf::isRing(const LayerOp &op, const OpOption &option) {
  return option.variant >= 0 && op.variants[option.variant].together;
}

bool kerf::holdsAllExperts(const LayerOp &op, InnerAxis axis,
                           const OpOption &option) {
  if (axis != InnerAxis::Expert || op.maps.empty())
    return false;
  auto isExpert = [&](unsigned f) {
    return op.factors[f].index == IndexClass::Expert;
  };
  auto hasExperts = [&](const TensorFactors &dims) {
    return llvm::any_of(dims, [&](const DimFactors &dim) {
      return llvm::any_of(dim, isExpert);
    });
  };
  return llvm::any_of(llvm::zip(op.operandFactors, option.operands),
                      [&](auto operand) {
                        const auto &[dims, state] = operand;
                        return hasExperts(dims) && !isSplit(state);
                      });
}
