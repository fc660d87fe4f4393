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

ParseResult kerf::spmd::parseCut(OpAsmParser &parser, ArrayAttr &cut) {
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
  cut = parser.getBuilder().getArrayAttr(dims);
  return success();
}

void kerf::spmd::printCut(OpAsmPrinter &printer, Operation *op, ArrayAttr cut) {
  printer << '[';
  llvm::interleaveComma(cut.getAsRange<ArrayAttr>(), printer,
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

spmd::ParamOp ProgramOp::getParam(llvm::StringRef name) {
  for (spmd::ParamOp param : getBody().getOps<spmd::ParamOp>())
    if (param.getName() == name)
      return param;
  return {};
}

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

static bool isStatic(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape();
}

/// Checks a declared cut of a global tensor.
static LogicalResult verifyCut(Operation *op, Type globalType, ArrayAttr cut,
                               Type localType, bool allowMicro) {
  ProgramOp program = programOf(op);
  if (!isStatic(globalType) || !isStatic(localType)) // input_c1
    return op->emitOpError("expected tensors of static shape");
  auto global = cast<RankedTensorType>(globalType);
  if (static_cast<int64_t>(cut.size()) != global.getRank())
    return op->emitOpError() << "expected one list of axes per dimension of "
                             << global << ", found " << cut.size();
  llvm::SmallVector<Attribute> all;
  llvm::SmallVector<int64_t> shape;
  for (auto [axes, size] :
       llvm::zip(cut.getAsRange<ArrayAttr>(), global.getShape())) {
    llvm::append_range(all, axes);
    int64_t parts = program.getAxesSize(axes);
    if (parts != 0 && size % parts != 0)
      return op->emitOpError() << "cuts a dimension of " << size << " into "
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

bool InputOp::isCutByMicro() {
  return llvm::any_of(getCut().getAsRange<ArrayAttr>(), [](ArrayAttr axes) {
    return llvm::any_of(axes.getAsRange<StringAttr>(), [](StringAttr axis) {
      return axis.getValue() == kMicroAxis;
    });
  });
}

RankedTensorType InputOp::getStepType() {
  RankedTensorType type = getLocalType();
  if (!isCutByMicro())
    return type;
  llvm::SmallVector<int64_t> shape(type.getShape());
  shape[0] *= programOf(*this).getMicroBatches();
  return withShape(type, shape);
}

LogicalResult InputOp::verify() {
  if (failed(verifyCut(*this, getGlobal(), getCut(), getType(), true)))
    return failure();
  for (auto [d, axes] : llvm::enumerate(getCut().getAsRange<ArrayAttr>()))
    for (auto [i, axis] : llvm::enumerate(axes.getAsRange<StringAttr>()))
      if (axis.getValue() == kMicroAxis &&
          (d != 0 || i + 1 != axes.size())) // input_c2
        return emitOpError("expected 'micro' as the last axis of dimension 0");
  return success();
}

LogicalResult spmd::ParamOp::verify() {
  if (failed(verifyCut(*this, getGlobal(), getCut(), getType(), // param_c1
                       /*allowMicro=*/false)))
    return failure();
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
