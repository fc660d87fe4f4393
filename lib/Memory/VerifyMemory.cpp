#include "kerf/Artifact/Format.h"
#include "kerf/Memory/Passes.h"

namespace kerf {
#define GEN_PASS_DEF_VERIFYMEMORYPASS
#include "kerf/Memory/Passes.h.inc"
} // namespace kerf

using namespace mlir;
using namespace kerf;

/// Operands of every launch against its kernel.
static LogicalResult checkLaunches(exec::ProgramOp program) {
  SymbolTable symbols(program);
  WalkResult result = program.walk([&](exec::CommandOp command) {
    if (!command.getKernel())
      return WalkResult::advance();
    auto kernel = symbols.lookup<exec::KernelOp>(*command.getKernel());
    if (!kernel) {
      command.emitOpError()
          << "launches unknown kernel '" << *command.getKernel() << "'";
      return WalkResult::interrupt();
    }
    size_t expected =
        kernel.getArgumentTypes().size() + kernel.getResultTypes().size();
    if (command.getOperandRefs().size() != expected) {
      command.emitOpError()
          << "has " << command.getOperandRefs().size() << " operands, kernel '"
          << *command.getKernel() << "' takes " << expected;
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

static bool shareBytes(exec::BufferOp a, exec::BufferOp b) {
  return a.getOffset() < b.getOffset() + b.getBytes() &&
         b.getOffset() < a.getOffset() + a.getBytes();
}

/// A time at which both hold something, or nothing.
static std::optional<int64_t> commonTime(llvm::ArrayRef<int64_t> a,
                                         llvm::ArrayRef<int64_t> b) {
  if (a.empty() || b.empty()) // Always.
    return a.empty() ? (b.empty() ? 0 : b[0]) : a[0];
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    int64_t first = std::max(a[i], b[j]);
    if (first <= std::min(a[i + 1], b[j + 1]))
      return first;
    (a[i + 1] < b[j + 1] ? i : j) += 2;
  }
  return std::nullopt;
}

/// All placed buffers lie in the arena; no two that share bytes live at one
/// time. An empty one shares nothing.
static LogicalResult checkBuffers(exec::ProgramOp program) {
  llvm::SmallVector<exec::BufferOp> buffers(
      program.getBody().getOps<exec::BufferOp>());
  int64_t arena = program.getArena();
  for (exec::BufferOp buffer : buffers) {
    int64_t offset = buffer.getOffset(), bytes = buffer.getBytes();
    if (offset < 0 || bytes < 0 || offset > arena || bytes > arena - offset)
      return buffer.emitOpError()
             << "\"" << buffer.getName() << "\" lies outside the arena of "
             << arena << " bytes";
  }
  for (auto [i, a] : llvm::enumerate(buffers))
    for (exec::BufferOp b : llvm::ArrayRef(buffers).drop_front(i + 1)) {
      if (!shareBytes(a, b))
        continue;
      std::optional<int64_t> time = commonTime(a.getLive(), b.getLive());
      if (!time)
        continue;
      InFlightDiagnostic error = b.emitOpError()
                                 << "\"" << b.getName() << "\" overlaps \""
                                 << a.getName() << "\" at command " << *time;
      error.attachNote(a.getLoc()) << "\"" << a.getName() << "\" is here";
      return error;
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Between stages
//===----------------------------------------------------------------------===//

/// Each send and receive names a channel of its program that goes the right way
/// and has room for the message.
static LogicalResult checkMessages(exec::ProgramOp program, int64_t stage) {
  llvm::SmallVector<exec::ChannelOp> channels(
      program.getBody().getOps<exec::ChannelOp>());
  WalkResult result = program.walk([&](exec::CommandOp command) {
    bool sends = command.getOpcode() == exec::Opcode::Send;
    if (!sends && command.getOpcode() != exec::Opcode::Receive)
      return WalkResult::advance();
    llvm::ArrayRef<int64_t> values = command.getValues();
    if (values.size() == 2 && values[0] >= 0 &&
        values[0] < int64_t(channels.size())) {
      exec::ChannelOp channel = channels[values[0]];
      int64_t own = sends ? channel.getFrom() : channel.getTo();
      if (own == stage && values[1] <= int64_t(channel.getBytes()))
        return WalkResult::advance();
    }
    command.emitOpError() << "of stage " << stage
                          << " fits no channel of its program: [" << values
                          << "]";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// The channel of the program that is `channel`, or null.
static exec::ChannelOp findChannel(exec::ProgramOp program,
                                   exec::ChannelOp channel) {
  for (auto other : program.getBody().getOps<exec::ChannelOp>())
    if (other.getName() == channel.getName() &&
        other.getFrom() == channel.getFrom() &&
        other.getTo() == channel.getTo())
      return other;
  return {};
}

/// Both ends of a channel say the same of it.
static LogicalResult checkEnds(llvm::ArrayRef<exec::ProgramOp> programs,
                               int64_t stage) {
  exec::ProgramOp program = programs[stage];
  for (auto channel : program.getBody().getOps<exec::ChannelOp>()) {
    int64_t from = channel.getFrom(), to = channel.getTo();
    int64_t peer = from == stage ? to : from;
    if ((from != stage && to != stage) || peer < 0 ||
        peer >= int64_t(programs.size()))
      return channel.emitOpError()
             << "\"" << channel.getName() << "\" from " << from << " to " << to
             << " does not join stage " << stage << " with one of the "
             << programs.size();
    exec::ChannelOp other = findChannel(programs[peer], channel);
    if (other && other.getBytes() == channel.getBytes() &&
        other.getHolds() == channel.getHolds())
      continue;
    InFlightDiagnostic error = channel.emitOpError()
                               << "\"" << channel.getName()
                               << "\" has no equal at the other end, stage "
                               << peer;
    if (other)
      error.attachNote(other.getLoc()) << "its other end is here";
    return error;
  }
  return success();
}

/// The stage of a program; -1 if nothing says it.
static int64_t stageOf(exec::ProgramOp program) {
  auto stage = program->getAttrOfType<IntegerAttr>("stage");
  return stage ? stage.getInt() : -1;
}

/// The programs are those of all stages of a model, in order.
static LogicalResult
checkStages(llvm::MutableArrayRef<exec::ProgramOp> programs) {
  for (auto [i, program] : llvm::enumerate(programs)) {
    if (stageOf(program) >= 0 && stageOf(program) != int64_t(i))
      return program.emitOpError() << "of stage " << stageOf(program)
                                   << " is number " << i << " of the programs";
    if (failed(checkMessages(program, i)) || failed(checkEnds(programs, i)))
      return failure();
  }
  return success();
}

namespace {
struct VerifyMemory : kerf::impl::VerifyMemoryPassBase<VerifyMemory> {
  void runOnOperation() override {
    // Stage 0 begins another model.
    llvm::SmallVector<llvm::SmallVector<exec::ProgramOp>> models;
    for (Operation &op : *getOperation().getBody()) {
      auto program = dyn_cast<exec::ProgramOp>(op);
      if (!program) {
        op.emitOpError("is left after memory, expected 'exec.program'");
        return signalPassFailure();
      }
      if (models.empty() || stageOf(program) == 0)
        models.emplace_back();
      models.back().push_back(program);
      if (failed(checkLaunches(program)) || failed(checkBuffers(program)))
        return signalPassFailure();
    }
    for (llvm::MutableArrayRef<exec::ProgramOp> programs : models)
      if (failed(checkStages(programs)))
        return signalPassFailure();
  }
};
} // namespace
