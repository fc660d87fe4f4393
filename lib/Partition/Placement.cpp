//===- Placement.cpp - which stage and function runs an op ----------------===//
//
// Problem: the ops of a step stand in one row; a pipeline runs them in stages,
// and a stage in functions, forward and backward for each of its chunks.
//
// Steps: repeats say their chunk. Forward ops belong to the chunk that the row
// has reached, gradient ops to that which the way back has reached. What
// depends on inputs alone or parameters alone costs little and is computed
// where it is read. A sum of gradients of several stages (a parameter that is
// read in both) waits for the update. Updates run where the parameter is held.
//
// Example, 2 stages: embedding and repeat 0 on stage 0; repeat 1, head and loss
// on stage 1; gradients of head and repeat 1 on stage 1, the others on stage 0.
// The carried value and its gradient cross.
//
// Cost: linear in the uses.
//
//===----------------------------------------------------------------------===//

#include "Placement.h"

#include "kerf/Dialect/Kerf/Chunks.h"

#include <tuple>

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

bool Part::operator<(const Part &other) const {
  auto key = [](const Part &part) {
    bool descends =
        part.kind == PartKind::Backward || part.kind == PartKind::Weights;
    return std::make_tuple(part.kind, descends ? -part.chunk : part.chunk);
  };
  return key(*this) < key(other);
}

static llvm::StringRef nameOf(PartKind kind) {
  switch (kind) {
  case PartKind::Prologue:
    return "prologue";
  case PartKind::Forward:
    return "forward";
  case PartKind::Backward:
    return "backward";
  case PartKind::Weights:
    return "weights";
  case PartKind::Update:
    return "update";
  case PartKind::Evaluate:
    return "evaluate";
  case PartKind::Finish:
    return "finish";
  case PartKind::FinishEvaluation:
    return "finish_evaluation";
  }
  llvm_unreachable("covered switch");
}

std::string kerf::nameOf(Part part, int64_t stages) {
  std::string name = ::nameOf(part.kind).str();
  if (int64_t chunk = part.chunk / stages)
    name += "_" + std::to_string(chunk);
  return name;
}

std::string Crossing::channel() const {
  if (readIn.kind == PartKind::Update)
    return "update";
  // The evaluation sends what training sends.
  bool forward =
      madeIn.kind == PartKind::Forward || madeIn.kind == PartKind::Evaluate;
  std::string name = forward ? "forward" : ::nameOf(madeIn.kind).str();
  // Forward and backward functions take the chunks in different orders.
  if (madeIn.kind != readIn.kind)
    return name + " " + std::to_string(madeIn.chunk) + " to " +
           ::nameOf(readIn.kind).str() + " " + std::to_string(readIn.chunk);
  int64_t distance = readIn.chunk - madeIn.chunk;
  if (distance != (forward ? 1 : -1))
    name += (distance > 0 ? "+" : "") + std::to_string(distance);
  return name;
}

bool kerf::isGradient(Operation *op) {
  PhaseAttr phase = getPhase(op);
  return phase && (phase.getKind() == PhaseKind::InputGradient ||
                   phase.getKind() == PhaseKind::WeightGradient);
}

bool kerf::isUpdate(Operation *op) {
  PhaseAttr phase = getPhase(op);
  return isa<UpdateOp>(op) || (phase && phase.getKind() == PhaseKind::Update);
}

//===----------------------------------------------------------------------===//
// Sorts and chunks
//===----------------------------------------------------------------------===//

Placement::Placement(ModelOp model, const PlannedModel &plan, bool evaluating)
    : model(model), plan(plan), evaluating(evaluating),
      stageCount(getPlan(model).getStageCount()),
      chunkCount(getChunkCount(getPlan(model))) {
  findSplit();
  sortOps();
  placeFixed();
  placeOthers(/*withUpdates=*/false);
  findHolders();
  placeOthers(/*withUpdates=*/true);
  findCrossings();
}

/// The forward functions end with the last forward repeat that the backward
/// pass reads from (of a pipeline: the last one); without one, before the first
/// gradient.
void Placement::findSplit() {
  Operation *beforeGradients = nullptr;
  bool gradients = false;
  for (Operation &op : model.getBody().front()) {
    gradients |= isGradient(&op);
    if (!gradients && !isUpdate(&op))
      beforeGradients = &op;
    auto isRead = [&] {
      return llvm::any_of(op.getUsers(), [&](Operation *user) {
        return isGradient(user) || isa<YieldOp>(user);
      });
    };
    // Stages pass on what they make forward, whether it is read or not.
    if (isa<RepeatOp>(op) && !isGradient(&op) && (chunkCount > 1 || isRead()))
      split = &op;
  }
  if (!split)
    split = beforeGradients;
}

