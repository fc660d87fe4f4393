#include "ProgramWriter.h"
#include "GroupBuilder.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Support/Json.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace kerf;

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

static ArrayAttr shardedAttr(MLIRContext *context, const PlanAxes &axes,
                             const Layout &layout) {
  llvm::SmallVector<Attribute> dims;
  for (const AxisList &list : layout.dims)
    dims.push_back(axesAttr(context, axes, list));
  return ArrayAttr::get(context, dims);
}

/// The order in which the rows of an input come, of a model's.
static ZigzagAttr zigzagOf(ModelOp model, llvm::StringRef role) {
  if (!llvm::is_contained({"tokens", "targets", "segments", "positions"}, role))
    return {};
  return model->getAttrOfType<ZigzagAttr>(kZigzagAttrName);
}

void ProgramWriter::declareInputs() {
  OpBuilder builder = OpBuilder::atBlockEnd(&program.getBody().front());
  ModelOp model = training.model;
  for (auto [input, role] :
       llvm::zip(model.getBody().getArguments(),
                 model.getRoles().getAsValueRange<StringAttr>())) {
    const Layout &layout = training.plan.values[input];
    std::string name = role.empty()
                           ? "input" + std::to_string(input.getArgNumber())
                           : role.str();
    int64_t vocabulary = getVocabulary(input);
    inputs.push_back(spmd::InputOp::create(
        builder, input.getLoc(), builder.getStringAttr(name),
        builder.getStringAttr(role), TypeAttr::get(input.getType()),
        shardedAttr(builder.getContext(), axes(), layout),
        vocabulary ? builder.getI64IntegerAttr(vocabulary) : IntegerAttr(),
        TypeAttr::get(localType(input.getType(), layout, axes())),
        zigzagOf(model, role)));
  }
}

namespace {
/// Reads of one parameter in one chunk, for some iterations.
struct Reads {
  ParamOp first;
  Layout layout; ///< as it is stored
  int64_t start, end;
};
} // namespace

/// Adds a read to those of the same parameter; iterations that follow each
/// other become one range where they rest alike.
static void addRead(std::vector<Reads> &known, Reads read) {
  for (Reads &other : known) {
    bool overlaps = read.start < other.end && other.start < read.end;
    bool follows = read.start == other.end || other.start == read.end;
    if (!overlaps && !(follows && read.layout == other.layout))
      continue;
    other.start = std::min(other.start, read.start);
    other.end = std::max(other.end, read.end);
    return;
  }
  known.push_back(read);
}

/// A stage holds what its ops read: a pattern once per chunk and range.
void ProgramWriter::declareParams() {
  llvm::MapVector<std::pair<StringAttr, int64_t>, std::vector<Reads>> reads;
  training.model.getBody().walk([&](ParamOp param) {
    auto repeat = param->getParentOfType<RepeatOp>();
    Operation *top = repeat ? repeat.getOperation() : param.getOperation();
    if (!training.placement.runsOn(top, stage))
      return;
    bool each = repeat && param.isPerIteration();
    int64_t chunk = each ? partOf(repeat).chunk : 0;
    addRead(reads[{param.getNameAttr(), chunk}],
            {param, training.plan.values[param.getResult()],
             each ? int64_t(repeat.getStart()) : 0,
             each ? int64_t(repeat.getEnd()) : 1});
  });
  llvm::StringMap<Attribute> rules;
  for (UpdateOp update : training.model.getBody().getOps<UpdateOp>())
    rules[update.getName()] = update.getRule();
  OpBuilder builder = OpBuilder::atBlockEnd(&program.getBody().front());
  auto declare = [&](const Reads &read) {
    ParamOp first = read.first;
    const Layout &layout = read.layout;
    IntegerAttr start, end;
    if (first.isPerIteration()) {
      start = builder.getI64IntegerAttr(read.start);
      end = builder.getI64IntegerAttr(read.end);
    }
    Type type = first.getResult().getType();
    RankedTensorType rests = localType(type, layout, axes());
    const AxisList &own = pieces.axesOf(first.getName());
    ArrayAttr state, weights;
    DenseI64ArrayAttr blocks;
    if (!layout.blocks.empty())
      blocks = builder.getDenseI64ArrayAttr(layout.blocks);
    if (!own.empty())
      state = axesAttr(builder.getContext(), axes(), own);
    if (!own.empty() && pieces.level() >= 3) {
      weights = state;
      rests = withShape(
          rests, {pieces.sizeOf(first.getName(), rests.getNumElements())});
    }
    spmd::ParamOp::create(builder, first.getLoc(), first.getNameAttr(), start,
                          end, TypeAttr::get(type),
                          shardedAttr(builder.getContext(), axes(), layout),
                          blocks, state, weights, first.getInitAttr(),
                          first.getFrozenAttr(), first.getMasterAttr(),
                          rules.lookup(first.getName()), TypeAttr::get(rests));
  };
  for (auto &[key, ranges] : reads)
    llvm::for_each(ranges, declare);
}

