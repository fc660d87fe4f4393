//===- Samples.cpp --------------------------------------------------------===//

#include "Samples.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace kerf;
using namespace kerf::test;

ArtifactData test::emptyProgram(uint32_t ranks) {
  ArtifactData data;
  kerf_meta &meta = data.meta;
  meta.model = data.strings.intern("sample");
  meta.compiler = data.strings.intern("test");
  meta.target = data.strings.intern("test");
  meta.cpu = data.strings.intern("x86-64-v2");
  meta.features = data.strings.intern("");
  meta.world_size = ranks;
  meta.micro_batches = 1;
  meta.max_workers = 4;
  meta.pipeline_axis = KERF_NONE;
  data.axes.push_back({data.strings.intern("data"), ranks});
  data.groups.push_back({1, ranks});
  addProgram(data, "sample");
  return data;
}

kerf_program &test::addProgram(ArtifactData &data, llvm::StringRef name) {
  kerf_program &program = data.beginProgram(name);
  program.slots = 1;
  program.arena_bytes = 64;
  return program;
}

std::vector<int64_t> test::matmulAttrs(int64_t m, int64_t n, int64_t k,
                                       bool accumulate) {
  return {KERF_F32, KERF_F32, KERF_F32, 1, m, n, k,          0, k,
          1,        0,        n,        1, 0, n, accumulate, 0, 0};
}

uint32_t test::addKernel(ArtifactData &data, llvm::StringRef symbol,
                         int64_t units) {
  data.kernels.push_back(
      {data.strings.intern(symbol), 2, units, 1, 0, 0, 0, 0});
  data.image = "kernels of the test device";
  return data.kernels.size() - 1;
}

static void setFlags(std::vector<kerf_call> &calls, size_t begin, size_t end) {
  for (size_t c = begin; c < end; ++c) {
    bool first = true, last = true;
    for (size_t o = begin; o < end; ++o)
      if (calls[o].func == calls[c].func) {
        first &= o >= c;
        last &= o <= c;
      }
    calls[c].flags =
        (first ? KERF_CALL_FIRST : 0) | (last ? KERF_CALL_LAST : 0);
  }
}

void test::addCall(ArtifactData &data, uint32_t func, uint32_t microBatch) {
  const kerf_program &program = data.programs.back();
  data.calls.push_back({func, microBatch, 0, 0});
  size_t begin = program.first_call;
  size_t train = std::min(begin + program.train_calls, data.calls.size());
  setFlags(data.calls, begin, train);
  setFlags(data.calls, train, data.calls.size());
  data.endProgram();
}

namespace {
/// Where things lie in the arena of the training program.
struct Arena {
  int64_t end = 0;
  int64_t take(ArtifactData &data, llvm::StringRef name, uint32_t bufferClass,
               int64_t bytes) {
    int64_t offset = end;
    bytes = (bytes + 63) / 64 * 64;
    end += bytes;
    data.programs.back().class_bytes[bufferClass] += bytes;
    data.buffers.push_back(
        {data.strings.intern(name), bufferClass, offset, bytes, -1, -1});
    return offset;
  }
};
} // namespace

static kerf_param weightParam(ArtifactData &data, Arena &arena) {
  constexpr int64_t bytes = kWidth * kWidth * 4;
  kerf_param param = {};
  param.name = data.strings.intern("h.{i}.w");
  param.init = KERF_INIT_NORMAL;
  param.init_value = 0.5;
  param.master_dtype = KERF_NONE;
  param.master_offset = param.master_stride = -1;
  param.end = kLayers;
  param.layout = wholeLayout({kWidth, kWidth}, KERF_F32);
  param.offset = arena.take(data, "h.{i}.w", KERF_CLASS_PARAM, kLayers * bytes);
  param.stride = bytes;
  param.state_count = 1;
  data.states.push_back(
      {data.strings.intern("m"), KERF_F32, 1, 0,
       arena.take(data, "h.{i}.w.m", KERF_CLASS_OPTIMIZER, kLayers * bytes),
       bytes});
  return param;
}

