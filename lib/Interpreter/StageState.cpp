#include "StageState.h"

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

/// Iterations that a declaration stands for.
static auto iterationsOf(spmd::ParamOp param) {
  return llvm::seq<int64_t>(param.getStart().value_or(0),
                            param.getEnd().value_or(1));
}

static llvm::SmallVector<llvm::StringRef> stateNamesOf(spmd::ParamOp param) {
  auto rule = dyn_cast_or_null<OptimizerRuleInterface>(param.getRuleAttr());
  return rule ? rule.getStateNames() : llvm::SmallVector<llvm::StringRef>();
}

static Rest restOf(spmd::ParamOp param, std::optional<ArrayAttr> pieces) {
  return {param.getCut(), param.getBlocks().value_or(llvm::ArrayRef<int64_t>()),
          pieces.value_or(ArrayAttr())};
}

static Rest weightRestOf(spmd::ParamOp param) {
  return restOf(param, param.getWeightAxes());
}

/// Of masters, optimizer state and the gradients of updates.
static Rest stateRestOf(spmd::ParamOp param) {
  return restOf(param, param.getStateAxes());
}

/// Ranks along the pipeline hold other parameters.
static LogicalResult checkAxes(spmd::ParamOp param) {
  llvm::SmallVector<Attribute> axes;
  for (auto list : param.getCut().getAsRange<ArrayAttr>())
    llvm::append_range(axes, list);
  if (param.getStateAxes())
    llvm::append_range(axes, *param.getStateAxes());
  if (!llvm::is_contained(axes,
                          StringAttr::get(param.getContext(), kPipelineAxis)))
    return success();
  return param.emitOpError()
         << "\"" << param.getName() << "\" rests over '" << kPipelineAxis
         << "', whose ranks run other programs";
}

//===----------------------------------------------------------------------===//
// Cutting and joining
//===----------------------------------------------------------------------===//

static void initialize(spmd::ParamOp param, const std::string &name,
                       const InterpreterOptions &options,
                       TrainingState &state) {
  auto type = cast<RankedTensorType>(param.getGlobal());
  std::optional<Type> master = param.getMaster();
  HostTensor full =
      initialValue(param.getInit(), master ? withElement(type, *master) : type,
                   name, options.seed, options.f64);
  if (master)
    state.masters[name] = full;
  full.type = type;
  roundTensor(full, options.f64);
  state.params[name] = std::move(full);
}

LogicalResult StageState::cut(TrainingState &state) {
  auto cut = [&](const TrainingState::Tensors &from, const std::string &name,
                 const Rest &rest, Shards &to) {
    auto known = from.find(name);
    if (known == from.end())
      return;
    auto &shards = to[name];
    shards.assign(program.getMesh().getRankCount(), HostTensor());
    for (int64_t rank : program.getRanks())
      shards[rank] = takeShard(known->second, rest, {program, rank, 0});
  };
  for (spmd::ParamOp param : program.getBody().getOps<spmd::ParamOp>()) {
    if (failed(checkAxes(param)))
      return failure();
    for (int64_t i : iterationsOf(param)) {
      std::string name = expandName(param.getName(), i);
      if (!state.params.count(name))
        initialize(param, name, options, state);
      RankedTensorType known = state.params[name].type;
      if (known.getShape() !=
          cast<RankedTensorType>(param.getGlobal()).getShape())
        return param.emitOpError()
               << "\"" << name << "\" is " << known << " elsewhere";
      cut(state.params, name, weightRestOf(param), params);
      cut(state.masters, name, stateRestOf(param), masters);
      for (llvm::StringRef s : stateNamesOf(param))
        cut(state.optimizer, name + "." + s.str(), stateRestOf(param),
            optimizer);
    }
  }
  return success();
}

LogicalResult StageState::joinOne(spmd::ParamOp param, const std::string &name,
                                  TrainingState &state) const {
  auto join = [&](llvm::StringRef what, const Shards &from,
                  const std::string &key, const Rest &rest,
                  TrainingState::Tensors &to) -> LogicalResult {
    auto known = from.find(key);
    if (known == from.end())
      return success();
    auto shards = llvm::map_to_vector(
        known->second, [](const HostTensor &tensor) { return &tensor; });
    auto shape = cast<RankedTensorType>(param.getGlobal()).getShape();
    std::string error;
    auto whole = joinShards(shards, rest, shape, program, error);
    if (failed(whole))
      return param.emitOpError() << what << " \"" << key << "\": " << error;
    auto [other, isNew] = to.try_emplace(key, *whole);
    int64_t at = isNew ? -1 : findDifference(*whole, other->second);
    if (at < 0)
      return success();
    return param.emitOpError()
           << what << " \"" << key << "\": stage " << program.getStage()
           << " holds another value than a stage before it, at element " << at;
  };
  if (failed(
          join("parameter", params, name, weightRestOf(param), state.params)) ||
      failed(
          join("master", masters, name, stateRestOf(param), state.masters)) ||
      failed(join("gradient", gradients, name, stateRestOf(param),
                  state.gradients)))
    return failure();
  for (llvm::StringRef s : stateNamesOf(param))
    if (failed(join("state", optimizer, name + "." + s.str(),
                    stateRestOf(param), state.optimizer)))
      return failure();
  return success();
}

