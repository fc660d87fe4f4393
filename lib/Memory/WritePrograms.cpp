//===- WritePrograms.cpp - programs of commands on buffers ----------------===//
//
// Problem: a program on tensors is to become one on memory.
// Idea: first decide in which buffer each value is and what the commands are;
// only then, in a pass of its own (PlaceMemory.cpp), which buffers share bytes.
// In between each buffer has bytes of its own, one behind the other, so the
// program is whole: it could run, in an arena that is too large.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "kerf/Dialect/Kerf/ModelFlops.h"
#include "kerf/Dialect/Spmd/Pipelines.h"
#include "kerf/Memory/Passes.h"
#include "kerf/Support/Padding.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "memory"

namespace kerf {
#define GEN_PASS_DEF_BUILDCOMMANDSPASS
#include "kerf/Memory/Passes.h.inc"

} // namespace kerf

using namespace mlir;
using namespace kerf;

namespace {
/// Where buffers begin that share nothing.
struct Apart {
  std::vector<int64_t> offsets;
  llvm::SmallVector<int64_t> classBytes;
  int64_t sizeBytes = 0;

  explicit Apart(llvm::ArrayRef<Buffer> buffers);
};

/// Writes the `exec.program` of buffers and commands.
struct ProgramWriter {
  spmd::ProgramOp source;
  exec::ProgramOp program;
  const StorageMap &map;
  const PlannedProgram &planned;
  const Apart &layout;
  OpBuilder builder;

  int64_t offsetOf(llvm::StringRef symbol) {
    return layout.offsets[map.symbols.lookup(symbol)];
  }
  void writeParam(const StorageMap::Param &param);
  void writeTables();
  void writeBuffers();
  void writeFunc(const PlannedFunc &func);
  void writeCommand(const PlannedCommand &command);
  void writeSchedules();
  Attribute operandOf(const PlannedOperand &operand);
};
} // namespace

Apart::Apart(llvm::ArrayRef<Buffer> buffers) : classBytes(KERF_CLASS_COUNT) {
  for (const Buffer &buffer : buffers) {
    offsets.push_back(sizeBytes);
    int64_t bytes = llvm::alignTo(buffer.allBytes(), KERF_ARENA_ALIGN);
    classBytes[buffer.bufferClass] += bytes;
    // An empty range at the end of a buffer is not at the start of the next.
    sizeBytes += bytes + KERF_ARENA_ALIGN;
  }
}

void ProgramWriter::writeParam(const StorageMap::Param &param) {
  spmd::ParamOp op = param.op;
  auto local = op.getShardType();
  auto number = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
  llvm::SmallVector<Attribute> states;
  for (const StorageMap::State &state : param.states) {
    llvm::SmallVector<NamedAttribute> fields = {
        builder.getNamedAttr("name", builder.getStringAttr(state.facts.name)),
        builder.getNamedAttr("type",
                             TypeAttr::get(state.type.getElementType())),
        builder.getNamedAttr("at", number(layout.offsets[state.buffer])),
        builder.getNamedAttr("by", number(state.stride))};
    if (state.facts.block > 1)
      fields.push_back(
          builder.getNamedAttr("block", number(state.facts.block)));
    if (state.facts.without > 0)
      fields.push_back(
          builder.getNamedAttr("without", number(state.facts.without)));
    states.push_back(builder.getDictionaryAttr(fields));
  }
  int64_t granule = granuleOf(op.getStates());
  exec::ParamOp::create(
      builder, op.getLoc(), op.getNameAttr(), number(op.getStart().value_or(0)),
      number(op.getEnd().value_or(1)), TypeAttr::get(op.getGlobal()),
      TypeAttr::get(local), op.getSharded(), op.getBlocksAttr(),
      op.getStateAxesAttr(), op.getWeightAxesAttr(),
      op.getStateAxes() && granule > 1 ? number(granule) : IntegerAttr(),
      op.getInit(), op.getFrozen() ? builder.getUnitAttr() : UnitAttr(),
      number(layout.offsets[param.buffer]), number(param.stride),
      op.getMasterAttr(),
      param.master ? number(layout.offsets[*param.master]) : IntegerAttr(),
      param.master ? number(param.masterStride) : IntegerAttr(),
      states.empty() ? ArrayAttr() : builder.getArrayAttr(states));
}