static kerf_operand strided(kerf_operand operand, int64_t iterStride,
                            int64_t slotStride = 0) {
  operand.iter_stride = iterStride;
  operand.slot_stride = slotStride;
  operand.copies = slotStride != 0 ? kMicroBatches : 1;
  return operand;
}

static kerf_operand scalarOperand(int64_t number) {
  kerf_operand operand = {};
  operand.kind = KERF_SCALAR;
  operand.access = KERF_READ;
  operand.dtype = KERF_I32;
  operand.offset = number;
  return operand;
}

static kerf_operand absentOperand() {
  kerf_operand operand = {};
  operand.kind = KERF_ABSENT;
  return operand;
}

namespace {
/// Builds the training program.
struct Builder {
  ArtifactData data;
  Arena arena;
  int64_t x, loss, rate, matmul, act, sum;
  uint32_t twice, add, number;
  static constexpr int64_t part = kRows * kWidth * 4; ///< bytes
  static constexpr int64_t weight = kWidth * kWidth * 4;

  void command(uint32_t opcode, llvm::StringRef name,
               llvm::ArrayRef<kerf_operand> operands,
               llvm::ArrayRef<int64_t> attrs, uint32_t flags = 0) {
    data.addCommand(opcode, flags, data.strings.intern(name),
                    data.strings.intern(("sample.mlir:" + name.str())),
                    operands, attrs);
  }
  void tables();
  void forward();
  void backward();
  void update();
  void evaluate();
};
} // namespace

void Builder::tables() {
  data.meta.micro_batches = data.programs[0].slots = kMicroBatches;
  data.meta.matmul_flops = 2.0 * kLayers * kMicroBatches * kRows * kWidth *
                           kWidth * data.meta.world_size;
  data.params.push_back(weightParam(data, arena));
  x = arena.take(data, "x", KERF_CLASS_INPUT, kMicroBatches * part);
  rate = arena.take(data, "rate", KERF_CLASS_INPUT, 4);
  loss = arena.take(data, "loss", KERF_CLASS_INPUT, 4);
  matmul = arena.take(data, "matmul", KERF_CLASS_TEMPORARY, part);
  act = arena.take(data, "act", KERF_CLASS_ACTIVATION,
                   kLayers * kMicroBatches * part);
  sum = arena.take(data, "sum", KERF_CLASS_GRADIENT, kLayers * weight);
  data.programs[0].arena_bytes = arena.end;
  data.programs[0].lower_bound_bytes = arena.end;
  kerf_layout rows = wholeLayout({kMicroBatches * kRows, kWidth}, KERF_F32);
  rows.global[0] *= data.meta.world_size;
  rows.axes[0][0] = 0;
  data.inputs.push_back({data.strings.intern("x"), KERF_ROLE_NONE, rows, x,
                         kMicroBatches * part});
  data.inputs.push_back({data.strings.intern("rate"), KERF_ROLE_LEARNING_RATE,
                         wholeLayout({}, KERF_F32), rate, 4});
  data.addScalarOutput("loss", KERF_F32, loss);
  twice = addKernel(data, "twice", kRows * kWidth);
  add = addKernel(data, "add", kRows * kWidth);
  number = addKernel(data, "number", 1);
}

void Builder::forward() {
  data.beginFunc("forward");
  command(KERF_OP_ZERO, "zero_sum",
          {arenaOperand(sum, kLayers * weight, KERF_F32, KERF_WRITE)},
          {kLayers * weight}, KERF_IF_FIRST);
  command(KERF_OP_LOOP, "layers", {}, {0, kLayers, 0, 2});
  command(
      KERF_OP_MATMUL, "matmul",
      {strided(arenaOperand(x, part, KERF_F32, KERF_READ), 0, part),
       strided(arenaOperand(data.params[0].offset, weight, KERF_F32, KERF_READ),
               weight),
       arenaOperand(matmul, part, KERF_F32, KERF_WRITE), absentOperand()},
      matmulAttrs(kRows, kWidth, kWidth));
  command(KERF_OP_LAUNCH, "twice",
          {arenaOperand(matmul, part, KERF_F32, KERF_READ),
           strided(arenaOperand(act, part, KERF_F32, KERF_WRITE),
                   kMicroBatches * part, part)},
          {twice});
}

