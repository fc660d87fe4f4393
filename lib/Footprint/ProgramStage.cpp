//===- ProgramStage.cpp - the functions of a stage on one time line -------===//
//
// The forward passes of a stage's chunks, the backward passes (the head with
// them), deferred weight gradients, the update. One micro-batch stands for all:
// those beside it have their slots. Where gradients are summed over ranks in
// the last backward pass, that follows one that stands for the others: whole
// gradients go, chunk by chunk, as their pieces come.
//
//===----------------------------------------------------------------------===//

#include "ProgramStage.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::program_sketch;

/// Buffers keep their places, so that an arena is larger than what lives at one
/// time: on training steps by up to 0.6 % of what comes and goes.
static constexpr double kPlacementLoss = 0.01;
/// Whole gradients of a layer that are on their way between ranks are large and
/// live across much that is not: by up to 0.07 of the largest on the promised
/// pipelines. Rooms for rows of experts do so, too, and sums of several chunks
/// that change places in the update, by more.
static constexpr double kPartLoss = 0.15, kRoomLoss = 0.75, kMovedLoss = 0.45;
/// Rate, number of the step, seed, loss, norm and the like.
static constexpr double kScalars = 1024;

namespace {
class StageSketch {
public:
  explicit StageSketch(const StagePlan &stage)
      : outer(stage.outer), chunks(stage.chunks),
        sumsEarly(stage.sumsEarly && outer.zero < 2),
        staysLong(stage.staysLong), isStaggered(stage.isStaggered),
        slots(chunks.size()) {
    rule.isSummed = outer.microBatches > 1;
    putsOff = splitsWeightGradient(outer.schedule);
    for (Kept kept : kAllKept)
      for (const Chunk &chunk : chunks)
        slotsStay[kept] |= chunk.slots[kept] > 1 || chunks.size() > 1;
  }

  StageMemory memory() {
    if (rule.isSummed && !outer.endsByChunk())
      for (const Chunk &chunk : chunks)
        beginGradients(chunk);
    for (size_t c = 0; c < chunks.size(); ++c)
      for (Kept kept : kAllKept)
        if (slotsStay[kept])
          slots[c][kept].push_back(line.begin(double(chunks[c].slots[kept]) *
                                                  slotBytes(chunks[c], kept),
                                              Held::Activations));
    if (slotsStay[Kept::Early])
      simulateForwards();
    beginMoved();
    if (outer.endsByChunk())
      simulateChunks();
    else
      simulateMicroBatches();
    simulateUpdate();
    StageMemory memory = line.peak();
    double loss = std::max(kPlacementLoss * memory.total(), partLoss()) +
                  kRoomLoss * mostExchanged;
    memory.temporaries += std::ceil(loss + kScalars);
    splitGradients(memory);
    addResting(memory);
    return memory;
  }

private:
  const OuterChoice &outer;
  const std::vector<Chunk> &chunks;
  const bool sumsEarly;              ///< over ranks, in the last backward pass
  const bool staysLong, isStaggered; ///< see `StagePlan`
  GradientRule rule;
  bool putsOff = false;
  ByKept<bool> slotsStay; ///< through the step: they have several copies
  TimeLine line;
  std::vector<ByKept<std::vector<int>>> slots; ///< pieces of each chunk
  std::map<const Run *, ByKept<int>> stacks;   ///< such, of loops
  /// Whole gradients, by the loop (or layer) and the parameter.
  std::map<std::pair<const void *, const SketchedLayer::Param *>, int> wholes;
  std::vector<int> moved; ///< see `beginMoved`
  int headInput = -1;
  double mostExchanged = 0; ///< bytes of rows on their way between experts
  int carry = -1;           ///< what a pass hands on outside of slots

  template <typename Fn> static void forEachRun(const Chunk &chunk, Fn fn) {
    if (chunk.embedding)
      fn(Run{chunk.embedding, 1, false});
    for (const Run &run : chunk.runs)
      fn(run);
    if (chunk.head)
      fn(Run{chunk.head, 1, false});
  }
  template <typename Fn> void forEachRun(Fn fn) const {
    for (const Chunk &chunk : chunks)
      forEachRun(chunk, fn);
  }

  //===--------------------------------------------------------------------===//
  // Gradients
  //===--------------------------------------------------------------------===//

  /// Gradients are sharded as they come.
  bool isSharded(const Run &run) const {
    return outer.zero >= 2 && (run.isLoop || rule.isSummed);
  }
  bool isSummedEarly(const SketchedLayer::Param &param) const {
    return sumsEarly && param.isSummable();
  }
  /// So, and each layer by itself.
  bool isSummedByLayer(const Run &run,
                       const SketchedLayer::Param &param) const {
    return run.isLoop && isSummedEarly(param) && param.isMessage();
  }