void ProgramWriter::writeTables() {
  for (auto &[op, param] : map.params)
    writeParam(param);
  for (auto input : source.getBody().getOps<spmd::InputOp>())
    exec::InputOp::create(
        builder, input.getLoc(), input.getSymNameAttr(), input.getRoleAttr(),
        TypeAttr::get(input.getGlobal()), TypeAttr::get(input.getStepType()),
        input.getSharded(),
        builder.getI64IntegerAttr(offsetOf(input.getSymName())),
        input.getZigzagAttr());
  auto capacity = source->getAttrOfType<IntegerAttr>(kCapacityAttrName);
  for (const PlannedChannel &channel : planned.channels)
    exec::ChannelOp::create(builder, source.getLoc(), channel.name,
                            channel.from, channel.to, channel.bytes,
                            capacity ? capacity.getInt() : 1);
  for (auto output : source.getBody().getOps<spmd::OutputOp>()) {
    RankedTensorType type = output.getLocalType();
    Type shown = type.getRank() == 0 ? type.getElementType() : Type(type);
    exec::OutputOp::create(
        builder, output.getLoc(), output.getSymNameAttr(), TypeAttr::get(shown),
        builder.getI64IntegerAttr(offsetOf(output.getSymName())));
  }
}

void ProgramWriter::writeBuffers() {
  for (auto [i, buffer] : llvm::enumerate(map.buffers)) {
    exec::BufferOp::create(
        builder, buffer.loc.value_or(source.getLoc()), buffer.name,
        static_cast<int64_t>(buffer.bufferClass), layout.offsets[i],
        buffer.allBytes(), builder.getDenseI64ArrayAttr({}),
        exec::BufferScopeAttr::get(builder.getContext(), buffer.scope),
        builder.getI64IntegerAttr(buffer.copies));
  }
}

Attribute ProgramWriter::operandOf(const PlannedOperand &operand) {
  if (operand.buffer < 0)
    return operand.other;
  bool byMicro = operand.micro != 0;
  int64_t copies =
      byMicro ? source.getMicroBatches() : map.buffers[operand.buffer].copies;
  int64_t slot =
      byMicro ? operand.micro : map.buffers[operand.buffer].slotStride();
  return exec::ArenaAttr::get(
      builder.getContext(), operand.access, operand.element,
      layout.offsets[operand.buffer] + operand.offset, operand.iter,
      copies > 1 ? slot : 0, copies, operand.bytes);
}

void ProgramWriter::writeCommand(const PlannedCommand &command) {
  llvm::SmallVector<Attribute> operands;
  for (const PlannedOperand &operand : command.operands)
    operands.push_back(operandOf(operand));
  exec::CommandOp::create(
      builder, command.loc,
      exec::OpcodeAttr::get(builder.getContext(), command.opcode),
      command.kernel, builder.getStringAttr(command.name),
      builder.getDenseI64ArrayAttr(command.values),
      builder.getArrayAttr(operands), builder.getI64IntegerAttr(command.when),
      command.origin.empty() ? StringAttr()
                             : builder.getStringAttr(command.origin));
}

void ProgramWriter::writeFunc(const PlannedFunc &func) {
  auto op = exec::FuncOp::create(builder, source.getLoc(), func.name);
  OpBuilder::InsertionGuard guard(builder);
  Block &body = op.getBody().emplaceBlock();
  int64_t open = -1;
  for (const PlannedCommand &command : func.commands) {
    if (command.loop != open) {
      builder.setInsertionPointToEnd(&body);
      open = command.loop;
      if (open >= 0) {
        const PlannedLoop &loop = func.loops[open];
        auto made = exec::LoopOp::create(builder, command.loc, loop.start,
                                         loop.end, loop.reverse);
        builder.setInsertionPointToStart(&made.getBody().emplaceBlock());
      }
    } else if (open < 0) {
      builder.setInsertionPointToEnd(&body);
    }
    writeCommand(command);
  }
}

void ProgramWriter::writeSchedules() {
  for (auto schedule : source.getBody().getOps<spmd::ScheduleOp>()) {
    auto op = exec::ScheduleOp::create(builder, schedule.getLoc(),
                                       schedule.getNameAttr());
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&op.getBody().emplaceBlock());
    for (auto call : schedule.getBody().getOps<spmd::CallOp>())
      exec::CallOp::create(builder, call.getLoc(), call.getCallee(),
                           call.getMicro().value_or(0));
  }
}

//===----------------------------------------------------------------------===//
// Facts about the step
//===----------------------------------------------------------------------===//

/// The part of a matmul's flops that the model asks for: all where the
/// attribute says nothing that can be.
static double unpaddedPart(Operation *op) {
  auto padded = op->getAttrOfType<DenseI64ArrayAttr>(kPaddedAttrName);
  bool isPart =
      padded && padded.size() == 2 && padded[0] > 0 && padded[0] <= padded[1];
  return isPart ? double(padded[0]) / double(padded[1]) : 1;
}

/// Flops of matmuls in one call, recomputed ones included.
static double countFlops(spmd::FuncOp func) {
  double flops = 0;
  func.walk([&](Operation *op) {
    auto cost = dyn_cast<CostOpInterface>(op);
    if (!cost || op->getParentOfType<spmd::FusedOp>())
      return;
    auto repeat = op->getParentOfType<RepeatOp>();
    flops += double(cost.getCost().matmuls()) * unpaddedPart(op) *
             (repeat ? repeat.getCount() : 1);
  });
  return flops;
}

