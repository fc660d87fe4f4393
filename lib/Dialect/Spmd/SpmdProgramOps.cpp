#include "Axes.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::spmd;

#define GET_OP_CLASSES
#include "kerf/Dialect/Spmd/SpmdProgramOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

ParseResult kerf::spmd::parseAxes(OpAsmParser &parser, ArrayAttr &axes) {
  llvm::SmallVector<Attribute> names;
  auto parseName = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseName))
    return failure();
  axes = parser.getBuilder().getArrayAttr(names);
  return success();
}

void kerf::spmd::printAxes(OpAsmPrinter &printer, Operation *, ArrayAttr axes) {
  printer << '[';
  llvm::interleaveComma(
      axes.getAsRange<StringAttr>(), printer,
      [&](StringAttr axis) { printer.printKeywordOrString(axis.getValue()); });
  printer << ']';
}

ParseResult kerf::spmd::parseSharded(OpAsmParser &parser, ArrayAttr &sharded) {
  llvm::SmallVector<Attribute> dims;
  auto parseDim = [&]() -> ParseResult {
    ArrayAttr axes;
    if (parseAxes(parser, axes))
      return failure();
    dims.push_back(axes);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim))
    return failure();
  sharded = parser.getBuilder().getArrayAttr(dims);
  return success();
}

void kerf::spmd::printSharded(OpAsmPrinter &printer, Operation *op,
                              ArrayAttr sharded) {
  printer << '[';
  llvm::interleaveComma(sharded.getAsRange<ArrayAttr>(), printer,
                        [&](ArrayAttr axes) { printAxes(printer, op, axes); });
  printer << ']';
}

ProgramOp kerf::spmd::programOf(Operation *op) {
  return op->getParentOfType<ProgramOp>();
}

