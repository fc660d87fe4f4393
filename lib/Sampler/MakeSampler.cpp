//===- MakeSampler.cpp - a choice in place of the loss --------------------===//
//
// Problem: a compiled model gives a mean loss; a text needs tokens, one at a
// time, with the probabilities that the model gives them.
//
// Steps:
//   1. The model without training, which returns the sum of the logits of the
//      positions that are asked for. Whatever else it computed is gone.
//   2. Those logits depend on no later token (CheckCausal.cpp).
//   3. The choice among them is the loss.
//   4. A plan in micro-batches, so that a program of few rows can be made.
//
// Example, logits [ln 2, ln 6, ln 2], T = 1, u = 0.25: exponentials over the
// largest are 1/3, 1, 1/3, their running sums 1/3, 4/3, 5/3; one is not above
// u * 5/3 = 5/12, so token 1 is chosen.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Evaluation.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Sampler/Sampler.h"
#include "kerf/Sharding/Layout.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kerf;

namespace {
/// What the choice is made of: for each row of the batch B.
struct Question {
  Value logits; ///< [B,S,V]: zero except where asked
  Value asked;  ///< [B,S] i1
  Value random; ///< [B,S]: the numbers n, f32; zero except where asked
};
} // namespace

//===----------------------------------------------------------------------===//
// The logits that are asked for
//===----------------------------------------------------------------------===//

/// The one loss over targets. Fails with an error.
static FailureOr<CrossEntropyOp> findLoss(ModelOp model) {
  llvm::SmallVector<CrossEntropyOp> losses;
  model.getBody().walk([&](CrossEntropyOp op) { losses.push_back(op); });
  if (losses.size() == 1 && model.getInput("targets") &&
      model.getInput("tokens"))
    return losses.front();
  auto diagnostic = model.emitError() << "no sampler can be made of this model";
  if (losses.size() != 1)
    diagnostic << ": it has " << losses.size()
               << " kerf.cross_entropy, expected one, whose logits choose the "
                  "next token";
  else
    diagnostic << ": expected inputs of the roles 'tokens' and 'targets'";
  return diagnostic;
}

/// Rows of logits and targets by sequence. Fails with an error.
static LogicalResult bySequence(PlainBuilder &p, CrossEntropyOp loss,
                                int64_t batch, Value &logits, Value &targets) {
  llvm::ArrayRef<int64_t> shape = typeOf(logits).getShape();
  if (shape.size() == 3 && shape[0] == batch)
    return success();
  if (shape.size() != 2 || shape[0] % batch != 0)
    return loss.emitError()
           << "no sampler can be made of this model: its "
              "logits are "
           << logits.getType() << ", expected [batch, "
           << "sequence, vocabulary] with a batch of " << batch;
  int64_t sequence = shape[0] / batch, vocabulary = shape[1];
  logits = p.reshape(logits, {batch, sequence, vocabulary});
  targets = p.reshape(targets, {batch, sequence});
  return success();
}