  double gradientBytes(const Run &run,
                       const SketchedLayer::Param &param) const {
    bool isPiece = (isSharded(run) && param.ranks > 1 && !param.isAcross) ||
                   (param.shrinks(outer.zero) && !rule.isSummed &&
                    isSummedByLayer(run, param));
    double elements = isPiece ? param.piece : param.gradient;
    return double(run.count) * elements * param.param->gradientBytes;
  }

  int &wholeOf(const Run &run, const SketchedLayer::Param &param) {
    const void *owner = run.layer;
    if (run.isLoop)
      owner = &run;
    return wholes.try_emplace({owner, &param}, -1).first->second;
  }

  void beginGradients(const Chunk &chunk) {
    forEachRun(chunk, [&](const Run &run) {
      for (const SketchedLayer::Param &param : run.layer->params)
        if (param.param->trainable && !param.sharesSum())
          wholeOf(run, param) =
              line.begin(gradientBytes(run, param), Held::Gradients);
    });
  }

  /// Parameters that are in another layout until the last backward pass:
  /// deferred weight gradients read none.
  void beginMoved() {
    for (const Chunk &chunk : chunks)
      for (const SketchedLayer *layer : {chunk.embedding, chunk.head})
        if (layer)
          moved.push_back(line.begin(layer->movedBytes(), Held::Communication));
  }
  void endMoved() {
    for (int table : moved)
      line.end(table);
  }

  void endWhole(const Run &run, const SketchedLayer::Param &param) {
    if (int whole = wholeOf(run, param); whole >= 0)
      line.end(whole);
    else // It came with the pass that made it.
      line.begin(-gradientBytes(run, param), Held::Gradients);
  }

  /// True for a parameter whose gradient these passes make.
  static bool isMadeIn(const SketchedLayer::Param &param,
                       const SketchedLayer::Passes &passes) {
    return param.isDeferred ? passes.weightGradients : passes.inputGradients;
  }

  /// Pieces that a loop makes of whole gradients, layer by layer.
  void beginPieces(const Run &run, const SketchedLayer::Passes &passes) {
    for (const SketchedLayer::Param &param : run.layer->params)
      if (isMadeIn(param, passes) && param.shrinks(outer.zero) &&
          rule.isSummed && isSummedByLayer(run, param))
        line.begin(pieceBytes(run, param), Held::Gradients);
  }
  static double pieceBytes(const Run &run, const SketchedLayer::Param &param) {
    return double(run.count) * param.piece * param.param->gradientBytes;
  }

  /// Bytes of the largest gradient of a layer that is summed over ranks by
  /// itself, beside sums over micro-batches, or of a loop that is summed in the
  /// update beside those of other chunks.
  double partLoss() const {
    double most = 0;
    bool moves = outer.zero == 0 && chunks.size() > 1;
    forEachRun([&](const Run &run) {
      for (const SketchedLayer::Param &param : run.layer->params) {
        double bytes = param.gradient * param.param->gradientBytes;
        bool changesPlace = moves && param.copies > 1 && !isSummedEarly(param);
        if (changesPlace)
          most = std::max(most, kMovedLoss * double(run.count) * bytes);
        else if (rule.isSummed && isSummedByLayer(run, param))
          most = std::max(most, (moves ? kMovedLoss : kPartLoss) * bytes);
      }
    });
    return most;
  }

  /// What the last backward pass sums over ranks behind the ops of a run: where
  /// sums are smaller a piece comes and the whole goes, one after the other,
  /// and what does not divide is padded while the one before is under way.
  /// All-reduces run in their places.
  void simulateSums(const Run &run, const SketchedLayer::Passes &passes) {
    if (!rule.sumsEarly)
      return;
    const SketchedLayer::Param *before = nullptr;
    int padded = -1;
    auto endBefore = [&] {
      if (padded >= 0)
        line.end(padded);
      if (before)
        endWhole(run, *before);
    };
    for (const SketchedLayer::Param &param : run.layer->params) {
      if (!isMadeIn(param, passes) || !isSummedEarly(param) ||
          !param.shrinks(outer.zero))
        continue;
      if (isSummedByLayer(run, param)) {
        if (rule.isSummed)
          endWhole(run, param);
        continue;
      }
      bool pads = param.piece * param.ranks > param.shard();
      int next = pads ? line.begin(pieceBytes(run, param) * param.ranks,
                                   Held::Gradients)
                      : -1;
      line.tick();
      endBefore();
      line.begin(pieceBytes(run, param), Held::Gradients);
      line.tick();
      before = &param;
      padded = next;
    }
    endBefore();
  }