LogicalResult kerf::spmd::verifyAxes(Operation *op, ProgramOp program,
                                     ArrayAttr axes, bool allowMicro) {
  llvm::SmallVector<StringAttr> seen;
  for (auto axis : axes.getAsRange<StringAttr>()) {
    bool known = axis.getValue() == kMicroAxis
                     ? allowMicro
                     : program.getMesh().find(axis) >= 0;
    if (!known)
      return op->emitOpError()
             << "expected axes of the mesh " << program.getMesh() << ", found '"
             << axis.getValue() << "'";
    if (llvm::is_contained(seen, axis))
      return op->emitOpError() << "has axis '" << axis.getValue() << "' twice";
    seen.push_back(axis);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// program
//===----------------------------------------------------------------------===//

LogicalResult ProgramOp::verify() {
  if (getSlots() < 1 || getSlots() > getMicroBatches()) // program_c1
    return emitOpError() << "expected 1 <= slots <= micro_batches, found "
                         << getSlots() << " and " << getMicroBatches();
  if (getStage() < 0 || getStage() >= getStageCount()) // program_c3
    return emitOpError() << "expected a stage below " << getStageCount()
                         << ", found " << getStage();
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<InputOp, ParamOp, BufferOp, OutputOp, FuncOp, ScheduleOp>(
            op)) // program_c2
      return op.emitOpError("stands directly in a 'spmd.program', expected "
                            "declarations, functions and schedules");
  return success();
}

int64_t ProgramOp::getAxisSize(llvm::StringRef axis) {
  if (axis == kMicroAxis)
    return getMicroBatches();
  int64_t index = getMesh().find(axis);
  return index < 0 ? 0 : getMesh().getSizes()[index];
}

int64_t ProgramOp::getAxesSize(ArrayAttr axes) {
  int64_t size = 1;
  for (auto axis : axes.getAsRange<StringAttr>())
    size *= getAxisSize(axis);
  return size;
}

ScheduleOp ProgramOp::getSchedule(llvm::StringRef name) {
  for (ScheduleOp schedule : getBody().getOps<ScheduleOp>())
    if (schedule.getName() == name)
      return schedule;
  return {};
}

spmd::ParamOp ProgramOp::getParam(llvm::StringRef name, int64_t iteration) {
  for (spmd::ParamOp param : getBody().getOps<spmd::ParamOp>())
    if (param.getName() == name &&
        (!param.getStart() ||
         (*param.getStart() <= iteration && iteration < *param.getEnd())))
      return param;
  return {};
}

int64_t ProgramOp::getStageCount() {
  return std::max<int64_t>(1, getAxisSize(kPipelineAxis));
}

llvm::SmallVector<int64_t> ProgramOp::getRanks() {
  MeshAttr mesh = getMesh();
  int64_t axis = mesh.find(kPipelineAxis);
  llvm::SmallVector<int64_t> ranks;
  for (int64_t rank = 0; rank < mesh.getRankCount(); ++rank)
    if (axis < 0 || mesh.getCoordinates(rank)[axis] == int64_t(getStage()))
      ranks.push_back(rank);
  return ranks;
}

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

static bool isStatic(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape();
}

/// The part of a global tensor, by the sizes of the axes over which it is
/// sharded.
static RankedTensorType partOf(ProgramOp program, Type globalType,
                               ArrayAttr sharded) {
  auto global = cast<RankedTensorType>(globalType);
  llvm::SmallVector<int64_t> shape(global.getShape());
  for (auto [size, axes] : llvm::zip(shape, sharded.getAsRange<ArrayAttr>()))
    if (int64_t parts = program.getAxesSize(axes))
      size /= parts;
  return withShape(global, shape);
}

/// Checks a declared sharding of a global tensor.
static LogicalResult verifySharded(Operation *op, Type globalType,
                                   ArrayAttr sharded, Type localType,
                                   bool allowMicro) {
  ProgramOp program = programOf(op);
  if (!isStatic(globalType) || !isStatic(localType)) // input_c1
    return op->emitOpError("expected tensors of static shape");
  auto global = cast<RankedTensorType>(globalType);
  if (static_cast<int64_t>(sharded.size()) != global.getRank())
    return op->emitOpError() << "expected one list of axes per dimension of "
                             << global << ", found " << sharded.size();
  llvm::SmallVector<Attribute> all;
  llvm::SmallVector<int64_t> shape;
  for (auto [axes, size] :
       llvm::zip(sharded.getAsRange<ArrayAttr>(), global.getShape())) {
    llvm::append_range(all, axes);
    int64_t parts = program.getAxesSize(axes);
    if (parts != 0 && size % parts != 0)
      return op->emitOpError() << "splits a dimension of " << size << " into "
                               << parts << " parts, which does not divide it";
    shape.push_back(parts == 0 ? 0 : size / parts);
  }
  auto axes = ArrayAttr::get(op->getContext(), all);
  if (failed(verifyAxes(op, program, axes, allowMicro)))
    return failure();
  auto expected = withShape(global, shape);
  if (expected != localType)
    return op->emitOpError()
           << "expected local type " << expected << ", found " << localType;
  return success();
}

bool InputOp::isSplitByMicro() {
  return llvm::any_of(getSharded().getAsRange<ArrayAttr>(), [](ArrayAttr axes) {
    return llvm::any_of(axes.getAsRange<StringAttr>(), [](StringAttr axis) {
      return axis.getValue() == kMicroAxis;
    });
  });
}

RankedTensorType InputOp::getStepType() {
  RankedTensorType type = getLocalType();
  if (!isSplitByMicro())
    return type;
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape[0] *= programOf(*this).getMicroBatches();
  return withShape(type, shape);
}

LogicalResult InputOp::verify() {
  if (failed(verifySharded(*this, getGlobal(), getSharded(), getType(), true)))
    return failure();
  for (auto [d, axes] : llvm::enumerate(getSharded().getAsRange<ArrayAttr>()))
    for (auto [i, axis] : llvm::enumerate(axes.getAsRange<StringAttr>()))
      if (axis.getValue() == kMicroAxis &&
          (d != 0 || i + 1 != axes.size())) // input_c2
        return emitOpError("expected 'micro' as the last axis of dimension 0");
  auto global = cast<RankedTensorType>(getGlobal());
  ZigzagAttr zigzag = getZigzagAttr();
  if (zigzag &&
      (zigzag.getDims() != llvm::ArrayRef<int64_t>{1} || global.getRank() < 2 ||
       global.getDimSize(1) != zigzag.getRows())) // input_c3
    return emitOpError() << "expected a zigzag along [1] of " << global
                         << ", found " << zigzag;
  return success();
}

RankedTensorType spmd::ParamOp::getShardType() {
  return partOf(programOf(*this), getGlobal(), getSharded());
}

llvm::SmallVector<StateTensor> spmd::ParamOp::getStates() {
  auto rule = dyn_cast_or_null<OptimizerRuleInterface>(getRuleAttr());
  auto global = dyn_cast<RankedTensorType>(getGlobal());
  return rule && global ? rule.getStates(global)
                        : llvm::SmallVector<StateTensor>();
}

int64_t spmd::ParamOp::getPieceSize() {
  if (!getStateAxes())
    return 0;
  int64_t ranks = programOf(*this).getAxesSize(*getStateAxes());
  int64_t elements = getShardType().getNumElements();
  return ranks > 0 ? pieceSize(elements, ranks, granuleOf(getStates())) : 0;
}

RankedTensorType spmd::ParamOp::getStateType() {
  RankedTensorType shard = getShardType();
  return getStateAxes() ? withShape(shard, {getPieceSize()}) : shard;
}

/// Axes over which state is split into pieces: of the mesh, none of which
/// shards a dimension.
static LogicalResult verifyPieces(spmd::ParamOp param) {
  if (param.getWeightAxes() &&
      param.getWeightAxes() != param.getStateAxes()) // param_c4
    return param.emitOpError("expected 'weights' over the axes of 'state'");
  if (!param.getStateAxes())
    return success();
  ArrayAttr axes = *param.getStateAxes();
  if (failed(verifyAxes(param, programOf(param), axes, /*allowMicro=*/false)))
    return failure();
  for (auto list : param.getSharded().getAsRange<ArrayAttr>())
    for (Attribute axis : list)
      if (llvm::is_contained(axes, axis))
        return param.emitOpError() << "is stored in pieces over " << axis
                                   << ", which splits a dimension already";
  return success();
}

static LogicalResult verifyBlocks(spmd::ParamOp param) {
  if (!param.getBlocks())
    return success();
  llvm::ArrayRef<int64_t> shape = param.getShardType().getShape();
  bool fits = param.getBlocks()->size() == shape.size();
  for (size_t d = 0; fits && d < shape.size(); ++d) {
    int64_t blocks = (*param.getBlocks())[d];
    fits = blocks >= 1 && shape[d] % blocks == 0;
  }
  if (!fits) // param_c5
    return param.emitOpError("expected 'blocks' with one number per dimension, "
                             "which divides the local size");
  return success();
}

/// The rule's state has one element per block of the last dimension: each block
/// must be on one rank.
static LogicalResult verifyGranule(spmd::ParamOp param) {
  int64_t granule = granuleOf(param.getStates());
  if (granule == 1)
    return success();
  int64_t size = param.getShardType().getShape().back();
  if (param.getBlocks())
    size /= param.getBlocks()->back();
  if (size % granule == 0)
    return success();
  return param.emitOpError()
         << "\"" << param.getName() << "\" is split into " << size
         << " neighbours of its last dimension, which are no whole blocks of "
         << granule << " of its optimizer state; choose a smaller block";
}

/// The rule can update the part that a rank has.
static LogicalResult verifyRule(spmd::ParamOp param) {
  auto rule = dyn_cast_or_null<OptimizerRuleInterface>(param.getRuleAttr());
  auto global = cast<RankedTensorType>(param.getGlobal());
  RankedTensorType shard = param.getShardType();
  llvm::StringRef fit = rule ? rule.misfit(global, shard.getShape()) : "";
  if (fit.empty())
    return success();
  return param.emitOpError()
         << "\"" << param.getName() << "\" expected " << fit << ", which "
         << rule << " updates, found " << shard << " of " << global
         << "; choose another layout or another optimizer";
}

LogicalResult spmd::ParamOp::verify() {
  bool whole = isStatic(getGlobal()) && isStatic(getType());
  auto rests = getWeightAxes() && whole ? getShardType() : getType();
  if (failed(verifySharded(*this, getGlobal(), getSharded(), rests, // param_c1
                           /*allowMicro=*/false)) ||
      failed(verifyPieces(*this)) || failed(verifyBlocks(*this)) ||
      (whole && (failed(verifyGranule(*this)) || // param_c6
                 failed(verifyRule(*this)))))    // param_c7
    return failure();
  if (getWeightAxes() && getType() != getStateType())
    return emitOpError() << "expected the type of a piece, " << getStateType()
                         << ", found " << getType();
  if (getStart().has_value() != getEnd().has_value() ||
      getStart().has_value() != hasIteration(getName()) ||
      (getStart() && (*getStart() < 0 || *getEnd() <= *getStart()))) // param_c2
    return emitOpError() << "\"" << getName()
                         << "\" expected [start to end] with an {i} in its "
                            "name, 0 <= start < end, or neither";
  if (getFrozen() && getRule()) // param_c3
    return emitOpError() << "\"" << getName()
                         << "\" is frozen and has an update rule";
  return success();
}

LogicalResult BufferOp::verify() {
  if (!isStatic(getType())) // buffer_c1
    return emitOpError() << "expected a tensor of static shape, found "
                         << getType();
  return success();
}

LogicalResult OutputOp::verify() {
  if (!isStatic(getType())) // output_c1
    return emitOpError() << "expected a tensor of static shape, found "
                         << getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Functions and calls
//===----------------------------------------------------------------------===//

LogicalResult FuncOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getNumArguments() != 0 || block.empty() ||
      !isa<spmd::ReturnOp>(block.back())) // func_c1
    return emitOpError("expected a body without arguments that ends in "
                       "'spmd.return'");
  return success();
}

