//===- ProgramBody.cpp - the nodes of one layer ---------------------------===//
//
// A pass over a layer as a function of a program has it: ops in their order,
// collectives where a value is first needed in another state (later readers in
// the same state share it), what is recomputed just before it is needed, and
// gradients that are sharded at the end.
//
//===----------------------------------------------------------------------===//

#include "ProgramSketch.h"

#include "kerf/Support/Gpus.h"
#include "kerf/Support/Padding.h"

using namespace kerf;
using namespace kerf::program_sketch;

namespace kerf::program_sketch {
class BodyBuilder {
public:
  BodyBuilder(const SketchedLayer &layer, const SketchedLayer::Passes &passes)
      : layer(layer), kind(layer.kind), passes(passes),
        tensors(kind.values.size(), -1), isEmitted(kind.ops.size(), false) {}

  Body build() {
    gatherWeights();
    for (size_t i = 0; i < kind.ops.size(); ++i)
      if (isIn(kind.ops[i]))
        emit(i);
      else if (kind.ops[i].isDeferred && hasBackward())
        handOver(kind.ops[i]);
    if (passes.forward && kind.output >= 0)
      handOn(kind.output, kind.input, layer.input);
    if (passes.inputGradients && kind.inputGradient >= 0)
      handOn(kind.inputGradient, kind.outputGradient, layer.outputGradient);
    if (passes.isLoop)
      for (auto [value, p] : gradients)
        shardGradient(value, p);
    return std::move(body);
  }

private:
  const SketchedLayer &layer;
  const LayerKind &kind;
  const SketchedLayer::Passes &passes;
  Body body;
  std::vector<int> tensors;   ///< of each root
  std::map<int, int> weights; ///< tensor + 1, by parameter
  std::vector<bool> isEmitted;
  std::map<std::pair<int, std::vector<AxisState>>, int> converted;
  std::vector<std::pair<int, int>> gradients; ///< to shard: value, parameter

  int add(double bytes, Sizes shape, Held held = Held::Temporaries) {
    body.tensors.push_back({bytes, std::move(shape), held});
    return int(body.tensors.size()) - 1;
  }
  Node &addNode(llvm::ArrayRef<int> reads, llvm::ArrayRef<int> writes) {
    Node &node = body.nodes.emplace_back();
    node.reads.append(reads.begin(), reads.end());
    node.writes.append(writes.begin(), writes.end());
    return node;
  }
  void addCollective(llvm::ArrayRef<int> reads, llvm::ArrayRef<int> writes) {
    addNode(reads, writes).isCollective = true;
  }

  int rootOf(int value) const { return layer.roots[value]; }
  bool hasBackward() const {
    return passes.inputGradients || passes.weightGradients;
  }

  /// ZeRO 3: whole weights, made where they are first read; of a function or a
  /// backward loop at its beginning.
  void gatherWeights() {
    if (layer.outer.zero < 3 || (passes.isLoop && !hasBackward()))
      return;
    for (const LayerOp &op : kind.ops)
      if (isIn(op))
        for (int value : op.operands)
          if (kind.values[value].param >= 0)
            weight(value);
  }
  bool isIn(const LayerOp &op) const {
    return op.phase == LayerPhase::Forward ? passes.forward
           : op.isDeferred                 ? passes.weightGradients
                                           : passes.inputGradients;
  }
  /// What a deferred op reads and no slot has is made now.
  void handOver(const LayerOp &op) {
    for (int value : op.operands)
      if (isDeferred(rootOf(value)))
        valueOf(value);
  }

