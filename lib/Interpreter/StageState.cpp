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

static Rest restOf(spmd::ParamOp param, std::optional<ArrayAttr> pieces) {
  Rest rest{param.getSharded(), {}, pieces.value_or(ArrayAttr())};
  if (param.getBlocks())
    rest.blocks.assign(param.getBlocks()->begin(), param.getBlocks()->end());
  rest.granule = granuleOf(param.getStates());
  return rest;
}

static Rest weightRestOf(spmd::ParamOp param) {
  return restOf(param, param.getWeightAxes());
}

/// Of masters and the gradients of updates.
static Rest stateRestOf(spmd::ParamOp param) {
  return restOf(param, param.getStateAxes());
}

/// Of optimizer state, which may have one element for a block of the parameter,
/// or lack one of its dimensions.
static Rest stateRestOf(spmd::ParamOp param, const StateTensor &state) {
  Rest rest = stateRestOf(param);
  rest.granule /= state.block;
  if (state.without == 0)
    return rest;
  llvm::SmallVector<Attribute> sharded(rest.sharded.begin(),
                                       rest.sharded.end());
  sharded.erase(sharded.end() - state.without);
  rest.sharded = ArrayAttr::get(param.getContext(), sharded);
  if (!rest.blocks.empty())
    rest.blocks.erase(rest.blocks.end() - state.without);
  return rest;
}

/// Ranks along the pipeline hold other parameters.
static LogicalResult checkAxes(spmd::ParamOp param) {
  llvm::SmallVector<Attribute> axes;
  for (auto list : param.getSharded().getAsRange<ArrayAttr>())
    llvm::append_range(axes, list);
  if (param.getStateAxes())
    llvm::append_range(axes, *param.getStateAxes());
  if (!llvm::is_contained(axes,
                          StringAttr::get(param.getContext(), kPipelineAxis)))
    return success();
  return param.emitOpError()
         << "\"" << param.getName() << "\" is stored over '" << kPipelineAxis
         << "', whose ranks run other programs";
}

//===----------------------------------------------------------------------===//
// Sharding and joining
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

LogicalResult StageState::shard(TrainingState &state) {
  auto shard = [&](const TrainingState::Tensors &from, const std::string &name,
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
      shard(state.params, name, weightRestOf(param), params);
      shard(state.masters, name, stateRestOf(param), masters);
      for (const StateTensor &s : param.getStates())
        shard(state.optimizer, name + "." + s.name.str(), stateRestOf(param, s),
              optimizer);
    }
  }
  return success();
}

