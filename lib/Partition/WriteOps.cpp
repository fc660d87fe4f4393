//===- WriteOps.cpp - ops on local types ----------------------------------===//

#include "GroupBuilder.h"
#include "ProgramWriter.h"

#include "kerf/Dialect/Kerf/Constants.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// One op
//===----------------------------------------------------------------------===//

/// A sum of gradients of several stages, which are summed over the
/// micro-batches before it.
bool ProgramWriter::waitsForUpdate(Operation *op) {
  return op->getParentOp() == now->model && !isUpdate(op) &&
         partOf(op).kind == PartKind::Update;
}

/// True for variants that are more than another layout.
static bool communicates(const Assignment &assignment) {
  return !assignment.variants.empty() || assignment.routed;
}

/// The parameter as its readers need it: put together, where it is stored in
/// pieces.
Operation *ProgramWriter::writeParam(ParamOp param, FunctionWriter &function,
                                     OpBuilder &builder) {
  Value value = param.getResult();
  Layout layout = now->plan.values[value];
  auto shard = localType(value.getType(), layout, axes());
  auto read = cast<ParamOp>(builder.clone(*param));
  read->removeAttr(kAssignAttrName);
  const AxisList &own = pieces.axesOf(param.getName());
  Value local = read.getResult();
  if (pieces.level() < 3 || own.empty()) {
    local.setType(shard);
  } else {
    local.setType(withShape(
        shard, {pieces.sizeOf(param.getName(), shard.getNumElements())}));
    local = gatherPieces(builder, function, local, shard, own, param);
  }
  function.define(value, local, layout);
  return local.getDefiningOp();
}

/// A copy on local types; defines the op's results.
Operation *ProgramWriter::cloneLocal(Operation *op,
                                     llvm::ArrayRef<Value> operands,
                                     FunctionWriter &function,
                                     OpBuilder &builder) {
  if (auto param = dyn_cast<ParamOp>(op))
    return writeParam(param, function, builder);
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  copy->removeAttr(kAssignAttrName);
  for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults())) {
    Layout layout = now->plan.values[from];
    if (waitsForUpdate(op))
      llvm::erase(layout.sums, axes().micro());
    to.setType(localType(from.getType(), layout, axes()));
    function.define(from, to, layout);
  }
  const Assignment &assignment = now->plan.assignments[op];
  auto variant = dyn_cast<VariantOpInterface>(copy);
  auto localize = dyn_cast<LocalizeOpInterface>(copy);
  bool isSharded = llvm::any_of(
      assignment.factors, [](const AxisList &list) { return !list.empty(); });
  bool hasVariant = variant && communicates(assignment);
  if (!isSharded || (!localize && !hasVariant))
    return copy;
  Factors facts = cast<FactorOpInterface>(op).getFactors();
  llvm::SmallVector<FactorShard> shards;
  for (auto [factor, list] :
       llvm::zip_equal(facts.factors, assignment.factors)) {
    int64_t local = factor.size / axes().sizeOf(list);
    shards.push_back({factor.size, local, function.offset(list, local)});
  }
  OpBuilder before(copy);
  if (!hasVariant) {
    localize.localize(before, shards);
    return copy;
  }
  Operation *start = opBefore(before);
  GroupBuilder groups(before, op->getLoc(), function, axes(), assignment);
  auto values = variant.buildVariant(groups, shards, assignment.variants,
                                     assignment.routed);
  setPhases(start, before, op);
  for (auto [from, to] : llvm::zip_equal(op->getResults(), values))
    function.define(from, to, function.get(from).layout);
  Operation *last = copy->getPrevNode();
  copy->erase();
  return last;
}

//===----------------------------------------------------------------------===//
// Repeats
//===----------------------------------------------------------------------===//

/// Ends the body. Gradients that accumulate in pieces leave it so.
void ProgramWriter::writeYield(RepeatOp repeat, RepeatOp made,
                               FunctionWriter &function, Part part,
                               OpBuilder &inside) {
  YieldOp yield = repeat.getYield();
  llvm::SmallVector<Value> yielded;
  unsigned carried = yield.getCarried().size();
  for (auto [i, value] : llvm::enumerate(yield->getOperands())) {
    const Layout &need = now->plan.ops[yield].operands[i];
    Value local = use(value, need, part, inside, yield);
    if (i >= carried) {
      Value stack = repeat.getStackResults()[i - carried];
      if (scattersEarly(stack))
        local = makePiece(stack, {local, need}, function, inside, yield).value;
    }
    yielded.push_back(local);
  }
  auto end =
      YieldOp::create(inside, yield.getLoc(),
                      llvm::ArrayRef<Value>(yielded).take_front(carried),
                      llvm::ArrayRef<Value>(yielded).drop_front(carried));
  end->setDiscardableAttrs(yield->getDiscardableAttrDictionary());
  // Types of stacks of pieces follow from the yield.
  for (auto [result, type] :
       llvm::zip_equal(made.getResults(), made.inferResultTypes()))
    result.setType(cast<RankedTensorType>(type));
}