FunctionWriter &ProgramWriter::functionOf(Part part) {
  if (auto known = functions.find(part); known != functions.end())
    return known->second;
  OpBuilder builder = OpBuilder::atBlockEnd(&program.getBody().front());
  auto func = spmd::FuncOp::create(builder, training.model.getLoc(),
                                   nameOf(part, training.placement.stages()));
  builder.setInsertionPointToEnd(&func.getBody().emplaceBlock());
  spmd::ReturnOp::create(builder, training.model.getLoc());
  return functions.try_emplace(part, func, axes()).first->second;
}

//===----------------------------------------------------------------------===//
// Room of exchanged rows
//===----------------------------------------------------------------------===//

/// True where ops of a repeat or a model exchange rows of experts.
bool ProgramWriter::exchangesRowsIn(Operation *scope) const {
  return scope
      ->walk([&](FactorOpInterface op) {
        auto known = now->plan.assignments.find(op);
        bool exchanges = known != now->plan.assignments.end() &&
                         exchangesRows(op.getFactors(), known->second);
        return exchanges ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// True where data decides whether rows of experts have room.
bool ProgramWriter::mayLackRoom() const {
  return axes().moeBuffer() > 0 && exchangesRowsIn(now->model);
}

/// What ops that exchange rows write their need to; 0 at the start of a step.
void ProgramWriter::declareMoeNeed() {
  FunctionWriter &prologue = functionOf({PartKind::Prologue});
  Location loc = training.model.getLoc();
  OpBuilder builder(prologue.getFunc());
  auto type = RankedTensorType::get({}, builder.getF32Type());
  spmd::BufferOp::create(builder, loc, kMoeNeed, spmd::BufferKind::Step, type);
  builder = prologue.atEnd();
  Value zero = PlainBuilder{builder, loc}.constant(type, 0.0);
  spmd::WriteOp::create(builder, loc, zero, kMoeNeed);
}

/// All ranks stop alike, before anything else of the function is done.
void ProgramWriter::checkMoeNeed(PartKind kind) {
  FunctionWriter &function = functionOf({kind});
  OpBuilder builder =
      OpBuilder::atBlockBegin(&function.getFunc().getBody().front());
  Location loc = training.model.getLoc();
  auto type = RankedTensorType::get({}, builder.getF32Type());
  Value need = spmd::ReadOp::create(builder, loc, type, kMoeNeed);
  need = spmd::AllReduceOp::create(
      builder, loc, type, ReduceKind::Max, need,
      builder.getArrayAttr(llvm::map_to_vector(
          getPlan(training.model).getMesh().getNames(),
          [](StringAttr name) -> Attribute { return name; })));
  std::string text = "expert buffers overflowed: --moe-buffer=" +
                     json::print(json::Value::fromNumber(axes().moeBuffer())) +
                     " is too small, this step needs";
  spmd::StopIfOp::create(builder, loc, need, text);
}

//===----------------------------------------------------------------------===//
// The whole program
//===----------------------------------------------------------------------===//

/// Erases what was made for an op that then did not need it: offsets.
static void dropDead(Block &block) {
  for (Operation *op = &block.back(), *before; op; op = before) {
    before = op->getPrevNode();
    if (isOpTriviallyDead(op))
      op->erase();
  }
}

/// Functions that do nothing, and inputs that no function of the stage reads.
void ProgramWriter::dropUnread() {
  for (auto &[part, function] : functions) {
    Block &body = function.getFunc().getBody().front();
    dropDead(body);
    if (body.getOperations().size() == 1)
      function.getFunc().erase();
  }
  if (!isPipeline())
    return;
  llvm::StringSet<> read;
  program.walk([&](spmd::ReadOp op) { read.insert(op.getSource()); });
  for (spmd::InputOp input : inputs)
    if (!read.contains(input.getSymName()))
      input.erase();
}

void ProgramWriter::run() {
  ModelOp model = training.model;
  OpBuilder builder(model);
  PlanAttr attr = getPlan(model);
  int64_t stages = training.placement.stages();
  std::string name = model.getSymName().str();
  if (stages > 1)
    name += ".stage" + std::to_string(stage);
  program =
      spmd::ProgramOp::create(builder, model.getLoc(), name, attr.getMesh(),
                              stage, attr.getMicroBatches(), 1);
  program.getBody().emplaceBlock();
  program->setAttr(kPlanAttrName, attr);
  declareInputs();
  declareParams();
  functionOf({PartKind::Prologue});
  for (PartKind kind : {PartKind::Forward, PartKind::Backward})
    for (int64_t c = 0; c < attr.getChunks(); ++c)
      functionOf({kind, c * stages + stage});
  functionOf({PartKind::Update});
  if (mayLackRoom())
    declareMoeNeed();
  for (PlacedModel *placed : {&training, &evaluation}) {
    now = placed;
    receive();
    writeOps();
    writeOutputs();
    send();
    writeFinish();
    if (mayLackRoom())
      checkMoeNeed(evaluating() ? PartKind::FinishEvaluation
                                : PartKind::Update);
  }
  dropUnread();
}