void Placement::sortOps() {
  llvm::DenseSet<Operation *> ofData, ofParams;
  for (Operation &op : model.getBody().front().without_terminator()) {
    if (isa<ParamOp>(op))
      ofParams.insert(&op);
    if (isSource(&op)) {
      sorts[&op] = Sort::Source;
      continue;
    }
    bool data = false, params = false, free = !isa<RepeatOp>(op);
    for (Value operand : op.getOperands()) {
      Operation *maker = operand.getDefiningOp();
      data |= !maker || ofData.contains(maker);
      params |= maker && ofParams.contains(maker);
      free &=
          !maker || sorts[maker] == Sort::Source || sorts[maker] == Sort::Free;
    }
    if (data)
      ofData.insert(&op);
    if (params)
      ofParams.insert(&op);
    sorts[&op] = isUpdate(&op)               ? Sort::Update
                 : free && !(data && params) ? Sort::Free
                                             : Sort::Fixed;
  }
}

static bool isSum(Operation *op) {
  auto facts = dyn_cast<FactorOpInterface>(op);
  return isGradient(op) && facts && facts.getFactors().jointly;
}

/// True for an op whose results only updates read, directly or in sums.
static bool isForUpdate(Operation *op) {
  return llvm::all_of(op->getUsers(), [](Operation *user) {
    return isUpdate(user) || (isSum(user) && isForUpdate(user));
  });
}

/// True if one addend must be exchanged for the other: each is as large a part
/// of the parameter, sharded in another way.
static bool exchangesAddends(Operation *sum, const PlannedModel &plan) {
  auto dimsOf = [&](Value value) { return plan.values.lookup(value).dims; };
  auto parts = [&](Value value) {
    int64_t product = 1;
    for (const auto &axes : dimsOf(value))
      product *= plan.axes.sizeOf(axes);
    return product;
  };
  Value first = sum->getOperand(0);
  return llvm::any_of(sum->getOperands().drop_front(), [&](Value other) {
    return dimsOf(other) != dimsOf(first) && parts(other) == parts(first);
  });
}

/// A sum of gradients, which only the update reads, of several stages, or of
/// parts that are sharded in several ways: they are exchanged once per step
/// then, not in each micro-batch.
bool Placement::addsForUpdate(Operation *op) const {
  if (!isSum(op) || !isForUpdate(op))
    return false;
  if (plan.axes.sizeOf(plan.axes.micro()) > 1 && exchangesAddends(op, plan))
    return true;
  int64_t stage = -1;
  bool several = false;
  for (Value operand : op->getOperands()) {
    Operation *maker = operand.getDefiningOp();
    if (!maker || sortOf(maker) == Sort::Update) {
      several |= maker != nullptr;
      continue;
    }
    if (sortOf(maker) != Sort::Fixed)
      continue;
    int64_t own = stageOf(chunks.lookup(maker));
    several |= stage >= 0 && own != stage;
    stage = own;
  }
  return several;
}

/// A repeat of weight gradients alone, or what reads the results of one.
bool Placement::isDeferred(Operation *op) const {
  PhaseAttr phase = getPhase(op);
  if (isa<RepeatOp>(op) && phase &&
      phase.getKind() == PhaseKind::WeightGradient)
    return true;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    return deferred.contains(operand.getDefiningOp());
  });
}