  int weight(int value) {
    int &tensor = weights[kind.values[value].param];
    if (tensor > 0)
      return tensor - 1;
    const SketchedLayer::Param &param = layer.params[kind.values[value].param];
    Sizes shape = shapeIn(layer.terms, value, layer.madeStates(value));
    double each = param.param->weightBytes;
    double whole = layer.bytesIn(value, layer.madeStates(value));
    // A tied one may rest in another way.
    bool isGathered = param.isMoved || param.elements * each < whole;
    if (layer.outer.zero >= 3 && param.ranks > 1) {
      isGathered = true;
      whole = std::max(whole, param.piece * param.ranks * each);
    }
    // Outside of loops that is done once per step (`movedBytes`).
    if (layer.isMovedOnce(param))
      isGathered = false;
    int made =
        add(isGathered ? whole : 0, std::move(shape), Held::Communication);
    if (isGathered)
      addCollective({}, {made});
    tensor = made + 1;
    return made;
  }
  /// The tensor of a value as it is made (or kept, or was given).
  int valueOf(int value) {
    if (kind.values[value].param >= 0)
      return weight(value);
    int root = rootOf(value);
    if (!passes.forward && layer.places[root].isKept && showsOtherState(value))
      return again(value);
    if (tensors[root] >= 0)
      return tensors[root];
    int producer = kind.values[value].producer;
    bool isAgain = producer >= 0 && !passes.forward && hasBackward() &&
                   kind.values[value].forward && !layer.places[root].isKept &&
                   !wasHandedOver(root);
    if (isAgain) {
      emit(producer);
      if (tensors[root] >= 0)
        return tensors[root];
    }
    return tensors[root] =
               add(0, shapeIn(layer.terms, value, layer.madeStates(value)));
  }

  /// True for a view of something kept that shows it in another state.
  bool showsOtherState(int value) const {
    int producer = kind.values[value].producer;
    if (producer < 0 || !layer.isView(kind.ops[producer]))
      return false;
    const LayerOp &op = kind.ops[producer];
    return layer.neededStates(op, 0) != layer.madeStates(op.operands[0]) ||
           showsOtherState(op.operands[0]);
  }

  /// The view of something kept, which is converted again.
  int again(int value) {
    States states = layer.madeStates(value);
    auto [at, isNew] = converted.try_emplace(
        {value, std::vector<AxisState>(states.begin(), states.end())}, -1);
    if (isNew) {
      at->second =
          add(layer.bytesIn(value, states), shapeIn(layer.terms, value, states),
              Held::Communication);
      addCollective({}, {at->second});
    }
    return at->second;
  }

  int read(int index, int k) {
    const LayerOp &op = kind.ops[index];
    int value = op.operands[k];
    int producer = kind.values[value].producer;
    // Of a source each reader makes its own part.
    if (producer >= 0 && kind.ops[producer].operands.empty())
      return add(0, shapeIn(layer.terms, value, layer.neededStates(op, k)));
    int made = valueOf(value);
    return convert(value, made, layer.madeStates(value),
                   layer.neededStates(op, k));
  }

  int convert(int value, int made, const States &from, const States &to) {
    if (from == to)
      return made;
    auto [at, isNew] = converted.try_emplace(
        {value, std::vector<AxisState>(to.begin(), to.end())}, -1);
    if (!isNew)
      return at->second;
    if (layer.terms.isExternal(value)) // Each rank has its part from the start.
      return at->second = add(0, shapeIn(layer.terms, value, to));
    int result = add(layer.bytesIn(value, to), shapeIn(layer.terms, value, to),
                     Held::Communication);
    at->second = result;
    bool isOwn = isLocal(from, to);
    if (int known = isOwn ? -1 : gathered(value, to); known >= 0) {
      made = known;
      isOwn = true;
    }
    addNode({made}, {result}).isCollective = !isOwn;
    return result;
  }

  /// The own part of something whole is taken without others.
  static bool isLocal(llvm::ArrayRef<AxisState> from,
                      llvm::ArrayRef<AxisState> to) {
    return llvm::all_of(llvm::zip(from, to), [](auto pair) {
      auto [have, want] = pair;
      return have == want || have == kReplicated;
    });
  }

  /// What an earlier reader has gathered of a value, whose own part another one
  /// wants (`FunctionWriter::convert`); -1: there is none.
  int gathered(int value, llvm::ArrayRef<AxisState> to) const {
    for (const auto &[key, tensor] : converted)
      if (key.first == value && llvm::ArrayRef(key.second) != to &&
          isLocal(key.second, to))
        return tensor;
    return -1;
  }