/// Ops that exchange the same rows begin alike, and matmuls on them, too: what
/// several ops of a body compute is computed once.
static void mergeEqualOps(Block &body) {
  constexpr auto flags = OperationEquivalence::IgnoreLocations |
                         OperationEquivalence::IgnoreDiscardableAttrs;
  std::map<size_t, llvm::SmallVector<Operation *, 1>> known;
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    if (!isMemoryEffectFree(&op) || op.getNumRegions() > 0)
      continue;
    auto &alike = known[OperationEquivalence::computeHash(
        &op, OperationEquivalence::directHashValue,
        OperationEquivalence::ignoreHashValue, flags)];
    auto equal = llvm::find_if(alike, [&](Operation *other) {
      return OperationEquivalence::isEquivalentTo(
          other, &op, OperationEquivalence::exactValueMatch,
          /*markEquivalent=*/nullptr, flags);
    });
    if (equal == alike.end()) {
      alike.push_back(&op);
      continue;
    }
    op.replaceAllUsesWith(*equal);
    op.erase();
  }
}

void ProgramWriter::writeRepeat(RepeatOp repeat, FunctionWriter &function,
                                Part part, OpBuilder &builder) {
  const OpLayouts &layouts = now->plan.ops[repeat];
  llvm::SmallVector<Value> operands;
  for (auto [value, need] :
       llvm::zip_equal(repeat->getOperands(), layouts.operands))
    operands.push_back(use(value, need, part, builder, repeat));
  llvm::SmallVector<Type> types;
  for (auto [result, layout] :
       llvm::zip_equal(repeat.getResults(), layouts.results))
    types.push_back(localType(result.getType(), layout, axes()));
  size_t carried = repeat.getInits().size();
  auto made =
      RepeatOp::create(builder, repeat.getLoc(), types,
                       llvm::ArrayRef<Value>(operands).take_front(carried),
                       llvm::ArrayRef<Value>(operands).drop_front(carried),
                       repeat.getStartAttr(), repeat.getEndAttr(),
                       repeat.getReverseAttr(), repeat.getPairAttr());
  made->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());
  Block &body = made.getBody().emplaceBlock();
  for (BlockArgument arg : repeat.getBody().getArguments()) {
    const Layout &layout = now->plan.values[arg];
    function.define(arg,
                    body.addArgument(localType(arg.getType(), layout, axes()),
                                     arg.getLoc()),
                    layout);
  }
  function.repeat = made;
  function.original = repeat;
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  for (Operation &op : repeat.getBody().front().without_terminator())
    writeOp(&op, function, part, inside);
  writeYield(repeat, made, function, part, inside);
  if (exchangesRowsIn(repeat))
    mergeEqualOps(body);
  function.repeat = function.original = {};
  for (auto [i, global] : llvm::enumerate(repeat.getResults()))
    function.define(global, made.getResult(i), layouts.results[i],
                    /*isPiece=*/i >= carried && scattersEarly(global));
}

//===----------------------------------------------------------------------===//
// The update
//===----------------------------------------------------------------------===//

/// The layout in which a norm reads a gradient: that of the update, where only
/// blocks differ, so that both read one sum over ranks.
static const Layout &normedAs(Value gradient, const Layout &need,
                              const PlannedModel &plan) {
  for (Operation *user : gradient.getUsers())
    if (isa<UpdateOp>(user))
      if (const Layout &own = plan.ops.find(user)->second.operands[0];
          own.dims == need.dims)
        return own;
  return need;
}

/// Gradients whose norm is one op, and so one kernel: a kernel of a GPU takes a
/// few hundred arguments (lib/Codegen/Compile.cpp), adapters have thousands.
static constexpr size_t kMostNormed = 128;

/// The sum of squares of what is sharded alike.
static Value squaredNorm(llvm::ArrayRef<Value> values, Type type,
                         PlainBuilder &p) {
  Value total;
  for (; !values.empty();
       values = values.drop_front(std::min(kMostNormed, values.size()))) {
    Value norm = GlobalNormOp::create(p.builder, p.loc, type,
                                      values.take_front(kMostNormed));
    Value square = p.mul(norm, norm);
    total = total ? p.add(total, square) : square;
  }
  return total;
}