void Placement::placeFixed() {
  int64_t forward = 0, backward = chunkCount - 1;
  RepeatOp lastForward, lastReverse;
  for (RepeatOp repeat : model.getBody().getOps<RepeatOp>())
    (isGradient(repeat) ? lastReverse : lastForward) = repeat;
  for (Operation &op : model.getBody().front().without_terminator()) {
    if (sortOf(&op) != Sort::Fixed)
      continue;
    if (addsForUpdate(&op)) {
      sorts[&op] = Sort::Update;
      continue;
    }
    int64_t &reached = isGradient(&op) ? backward : forward;
    if (auto repeat = dyn_cast<RepeatOp>(op))
      reached = getChunk(repeat);
    chunks[&op] = reached;
    if (isDeferred(&op))
      deferred.insert(&op);
    // After the repeats comes the head, and at the end of the way back what
    // stands before them.
    if (&op == lastForward.getOperation())
      forward = chunkCount - 1;
    if (&op == lastReverse.getOperation())
      backward = 0;
  }
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

llvm::SmallVector<Operation *> Placement::readersOf(Value value) const {
  llvm::SmallVector<Operation *> readers;
  for (Operation *user : value.getUsers()) {
    while (user->getParentOp() != model)
      user = user->getParentOp();
    readers.push_back(user);
  }
  return readers;
}

const llvm::BitVector &Placement::stagesOf(Operation *op) const {
  return runs.find(op)->second;
}

Part Placement::partOf(Operation *op, int64_t stage) const {
  if (plan.prologue.contains(op))
    return {PartKind::Prologue};
  switch (sortOf(op)) {
  case Sort::Update:
    return {PartKind::Update};
  case Sort::Free:
    if (stageCount > 1)
      return parts.find({op, stage})->second;
    break;
  case Sort::Source:
  case Sort::Fixed:
    break;
  }
  int64_t chunk = chunks.lookup(op);
  if (evaluating)
    return {PartKind::Evaluate, chunk};
  if (deferred.contains(op))
    return {PartKind::Weights, chunk};
  bool isForward =
      !isGradient(op) && split && (op == split || op->isBeforeInBlock(split));
  return {isForward ? PartKind::Forward : PartKind::Backward, chunk};
}

/// A free op runs on the stages that read it, first in the function that reads
/// it first; so does an op of the update, unless it updates something.
void Placement::placeOther(Operation *op, bool withUpdates) {
  llvm::BitVector &own = runs[op];
  if (auto update = dyn_cast<UpdateOp>(op)) {
    for (const Holder &holder : holders[update.getName()])
      if (!update.getStart() || (int64_t(*update.getStart()) <= holder.start &&
                                 holder.end <= int64_t(*update.getEnd())))
        own.set(holder.stage);
    return;
  }
  for (Value result : op->getResults())
    for (Operation *reader : readersOf(result)) {
      if (isa<ReturnOp>(reader)) {
        // All stages tell what the update made.
        if (sortOf(op) == Sort::Update)
          own.set();
        else
          own.set(stageOf(chunkCount - 1));
        continue;
      }
      // Of a norm each stage sums up its own.
      if (isa<GlobalNormOp>(reader) ||
          (!withUpdates && sortOf(reader) == Sort::Update))
        continue;
      own |= runs[reader];
      for (unsigned stage : runs[reader].set_bits()) {
        Part part = partOf(reader, stage);
        auto [known, isNew] = parts.try_emplace({op, stage}, part);
        if (!isNew && part < known->second)
          known->second = part;
      }
    }
  // The result of a model may be free.
  for (unsigned stage : own.set_bits())
    parts.try_emplace({op, stage},
                      Part{evaluating ? PartKind::Evaluate : PartKind::Backward,
                           chunkCount - 1});
}

void Placement::placeOthers(bool withUpdates) {
  for (Operation &op :
       llvm::reverse(model.getBody().front().without_terminator())) {
    runs[&op].resize(stageCount);
    if (sortOf(&op) == Sort::Fixed)
      runs[&op].set(stageOf(chunks.lookup(&op)));
    if (sortOf(&op) == Sort::Free ||
        (withUpdates && sortOf(&op) == Sort::Update))
      placeOther(&op, withUpdates);
    if (sortOf(&op) == Sort::Source)
      for (Operation *reader : readersOf(op.getResult(0)))
        if (!isa<ReturnOp>(reader))
          runs[&op] |= runs[reader];
    // The norm sums over all stages.
    if (isa<GlobalNormOp>(op))
      runs[&op].set();
  }
}

void Placement::findHolders() {
  model.getBody().walk([&](ParamOp param) {
    auto repeat = param->getParentOfType<RepeatOp>();
    Operation *top = repeat ? repeat.getOperation() : param.getOperation();
    bool each = repeat && param.isPerIteration();
    for (unsigned stage : runs[top].set_bits())
      holders[param.getName()].push_back({each ? int64_t(repeat.getStart()) : 0,
                                          each ? int64_t(repeat.getEnd()) : 1,
                                          stage});
  });
}

//===----------------------------------------------------------------------===//
// Crossings
//===----------------------------------------------------------------------===//

void Placement::findCrossings() {
  if (stageCount == 1)
    return;
  for (Operation &op : model.getBody().front().without_terminator()) {
    if (sortOf(&op) != Sort::Fixed)
      continue;
    int64_t own = ownerOf(&op);
    for (Value result : op.getResults()) {
      std::map<int64_t, Part> first;
      for (Operation *reader : readersOf(result)) {
        if (isa<ReturnOp, GlobalNormOp>(reader))
          continue;
        for (unsigned stage : stagesOf(reader).set_bits()) {
          Part part = partOf(reader, stage);
          auto [known, isNew] = first.try_emplace(stage, part);
          if (!isNew && part < known->second)
            known->second = part;
        }
      }
      for (auto [stage, part] : first)
        if (stage != own)
          between.push_back({result, own, stage, partOf(&op, own), part});
    }
  }
}

bool Placement::crossesForUpdate(Value value) const {
  return llvm::any_of(between, [&](const Crossing &crossing) {
    return crossing.value == value && crossing.readIn.kind == PartKind::Update;
  });
}