  void emit(int index) {
    if (isEmitted[index])
      return;
    isEmitted[index] = true;
    const LayerOp &op = kind.ops[index];
    llvm::SmallVector<int, 6> reads, writes;
    for (size_t k = 0; k < op.operands.size(); ++k)
      reads.push_back(read(index, k));
    if (layer.isView(op)) {
      view(op, reads);
      return;
    }
    if (op.operands.empty()) // A source: each reader recomputes it.
      return;
    if (int same = madeAgain(index); same >= 0) {
      tensors[rootOf(op.results[0])] = same;
      return;
    }
    if (int own = ownPart(op); own >= 0) {
      tensors[rootOf(op.results[0])] = reads[own];
      finish(op.results[0], kind.values[op.results[0]].gradientOf);
      return;
    }
    for (int value : op.results)
      writes.push_back(write(index, value));
    llvm::SmallVector<std::pair<int, int>, 2> parts =
        gather(op, index, reads, writes);
    addNode(reads, writes);
    Node &node = body.nodes.back();
    setOp(node, op);
    node.gathers = looksUpRows(op, layer.terms.device.target);
    node.isKernel = node.gathers || (op.work.matmuls() <= 0 &&
                                     op.maps.empty() && !op.alone && !op.view);
    node.workspace =
        workspaceOf(layer.terms, index, layer.optionsOf(index), layer.workers);
    for (auto [whole, part] : parts)
      addCollective({whole}, {part});
    for (int value : op.results)
      if (int p = kind.values[value].gradientOf; p >= 0)
        finish(value, p);
  }

  /// What a backward op makes of the same operands as its forward op (decoded
  /// weights) is one tensor where both are in a function; -1: it is not there.
  int madeAgain(int index) const {
    const LayerOp &op = kind.ops[index];
    if (op.forward < 0 || op.results.size() != 1)
      return -1;
    auto isSame = [&](int a, int b) {
      int param = kind.values[a].param;
      return a == b || (param >= 0 && param == kind.values[b].param);
    };
    for (auto [i, other] : llvm::enumerate(kind.ops)) {
      bool isMade = int(i) != index && isEmitted[i] &&
                    other.forward == op.forward && other.name == op.name &&
                    llvm::equal(other.operands, op.operands, isSame);
      if (isMade &&
          layer.madeStates(other.results[0]) == layer.madeStates(op.results[0]))
        return tensors[rootOf(other.results[0])];
    }
    return -1;
  }

  /// Of the sum of the gradients that two stages make of a parameter, the
  /// operand that is made here, for the other comes with the update; -1: no
  /// such op.
  int ownPart(const LayerOp &op) const {
    int p = op.results.empty() ? -1 : kind.values[op.results[0]].gradientOf;
    if (p < 0 || !layer.params[p].isAcross || op.operands.size() != 2)
      return -1;
    int own = -1, others = 0;
    for (auto [k, value] : llvm::enumerate(op.operands)) {
      const LayerValue &facts = kind.values[value];
      if (facts.shape != kind.values[op.results[0]].shape)
        return -1;
      facts.producer < 0 ? void(++others) : void(own = int(k));
    }
    return others == 1 ? own : -1;
  }

  double bytesOfShape(int tensor, int value) const {
    double bytes = kind.values[value].elementBytes;
    for (int64_t size : body.tensors[tensor].shape)
      bytes *= double(size);
    return bytes;
  }

  /// Attention goes round a ring, with a block that is there and one that
  /// comes, where all keys would take more than the queries.
  static double partsOf(const LayerOp &op, const LayerKind &kind,
                        int64_t ranks) {
    return double(takesAllKeys(kind, op, ranks) ? ranks
                                                : std::min<int64_t>(2, ranks));
  }