  /// The most by which pieces outgrow the whole gradients that they take the
  /// place of, in the last backward pass of a chunk.
  double grownBy(const Chunk &chunk) const {
    double now = 0, most = 0;
    auto add = [&](const Run &run) {
      for (const SketchedLayer::Param &param : run.layer->params)
        if (isSummedByLayer(run, param))
          most = std::max(most, now += pieceBytes(run, param));
      for (const SketchedLayer::Param &param : run.layer->params) {
        if (!isSummedEarly(param))
          continue;
        if (!isSummedByLayer(run, param))
          most = std::max(most, now += pieceBytes(run, param));
        now -= gradientBytes(run, param);
      }
    };
    if (chunk.head)
      add({chunk.head, 1, false});
    for (const Run &run : llvm::reverse(chunk.runs))
      add(run);
    if (chunk.embedding)
      add({chunk.embedding, 1, false});
    return most;
  }

  /// Pieces of the last chunk come while everything that is held lives, and
  /// stay: they lie beside what passes of other chunks need later, and so
  /// beside all that lies there at other times.
  double piecesBeside(const Chunk &chunk) const {
    bool hasPieces =
        sumsEarly && rule.isSummed && !rule.sumsEarly && outer.zero == 1;
    return hasPieces && isStaggered && &chunk != &chunks.back()
               ? grownBy(chunks.back())
               : 0;
  }

  //===--------------------------------------------------------------------===//
  // What is kept from forward to backward
  //===--------------------------------------------------------------------===//

  double stackBytes(const Run &run, Kept kept) const {
    double inputs = run.layer->keepsInput() && run.layer->inputKept() == kept
                        ? double(run.count + 1) * run.layer->boundaryBytes()
                        : 0;
    return double(run.count) * run.layer->keptBytes(kept) + inputs;
  }

  /// Of one micro-batch.
  double slotBytes(const Chunk &chunk, Kept kept) const {
    double bytes = 0;
    if (chunk.embedding && kept != Kept::Handed)
      bytes += chunk.embedding->keptBytes(kept);
    for (const Run &run : chunk.runs)
      if (putsOff || kept != Kept::Handed)
        bytes += stackBytes(run, kept);
    bool hasInput = chunk.head && kept == Kept::Early;
    return bytes + (hasInput ? chunk.head->boundaryBytes() : 0);
  }

  void beginSlot(const Chunk &chunk, double bytes, Kept kept) {
    if (!slotsStay[kept])
      slots[&chunk - chunks.data()][kept].push_back(
          line.begin(bytes, Held::Activations));
  }
  void endSlots(const Chunk &chunk, Kept kept) {
    std::vector<int> &own = slots[&chunk - chunks.data()][kept];
    for (int piece : own)
      line.end(piece);
    own.clear();
  }

  void endSlots(Kept kept) {
    for (const Chunk &chunk : chunks)
      endSlots(chunk, kept);
  }

  /// The stacks of a run, where there is one micro-batch at a time: each goes
  /// after the loop that reads it last.
  void beginStacks(const Run &run) {
    for (Kept kept : {Kept::Early, Kept::Late})
      if (!slotsStay[kept])
        stacks[&run][kept] =
            line.begin(stackBytes(run, kept), Held::Activations);
  }
  void endStack(const Run &run, Kept kept) {
    if (!slotsStay[kept])
      line.end(stacks[&run][kept]);
  }

  //===--------------------------------------------------------------------===//
  // Functions
  //===--------------------------------------------------------------------===//

  void simulateForwards() {
    for (const Chunk &chunk : chunks)
      simulateForward(chunk);
  }

  void simulateMicroBatches() {
    if (sumsEarly && rule.isSummed)
      simulateMicroBatch(/*isLast=*/false);
    rule.sumsEarly = sumsEarly;
    simulateMicroBatch(/*isLast=*/true);
  }

  /// Backward passes that are over for a chunk, which lets go of what it held,
  /// before those of the chunk before begin, and their gradients with them.
  void simulateChunks() {
    // Its forward passes are among the backward passes.
    const Chunk &mixed = chunks.back();
    for (const Chunk &chunk : llvm::reverse(chunks)) {
      beginGradients(chunk);
      if (&chunk == &mixed)
        simulateForward(chunk);
      for (bool isLast : {false, true}) {
        rule.sumsEarly = isLast && sumsEarly;
        simulateBackward(chunk);
      }
      for (Kept kept : kAllKept)
        endSlots(chunk, kept);
    }
    endMoved();
  }

