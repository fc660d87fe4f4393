#include "kerf/Artifact/Assemble.h"

#include "KernelBytes.h"

#include "kerf/Artifact/Check.h"
#include "kerf/Dialect/Kerf/Metrics.h"
#include "kerf/Dialect/Kerf/Names.h"
#include "kerf/Support/Version.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace kerf;
using exec::dtypeOf;

namespace {
/// Fills the tables of a file from the ops of programs.
struct Assembler {
  llvm::SmallVector<exec::ProgramOp> programs; ///< by stage
  ArtifactData data;
  MeshAttr mesh;
  llvm::MapVector<Attribute, uint32_t> scalars;
  llvm::MapVector<int64_t, uint32_t> groups;
  llvm::StringMap<uint32_t> symbols; ///< kernels of the file

  // Of the program that is added now.
  exec::ProgramOp program;
  llvm::StringMap<uint32_t> kernels, funcs;

  LogicalResult run(uint64_t inputHash);
  LogicalResult addProgram();
  LogicalResult addTables();
  LogicalResult addImage();
  void setMeta(uint64_t inputHash);
  LogicalResult setLayout(Operation *op, kerf_layout &layout, Type global,
                          Type local, ArrayAttr sharded);
  LogicalResult setPieces(exec::ParamOp op, kerf_param &param);
  FailureOr<uint32_t> maskOf(Operation *op, std::optional<ArrayAttr> axes);
  void addStates(exec::ParamOp op, kerf_param &param);
  LogicalResult addParam(exec::ParamOp op);
  LogicalResult addInput(exec::InputOp op);
  void addBuffer(exec::BufferOp op);
  void addOutput(exec::OutputOp op);
  LogicalResult addKernel(exec::KernelOp op);
  LogicalResult addFunc(exec::FuncOp op);
  LogicalResult addCommand(exec::CommandOp op);
  kerf_operand operandOf(Attribute attribute);
  uint32_t scalarOf(exec::ScalarAttr scalar);
  uint32_t groupOf(int64_t mask);
  void addSchedule(llvm::StringRef name);