  /// An op that works on all parts of some operands gathers these, and hands
  /// out the results that belong to them: pairs of a whole and this rank's
  /// part.
  llvm::SmallVector<std::pair<int, int>, 2>
  gather(const LayerOp &op, int index, llvm::SmallVectorImpl<int> &reads,
         llvm::SmallVectorImpl<int> &writes) {
    llvm::SmallVector<std::pair<int, int>, 2> parts;
    for (int axis = 0; axis < kInnerAxes; ++axis) {
      if (!layer.terms.has(axis) || layer.layout.axes[axis].ops.empty())
        continue;
      const OpOption &option = layer.layout.axes[axis].ops[index];
      if (option.variant < 0)
        continue;
      const FactorVariant &variant = op.variants[option.variant];
      if (variant.exchanges) {
        if (!variant.together)
          exchange(op, option, reads, writes, parts);
        continue;
      }
      if (!variant.together)
        continue;
      unsigned partners =
          layer.terms.partnersOf(index, option, axis, layer.layout);
      if (LayerTerms::isCounted(axis, partners))
        continue;
      auto whole = [&](int part, int value) {
        return add(partsOf(op, kind, layer.terms.ranksWith(axis, partners)) *
                       bytesOfShape(part, value),
                   body.tensors[part].shape, Held::Communication);
      };
      for (size_t k = 0; k < op.operands.size(); ++k)
        if (travels(op, option, op.operandFactors[k])) {
          int gathered = whole(reads[k], op.operands[k]);
          addCollective({reads[k]}, {gathered});
          reads[k] = gathered;
        }
      for (size_t k = 0; k < op.results.size(); ++k)
        if (travels(op, option, op.resultFactors[k])) {
          int made = whole(writes[k], op.results[k]);
          parts.push_back({made, writes[k]});
          writes[k] = made;
        }
    }
    return parts;
  }

  /// Rows on their way: a room that is sent and one that is received, before an
  /// op that reads a table of exchanged rows, or behind one that makes it.
  void exchange(const LayerOp &op, const OpOption &option,
                llvm::SmallVectorImpl<int> &reads,
                llvm::SmallVectorImpl<int> &writes,
                llvm::SmallVectorImpl<std::pair<int, int>> &parts) {
    auto room = [&](int table, int value) {
      double bytes = bytesOfShape(table, value);
      body.exchanged = std::max(body.exchanged, bytes);
      return add(bytes, body.tensors[table].shape, Held::Communication);
    };
    for (size_t k = 0; k < option.operands.size(); ++k)
      if (isExchanged(option.operands[k])) {
        int sent = room(reads[k], op.operands[k]);
        int received = room(reads[k], op.operands[k]);
        addNode({reads[k]}, {sent});
        addCollective({sent}, {received});
        reads[k] = received;
        return;
      }
    for (size_t k = 0; k < option.results.size(); ++k)
      if (isExchanged(option.results[k])) {
        int sent = room(writes[k], op.results[k]);
        int received = room(writes[k], op.results[k]);
        parts.push_back({sent, received});
        parts.push_back({received, writes[k]});
        writes[k] = sent;
        return;
      }
  }

  /// True for what has the second factor of a variant alone: keys and values.
  static bool travels(const LayerOp &op, const OpOption &option,
                      const TensorFactors &dims) {
    const FactorVariant &variant = op.variants[option.variant];
    auto has = [&](unsigned factor) {
      return llvm::any_of(dims, [factor](const DimFactors &dim) {
        return llvm::is_contained(dim, factor);
      });
    };
    return !has(variant.factors[0]) && has(variant.factors[1]);
  }

  /// What follows the op that makes a gradient.
  void finish(int value, int p) {
    int tensor = tensors[rootOf(value)];
    if (layer.params[p].sharesSum())
      body.tensors[tensor].lasts = Lasts::Call;
    else if (isSharded(p) && passes.isLoop)
      gradients.push_back({value, p});
    else if (isSharded(p))
      shardGradient(value, p);
    else if (isSummedHere(p))
      sumGradient(tensor, p);
    else if (passes.gradients.isSummed && !layer.params[p].isMatmul)
      addNode({tensor}, {}); // Added to the sum.
    else if (!passes.gradients.isSummed && !passes.isLoop)
      body.tensors[tensor].lasts = Lasts::Step;
  }

  /// A view of something in another state than it was made in shows that.
  void view(const LayerOp &op, llvm::ArrayRef<int> reads) {
    int root = rootOf(op.results[0]);
    if (reads.size() != 1)
      return;
    bool isKept = passes.forward && passes.keeps && layer.places[root].isKept;
    if (isKept && rootOf(op.operands[0]) != root)
      body.tensors[reads[0]].bytes = 0; // It is made where it is kept.
    tensors[root] = reads[0];
  }