  /// All passes of a micro-batch; with `isLast` what it held goes. Of a chunk
  /// that goes with its last backward pass; the chunk before comes later.
  void simulateMicroBatch(bool isLast) {
    bool isFinal = rule.sumsEarly && rule.isSummed;
    if (!slotsStay[Kept::Early])
      simulateForwards();
    for (const Chunk &chunk : llvm::reverse(chunks)) {
      int pieces = line.begin(piecesBeside(chunk), Held::Gradients);
      simulateBackward(chunk);
      line.end(pieces);
      if (isFinal)
        endSlots(chunk, Kept::Early);
      if (isFinal && !putsOff)
        endSlots(chunk, Kept::Late);
    }
    if (isLast)
      endMoved();
    auto ends = [&](Kept kept) { return isLast || !slotsStay[kept]; };
    if (ends(Kept::Early) && !staysLong)
      endSlots(Kept::Early);
    if (putsOff)
      for (const Chunk &chunk : chunks)
        simulateWeightGradients(chunk);
    for (Kept kept : kAllKept)
      if (ends(kept))
        endSlots(kept);
  }

  void simulate(const Lives &lives) {
    line.simulate(lives);
    mostExchanged = std::max(mostExchanged, lives.exchanged);
  }

  void setCarry(double bytes) {
    dropCarry();
    carry = line.begin(bytes, Held::Temporaries);
  }
  void dropCarry() {
    if (carry >= 0)
      line.end(carry);
    carry = -1;
  }

  void simulateForward(const Chunk &chunk) {
    SketchedLayer::Passes passes;
    passes.forward = true;
    if (chunk.embedding) {
      for (Kept kept : {Kept::Early, Kept::Late})
        beginSlot(chunk, chunk.embedding->keptBytes(kept), kept);
      passes.isLoop = false;
      simulate(chunk.embedding->lives(passes));
    } else {
      line.tick(); // Received where it is wanted.
    }
    passes.isLoop = true;
    for (const Run &run : chunk.runs) {
      beginStacks(run);
      if (!run.layer->keepsInput())
        setCarry(run.layer->boundaryBytes());
      simulate(run.layer->lives(passes));
    }
    if (chunk.head && !slotsStay[Kept::Early])
      headInput = line.begin(chunk.head->boundaryBytes(), Held::Activations);
    line.tick(); // Sent, or copied for the head.
    dropCarry();
  }

  SketchedLayer::Passes backwardOf(const Run &run) const {
    SketchedLayer::Passes passes;
    passes.inputGradients = true;
    passes.weightGradients = !putsOff || !run.isLoop;
    passes.isLoop = run.isLoop;
    passes.gradients = rule;
    passes.gradients.isSharded = isSharded(run);
    return passes;
  }

  void simulateBackward(const Chunk &chunk) {
    if (chunk.head) {
      SketchedLayer::Passes passes = backwardOf({chunk.head, 1, false});
      passes.forward = true;
      passes.keeps = false;
      simulate(chunk.head->lives(passes));
      simulateSums({chunk.head, 1, false}, passes);
      if (headInput >= 0)
        line.end(headInput);
    }
    if (!chunk.runs.empty())
      setCarry(chunk.runs.back().layer->gradientBoundaryBytes());
    line.tick(); // Received, where there is no head.
    for (const Run &run : llvm::reverse(chunk.runs)) {
      if (putsOff)
        beginSlot(chunk, stackBytes(run, Kept::Handed), Kept::Handed);
      simulateLoop(run, backwardOf(run));
    }
    if (chunk.embedding) {
      Run run = {chunk.embedding, 1, false};
      simulate(chunk.embedding->lives(backwardOf(run)));
      simulateSums(run, backwardOf(run));
    }
    line.tick(); // Sent.
    line.endLasting(Lasts::Call);
    dropCarry();
  }

  /// A backward loop with the stacks of gradients that it makes.
  void simulateLoop(const Run &run, const SketchedLayer::Passes &passes) {
    std::vector<int> sums;
    for (const SketchedLayer::Param &param : run.layer->params) {
      bool isStacked = !rule.isSummed || !param.isMatmul ||
                       (isSharded(run) && param.ranks > 1);
      bool isInBody =
          rule.sumsEarly && rule.isSummed && isSummedByLayer(run, param);
      if (!isMadeIn(param, passes) || !param.param->trainable || !isStacked ||
          isInBody)
        continue;
      int stack = line.begin(gradientBytes(run, param), Held::Gradients);
      if (rule.isSummed)
        sums.push_back(stack);
      else
        wholeOf(run, param) = stack;
    }
    if (rule.sumsEarly)
      beginPieces(run, passes);
    simulate(run.layer->lives(passes));
    for (Kept kept : {Kept::Early, Kept::Late})
      if (kept == Kept::Late || !putsOff ? passes.weightGradients
                                         : passes.inputGradients)
        endStack(run, kept);
    line.tick(); // Added to the sums.
    simulateSums(run, passes);
    for (int sum : sums)
      line.end(sum);
  }

