//===- StageSamples.cpp ---------------------------------------------------===//

#include "StageSamples.h"

using namespace kerf;
using namespace kerf::test;

namespace {
/// How a parameter is spread.
struct Spread {
  bool cutsThirds = false; ///< dimension 0 over `data`
  bool inPieces = false;
  bool stateInPieces = false;
  uint32_t master = KERF_NONE;
  bool hasState = false;
};

/// Places what the programs have, one behind the other.
struct StageBuilder {
  ArtifactData data = emptyProgram();
  uint32_t dataRanks;
  bool isWhole;

  StageBuilder(uint32_t dataRanks, bool isWhole)
      : dataRanks(dataRanks), isWhole(isWhole) {}

  int64_t place(int64_t bytes) {
    auto &end = data.programs.back().arena_bytes;
    int64_t offset = end;
    end += (bytes + 63) / 64 * 64;
    return offset;
  }
  uint32_t text(llvm::StringRef string) { return data.strings.intern(string); }
  void param(llvm::StringRef name, int64_t start, int64_t end,
             llvm::ArrayRef<int64_t> shape, uint32_t dtype, Spread spread);
  void layers(int64_t start);
  void others();
  void command(uint32_t opcode, llvm::StringRef name,
               llvm::ArrayRef<kerf_operand> operands,
               llvm::ArrayRef<int64_t> attrs, uint32_t flags = 0) {
    data.addCommand(opcode, flags, text(name), KERF_NONE, operands, attrs);
  }
  kerf_operand floats(int64_t offset, int64_t count, uint32_t access) {
    return arenaOperand(offset, 4 * count, KERF_F32, access);
  }
  void outputs();
  void update(llvm::ArrayRef<uint32_t> layers);
  void firstStage();
  void secondStage();
  void channels();
  void calls(llvm::ArrayRef<std::pair<uint32_t, uint32_t>> train);

  static constexpr int64_t part = 4 * kPart; ///< bytes
  int64_t result = 0;                        ///< loss and back
  uint32_t twice = 0, add = 0, add8 = 0;
};
} // namespace

/// `data` is axis 1 of pipelines.
static constexpr uint32_t kData = 1, kDataMask = 1 << kData;
static constexpr int64_t kDataGroup = 0, kAllGroup = 1;
static constexpr int64_t kForward = 0, kBackward = 1;

void StageBuilder::param(llvm::StringRef name, int64_t start, int64_t end,
                         llvm::ArrayRef<int64_t> shape, uint32_t dtype,
                         Spread spread) {
  kerf_param param = {};
  param.name = text(name);
  param.init = KERF_INIT_NORMAL;
  param.init_value = 0.5;
  param.start = start;
  param.end = end;
  param.master_dtype = spread.master;
  param.layout = wholeLayout(shape, dtype);
  int64_t elements = 1, count = end - start;
  if (!isWhole && spread.cutsThirds) {
    param.layout.axes[0][0] = kData;
    param.layout.blocks[0] = 3;
    param.layout.local[0] /= dataRanks;
  }
  for (uint32_t d = 0; d < param.layout.rank; ++d)
    elements *= param.layout.local[d];
  uint32_t ranks = isWhole ? 1 : dataRanks;
  int64_t piece = (elements + ranks - 1) / ranks;
  if (!isWhole) {
    param.layout.pieces = spread.inPieces ? kDataMask : 0;
    param.state_pieces = spread.stateInPieces ? kDataMask : 0;
  }
  int64_t owned = param.state_pieces ? piece : elements;
  // Room for the padding of all pieces, so that they can be gathered in place.
  int64_t stored = param.layout.pieces  ? piece
                   : param.state_pieces ? piece * ranks
                                        : elements;
  param.stride = (stored * kerf_dtype_bytes(dtype) + 63) / 64 * 64;
  param.offset = place(count * param.stride);
  param.master_offset = param.master_stride = -1;
  if (spread.master != KERF_NONE) {
    param.master_stride = 4 * owned;
    param.master_offset = place(count * param.master_stride);
  }
  param.first_state = data.states.size();
  param.state_count = spread.hasState;
  if (spread.hasState)
    data.states.push_back(
        {text("m"), KERF_F32, 1, 0, place(count * 4 * owned), 4 * owned});
  data.params.push_back(param);
}