  /// Slots have what deferred weight gradients read.
  bool isDeferred(int root) const {
    return passes.inputGradients && !passes.weightGradients &&
           layer.places[root].isDeferred;
  }

  bool wasHandedOver(int root) const {
    return passes.weightGradients && !passes.inputGradients &&
           layer.places[root].isDeferred;
  }

  bool isSharded(int p) const {
    return passes.gradients.isSharded && layer.params[p].ranks > 1 &&
           !layer.params[p].isTied && !layer.params[p].isAcross;
  }

  /// Each layer's gradient is summed over data ranks by itself, in the loop.
  bool isSummedHere(int p) const {
    const SketchedLayer::Param &param = layer.params[p];
    return passes.gradients.sumsEarly && passes.isLoop && param.isSummable() &&
           param.isMessage();
  }

  /// Pieces of a gradient as matmuls make it do not divide it.
  bool isPadded(const SketchedLayer::Param &param) const {
    return layer.outer.zero == 1 && !param.isScattered &&
           param.piece * param.ranks > param.shard();
  }

  /// The matmul adds to what others have made, where that is stored
  /// (`matmulSummedInPlace`).
  bool isAddedInPlace(int p) const {
    const SketchedLayer::Param &param = layer.params[p];
    return passes.gradients.isSummed && isSummedHere(p) && param.isMatmul &&
           !isPadded(param);
  }

  /// The sum over tensor ranks, if that is smaller, on its way to pieces.
  int scatterGradient(int tensor, const SketchedLayer::Param &param) {
    if (!param.isScattered)
      return tensor;
    int shard =
        add(param.elements * param.param->gradientBytes, {}, Held::Gradients);
    addCollective({tensor}, {shard});
    body.nodes.back().scatters = true;
    return shard;
  }

  /// Of several micro-batches what others have made is added first. The sum has
  /// a place of its own, or is made in that of the gradient. A matmul's buffer
  /// has room for padding.
  void sumGradient(int tensor, int p) {
    const SketchedLayer::Param &param = layer.params[p];
    double each = param.param->gradientBytes;
    double padded = param.piece * param.ranks;
    if (passes.gradients.isSummed && !isAddedInPlace(p)) {
      int sum = add(param.gradient * each, {}, Held::Gradients);
      addNode({tensor}, {sum});
      tensor = sum;
    }
    if (layer.outer.zero == 1)
      tensor = scatterGradient(tensor, param);
    if (!passes.gradients.isSummed && param.isMatmul && isPadded(param)) {
      double &bytes = body.tensors[tensor].bytes;
      bytes = std::max(bytes, padded * each);
    } else if (layer.outer.zero == 1 && padded > param.shard()) {
      int wide = add(padded * each, {}, Held::Gradients);
      addNode({tensor}, {wide});
      tensor = wide;
    }
    addCollective({tensor}, {add(0, {}, Held::Gradients)});
  }

  /// True for a gradient that programs for GPUs add up where the sum is stored:
  /// rows of an embedding, and that of a head which is the same table, unless
  /// it is scattered or moved between tensor ranks first.
  bool isTable(int index, const SketchedLayer::Param &param) const {
    return layer.outer.zero < 2 && !param.isScattered && !param.isMoved &&
           layer.terms.device.target == BackendTarget::Cuda &&
           (param.isTied || kind.ops[index].name == "embedding_gradient");
  }

  /// Bytes that a result needs of its own.
  double bytesOf(int index, int value) const {
    const LayerValue &facts = kind.values[value];
    int root = rootOf(value);
    double bytes = layer.places[root].bytes;
    if (int p = facts.gradientOf; p >= 0) {
      // Else a stack has them, or the sum that the matmul adds to.
      const SketchedLayer::Param &param = layer.params[p];
      bool isSummed = passes.gradients.isSummed;
      bool isRows = isSummed && isTable(index, param);
      bool isAdded = isRows || (isSummed && param.isMatmul);
      bool isPart = isSummedHere(p) && !isAddedInPlace(p) &&
                    (isSummed || param.shrinks(layer.outer.zero));
      bool isOwn = isSharded(p) || isPart || (param.sharesSum() && !isRows) ||
                   (!passes.isLoop && !isAdded);
      return isOwn ? bytes : 0;
    }
    if (isDeferred(root))
      return 0;
    bool isKept = passes.forward && passes.keeps && layer.places[root].isKept;
    bool isPlaced = kind.ops[index].phase == LayerPhase::Forward &&
                    kind.output >= 0 && root == rootOf(kind.output) &&
                    layer.madeStates(kind.output) == layer.input;
    return isKept || isPlaced ? 0 : bytes;
  }