/// What a continuing function adds to is stored by the first one: else the sum
/// starts with whatever the memory holds.
static LogicalResult verifySums(FuncOp func, FuncOp first) {
  llvm::DenseSet<StringAttr> stored;
  first.walk([&](Operation *op) {
    if (isa<spmd::WriteOp, spmd::AccumulateOp>(op))
      stored.insert(op->getAttrOfType<FlatSymbolRefAttr>("target").getAttr());
  });
  auto walk = func.walk([&](spmd::AccumulateOp op) {
    if (stored.contains(op.getTargetAttr().getAttr()))
      return WalkResult::advance();
    op.emitOpError() << "into @" << op.getTarget() << ", which @"
                     << first.getSymName() << ", continued by @"
                     << func.getSymName() << ", does not store to";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult FuncOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!getContinues())
    return success();
  auto first =
      symbols.lookupNearestSymbolFrom<FuncOp>(*this, getContinuesAttr());
  if (!first || first.getContinues()) // func_c2
    return emitOpError() << "continues @" << *getContinues()
                         << ", expected a function of the program that "
                            "continues none";
  return verifySums(*this, first); // func_c3
}

LogicalResult ScheduleOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<CallOp>(op)) // schedule_c1
      return op.emitOpError(
          "stands in a 'spmd.schedule', expected 'spmd.call'");
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  ProgramOp program = programOf(*this);
  if (!symbols.lookupNearestSymbolFrom<FuncOp>(*this,
                                               getCalleeAttr())) // call_c1
    return emitOpError() << "of @" << getCallee()
                         << ", which is no function of the program";
  if (getMicro() &&
      (*getMicro() < 0 || *getMicro() >= program.getMicroBatches())) // call_c2
    return emitOpError() << "expected a micro-batch below "
                         << program.getMicroBatches() << ", found "
                         << *getMicro();
  return success();
}