  /// The attribute of the first program that has it.
  template <typename Attr> Attr fact(llvm::StringRef name) {
    for (exec::ProgramOp op : programs)
      if (auto attribute = op->getAttrOfType<Attr>(name))
        return attribute;
    return nullptr;
  }
  int64_t number(llvm::StringRef name) {
    auto attribute = fact<IntegerAttr>(name);
    return attribute ? attribute.getInt() : 0;
  }
  /// Over all programs.
  double sum(llvm::StringRef name) {
    double all = 0;
    for (exec::ProgramOp op : programs)
      if (auto attribute = op->getAttrOfType<FloatAttr>(name))
        all += attribute.getValueAsDouble();
    return all;
  }
  uint32_t text(llvm::StringRef name) {
    auto attribute = fact<StringAttr>(name);
    return data.strings.intern(attribute ? attribute.getValue() : "");
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

void Assembler::setMeta(uint64_t inputHash) {
  kerf_meta &meta = data.meta;
  auto model = fact<StringAttr>("model");
  meta.model = data.strings.intern(model ? model.getValue()
                                         : programs.front().getSymName());
  meta.compiler = data.strings.intern("kerf " + getVersion().str());
  auto target = fact<StringAttr>("target");
  meta.target = data.strings.intern(target ? target.getValue() : "cpu");
  meta.cpu = text("cpu");
  meta.features = text("features");
  meta.adapter = text("adapter");
  meta.config = text("config");
  meta.world_size = mesh ? mesh.getRankCount() : 1;
  meta.micro_batches = number("micro_batches");
  meta.max_workers = number("workers");
  meta.pipeline_axis = KERF_NONE;
  meta.input_hash = inputHash;
  meta.matmul_flops = sum("matmul_flops");
  meta.model_flops = sum("model_flops");
  meta.tokens_per_step = number("tokens");
  meta.sequence_length = number("sequence");
  meta.vocabulary = number("vocabulary");
  if (auto plan = fact<StringAttr>("plan_json"))
    data.plan = plan.getValue().str();
  if (!mesh)
    return;
  for (auto [name, size] : llvm::zip(mesh.getNames(), mesh.getSizes()))
    data.axes.push_back({data.strings.intern(name.getValue()), uint32_t(size)});
  if (int64_t axis = mesh.find(kPipelineAxis); axis >= 0)
    meta.pipeline_axis = axis;
}

LogicalResult Assembler::setLayout(Operation *op, kerf_layout &layout,
                                   Type global, Type local, ArrayAttr sharded) {
  auto whole = cast<RankedTensorType>(global);
  auto part = cast<RankedTensorType>(local);
  if (whole.getRank() > KERF_MAX_RANK)
    return op->emitOpError() << "has rank " << whole.getRank()
                             << ", the file has room for " << KERF_MAX_RANK;
  layout = {};
  layout.rank = whole.getRank();
  layout.dtype = dtypeOf(whole);
  std::memset(layout.axes, 0xff, sizeof layout.axes);
  std::fill_n(layout.blocks, whole.getRank(), 1u);
  for (int64_t d = 0; d < whole.getRank(); ++d) {
    layout.global[d] = whole.getDimSize(d);
    layout.local[d] = part.getDimSize(d);
    unsigned at = 0;
    for (auto axis :
         cast<ArrayAttr>(sharded[d]).getAsValueRange<StringAttr>()) {
      int64_t index = mesh ? mesh.find(axis) : -1;
      if (index < 0) // The micro-batches, which are part of the local shape.
        continue;
      if (at == 4)
        return op->emitOpError("has a dimension split by more than 4 axes");
      layout.axes[d][at++] = index;
    }
  }
  return success();
}

/// The axes as bits; none without a list.
FailureOr<uint32_t> Assembler::maskOf(Operation *op,
                                      std::optional<ArrayAttr> axes) {
  uint32_t mask = 0;
  if (axes)
    for (llvm::StringRef axis : axes->getAsValueRange<StringAttr>()) {
      int64_t index = mesh ? mesh.find(axis) : -1;
      if (index < 0)
        return op->emitOpError()
               << "is in pieces over '" << axis << "', no axis of the mesh";
      mask |= 1u << index;
    }
  return mask;
}

LogicalResult Assembler::setPieces(exec::ParamOp op, kerf_param &param) {
  if (std::optional<llvm::ArrayRef<int64_t>> blocks = op.getBlocks())
    for (auto [d, count] : llvm::enumerate(*blocks))
      if (d < param.layout.rank)
        param.layout.blocks[d] = count;
  FailureOr<uint32_t> weight = maskOf(op, op.getWeightAxes());
  FailureOr<uint32_t> state = maskOf(op, op.getStateAxes());
  if (failed(weight) || failed(state))
    return failure();
  param.layout.pieces = *weight;
  param.layout.granule = op.getGranule().value_or(0);
  param.state_pieces = *state;
  return success();
}

void Assembler::addStates(exec::ParamOp op, kerf_param &param) {
  param.first_state = data.states.size();
  if (!op.getStates())
    return;
  for (auto state : op.getStates()->getAsRange<DictionaryAttr>()) {
    kerf_state record = {};
    record.name =
        data.strings.intern(state.getAs<StringAttr>("name").getValue());
    record.dtype = dtypeOf(state.getAs<TypeAttr>("type").getValue());
    auto block = state.getAs<IntegerAttr>("block");
    record.block = block ? block.getInt() : 1;
    auto without = state.getAs<IntegerAttr>("without");
    record.without = without ? without.getInt() : 0;
    record.offset = state.getAs<IntegerAttr>("at").getInt();
    record.stride = state.getAs<IntegerAttr>("by").getInt();
    data.states.push_back(record);
    ++param.state_count;
  }
}

LogicalResult Assembler::addParam(exec::ParamOp op) {
  kerf_param param = {};
  param.name = data.strings.intern(op.getName());
  param.flags = (op.getFrozen() ? KERF_PARAM_FROZEN : 0) |
                (isStacked(op.getName()) ? KERF_PARAM_STACKED : 0);
  param.init = static_cast<uint32_t>(op.getInit().getKind());
  param.init_value = op.getInit().getValue();
  param.start = op.getStart();
  param.end = op.getEnd();
  param.offset = op.getOffset();
  param.stride = op.getStride();
  param.master_dtype =
      op.getMasterType() ? dtypeOf(*op.getMasterType()) : KERF_NONE;
  param.master_offset = op.getMasterOffset().value_or(-1);
  param.master_stride = op.getMasterStride().value_or(-1);
  addStates(op, param);
  if (failed(setLayout(op, param.layout, op.getGlobalType(), op.getLocalType(),
                       op.getSharded())) ||
      failed(setPieces(op, param)))
    return failure();
  data.params.push_back(param);
  return success();
}

LogicalResult Assembler::addInput(exec::InputOp op) {
  kerf_input input = {};
  input.name = data.strings.intern(op.getName());
  input.role = llvm::StringSwitch<uint32_t>(op.getRole())
                   .Case("tokens", KERF_ROLE_TOKENS)
                   .Case("targets", KERF_ROLE_TARGETS)
                   .Case("segments", KERF_ROLE_SEGMENTS)
                   .Case("positions", KERF_ROLE_POSITIONS)
                   .Case("seed", KERF_ROLE_SEED)
                   .Case("step", KERF_ROLE_STEP)
                   .Case("learning_rate", KERF_ROLE_LEARNING_RATE)
                   .Case("loss_scale", KERF_ROLE_LOSS_SCALE)
                   .Default(KERF_ROLE_NONE);
  if (failed(setLayout(op, input.layout, op.getGlobalType(), op.getLocalType(),
                       op.getSharded())))
    return failure();
  input.layout.zigzag = op.getZigzag() ? op.getZigzag()->getRanks() : 0;
  input.offset = op.getOffset();
  auto local = cast<RankedTensorType>(op.getLocalType());
  input.bytes = local.getNumElements() * kerf_dtype_bytes(input.layout.dtype);
  data.inputs.push_back(input);
  return success();
}

void Assembler::addBuffer(exec::BufferOp op) {
  llvm::ArrayRef<int64_t> live = op.getLive();
  data.buffers.push_back(
      {data.strings.intern(op.getName()), uint32_t(op.getBufferClass()),
       int64_t(op.getOffset()), int64_t(op.getBytes()),
       live.empty() ? -1 : live.front(), live.empty() ? -1 : live.back()});
}

/// Programs share kernels: one symbol is one kernel.
void Assembler::addOutput(exec::OutputOp op) {
  kerf_output output{};
  auto metric = parseLayerMetric(op.getName()).value_or(LayerMetric());
  auto shape = dyn_cast<RankedTensorType>(op.getType());
  output.name =
      data.strings.intern(metric.kind.empty() ? op.getName() : metric.kind);
  output.dtype = dtypeOf(shape ? shape.getElementType() : op.getType());
  output.layers = data.strings.intern(metric.layers);
  output.offset = op.getOffset();
  output.elements = shape ? shape.getNumElements() : 1;
  output.start = metric.start;
  output.end = metric.end;
  data.outputs.push_back(output);
}

LogicalResult Assembler::addKernel(exec::KernelOp op) {
  auto code = op->getAttrOfType<DictionaryAttr>("code");
  llvm::StringRef symbol = code.getAs<StringAttr>("symbol").getValue();
  kerf_kernel record = {};
  record.symbol = data.strings.intern(symbol);
  record.argument_count =
      op.getArgumentTypes().size() + op.getResultTypes().size();
  record.units = code.getAs<IntegerAttr>("units").getInt();
  record.grain = code.getAs<IntegerAttr>("grain").getInt();
  if (auto threads = code.getAs<IntegerAttr>("threads"))
    record.threads = threads.getInt();
  record.hash = llvm::xxh3_64bits(symbol);
  record.untouched = untouchedBytes(op);
  auto [at, isNew] = symbols.try_emplace(symbol, data.kernels.size());
  kernels[op.getSymName()] = at->second;
  if (isNew)
    data.kernels.push_back(record);
  else if (std::memcmp(&data.kernels[at->second], &record, sizeof record) != 0)
    return op.emitOpError()
           << "differs from another one of the symbol '" << symbol << "'";
  return success();
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

uint32_t Assembler::scalarOf(exec::ScalarAttr scalar) {
  auto [at, isNew] = scalars.insert({scalar, data.scalars.size()});
  if (isNew) {
    kerf_scalar record = {};
    record.constant = scalar.getConstant();
    record.iteration = scalar.getIteration();
    record.micro = scalar.getMicro();
    record.modulus = scalar.getModulo();
    for (auto [i, factor] : llvm::enumerate(scalar.getAxes()))
      record.axis[i] = factor;
    data.scalars.push_back(record);
  }
  return at->second;
}

uint32_t Assembler::groupOf(int64_t mask) {
  auto [at, isNew] = groups.insert({mask, data.groups.size()});
  if (isNew) {
    uint32_t size = 1;
    for (auto [a, axis] : llvm::enumerate(data.axes))
      if (mask >> a & 1)
        size *= axis.size;
    data.groups.push_back({uint32_t(mask), size});
  }
  return at->second;
}

kerf_operand Assembler::operandOf(Attribute attribute) {
  kerf_operand operand = {};
  if (auto arena = dyn_cast<exec::ArenaAttr>(attribute)) {
    operand = arenaOperand(arena.getOffset(), arena.getBytes(),
                           dtypeOf(arena.getType()), arena.getAccess());
    operand.iter_stride = arena.getIter();
    operand.slot_stride = arena.getSlot();
    operand.copies = arena.getCopies();
  } else if (auto scalar = dyn_cast<exec::ScalarAttr>(attribute)) {
    operand.kind = KERF_SCALAR;
    operand.access = KERF_READ;
    operand.dtype = KERF_I32;
    operand.offset = scalarOf(scalar);
    operand.bytes = 4;
  } else {
    operand.kind = KERF_ABSENT;
  }
  return operand;
}

LogicalResult Assembler::addCommand(exec::CommandOp op) {
  llvm::SmallVector<int64_t> values(op.getValues());
  if (op.getOpcode() == exec::Opcode::Launch)
    values = {kernels.lookup(*op.getKernel())};
  if (artifact::isCollective(static_cast<uint32_t>(op.getOpcode()))) {
    if (values.empty())
      return op.emitOpError("has no group");
    values[0] = groupOf(values[0]);
  }
  llvm::SmallVector<kerf_operand> operands;
  for (Attribute operand : op.getOperandRefs())
    operands.push_back(operandOf(operand));
  std::optional<llvm::StringRef> origin = op.getOrigin();
  data.addCommand(static_cast<uint32_t>(op.getOpcode()), op.getWhen(),
                  data.strings.intern(op.getName()),
                  origin ? data.strings.intern(*origin) : KERF_NONE, operands,
                  values);
  return success();
}

LogicalResult Assembler::addFunc(exec::FuncOp op) {
  funcs[op.getSymName()] = data.beginFunc(op.getSymName());
  for (Operation &inner : op.getBody().front()) {
    if (auto command = dyn_cast<exec::CommandOp>(inner)) {
      if (failed(addCommand(command)))
        return failure();
      continue;
    }
    auto loop = cast<exec::LoopOp>(inner);
    auto body = loop.getBody().getOps<exec::CommandOp>();
    int64_t count = std::distance(body.begin(), body.end());
    data.addCommand(KERF_OP_LOOP, 0, data.strings.intern("loop"), KERF_NONE, {},
                    {int64_t(loop.getStart()), int64_t(loop.getEnd()),
                     loop.getReverse(), count});
    for (exec::CommandOp command : body)
      if (failed(addCommand(command)))
        return failure();
  }
  data.endFunc();
  return success();
}

void Assembler::addSchedule(llvm::StringRef name) {
  for (auto schedule : program.getBody().getOps<exec::ScheduleOp>()) {
    if (schedule.getName() != name)
      continue;
    size_t begin = data.calls.size();
    for (auto call : schedule.getBody().getOps<exec::CallOp>())
      data.calls.push_back(
          {funcs.lookup(call.getCallee()), uint32_t(call.getMicro()), 0, 0});
    llvm::ArrayRef<kerf_call> all = data.calls;
    for (size_t i = begin; i < all.size(); ++i) {
      auto same = [&](const kerf_call &call) {
        return call.func == all[i].func;
      };
      if (llvm::none_of(all.slice(begin, i - begin), same))
        data.calls[i].flags |= KERF_CALL_FIRST;
      if (llvm::none_of(all.drop_front(i + 1), same))
        data.calls[i].flags |= KERF_CALL_LAST;
    }
  }
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

LogicalResult Assembler::addTables() {
  for (Operation &op : program.getBody().front()) {
    LogicalResult result = success();
    if (auto param = dyn_cast<exec::ParamOp>(op))
      result = addParam(param);
    else if (auto input = dyn_cast<exec::InputOp>(op))
      result = addInput(input);
    else if (auto kernel = dyn_cast<exec::KernelOp>(op))
      result = addKernel(kernel);
    else if (auto output = dyn_cast<exec::OutputOp>(op))
      addOutput(output);
    else if (auto channel = dyn_cast<exec::ChannelOp>(op))
      data.channels.push_back(
          {data.strings.intern(channel.getName()), uint32_t(channel.getFrom()),
           uint32_t(channel.getTo()), uint32_t(channel.getHolds()),
           uint64_t(channel.getBytes())});
    else if (auto buffer = dyn_cast<exec::BufferOp>(op))
      addBuffer(buffer);
    if (failed(result))
      return failure();
  }
  return success();
}

LogicalResult Assembler::addImage() {
  for (auto image : program.getBody().getOps<exec::ImageOp>()) {
    std::vector<char> bytes;
    if (llvm::Error error = llvm::decodeBase64(image.getBase64(), bytes))
      return image.emitOpError()
             << "is no base64: " << llvm::toString(std::move(error));
    (image.getPtx() ? data.ptx : data.image).append(bytes.begin(), bytes.end());
  }
  return success();
}

LogicalResult Assembler::addProgram() {
  kernels.clear();
  funcs.clear();
  kerf_program &record = data.beginProgram(program.getSymName());
  if (auto slots = program->getAttrOfType<IntegerAttr>("slots"))
    record.slots = slots.getInt();
  record.arena_bytes = program.getArena();
  record.lower_bound_bytes = program.getLowerBound();
  for (auto [i, bytes] : llvm::enumerate(program.getClasses()))
    record.class_bytes[i] = bytes;
  if (failed(addTables()) || failed(addImage()))
    return failure();
  for (auto func : program.getBody().getOps<exec::FuncOp>())
    if (failed(addFunc(func)))
      return failure();
  addSchedule("train");
  record.train_calls = data.calls.size() - record.first_call;
  addSchedule("evaluate");
  data.endProgram();
  return success();
}

LogicalResult Assembler::run(uint64_t inputHash) {
  mesh = fact<MeshAttr>("mesh");
  setMeta(inputHash);
  for (exec::ProgramOp op : programs) {
    program = op;
    if (failed(addProgram()))
      return failure();
  }
  return success();
}

/// The programs by stage: their attribute `stage`, or else their place.
static FailureOr<llvm::SmallVector<exec::ProgramOp>>
findPrograms(ModuleOp module) {
  llvm::SmallVector<exec::ProgramOp> found(module.getOps<exec::ProgramOp>());
  llvm::SmallVector<exec::ProgramOp> byStage(found.size());
  for (auto [place, program] : llvm::enumerate(found)) {
    auto attribute = program->getAttrOfType<IntegerAttr>("stage");
    uint64_t stage = attribute ? attribute.getInt() : place;
    if (stage >= found.size() || byStage[stage])
      return program.emitOpError()
             << "is of stage " << stage
             << (stage >= found.size() ? ", which there is not"
                                       : " as another one");
    byStage[stage] = program;
  }
  if (byStage.empty())
    return module.emitError("expected 'exec.program' in the module");
  return byStage;
}

FailureOr<ArtifactData> kerf::assembleArtifact(ModuleOp module,
                                               uint64_t inputHash) {
  FailureOr<llvm::SmallVector<exec::ProgramOp>> programs = findPrograms(module);
  if (failed(programs) || failed(verifyNames(module)))
    return failure();
  Assembler assembler;
  assembler.programs = *programs;
  if (failed(assembler.run(inputHash)))
    return failure();
  return std::move(assembler.data);
}