  /// How much longer rows are that programs for GPUs pad: those of matmuls and
  /// of the gradient of a loss, unless ranks split them.
  double paddedShare(int index, int value, const Sizes &shape) const {
    const LayerOp &op = kind.ops[index];
    const LayerValue &facts = kind.values[value];
    bool isMatmul = op.work.matmulFlops > 0 && op.maps.empty();
    bool isPadded = isMatmul || op.name == "cross_entropy_backward";
    if (!isPadded || layer.terms.device.target != BackendTarget::Cuda ||
        shape.empty() || shape.back() != facts.shape.back())
      return 1;
    auto bytes = int64_t(facts.elementBytes);
    return double(paddedColumns(shape.back(), std::max<int64_t>(bytes, 1))) /
           double(shape.back());
  }

  int write(int index, int value) {
    int &tensor = tensors[rootOf(value)];
    if (tensor >= 0)
      return tensor;
    Sizes shape = shapeIn(layer.terms, value, layer.madeStates(value));
    double bytes = bytesOf(index, value) * paddedShare(index, value, shape);
    return tensor = add(bytes, std::move(shape),
                        kind.values[value].gradientOf >= 0 ? Held::Gradients
                                                           : Held::Temporaries);
  }

  /// The result in the state in which it is handed on.
  void handOn(int value, int given, const States &to) {
    if (kind.values[value].producer < 0)
      return;
    int result = convert(value, valueOf(value), layer.madeStates(value), to);
    if (passes.inputGradients && given >= 0)
      body.carried = tensors[rootOf(given)];
    body.next = result;
    if (!passes.inputGradients && result != tensors[rootOf(value)])
      body.tensors[result].bytes = 0; // It is made where it is wanted.
  }

  /// Pads a gradient and hands out its pieces, this rank's into a sum.
  void shardGradient(int value, int p) {
    const SketchedLayer::Param &param = layer.params[p];
    int whole = scatterGradient(tensors[rootOf(value)], param);
    if (param.piece * param.ranks > param.elements) {
      int padded = add(param.piece * param.ranks * param.param->gradientBytes,
                       {}, Held::Gradients);
      addNode({whole}, {padded});
      whole = padded;
    }
    double bytes = passes.isLoop ? 0 : param.piece * param.param->gradientBytes;
    int piece = add(bytes, {}, Held::Gradients);
    addCollective({whole}, {piece});
    if (passes.gradients.isSummed)
      addNode({piece}, {});
  }
};
} // namespace kerf::program_sketch

/// A layer's result takes the place of what it was given, if that is not read
/// afterwards.
static void placeNext(Body &body) {
  if (body.carried < 0 || body.next < 0)
    return;
  bool isMade = false;
  for (const Node &node : body.nodes) {
    isMade |= llvm::is_contained(node.writes, body.next);
    if (isMade && llvm::is_contained(node.reads, body.carried))
      return;
  }
  body.tensors[body.next].bytes = 0;
}

const Lives &SketchedLayer::lives(const Passes &passes) const {
  auto [at, isNew] = known.try_emplace(passes);
  if (!isNew)
    return at->second;
  Body body = BodyBuilder(*this, passes).build();
  const Device &device = terms.device;
  bool isGpu = device.target == BackendTarget::Cuda;
  if (isGpu)
    fuseEpilogues(body, kind, hasGeluMatmuls(device.arch));
  joinKernels(body, isGpu);
  overlapCollectives(body);
  placeNext(body);
  return at->second = livesOf(body);
}
