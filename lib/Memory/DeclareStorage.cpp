//===- DeclareStorage.cpp - buffers of what a program declares ------------===//

#include "Storage.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace kerf;

int64_t Buffer::slotStride() const {
  return scope == BufferScope::Slot
             ? llvm::alignTo(std::max<int64_t>(1, bytes), KERF_ARENA_ALIGN)
             : 0;
}

int64_t kerf::elementBytes(Type type) {
  Type element = getElementTypeOrSelf(type);
  return std::max<int64_t>(1, element.getIntOrFloatBitWidth() / 8);
}

int64_t kerf::denseBytes(Type type) {
  return cast<RankedTensorType>(type).getNumElements() * elementBytes(type);
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// Bytes from one iteration of the weight to the next.
static int64_t strideOf(spmd::ParamOp op) {
  RankedTensorType rests = op.getLocalType();
  if (!op.getStateAxes() || op.getWeightAxes())
    return denseBytes(rests);
  int64_t ranks =
      op->getParentOfType<spmd::ProgramOp>().getAxesSize(*op.getStateAxes());
  return ranks * op.getPieceSize() * elementBytes(rests);
}

static void declareParam(StorageMap &map, spmd::ParamOp op) {
  StorageMap::Param param;
  param.op = op;
  int64_t count = op.getEnd().value_or(1) - op.getStart().value_or(0);
  std::string name = op.getName().str();
  auto add = [&](const std::string &of, kerf_buffer_class bufferClass,
                 int64_t stride) {
    return map.add({of, bufferClass, BufferScope::Always, count * stride, 1,
                    param.op.getLoc()});
  };
  param.stride = strideOf(op);
  param.buffer = add(name, KERF_CLASS_PARAM, param.stride);
  auto updated = cast<RankedTensorType>(
      withElement(op.getStateType(),
                  op.getMaster().value_or(op.getLocalType().getElementType())));
  if (op.getMaster()) {
    param.masterStride = denseBytes(updated);
    param.master = add(name, KERF_CLASS_MASTER, param.masterStride);
  }
  for (const StateTensor &state : op.getStates()) {
    RankedTensorType type = stateType(state, updated);
    int64_t bytes = denseBytes(type);
    unsigned buffer =
        add(name + "." + state.name.str(), KERF_CLASS_OPTIMIZER, bytes);
    param.states.push_back({state, buffer, type, bytes});
  }
  map.params.insert({op, std::move(param)});
}

/// The declaration that covers iterations [start, end) of a name, or null with
/// an error at `op`.
static spmd::ParamOp findParam(Operation *op, llvm::StringRef name,
                               int64_t start, int64_t end) {
  auto program = op->getParentOfType<spmd::ProgramOp>();
  spmd::ParamOp param = program.getParam(name, start);
  if (param && (!param.getEnd() || end <= int64_t(*param.getEnd())))
    return param;
  InFlightDiagnostic error = op->emitOpError()
                             << "of \"" << name << "\" [" << start << " to "
                             << end << "], which no 'spmd.param' covers";
  if (param)
    error.attachNote(param.getLoc()) << "this one ends at " << *param.getEnd();
  return {};
}

static LogicalResult checkRead(kerf::ParamOp read) {
  int64_t start = 0, end = 1;
  if (read.isPerIteration()) {
    auto repeat = read->getParentOfType<RepeatOp>();
    start = repeat.getStart();
    end = repeat.getEnd();
  }
  spmd::ParamOp param = findParam(read, read.getName(), start, end);
  if (!param)
    return failure();
  if (read.getResult().getType() != param.getLocalType())
    return read.emitOpError()
           << "of \"" << read.getName() << "\" expected "
           << param.getLocalType() << ", found " << read.getResult().getType();
  return success();
}

static LogicalResult checkUpdate(UpdateOp update) {
  int64_t start = update.getStart().value_or(0);
  int64_t end = update.getEnd().value_or(1);
  spmd::ParamOp param = findParam(update, update.getName(), start, end);
  if (!param)
    return failure();
  llvm::SmallVector<int64_t> shape(param.getStateType().getShape());
  if (update.getStart())
    shape.insert(shape.begin(), end - start);
  auto found = typeOf(update.getGradient());
  Type element =
      param.getMaster().value_or(param.getLocalType().getElementType());
  auto expected = RankedTensorType::get(shape, element);
  if (found != expected)
    return update.emitOpError()
           << "of \"" << update.getName() << "\" expected a gradient of type "
           << expected << ", found " << found;
  return success();
}

//===----------------------------------------------------------------------===//
// Everything
//===----------------------------------------------------------------------===//

static LogicalResult declareBuffer(spmd::ProgramOp program, StorageMap &map,
                                   spmd::BufferOp op) {
  bool isSlot = op.getKind() == spmd::BufferKind::Slot;
  Buffer buffer = {op.getSymName().str(),
                   isSlot ? KERF_CLASS_ACTIVATION : KERF_CLASS_GRADIENT,
                   isSlot ? BufferScope::Slot : BufferScope::Step,
                   denseBytes(op.getLocalType()),
                   1,
                   op.getLoc()};
  if (isSlot) {
    auto slots = op->getAttrOfType<IntegerAttr>("slots");
    buffer.copies = slots ? slots.getInt() : program.getSlots();
    if (buffer.copies < 1 || buffer.copies > int64_t(program.getMicroBatches()))
      return op.emitOpError() << "expected 1 to " << program.getMicroBatches()
                              << " slots, found " << buffer.copies;
  }
  map.symbols[op.getSymName()] = map.add(std::move(buffer));
  return success();
}

LogicalResult kerf::declareStorage(spmd::ProgramOp program, StorageMap &map) {
  auto declare = [&](llvm::StringRef name, Type type) {
    map.symbols[name] = map.add(
        {name.str(), KERF_CLASS_INPUT, BufferScope::Always, denseBytes(type)});
  };
  for (Operation &op : program.getBody().front()) {
    if (auto param = dyn_cast<spmd::ParamOp>(op))
      declareParam(map, param);
    if (auto input = dyn_cast<spmd::InputOp>(op))
      declare(input.getSymName(), input.getStepType());
    if (auto output = dyn_cast<spmd::OutputOp>(op))
      declare(output.getSymName(), output.getLocalType());
    if (auto buffer = dyn_cast<spmd::BufferOp>(op))
      if (failed(declareBuffer(program, map, buffer)))
        return failure();
  }
  WalkResult result = program.walk([&](Operation *op) {
    LogicalResult fits = success();
    if (auto read = dyn_cast<kerf::ParamOp>(op))
      fits = checkRead(read);
    if (auto update = dyn_cast<UpdateOp>(op))
      fits = checkUpdate(update);
    return failed(fits) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

Storage kerf::storageOf(const StorageMap &map, kerf::ParamOp read) {
  auto repeat = read->getParentOfType<RepeatOp>();
  bool moves = read.isPerIteration();
  const StorageMap::Param &param =
      map.getParam(read->getParentOfType<spmd::ProgramOp>(), read.getName(),
                   moves ? int64_t(repeat.getStart()) : 0);
  Storage storage{param.buffer, 0, 0,
                  denseStrides(typeOf(read.getResult()).getShape())};
  if (moves) {
    storage.iter = param.stride;
    storage.offset = param.offsetOf(0, param.stride);
  }
  return storage;
}

Storage kerf::storageOf(const StorageMap &map, spmd::ReadOp read) {
  auto type = typeOf(read.getResult());
  Storage storage{map.symbols.lookup(read.getSource()), 0, 0,
                  denseStrides(type.getShape())};
  auto input = dyn_cast<spmd::InputOp>(SymbolTable::lookupSymbolIn(
      read->getParentOfType<spmd::ProgramOp>(), read.getSourceAttr()));
  if (input && input.isSplitByMicro() && type == input.getLocalType())
    storage.micro = denseBytes(type);
  return storage;
}