/// Flops of the training step over all ranks that run the program.
static double countFlops(spmd::ProgramOp program) {
  double flops = 0;
  spmd::ScheduleOp schedule = program.getSchedule("train");
  if (!schedule)
    return flops;
  llvm::StringMap<int64_t> calls;
  for (auto call : schedule.getBody().getOps<spmd::CallOp>())
    ++calls[call.getCallee()];
  double ranks = program.getRanks().size();
  for (auto func : program.getBody().getOps<spmd::FuncOp>()) {
    flops += ranks * calls.lookup(func.getSymName()) * countFlops(func);
  }
  return flops;
}

/// Attributes of the program that the artifact's meta record is made of.
static void setFacts(exec::ProgramOp program, spmd::ProgramOp source,
                     const StorageMap &map, const MemoryOptions &options) {
  OpBuilder builder(source.getContext());
  auto set = [&](llvm::StringRef name, Attribute value) {
    program->setAttr(name, value);
  };
  set("mesh", source.getMesh());
  // Stages are named after the model that they belong to.
  if (source.getStageCount() > 1)
    set("model",
        builder.getStringAttr(source.getSymName().rsplit(".stage").first));
  if (Attribute title = source->getAttr(kTitleAttrName))
    set("model", title);
  set("stage", builder.getI64IntegerAttr(source.getStage()));
  set("micro_batches", builder.getI64IntegerAttr(source.getMicroBatches()));
  int64_t most = source.getSlots();
  for (const Buffer &buffer : map.buffers)
    most = std::max(most, buffer.copies);
  set("slots", builder.getI64IntegerAttr(most));
  set("workers", builder.getI64IntegerAttr(options.workers));
  set("target", builder.getStringAttr(kerf_target_name(options.target)));
  set("matmul_flops", builder.getF64FloatAttr(countFlops(source)));
  for (auto input : source.getBody().getOps<spmd::InputOp>()) {
    if (input.getRole() != "tokens")
      continue;
    auto type = cast<RankedTensorType>(input.getGlobal());
    set("tokens", builder.getI64IntegerAttr(type.getNumElements()));
    set("sequence", builder.getI64IntegerAttr(type.getShape().back()));
    if (std::optional<int64_t> vocabulary = input.getVocabulary())
      set("vocabulary", builder.getI64IntegerAttr(*vocabulary));
  }
  for (llvm::StringRef fact :
       {llvm::StringRef("plan_json"), llvm::StringRef(kAdapterAttrName),
        llvm::StringRef(kConfigAttrName), llvm::StringRef(kModelFlopsAttrName)})
    if (Attribute value = source->getAttr(fact))
      set(fact, value);
}

static LogicalResult lower(spmd::ProgramOp source,
                           const MemoryOptions &options) {
  OpBuilder builder(source);
  auto program = exec::ProgramOp::create(
      builder, source.getLoc(), source.getSymName(), 0, 0,
      builder.getDenseI64ArrayAttr(
          llvm::SmallVector<int64_t>(KERF_CLASS_COUNT, 0)));
  program.getBody().emplaceBlock();
  FailureOr<StorageMap> map =
      assignStorage(source, /*forGpu=*/options.target == KERF_TARGET_CUDA);
  if (failed(map))
    return failure();
  FailureOr<PlannedProgram> planned =
      planCommands(source, program, *map, options);
  if (failed(planned))
    return failure();
  Apart layout(map->buffers);
  LDBG() << source.getSymName() << ": " << map->buffers.size()
         << " buffers, apart " << layout.sizeBytes << " bytes";
  program.setArena(layout.sizeBytes);
  program.setLowerBound(layout.sizeBytes);
  program.setClasses(layout.classBytes);
  setFacts(program, source, *map, options);
  ProgramWriter writer{source,   program, *map,
                       *planned, layout,  OpBuilder(source.getContext())};
  // Tables first, then kernels, which are there already.
  writer.builder.setInsertionPointToStart(&program.getBody().front());
  writer.writeTables();
  writer.writeBuffers();
  writer.builder.setInsertionPointToEnd(&program.getBody().front());
  for (const PlannedFunc &func : planned->funcs)
    writer.writeFunc(func);
  writer.writeSchedules();
  source.erase();
  return success();
}

namespace {
struct BuildCommands : kerf::impl::BuildCommandsPassBase<BuildCommands> {
  using BuildCommandsPassBase::BuildCommandsPassBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<exec::ExecDialect>();
  }

  void runOnOperation() override {
    if (target != "cpu" && target != "cuda") {
      getOperation().emitError()
          << "unknown target '" << target << "', expected cpu or cuda";
      return signalPassFailure();
    }
    MemoryOptions options;
    options.workers = workers;
    if (target == "cuda")
      options.target = KERF_TARGET_CUDA;
    for (auto program :
         llvm::to_vector(getOperation().getOps<spmd::ProgramOp>()))
      if (failed(lower(program, options)))
        return signalPassFailure();
  }
};
} // namespace