/// The root of a sum of squares over parts: norms of what is sharded alike,
/// squared, summed over the axes that shard it. Every element counts once; of a
/// gradient that several stages have, in the first of them.
void ProgramWriter::writeNorm(Operation *op, FunctionWriter &function,
                              Part part, OpBuilder &builder) {
  std::map<AxisList, llvm::SmallVector<Value>> groups;
  for (auto [value, arrives] :
       llvm::zip_equal(op->getOperands(), now->plan.ops[op].operands)) {
    const Layout &need = normedAs(value, arrives, now->plan);
    if (Operation *maker = value.getDefiningOp();
        maker && !isSource(maker) && now->placement.ownerOf(maker) != stage)
      continue;
    const AxisList &own = pieces.axesOf(value);
    AxisList sharding;
    // Pieces are taken from the shard as the parameter rests.
    for (const AxisList &list :
         own.empty() ? need.dims : pieces.restOf(value).dims)
      sharding.append(list.begin(), list.end());
    sharding.append(own.begin(), own.end());
    llvm::sort(sharding);
    groups[sharding].push_back(own.empty()
                                   ? use(value, need, part, builder, op)
                                   : usePiece(value, part, builder, op));
  }
  Operation *before = opBefore(builder);
  PlainBuilder p{builder, op->getLoc()};
  auto type = typeOf(op->getResult(0));
  Value total;
  for (auto &[list, values] : groups) {
    Value square = squaredNorm(values, type, p);
    if (!list.empty())
      square = spmd::AllReduceOp::create(
          builder, op->getLoc(), square.getType(), ReduceKind::Sum, square,
          axesAttr(builder.getContext(), axes(), list));
    total = total ? p.add(total, square) : square;
  }
  if (isPipeline()) {
    if (!total)
      total = p.constant(type, 0.0);
    total = spmd::AllReduceOp::create(builder, op->getLoc(), type,
                                      ReduceKind::Sum, total,
                                      builder.getStrArrayAttr({kPipelineAxis}));
  }
  Value root = p.sqrt(total);
  setPhases(before, builder, op);
  function.define(op->getResult(0), root, Layout::whole(0));
}

void ProgramWriter::writeUpdate(UpdateOp update, FunctionWriter &function,
                                Part part, OpBuilder &builder) {
  const OpLayouts &layouts = now->plan.ops[update];
  bool inPieces = !pieces.axesOf(update.getName()).empty();
  llvm::SmallVector<Value> operands;
  for (auto [value, need] :
       llvm::zip_equal(update->getOperands(), layouts.operands))
    operands.push_back(inPieces && value == update.getGradient()
                           ? usePiece(value, part, builder, update)
                           : use(value, need, part, builder, update));
  cloneLocal(update, operands, function, builder);
  if (!inPieces || pieces.level() >= 3)
    return;
  auto gather =
      spmd::GatherParamOp::create(builder, update.getLoc(), update.getName(),
                                  update.getStartAttr(), update.getEndAttr());
  if (PhaseAttr phase = getPhase(update))
    gather->setAttr(kPhaseAttrName, phase);
}

//===----------------------------------------------------------------------===//
// All ops
//===----------------------------------------------------------------------===//

void ProgramWriter::writeOp(Operation *op, FunctionWriter &function, Part part,
                            OpBuilder &builder) {
  if (auto repeat = dyn_cast<RepeatOp>(op))
    return writeRepeat(repeat, function, part, builder);
  if (auto update = dyn_cast<UpdateOp>(op))
    return writeUpdate(update, function, part, builder);
  const OpLayouts &layouts = now->plan.ops[op];
  auto isSharded = [](const Layout &layout) {
    return llvm::any_of(layout.dims,
                        [](const AxisList &list) { return !list.empty(); });
  };
  if (auto iface = dyn_cast<FactorOpInterface>(op);
      iface && sumsSquares(iface.getFactors()) &&
      (llvm::any_of(layouts.operands, isSharded) || pieces.level() > 0 ||
       isPipeline()))
    return writeNorm(op, function, part, builder);
  llvm::SmallVector<Value> operands;
  for (auto [value, need] :
       llvm::zip_equal(op->getOperands(), layouts.operands)) {
    Layout here = need;
    if (waitsForUpdate(op))
      llvm::erase(here.sums, axes().micro());
    operands.push_back(use(value, here, part, builder, op));
  }
  cloneLocal(op, operands, function, builder);
}

void ProgramWriter::writeOps() {
  for (Operation &op : now->model.getBody().front().without_terminator()) {
    if (isSource(&op) || !now->placement.runsOn(&op, stage))
      continue;
    // Functions make for themselves what they read of these.
    if (op.getNumResults() > 0 && isMadeOfConstants(op.getResult(0)))
      continue;
    Part part = partOf(&op);
    if (evaluating() && part.kind == PartKind::Prologue &&
        originOf(op.getResult(0), part) != op.getResult(0))
      continue; // It is there already.
    FunctionWriter &function = functionOf(part);
    OpBuilder builder = function.atEnd();
    writeOp(&op, function, part, builder);
  }
}
