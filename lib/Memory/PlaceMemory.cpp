//===- PlaceMemory.cpp - buffers that share bytes -------------------------===//
//
// Problem: each buffer of a program has bytes of its own; an arena as large as
// all of them fits no device.
// Idea: a program says all there is to know: which command uses which bytes,
// and in which order functions are called. So which buffers are alive together
// can be read from it, and bytes of the others given twice. Steps: find the
// buffer of each operand; find lives (Lives.cpp); place (Place.cpp); move all
// addresses. Buffers that nothing uses go away.
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

#include "kerf/Memory/Passes.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "memory"

namespace kerf {
#define GEN_PASS_DEF_PLACEMEMORYPASS
#include "kerf/Memory/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
/// The buffers of a program, one behind the other.
struct ApartBuffers {
  std::vector<exec::BufferOp> ops;
  std::vector<Buffer> buffers;

  /// The buffer that has an address.
  unsigned at(int64_t address) const;
};
} // namespace

unsigned ApartBuffers::at(int64_t address) const {
  auto behind = llvm::upper_bound(ops, address, [](int64_t a, auto buffer) {
    return a < static_cast<int64_t>(exec::BufferOp(buffer).getOffset());
  });
  return std::max<int64_t>(behind - ops.begin(), 1) - 1;
}

static Buffer readBuffer(exec::BufferOp op) {
  int64_t copies = op.getCopies().value_or(1);
  return {op.getName().str(),
          static_cast<kerf_buffer_class>(op.getBufferClass()),
          *op.getScope(),
          static_cast<int64_t>(op.getBytes()) / copies,
          copies,
          op.getLoc()};
}

/// The buffers of a program; fails where some are placed already or overlap.
static FailureOr<ApartBuffers> readBuffers(exec::ProgramOp program) {
  ApartBuffers result;
  int64_t end = 0;
  for (auto op : program.getBody().getOps<exec::BufferOp>()) {
    if (!op.getScope())
      return op.emitOpError("has its place already, others have a scope");
    int64_t offset = op.getOffset();
    if (offset < end)
      return op.emitOpError("shares bytes with the one before it");
    end = offset + static_cast<int64_t>(op.getBytes());
    result.ops.push_back(op);
    result.buffers.push_back(readBuffer(op));
  }
  return result;
}

/// The first address of an operand in a loop that begins with iteration
/// `start`.
static int64_t firstAddress(exec::ArenaAttr operand, int64_t start) {
  return operand.getOffset() + start * operand.getIter();
}

static int64_t startOf(exec::CommandOp command) {
  auto loop = command->getParentOfType<exec::LoopOp>();
  return loop ? loop.getStart() : 0;
}

/// The addresses that an op names.
static llvm::SmallVector<int64_t> addressesOf(Operation *op) {
  llvm::SmallVector<int64_t> addresses;
  if (auto param = dyn_cast<exec::ParamOp>(op)) {
    addresses.push_back(param.getOffset());
    if (param.getMasterOffset())
      addresses.push_back(*param.getMasterOffset());
    if (param.getStates())
      for (auto state : param.getStates()->getAsRange<DictionaryAttr>())
        addresses.push_back(state.getAs<IntegerAttr>("at").getInt());
  }
  if (auto input = dyn_cast<exec::InputOp>(op))
    addresses.push_back(input.getOffset());
  if (auto output = dyn_cast<exec::OutputOp>(op))
    addresses.push_back(output.getOffset());
  if (auto command = dyn_cast<exec::CommandOp>(op))
    for (Attribute operand : command.getOperandRefs())
      if (auto arena = dyn_cast<exec::ArenaAttr>(operand))
        addresses.push_back(firstAddress(arena, startOf(command)));
  return addresses;
}