/// One layer, and one two behind.
void StageBuilder::layers(int64_t start) {
  Spread spread;
  spread.stateInPieces = spread.hasState = true;
  spread.master = KERF_F32;
  param("h.{i}.w", start, start + 1, {3, 5}, KERF_F32, spread);
  param("h.{i}.w", start + 2, start + 3, {3, 5}, KERF_F32, spread);
}

/// What only the second stage has.
void StageBuilder::others() {
  Spread tied, pieces;
  tied.hasState = true;
  tied.master = KERF_F32;
  pieces.inPieces = pieces.stateInPieces = true;
  pieces.master = KERF_F32;
  param("tied", 0, 1, {256, 256}, KERF_BF16, tied);
  param("z.{i}", 0, 2, {7, 3}, KERF_BF16, pieces);
  param("b", 0, 1, {1}, KERF_F32, pieces);
}

/// Sums the two results over all ranks.
void StageBuilder::outputs() {
  result = place(8);
  data.addScalarOutput("loss", KERF_F32, result);
  data.addScalarOutput("back", KERF_F32, result + 4);
}

/// For layers m: master += m; gathers the layer. `layers` are places in the
/// table.
void StageBuilder::update(llvm::ArrayRef<uint32_t> layers) {
  for (uint32_t p : layers) {
    kerf_param param = data.params[p];
    int64_t piece = (15 + dataRanks - 1) / dataRanks;
    kerf_operand master = floats(param.master_offset, piece, KERF_READ);
    kerf_operand grown = master;
    grown.access = KERF_READ | KERF_WRITE;
    data.kernels[add8].units = piece;
    command(KERF_OP_LAUNCH, "grow",
            {floats(data.states[param.first_state].offset, piece, KERF_READ),
             grown},
            {add8});
    command(KERF_OP_ALL_GATHER, "gather",
            {master, floats(param.offset, piece * dataRanks, KERF_WRITE)},
            {kDataGroup, KERF_F32, 1, piece});
  }
  kerf_operand both = floats(result, 2, KERF_READ | KERF_WRITE);
  command(KERF_OP_ALL_REDUCE, "sum_results", {both, both},
          {kAllGroup, KERF_F32, KERF_SUM, 2});
}

void StageBuilder::channels() {
  data.channels.push_back({text("forward"), 0, 1, 1, part});
  data.channels.push_back({text("backward"), 1, 0, 1, part});
}

/// Pairs of function and micro-batch, then the evaluation by function 2.
void StageBuilder::calls(llvm::ArrayRef<std::pair<uint32_t, uint32_t>> train) {
  data.endFunc();
  data.programs.back().train_calls = train.size();
  for (auto [func, microBatch] : train)
    addCall(data, func, microBatch);
  addCall(data, 2, 0);
}