/// What is asked for, from the operands of the loss.
static FailureOr<Question> ask(PlainBuilder &p, CrossEntropyOp loss,
                               int64_t batch) {
  Value logits = loss.getLogits(), targets = loss.getTargets();
  if (failed(bySequence(p, loss, batch, logits, targets)))
    return failure();
  Type f32 = p.builder.getF32Type();
  logits = p.cast(logits, f32);
  Question question;
  question.asked = p.compare(CompareKind::GE, targets, 0.0);
  question.random = p.select(question.asked, p.cast(targets, f32), 0.0);
  question.logits =
      p.select(p.rows(question.asked, typeOf(logits).getShape()), logits, 0.0);
  return question;
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

/// The number of the chosen token of each row, [B] f32.
static Value choose(PlainBuilder &p, const Question &question,
                    Value temperature) {
  Value x = p.sum(question.logits, {1});
  Value u = p.mul(p.sum(question.random, {1}), 0x1p-23);
  llvm::ArrayRef<int64_t> shape = typeOf(x).getShape();
  Value scaled = p.div(p.sub(x, p.rows(p.rowMax(x), shape)),
                       p.broadcast(temperature, {}, shape));
  Value weights = p.exp(scaled);
  Value before = CumsumOp::create(p.builder, p.loc, weights,
                                  p.builder.getI64IntegerAttr(1));
  Value sums = p.add(before, weights);
  Value total = p.rowMax(sums);
  Value isPassed =
      p.compare(CompareKind::LE, sums, p.rows(p.mul(u, total), shape));
  Value token = p.rowSum(p.indicator(isPassed, p.builder.getF32Type()));
  // No number where the logits are none.
  return p.add(token, p.sub(total, total));
}

/// The token of the row that is asked for. Rows that are not count nothing.
static Value chooseOne(PlainBuilder &p, const Question &question,
                       Value temperature) {
  Value asked = p.rowMax(p.indicator(question.asked, p.builder.getF32Type()));
  return p.sumAll(p.mul(choose(p, question, temperature), asked));
}

//===----------------------------------------------------------------------===//
// What the logits do not need
//===----------------------------------------------------------------------===//

/// Ops of the block that one of `values` is made from.
static llvm::DenseSet<Operation *> makersOf(Block &block, ValueRange values) {
  llvm::DenseSet<Operation *> makers;
  llvm::SmallVector<Value> open(values);
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (op && op->getBlock() == &block && makers.insert(op).second)
      op->walk([&](Operation *inner) { // with what its body reads
        llvm::append_range(open, inner->getOperands());
      });
  }
  return makers;
}

/// Lets go of carried values whose results nobody reads, and which no other
/// value of the body is made from: losses of experts, summed up over layers.
static void dropUnreadCarries(RepeatOp repeat) {
  Block &body = repeat.getBody().front();
  YieldOp yield = repeat.getYield();
  unsigned count = repeat.getInits().size();
  for (unsigned k = 0; k < count; ++k) {
    BlockArgument carried = body.getArgument(1 + k);
    if (!repeat.getCarryResults()[k].use_empty() ||
        yield.getOperand(k) == carried)
      continue;
    llvm::SmallVector<Value> others(yield.getOperands());
    others.erase(others.begin() + k);
    llvm::DenseSet<Operation *> makers = makersOf(body, others);
    bool isRead = llvm::is_contained(others, carried) ||
                  llvm::any_of(carried.getUsers(), [&](Operation *user) {
                    return makers.contains(body.findAncestorOpInBlock(*user));
                  });
    if (!isRead)
      yield.setOperand(k, carried);
  }
}

/// A copy that computes its first result alone.
static OwningOpRef<ModelOp> withoutUnread(ModelOp model) {
  IRMapping mapping;
  OwningOpRef<ModelOp> copy = makeEvaluation(model, mapping);
  copy->getBody().walk([](RepeatOp op) { dropUnreadCarries(op); });
  IRMapping again;
  return makeEvaluation(*copy, again);
}

/// A model that returns the sum of the logits that are asked for. Fails with an
/// error.
static FailureOr<OwningOpRef<ModelOp>> makeLogits(ModelOp model) {
  IRMapping mapping;
  OwningOpRef<ModelOp> copy = makeEvaluation(model, mapping);
  FailureOr<CrossEntropyOp> loss = findLoss(*copy);
  if (failed(loss))
    return failure();
  OpBuilder builder(copy->getReturn());
  PlainBuilder p{builder, loss->getLoc()};
  int64_t batch = typeOf(copy->getInput("tokens")).getDimSize(0);
  FailureOr<Question> question = ask(p, *loss, batch);
  if (failed(question))
    return failure();
  Value sum = p.sumAll(question->logits);
  copy->getReturn().getValuesMutable().assign(ValueRange(sum));
  return withoutUnread(*copy);
}

/// The first operand of what makes a value.
static Value madeOf(Value value) {
  return value.getDefiningOp()->getOperand(0);
}