/// Fails where something has no buffer.
static LogicalResult checkAddresses(exec::ProgramOp program,
                                    const ApartBuffers &buffers) {
  WalkResult result = program.walk([&](Operation *op) {
    for (int64_t address : addressesOf(op)) {
      exec::BufferOp buffer = buffers.ops[buffers.at(address)];
      int64_t at = address - static_cast<int64_t>(buffer.getOffset());
      if (at < 0 || at > static_cast<int64_t>(buffer.getBytes()))
        return op->emitOpError()
                   << "names address " << address << ", which is in no buffer",
               WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static FuncUses readUses(exec::FuncOp func, const ApartBuffers &buffers) {
  FuncUses result;
  result.name = func.getSymName().str();
  llvm::DenseMap<Operation *, int64_t> loops;
  func.walk([&](exec::CommandOp command) {
    FuncUses::Command &uses = result.commands.emplace_back();
    if (auto loop = command->getParentOfType<exec::LoopOp>())
      uses.loop = loops.insert({loop, std::ssize(loops)}).first->second;
    for (Attribute operand : command.getOperandRefs())
      if (auto arena = dyn_cast<exec::ArenaAttr>(operand))
        uses.uses.push_back({buffers.at(firstAddress(arena, startOf(command))),
                             arena.getAccess(), arena.getIter() != 0});
  });
  return result;
}

//===----------------------------------------------------------------------===//
// Moving
//===----------------------------------------------------------------------===//

namespace {
/// Gives everything in a program its new address.
struct Mover {
  const ApartBuffers &buffers;
  const ArenaLayout &layout;
  Builder builder;

  /// From old addresses in the buffer of `address` to new ones.
  int64_t distance(int64_t address) const {
    unsigned buffer = buffers.at(address);
    exec::BufferOp op = buffers.ops[buffer];
    return layout.offsets[buffer] - static_cast<int64_t>(op.getOffset());
  }
  int64_t moved(int64_t address) const { return address + distance(address); }

  void move(exec::ParamOp param);
  void move(exec::CommandOp command);
  void move(unsigned buffer);
};
} // namespace

void Mover::move(exec::ParamOp param) {
  param.setOffset(moved(param.getOffset()));
  if (param.getMasterOffset())
    param.setMasterOffset(moved(*param.getMasterOffset()));
  if (!param.getStates())
    return;
  llvm::SmallVector<Attribute> states;
  for (auto state : param.getStates()->getAsRange<DictionaryAttr>()) {
    NamedAttrList fields(state);
    fields.set("at", builder.getI64IntegerAttr(
                         moved(state.getAs<IntegerAttr>("at").getInt())));
    states.push_back(fields.getDictionary(builder.getContext()));
  }
  param.setStatesAttr(builder.getArrayAttr(states));
}

void Mover::move(exec::CommandOp command) {
  llvm::SmallVector<Attribute> operands;
  for (Attribute operand : command.getOperandRefs()) {
    auto arena = dyn_cast<exec::ArenaAttr>(operand);
    operands.push_back(
        arena ? exec::ArenaAttr::get(
                    builder.getContext(), arena.getAccess(), arena.getType(),
                    arena.getOffset() +
                        distance(firstAddress(arena, startOf(command))),
                    arena.getIter(), arena.getSlot(), arena.getCopies(),
                    arena.getBytes())
              : operand);
  }
  command.setOperandRefsAttr(builder.getArrayAttr(operands));
}

/// The last step: addresses are found by where buffers were.
void Mover::move(unsigned buffer) {
  exec::BufferOp op = buffers.ops[buffer];
  if (layout.offsets[buffer] < 0)
    return op.erase();
  llvm::SmallVector<int64_t> live;
  for (auto [first, last] : layout.lives[buffer])
    live.append({first, last});
  op.setOffset(layout.offsets[buffer]);
  op.setLive(live);
  op.removeScopeAttr();
  op.removeCopiesAttr();
}

static LogicalResult placeProgram(exec::ProgramOp program) {
  auto ops = program.getBody().getOps<exec::BufferOp>();
  if (llvm::none_of(ops, [](exec::BufferOp op) { return !!op.getScope(); }))
    return success(); // placed already
  FailureOr<ApartBuffers> buffers = readBuffers(program);
  if (failed(buffers) || failed(checkAddresses(program, *buffers)))
    return failure();
  std::vector<FuncUses> funcs;
  for (auto func : program.getBody().getOps<exec::FuncOp>())
    funcs.push_back(readUses(func, *buffers));
  FailureOr<ArenaLayout> layout = layOut(program, buffers->buffers, funcs);
  if (failed(layout))
    return failure();
  LDBG() << program.getSymName() << ": arena of " << layout->sizeBytes
         << " bytes, at least " << layout->lowerBoundBytes << " live at once";
  Mover mover{*buffers, *layout, Builder(program.getContext())};
  for (Operation &op : program.getBody().front()) {
    if (auto param = dyn_cast<exec::ParamOp>(op))
      mover.move(param);
    if (auto input = dyn_cast<exec::InputOp>(op))
      input.setOffset(mover.moved(input.getOffset()));
    if (auto output = dyn_cast<exec::OutputOp>(op))
      output.setOffset(mover.moved(output.getOffset()));
  }
  program.walk([&](exec::CommandOp command) { mover.move(command); });
  for (unsigned i = 0; i < buffers->ops.size(); ++i)
    mover.move(i);
  program.setArena(layout->sizeBytes);
  program.setLowerBound(layout->lowerBoundBytes);
  program.setClasses(layout->classBytes);
  return success();
}

namespace {
struct PlaceMemory : kerf::impl::PlaceMemoryPassBase<PlaceMemory> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<exec::ProgramOp>())
      if (failed(placeProgram(program)))
        return signalPassFailure();
  }
};
} // namespace