void StageBuilder::firstStage() {
  addProgram(data, "first").arena_bytes = 0;
  Spread thirds;
  thirds.cutsThirds = true;
  param("tied", 0, 1, {256, 256}, KERF_BF16, {});
  layers(0);
  param("qkv", 0, 1, {36, 2}, KERF_F32, thirds);
  outputs();
  channels();
  kerf_layout rows = wholeLayout({2 * dataRanks, kPart}, KERF_F32);
  rows.local[0] = 2;
  rows.axes[0][0] = kData;
  int64_t x = place(2 * part), y = place(part);
  data.inputs.push_back({text("x"), KERF_ROLE_NONE, rows, x, 2 * part});
  kerf_operand of = floats(x, kPart, KERF_READ);
  of.slot_stride = part;
  of.copies = data.meta.micro_batches;
  kerf_operand sent = floats(y, kPart, KERF_READ);
  kerf_operand made = floats(y, kPart, KERF_WRITE);
  data.beginFunc("forward");
  command(KERF_OP_LAUNCH, "double", {of, made}, {twice});
  command(KERF_OP_SEND, "send", {sent}, {kForward, part});
  data.beginFunc("backward");
  command(KERF_OP_RECEIVE, "receive", {made}, {kBackward, part});
  command(
      KERF_OP_LAUNCH, "add_back",
      {floats(y, 1, KERF_READ), floats(result + 4, 1, KERF_READ | KERF_WRITE)},
      {add});
  data.beginFunc("evaluate");
  command(KERF_OP_ROTATE, "rotate", {of, made}, {kDataGroup, KERF_F32, kPart},
          KERF_STARTS);
  command(KERF_OP_ZERO, "zero", {floats(result, 2, KERF_WRITE)}, {8});
  // A message ends what was started before it.
  command(KERF_OP_SEND, "send", {sent}, {kForward, part});
  command(KERF_OP_WAIT, "rotate", {of, made}, {3});
  command(KERF_OP_COPY, "loss",
          {floats(y, 1, KERF_READ), floats(result, 1, KERF_WRITE)}, {4});
  data.beginFunc("update");
  update({1, 2});
  data.beginFunc("prologue");
  command(KERF_OP_ZERO, "zero", {floats(result, 2, KERF_WRITE)}, {8});
  command(KERF_OP_STOP_IF, "stop", {floats(result, 1, KERF_READ)}, {});
  calls({{4, 0}, {0, 0}, {0, 1}, {1, 0}, {1, 1}, {3, 0}});
}

void StageBuilder::secondStage() {
  addProgram(data, "second").arena_bytes = 0;
  size_t firstLayer = data.params.size();
  layers(1);
  others();
  outputs();
  channels();
  int64_t y = place(part), z = place(part);
  kerf_operand got = floats(y, kPart, KERF_WRITE);
  data.beginFunc("forward");
  command(KERF_OP_RECEIVE, "receive", {got}, {kForward, part});
  command(KERF_OP_LAUNCH, "add_up",
          {floats(y, 1, KERF_READ), floats(result, 1, KERF_READ | KERF_WRITE)},
          {add});
  command(KERF_OP_LAUNCH, "double",
          {floats(y, kPart, KERF_READ), floats(z, kPart, KERF_WRITE)}, {twice});
  command(KERF_OP_SEND, "send", {floats(z, kPart, KERF_READ)},
          {kBackward, part});
  data.beginFunc("prologue");
  command(KERF_OP_ZERO, "zero", {floats(result, 2, KERF_WRITE)}, {8});
  data.beginFunc("evaluate");
  command(KERF_OP_RECEIVE, "receive", {got}, {kForward, part});
  command(KERF_OP_COPY, "loss",
          {floats(y, 1, KERF_READ), floats(result, 1, KERF_WRITE)}, {4});
  data.beginFunc("update");
  update({uint32_t(firstLayer), uint32_t(firstLayer + 1)});
  calls({{1, 0}, {0, 0}, {0, 1}, {3, 0}});
}

ArtifactData test::pipelineProgram(uint32_t dataRanks) {
  StageBuilder builder(dataRanks, false);
  ArtifactData &data = builder.data;
  data.programs.clear();
  data.meta.world_size = 2 * dataRanks;
  data.meta.micro_batches = 2;
  data.meta.pipeline_axis = 0;
  data.axes = {{builder.text("pp"), 2}, {builder.text("data"), dataRanks}};
  data.groups = {{kDataMask, dataRanks}, {3, 2 * dataRanks}};
  builder.twice = addKernel(data, "twice", kPart);
  builder.add = addKernel(data, "add", 1);
  builder.add8 = addKernel(data, "add", kPart);
  builder.firstStage();
  builder.secondStage();
  return std::move(data);
}

ArtifactData test::wholeProgram() {
  StageBuilder builder(1, true);
  ArtifactData &data = builder.data;
  Spread spread;
  builder.others();
  spread.hasState = true;
  spread.master = KERF_F32;
  builder.param("h.{i}.w", 0, 4, {3, 5}, KERF_F32, spread);
  builder.param("qkv", 0, 1, {36, 2}, KERF_F32, {});
  data.endProgram();
  return std::move(data);
}
