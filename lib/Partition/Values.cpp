//===- Values.cpp - how values get from function to function --------------===//
//
// A value that is read in another function of its stage goes through a buffer;
// in another stage, in a message. What it costs to bring a value is paid at its
// first reader; later ones find it.
//
//===----------------------------------------------------------------------===//

#include "ProgramWriter.h"

#include "kerf/Dialect/Kerf/Constants.h"

using namespace mlir;
using namespace kerf;

void ProgramWriter::readInput(BlockArgument input, Part part) {
  FunctionWriter &function = functionOf(part);
  // As declared: the evaluation may need less of an input than the step.
  BlockArgument own =
      training.model.getBody().getArgument(input.getArgNumber());
  Layout layout = training.plan.values[own];
  if (part.kind == PartKind::Prologue || part.kind == PartKind::Update)
    layout = layout.without(axes().micro());
  OpBuilder builder = function.atHead();
  auto read = spmd::ReadOp::create(builder, input.getLoc(),
                                   localType(input.getType(), layout, axes()),
                                   inputs[input.getArgNumber()].getSymName());
  function.endHead(read);
  function.define(input, read.getResult(), layout);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

/// What a buffer is called: after the parameter whose gradient it holds.
static std::string bufferName(Value value, llvm::StringRef kind,
                              int64_t number) {
  for (Operation *user : value.getUsers())
    if (auto update = dyn_cast<UpdateOp>(user))
      return (kind + "." + update.getName()).str();
  return (kind + llvm::Twine(number)).str();
}

/// Writes a value to a new buffer where it is made.
spmd::BufferOp ProgramWriter::store(Value value, const Layout &layout,
                                    Part from, bool isStep, bool sum) {
  FunctionWriter &source = functionOf(from);
  OpBuilder after(program.getContext());
  LocalValue local = source.get(value);
  after.setInsertionPointAfterValue(local.value);
  // Sums of the prologue are made once; those of gradients wait for the update.
  if (from.kind == PartKind::Prologue)
    local.value = source.convert(after, value, layout, value.getDefiningOp());
  if (sum && !local.isPiece && scattersEarly(value)) {
    local = makePiece(value, local, source, after, value.getDefiningOp());
    source.define(value, local.value, local.layout, /*isPiece=*/true);
  }
  after.setInsertionPointAfterValue(local.value);
  while (isa<spmd::WriteOp, spmd::AccumulateOp>(*after.getInsertionPoint()))
    after.setInsertionPoint(after.getInsertionPoint()->getNextNode());
  llvm::StringRef kind = !isStep                           ? "saved"
                         : from.kind == PartKind::Prologue ? "step"
                                                           : "gradient";
  std::string name = bufferName(value, kind, saved);
  if (SymbolTable::lookupSymbolIn(program, name))
    name += "." + std::to_string(saved);
  ++saved;
  OpBuilder builder(program.getContext());
  builder.setInsertionPoint(functions.begin()->second.getFunc());
  auto buffer = spmd::BufferOp::create(builder, value.getLoc(), name,
                                       isStep ? spmd::BufferKind::Step
                                              : spmd::BufferKind::Slot,
                                       local.value.getType());
  if (sum)
    spmd::AccumulateOp::create(after, value.getLoc(), local.value, name);
  else
    spmd::WriteOp::create(after, value.getLoc(), local.value, name);
  return buffer;
}

/// The value under which a function knows another: the evaluation finds what
/// the prologue made for training.
Value ProgramWriter::originOf(Value value, Part from) {
  if (!evaluating() || from.kind != PartKind::Prologue)
    return value;
  Value origin = origins.lookupOrNull(value);
  return origin && functionOf(from).has(origin) ? origin : value;
}

static bool isOnceAStep(Part part) {
  return part.kind == PartKind::Prologue || part.kind == PartKind::Update;
}

/// The buffer that hands a value from one function to another.
spmd::BufferOp ProgramWriter::bufferFor(Value value, Part from, Part to) {
  Value origin = originOf(value, from);
  Layout layout = now->plan.values[value];
  bool toUpdate = to.kind == PartKind::Update;
  bool sum = toUpdate && llvm::is_contained(layout.sums, axes().micro());
  if (from.kind == PartKind::Prologue)
    layout = layout.reduced();
  bool isStep = isOnceAStep(from) || toUpdate;
  auto &known = buffers[origin];
  for (auto &[step, buffer] : known)
    if (step == isStep)
      return buffer;
  known.push_back({isStep, store(origin, layout, from, isStep, sum)});
  return known.back().second;
}

/// Hands a value over in a buffer, read at the head of the function that needs
/// it.
void ProgramWriter::passOn(Value value, Part from, Part to) {
  spmd::BufferOp buffer = bufferFor(value, from, to);
  Layout layout = now->plan.values[value];
  if (from.kind == PartKind::Prologue)
    layout = layout.reduced();
  if (to.kind == PartKind::Update)
    llvm::erase(layout.sums, axes().micro());
  Value origin = originOf(value, from);
  bool isPiece =
      functionOf(from).has(origin) && functionOf(from).get(origin).isPiece;
  FunctionWriter &reader = functionOf(to);
  OpBuilder builder = reader.atHead();
  auto read = spmd::ReadOp::create(builder, value.getLoc(), buffer.getType(),
                                   buffer.getSymName());
  reader.endHead(read);
  reader.define(value, read.getResult(), layout, isPiece);
}

/// Makes a value known in a function that does not make it.
void ProgramWriter::bring(Value value, Part part) {
  if (auto input = dyn_cast<BlockArgument>(value))
    return readInput(input, part);
  Operation *maker = value.getDefiningOp();
  if (!isSource(maker) && !isMadeOfConstants(value)) {
    auto known = arrives.find(value);
    return passOn(value, known == arrives.end() ? partOf(maker) : known->second,
                  part);
  }
  FunctionWriter &function = functionOf(part);
  OpBuilder builder = function.atHead();
  writeOp(maker, function, part, builder);
  function.endHead(function.get(value).value.getDefiningOp());
}

/// True for a parameter that the function of every micro-batch would exchange
/// to have it so: one that another layer of the step reads in another layout.
bool ProgramWriter::convertsOnce(Value value, const Layout &need, Part part) {
  auto param = value.getDefiningOp<ParamOp>();
  return param && !isOnceAStep(part) && program.getMicroBatches() > 1 &&
         isa<ModelOp>(param->getParentOp()) && pieces.level() < 3 &&
         functionOf(part).exchangesFor(value, need);
}

/// Such a parameter is converted in the prologue: no micro-batch changes it.
void ProgramWriter::bringConverted(Value value, const Layout &need, Part part,
                                   Operation *reader) {
  auto param = value.getDefiningOp<ParamOp>();
  spmd::BufferOp buffer;
  for (auto &[layout, known] : convertedParams[param.getNameAttr()])
    if (layout == need)
      buffer = known;
  if (!buffer) {
    Part once{PartKind::Prologue};
    FunctionWriter &prologue = functionOf(once);
    if (!prologue.has(value))
      bring(value, once);
    OpBuilder at = prologue.atEnd();
    Value local = prologue.convert(at, value, need, reader);
    std::string name =
        ("moved" + llvm::Twine(saved++) + "." + param.getName()).str();
    OpBuilder declares(functions.begin()->second.getFunc());
    buffer = spmd::BufferOp::create(declares, value.getLoc(), name,
                                    spmd::BufferKind::Step, local.getType());
    spmd::WriteOp::create(at, value.getLoc(), local, name);
    convertedParams[param.getNameAttr()].push_back({need, buffer});
  }
  FunctionWriter &function = functionOf(part);
  OpBuilder head = function.atHead();
  auto read = spmd::ReadOp::create(head, value.getLoc(), buffer.getType(),
                                   buffer.getSymName());
  function.endHead(read);
  function.addConverted(value, read.getResult(), need);
}

/// Elements that a rank reads and writes in an op.
static int64_t elementsOf(Operation *op, const PlannedModel &plan) {
  const OpLayouts &layouts = plan.ops.find(op)->second;
  int64_t sum = 0;
  for (auto [value, layout] :
       llvm::zip_equal(op->getOperands(), layouts.operands))
    sum += localType(value.getType(), layout, plan.axes).getNumElements();
  for (auto [value, layout] :
       llvm::zip_equal(op->getResults(), layouts.results))
    sum += localType(value.getType(), layout, plan.axes).getNumElements();
  return sum;
}

/// True for a later reader in the same block and function, so soon that no op
/// in between works on more than the first reader: such an op runs beside what
/// the later one gathers, which would have to be waited for here.
bool ProgramWriter::followsSoon(Operation *reader, Operation *later,
                                Part part) {
  if (reader->getBlock() != later->getBlock() || isa<ReturnOp>(later) ||
      !reader->isBeforeInBlock(later))
    return false;
  int64_t most = elementsOf(reader, now->plan);
  for (Operation *op = reader->getNextNode(); op != later;
       op = op->getNextNode())
    if (op->getNumRegions() > 0 ||
        (!isSource(op) && elementsOf(op, now->plan) > most))
      return false;
  return now->model != later->getParentOp() ||
         (now->placement.runsOn(later, stage) && partOf(later) == part);
}

/// Where a reader would exchange for a part of what a later one needs: that
/// later one; of several the one from whose layout most is sliced, else the
/// first. Null if there is none.
OpOperand *ProgramWriter::sharedBy(Value value, const Layout &need, Part part,
                                   Operation *reader) {
  FunctionWriter &function = functionOf(part);
  if (isOnceAStep(part) || function.get(value).isPiece ||
      !function.exchangesFor(value, need))
    return nullptr;
  OpOperand *best = nullptr;
  auto isBetter = [&](OpOperand &use) {
    if (!best)
      return true;
    const Layout &from = needOf(use), &known = needOf(*best);
    bool gives = isLocal(from, known, axes());
    bool gets = isLocal(known, from, axes());
    return gives == gets ? use.getOwner()->isBeforeInBlock(best->getOwner())
                         : gives;
  };
  for (OpOperand &use : value.getUses())
    if (followsSoon(reader, use.getOwner(), part) && needOf(use) != need &&
        isLocal(needOf(use), need, axes()) && isBetter(use))
      best = &use;
  return best;
}

/// What another reader gathers soon is gathered here already, and this reader
/// slices its part of it: else both would ask other ranks.
Value ProgramWriter::use(Value value, const Layout &need, Part part,
                         OpBuilder &builder, Operation *reader) {
  FunctionWriter &function = functionOf(part);
  if (!function.has(value))
    bring(value, part);
  if (convertsOnce(value, need, part))
    bringConverted(value, need, part, reader);
  else if (OpOperand *other = sharedBy(value, need, part, reader))
    function.convert(builder, value, needOf(*other), other->getOwner());
  return function.convert(builder, value, need, reader);
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

bool ProgramWriter::scattersEarly(Value gradient) const {
  return pieces.level() >= 2 && !evaluating() &&
         !pieces.axesOf(gradient).empty() &&
         !now->placement.crossesForUpdate(gradient);
}

/// The gradient as it lies here as a piece; what else is to be summed waits for
/// `usePiece`, since a piece is smaller.
LocalValue ProgramWriter::makePiece(Value gradient, const LocalValue &local,
                                    FunctionWriter &function,
                                    OpBuilder &builder, Operation *reader) {
  Layout rests = pieces.restOf(gradient);
  // Inside of a repeat: one layer of the stack.
  bool isLayer = typeOf(local.value).getRank() + 1 ==
                 static_cast<int64_t>(rests.dims.size());
  if (isLayer)
    rests = sliceLayout(rests);
  for (unsigned axis : local.layout.sums)
    if (!rests.isShardedBy(axis))
      rests.sums.push_back(axis);
  Value shard = function.convertFrom(builder, local, rests, reader);
  bool isStack = !isLayer && llvm::any_of(gradient.getUsers(), [](auto *user) {
    auto update = dyn_cast<UpdateOp>(user);
    return update && update.getStart();
  });
  Value piece = scatterPieces(builder, function, shard, pieces, gradient,
                              isStack, axes(), reader);
  return {piece, local.layout, /*isPiece=*/true};
}

/// The piece of a gradient that the update of its parameter reads.
Value ProgramWriter::usePiece(Value gradient, Part part, OpBuilder &builder,
                              Operation *reader) {
  FunctionWriter &function = functionOf(part);
  if (!function.has(gradient))
    bring(gradient, part);
  LocalValue local = function.get(gradient);
  if (local.isPiece && local.layout.sums.empty())
    return local.value;
  if (!local.isPiece)
    local = makePiece(gradient, local, function, builder, reader);
  AxisList rest;
  for (unsigned axis : local.layout.sums)
    if (!llvm::is_contained(pieces.axesOf(gradient), axis) &&
        !pieces.restOf(gradient).isShardedBy(axis))
      rest.push_back(axis);
  Operation *before = opBefore(builder);
  if (!rest.empty())
    local.value = function.buildStep(builder, reader->getLoc(), local.value,
                                     {ConversionStep::AllReduce, rest});
  setPhases(before, builder, reader);
  function.define(gradient, local.value, local.layout.reduced(),
                  /*isPiece=*/true);
  return local.value;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// What other stages send, at the head of the function that reads it first.
void ProgramWriter::receive() {
  arrives.clear();
  for (const Crossing &crossing : now->placement.crossings()) {
    if (crossing.to != stage)
      continue;
    Layout layout = now->plan.values[crossing.value];
    if (crossing.readIn.kind == PartKind::Update)
      llvm::erase(layout.sums, axes().micro());
    FunctionWriter &function = functionOf(crossing.readIn);
    OpBuilder builder = function.atHead();
    auto message = spmd::RecvOp::create(
        builder, crossing.value.getLoc(),
        localType(crossing.value.getType(), layout, axes()), crossing.from,
        crossing.channel());
    function.endHead(message);
    function.define(crossing.value, message.getResult(), layout);
    arrives[crossing.value] = crossing.readIn;
  }
}

/// A sum over the micro-batches, sent before anything is received: two stages
/// that exchange theirs do not wait for each other.
void ProgramWriter::sendForUpdate(const Crossing &crossing) {
  Part update{PartKind::Update};
  spmd::BufferOp buffer = bufferFor(crossing.value, crossing.madeIn, update);
  Block &body = functionOf(update).getFunc().getBody().front();
  Operation *first = &body.front();
  while (isa<spmd::ReadOp, spmd::SendOp>(first))
    first = first->getNextNode();
  OpBuilder builder(first);
  Location loc = crossing.value.getLoc();
  auto read =
      spmd::ReadOp::create(builder, loc, buffer.getType(), buffer.getSymName());
  spmd::SendOp::create(builder, loc, read.getResult(), crossing.to,
                       crossing.channel());
}

/// What other stages read, as soon as it is made.
void ProgramWriter::send() {
  for (const Crossing &crossing : now->placement.crossings()) {
    if (crossing.from != stage)
      continue;
    if (crossing.readIn.kind == PartKind::Update) {
      sendForUpdate(crossing);
      continue;
    }
    OpBuilder builder = functionOf(crossing.madeIn).atEnd();
    const LocalValue &local = functionOf(crossing.madeIn).get(crossing.value);
    spmd::SendOp::create(builder, crossing.value.getLoc(), local.value,
                         crossing.to, crossing.channel());
  }
}