/// What `makeLogits` asks for, in the model that it returned: the sum of
/// `select(broadcast(compare(targets, ...)), logits, 0)`.
static Question questionOf(PlainBuilder &p, ModelOp model) {
  Value logits = madeOf(model.getReturn().getValues()[0]);
  Value asked = madeOf(madeOf(logits)), targets = madeOf(asked);
  Value numbers = p.cast(targets, p.builder.getF32Type());
  return {logits, asked, p.select(asked, numbers, 0.0)};
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

/// Splits the batch where inputs enter; the stage plan goes on from there.
static void splitBatch(ModelOp model, const PlanAxes &axes) {
  for (BlockArgument input : model.getBody().getArguments())
    for (OpOperand &use : input.getUses()) {
      auto op = dyn_cast<FactorOpInterface>(use.getOwner());
      if (!op || typeOf(input).getRank() < 2)
        continue;
      Factors facts = op.getFactors();
      Assignment assignment;
      assignment.factors.resize(facts.factors.size());
      for (unsigned factor : facts.operands[use.getOperandNumber()][0]) {
        assignment.factors[factor] = {axes.micro()};
        break;
      }
      setAssignment(op, facts, assignment, axes);
    }
}

/// With room for so many choices, first choices of all tokens come before
/// second ones: those of tokens that fill the sequence, too.
static void warnOfRoom(ModelOp model) {
  bool isTold = false;
  model.getBody().walk([&](AssignSlotsOp op) {
    if (isTold || !op.getCapacity() ||
        typeOf(op.getExperts()).getShape().back() == 1)
      return;
    isTold = true;
    op.emitWarning() << "experts have room for " << *op.getCapacity()
                     << " choices: what fills a sequence behind a text may "
                        "take the place of second choices of the text, and so "
                        "change samples";
  });
}

/// One rank; a micro-batch has as many rows as must be together.
static void planRows(ModelOp model) {
  int64_t batch = typeOf(model.getInput("tokens")).getDimSize(0);
  int64_t rows = sequencesPerTable(model);
  MLIRContext *context = model.getContext();
  if (batch % rows != 0 || batch == rows)
    return;
  auto plan = PlanAttr::get(context, MeshAttr::get(context, {}, {}),
                            batch / rows, "1f1b", false, {});
  model->setAttr(kPlanAttrName, plan);
  splitBatch(model, PlanAxes(plan));
}

/// Nothing is trained, and nothing is written beside weights. The stages number
/// the ops anew.
static void dropTraining(ModelOp model) {
  for (llvm::StringRef name : {"groups", "clip_norm"})
    model->removeAttr(name);
  for (llvm::StringRef name :
       {kPlanAttrName, kAdapterAttrName, kConfigAttrName})
    model->removeAttr(name);
  model.getBody().walk([](Operation *op) {
    op->removeAttr(kPhaseAttrName);
    op->removeAttr(kAssignAttrName);
    if (auto param = dyn_cast<ParamOp>(op)) {
      param.setFrozen(true);
      param.removeMasterAttr();
    }
  });
}

FailureOr<OwningOpRef<ModuleOp>> kerf::makeSampler(ModelOp model) {
  FailureOr<OwningOpRef<ModelOp>> made = makeLogits(model);
  if (failed(made))
    return failure();
  OwningOpRef<ModuleOp> module(ModuleOp::create(model.getLoc()));
  ModelOp sampler = made->release();
  module->push_back(sampler);
  OpBuilder builder(sampler.getReturn());
  PlainBuilder p{builder, sampler.getReturn().getLoc()};
  Question question = questionOf(p, sampler);
  if (failed(
          checkCausal(sampler, question.logits.getDefiningOp()->getOperand(1))))
    return failure();
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  Value temperature = sampler.getOrAddInput("learning_rate", scalar);
  Operation *sum = sampler.getReturn().getValues()[0].getDefiningOp();
  sampler.getReturn().getValuesMutable().assign(
      ValueRange(chooseOne(p, question, temperature)));
  sum->erase();
  warnOfRoom(sampler);
  dropTraining(sampler);
  planRows(sampler);
  return std::move(module);
}