void Builder::backward() {
  data.beginFunc("backward");
  command(KERF_OP_LOOP, "layers", {}, {0, kLayers, 1, 1});
  command(KERF_OP_LAUNCH, "add",
          {strided(arenaOperand(act, part, KERF_F32, KERF_READ),
                   kMicroBatches * part, part),
           strided(arenaOperand(sum, part, KERF_F32, KERF_READ | KERF_WRITE),
                   weight)},
          {add});
}

void Builder::update() {
  data.beginFunc("update");
  kerf_operand all =
      arenaOperand(sum, kLayers * weight, KERF_F32, KERF_READ | KERF_WRITE);
  command(KERF_OP_ALL_REDUCE, "sum_over_ranks", {all, all},
          {0, KERF_F32, KERF_SUM, kLayers * weight / 4});
  command(KERF_OP_LOOP, "layers", {}, {0, kLayers, 0, 1});
  command(KERF_OP_LAUNCH, "add_to_weight",
          {strided(arenaOperand(sum, part, KERF_F32, KERF_READ), weight),
           strided(arenaOperand(data.params[0].offset, weight, KERF_F32,
                                KERF_READ | KERF_WRITE),
                   weight)},
          {add});
  command(KERF_OP_COPY, "loss",
          {arenaOperand(sum + 2 * weight, 4, KERF_F32, KERF_READ),
           arenaOperand(loss, 4, KERF_F32, KERF_WRITE)},
          {4}, KERF_IF_LAST);
}

void Builder::evaluate() {
  kerf_scalar scalar = {};
  scalar.constant = 1000;
  scalar.iteration = 100;
  scalar.micro = 10;
  scalar.axis[0] = 1;
  data.scalars.push_back(scalar);
  data.beginFunc("evaluate");
  command(KERF_OP_LOOP, "layers", {}, {0, kLayers, 0, 1});
  command(KERF_OP_LAUNCH, "number",
          {scalarOperand(0), arenaOperand(loss, 4, KERF_F32, KERF_WRITE)},
          {number}, KERF_UNLESS_FIRST);
}

ArtifactData test::trainingProgram(uint32_t ranks) {
  Builder builder;
  builder.data = emptyProgram(ranks);
  builder.tables();
  builder.forward();
  builder.backward();
  builder.update();
  builder.evaluate();
  ArtifactData &data = builder.data;
  data.endFunc();
  data.programs[0].train_calls = 2 * kMicroBatches + 1;
  data.plan = "{\"mesh\": [[\"data\", " + std::to_string(ranks) + "]]}\n";
  for (uint32_t m = 0; m < kMicroBatches; ++m)
    addCall(data, 0, m);
  for (uint32_t m = 0; m < kMicroBatches; ++m)
    addCall(data, 1, m);
  addCall(data, 2, 0);
  for (uint32_t m = 0; m < kMicroBatches; ++m)
    addCall(data, 3, m);
  return std::move(data);
}

std::string test::written(const ArtifactData &data) {
  std::string bytes, error;
  llvm::raw_string_ostream os(bytes);
  if (llvm::failed(writeArtifact(data, os, error))) {
    llvm::errs() << "sample does not pass the checker: " << error << '\n';
    std::abort();
  }
  return bytes;
}

ArtifactData kerf::test::aloneProgram() {
  ArtifactData data = trainingProgram();
  for (kerf_command &command : data.commands) {
    if (command.opcode != KERF_OP_ALL_REDUCE)
      continue;
    command.opcode = KERF_OP_COPY;
    command.attr_count = 1;
    const kerf_operand &all = data.operands[command.first_operand];
    data.attrs[command.first_attr] = all.bytes;
  }
  return data;
}