LogicalResult StageState::joinOne(spmd::ParamOp param, const std::string &name,
                                  TrainingState &state) const {
  auto join = [&](llvm::StringRef what, const Shards &from,
                  const std::string &key, const Rest &rest,
                  RankedTensorType type,
                  TrainingState::Tensors &to) -> LogicalResult {
    auto known = from.find(key);
    if (known == from.end())
      return success();
    auto shards = llvm::map_to_vector(
        known->second, [](const HostTensor &tensor) { return &tensor; });
    std::string error;
    auto whole = joinShards(shards, rest, type.getShape(), program, error);
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
  auto type = cast<RankedTensorType>(param.getGlobal());
  if (failed(join("parameter", params, name, weightRestOf(param), type,
                  state.params)) ||
      failed(join("master", masters, name, stateRestOf(param), type,
                  state.masters)) ||
      failed(join("gradient", gradients, name, stateRestOf(param), type,
                  state.gradients)))
    return failure();
  for (const StateTensor &s : param.getStates())
    if (failed(join("state", optimizer, name + "." + s.name.str(),
                    stateRestOf(param, s), stateType(s, type),
                    state.optimizer)))
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

/// The place of the own piece, of a rank that holds the whole shard and updates
/// its piece.
static std::optional<int64_t> ownPieceOf(spmd::ProgramOp program,
                                         spmd::ParamOp param, int64_t rank) {
  if (!param.getStateAxes() || param.getWeightAxes())
    return std::nullopt;
  return Place{program, rank, 0}.index(*param.getStateAxes());
}

UpdateRules::Operands StageState::operandsOf(UpdateOp update,
                                             spmd::ParamOp param,
                                             const std::string &name,
                                             int64_t rank,
                                             const UpdateOperands &operands) {
  UpdateRules::Operands own;
  own.gradient = *operands.gradient[rank];
  auto states = param.getStates();
  for (const StateTensor &s : states) {
    auto &shards = optimizer[name + "." + s.name.str()];
    shards.resize(operands.gradient.size());
    own.state.push_back(stateOr(shards[rank], s, own.gradient.type));
  }
  if (update.getScale())
    own.scale = operands.scale[rank]->data[0];
  own.rate = operands.rate[rank]->data[0];
  own.step = operands.step[rank]->data[0];
  if (auto master = masters.find(name); master != masters.end())
    own.param = master->second[rank];
  else if (auto piece = ownPieceOf(program, param, rank))
    own.param = takePiece(params[name][rank], *piece,
                          program.getAxesSize(*param.getStateAxes()),
                          granuleOf(states));
  else
    own.param = params[name][rank];
  return own;
}

void StageState::keepUpdate(spmd::ParamOp param, const std::string &name,
                            int64_t rank, llvm::ArrayRef<HostTensor> results) {
  HostTensor &held = params[name][rank];
  if (auto master = masters.find(name); master != masters.end())
    master->second[rank] = results[0];
  HostTensor after = results[0];
  after.type = withElement(after.type, held.type.getElementType());
  roundTensor(after, options.f64);
  if (auto piece = ownPieceOf(program, param, rank))
    putPiece(held, after, *piece);
  else
    held = std::move(after);
  for (auto [s, value] :
       llvm::zip_equal(param.getStates(), llvm::drop_begin(results)))
    optimizer[name + "." + s.name.str()][rank] = value;
}

/// The axes that shard dimensions of a parameter, counted from the last, 1.
static ArrayAttr axesOf(spmd::ParamOp param, llvm::ArrayRef<int64_t> dims) {
  llvm::SmallVector<Attribute> axes;
  ArrayAttr sharded = param.getSharded();
  for (int64_t dim : dims)
    llvm::append_range(axes, cast<ArrayAttr>(sharded[sharded.size() - dim]));
  return ArrayAttr::get(param.getContext(), axes);
}

void StageState::updateRanks(UpdateOp update, spmd::ParamOp param,
                             const std::string &name,
                             const UpdateOperands &operands) {
  auto ranks = program.getRanks();
  // Each rank decides by its own condition, as compiled ranks do.
  auto isSkipped = [&](int64_t rank) {
    return update.getCondition() && operands.condition[rank]->data[0] == 0;
  };
  std::vector<UpdateRules::Operands> own;
  for (int64_t rank : ranks)
    own.push_back(operandsOf(update, param, name, rank, operands));
  auto total = [&](llvm::ArrayRef<int64_t> of,
                   llvm::ArrayRef<HostTensor *> parts) {
    ArrayAttr axes = axesOf(param, of);
    auto before = llvm::map_to_vector(parts, [](auto *part) { return *part; });
    for (auto [rank, part] : llvm::zip_equal(ranks, parts)) {
      std::fill(part->data.begin(), part->data.end(), 0.0);
      for (int64_t member : groupOf(program, rank, axes)) {
        const HostTensor &other =
            before[llvm::find(ranks, member) - ranks.begin()];
        for (auto [sum, x] : llvm::zip_equal(part->data, other.data))
          sum += x;
      }
    }
  };
  auto whole = cast<RankedTensorType>(param.getGlobal()).getShape();
  auto results = rules.apply(update, whole, std::move(own), total, options.f64);
  for (auto [rank, values] : llvm::zip_equal(ranks, results))
    if (!isSkipped(rank))
      keepUpdate(param, name, rank, values);
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
  for (int64_t rank : program.getRanks())
    recorded[rank] = *operands.gradient[rank];
  updateRanks(update, *param, name, operands);
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
                 takePiece(before[member], r, program.getAxesSize(axes),
                           granuleOf(param->getStates())),
                 r);
  }
  return success();
}