  void simulateWeightGradients(const Chunk &chunk) {
    for (const Run &run : chunk.runs) {
      SketchedLayer::Passes passes = backwardOf(run);
      passes.inputGradients = false;
      passes.weightGradients = true;
      simulateLoop(run, passes);
    }
  }

  /// Gradients are summed over their copies one by one, each into a place of
  /// its own, which takes over; updated pieces are put together. Before that
  /// comes what other stages have of a gradient, and is added at last.
  void simulateUpdate() {
    double most = 0, across = 0, freed = 0, mostWork = 0;
    forEachRun([&](const Run &run) {
      for (const SketchedLayer::Param &param : run.layer->params) {
        if (!param.param->trainable || param.sharesSum())
          continue;
        if (param.isTied) { // Exchanged, and added.
          across += roundedBytes(param.gradient * param.param->gradientBytes);
          continue;
        }
        mostWork = std::max(mostWork, param.updateBytes);
        double each = double(run.count) * param.param->gradientBytes;
        double bytes = each * (outer.zero >= 1 ? param.piece : param.elements);
        if (param.isAcross)
          across += roundedBytes(each * param.gradient);
        else if (param.copies > 1 && outer.zero == 1 && !isSummedEarly(param))
          freed += each * param.gradient - bytes;
        if (param.copies > 1 && (outer.zero >= 1 || !isSummedEarly(param)))
          most = std::max(most, bytes);
        if (param.isScattered && !param.isAcross && outer.zero < 2 &&
            !isSummedEarly(param))
          most = std::max(most, (param.copies > 1 ? bytes : 0) +
                                    each * param.elements);
      }
    });
    int received = line.begin(across, Held::Communication);
    int piece = line.begin(most, Held::Communication);
    line.tick();
    line.end(piece);
    int left = line.begin(-freed, Held::Gradients);
    int sum = line.begin(across, Held::Gradients);
    line.tick();
    int work = line.begin(mostWork, Held::Temporaries);
    line.tick();
    for (int ended : {received, left, sum, work})
      line.end(ended);
  }

  //===--------------------------------------------------------------------===//
  // What always lives
  //===--------------------------------------------------------------------===//

  /// Sums of gradients apart from what else lives of gradients.
  void splitGradients(StageMemory &memory) const {
    double sums = 0;
    forEachRun([&](const Run &run) {
      for (const SketchedLayer::Param &param : run.layer->params)
        if (param.param->trainable && !param.sharesSum())
          sums += double(run.count) * param.param->gradientBytes *
                  (outer.zero >= 2 ? param.piece : param.elements);
    });
    memory.transit = std::max(0.0, memory.gradients - sums);
    memory.gradients -= memory.transit;
    memory.temporaries += memory.transit;
  }

  void addResting(StageMemory &memory) const {
    forEachRun([&](const Run &run) {
      for (const SketchedLayer::Param &param : run.layer->params) {
        if (param.isTied)
          continue;
        auto count = double(run.count);
        double weight = outer.zero >= 3   ? param.piece
                        : outer.zero >= 1 ? param.piece * param.ranks
                                          : param.elements;
        double state = outer.zero >= 1 ? param.piece : param.elements;
        const LayerParam &facts = *param.param;
        memory.weights += roundedBytes(count * weight * facts.weightBytes);
        if (!facts.trainable)
          continue;
        memory.masters += roundedBytes(count * state * facts.masterBytes);
        memory.optimizer += roundedBytes(count * state * facts.stateBytes);
      }
    });
    for (const Chunk &chunk : chunks)
      for (const SketchedLayer *layer : {chunk.embedding, chunk.head})
        if (layer)
          memory.temporaries += layer->inputBytes();
    // Layers have the same ones.
    double tables = 0;
    forEachRun([&](const Run &run) {
      tables = std::max(tables, run.layer->stepTableBytes());
    });
    memory.temporaries += tables;
  }
};
} // namespace

StageMemory program_sketch::memoryOf(const StagePlan &stage) {
  return StageSketch(stage).memory();
}