LogicalResult StageState::join(TrainingState &state) const {
  for (spmd::ParamOp param : program.getBody().getOps<spmd::ParamOp>())
    for (int64_t i : iterationsOf(param))
      if (failed(joinOne(param, expandName(param.getName(), i), state)))
        return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Reads and updates
//===----------------------------------------------------------------------===//

FailureOr<Ranks> StageState::read(ParamOp read, int64_t iteration) const {
  auto known = params.find(expandName(read.getName(), iteration));
  if (known == params.end())
    return read.emitOpError()
           << "of \"" << read.getName() << "\", which is not declared for "
           << "iteration " << iteration;
  RankedTensorType held = known->second[program.getRanks().front()].type;
  if (held.getShape() != typeOf(read.getResult()).getShape())
    return read.emitOpError()
           << "of \"" << read.getName() << "\" as "
           << read.getResult().getType() << ", which is held as " << held;
  return makeRanks(program, [&](int64_t rank) { return known->second[rank]; });
}

void StageState::updateRank(UpdateOp update, spmd::ParamOp param,
                            const std::string &name, int64_t rank,
                            const UpdateOperands &operands) {
  auto rule = cast<OptimizerRuleInterface>(update.getRule());
  std::string prefix = name + ".";
  llvm::SmallVector<HostTensor> state;
  for (llvm::StringRef s : rule.getStateNames()) {
    auto &shards = optimizer[prefix + s.str()];
    shards.resize(operands.gradient.size());
    state.push_back(shards[rank]);
  }
  UpdateRules::Scalars scalars;
  if (update.getScale())
    scalars.scale = operands.scale[rank]->data[0];
  scalars.rate = operands.rate[rank]->data[0];
  scalars.step = operands.step[rank]->data[0];
  // Without `weights` the rank holds the whole shard and updates its piece.
  HostTensor &held = params[name][rank];
  bool ownPiece = param.getStateAxes() && !param.getWeightAxes();
  int64_t piece = 0;
  HostTensor before = held;
  if (ownPiece) {
    piece = Place{program, rank, 0}.index(*param.getStateAxes());
    before = takePiece(held, piece, program.getAxesSize(*param.getStateAxes()));
  }
  auto master = masters.find(name);
  bool hasMaster = master != masters.end();
  auto results =
      rules.apply(update, hasMaster ? master->second[rank] : before,
                  *operands.gradient[rank], state, scalars, options.f64);
  HostTensor after = results[0];
  if (hasMaster)
    master->second[rank] = results[0];
  after.type = before.type;
  roundTensor(after, options.f64);
  if (ownPiece)
    putPiece(held, after, piece);
  else
    held = std::move(after);
  for (auto [s, value] :
       llvm::zip_equal(rule.getStateNames(), llvm::drop_begin(results)))
    optimizer[prefix + s.str()][rank] = value;
}

/// The declaration that an update or a gather of pieces means.
static FailureOr<spmd::ParamOp> findParam(spmd::ProgramOp program,
                                          Operation *op, llvm::StringRef name,
                                          int64_t iteration) {
  if (spmd::ParamOp param = program.getParam(name, iteration))
    return param;
  return op->emitOpError() << "of \"" << name << "\", which is not declared "
                           << "for iteration " << iteration;
}

LogicalResult StageState::updateOne(UpdateOp update, int64_t iteration,
                                    const UpdateOperands &operands) {
  auto param = findParam(program, update, update.getName(), iteration);
  if (failed(param))
    return failure();
  RankedTensorType found = operands.gradient[program.getRanks().front()]->type;
  if (found.getShape() != param->getStateType().getShape() ||
      update.getRule() != param->getRuleAttr())
    return update.emitOpError()
           << "of \"" << update.getName() << "\" by " << found << " and "
           << update.getRule() << ", which is declared with "
           << param->getStateType() << " and " << param->getRuleAttr();
  std::string name = expandName(param->getName(), iteration);
  auto &recorded = gradients[name];
  recorded.resize(operands.gradient.size());
  for (int64_t rank : program.getRanks()) {
    recorded[rank] = *operands.gradient[rank];
    updateRank(update, *param, name, rank, operands);
  }
  return success();
}

LogicalResult StageState::update(UpdateOp update,
                                 const UpdateOperands &operands) {
  if (!update.getStart())
    return updateOne(update, 0, operands);
  int64_t start = *update.getStart();
  for (int64_t i = start, end = *update.getEnd(); i < end; ++i) {
    UpdateOperands own = operands;
    own.gradient = makeRanks(program, [&](int64_t rank) {
      return sliceOf(*operands.gradient[rank], i - start);
    });
    if (failed(updateOne(update, i, own)))
      return failure();
  }
  return success();
}

LogicalResult StageState::gather(spmd::GatherParamOp gather) {
  int64_t start = gather.getStart().value_or(0);
  for (int64_t i = start, end = gather.getEnd().value_or(1); i < end; ++i) {
    auto param = findParam(program, gather, gather.getName(), i);
    if (failed(param))
      return failure();
    ArrayAttr axes = *param->getStateAxes();
    auto &shards = params[expandName(gather.getName(), i)];
    auto before = shards;
    for (int64_t rank : program.getRanks())
      for (auto [r, member] : llvm::enumerate(groupOf(program, rank, axes)))
        putPiece(shards[rank],
                 takePiece(before[member], r, program.getAxesSize(axes)), r);
  }
  return success();
}
