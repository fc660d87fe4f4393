//===- Measure.cpp - what is timed on a machine ---------------------------===//

#include "kerf/Artifact/Workspace.h"
#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/Calibrate.h"
#include "kerf/Train/Launcher.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

using namespace kerf::runtime;

namespace {
/// A command that owns its tables.
struct Command {
  uint32_t opcode;
  std::vector<int64_t> attrs;
  std::vector<uint64_t> bytes;
  uint32_t dtype = KERF_F32;
  uint32_t repeat = 1;
  bool isEnqueued = false; ///< by the host, each; else recorded where possible
};

/// One rank that times; remembers the first failure and does nothing after it.
class Bench {
public:
  Bench(const MeasureOptions &options, int64_t rank, int64_t ranks,
        const std::string &session, int64_t workers);
  ~Bench() { kerf_bench_destroy(bench); }
  /// Seconds of a command: of four runs three took longer, since what disturbs
  /// a run only makes it longer.
  double seconds(const Command &command);
  int64_t workers() const { return bench ? kerf_bench_workers(bench) : 1; }
  /// Has the device memory and kernels of its own?
  bool isGpu() const { return isOwn; }
  const MeasuredSizes &sizes() const { return measuredSizes(isOwn, isTiny); }
  /// Bytes of the workspace of a command.
  uint64_t workspace(uint32_t opcode, const std::vector<int64_t> &attrs) const;
  void describe(MachineFacts &facts) const;
  /// Tells the failure, if any. Returns the exit status.
  int status(std::string &text) const;
  /// As `status`; adds how much the times were disturbed.
  int finish(const std::string &spreadName, Figures &figures,
             std::string &text);

private:
  kerf_bench *bench = nullptr;
  kerf_error error = {KERF_OK, ""};
  double budgetSec;
  bool isTiny, isOwn = false;
  std::vector<double> spreads; ///< median / fastest time of each command
};
} // namespace

Bench::Bench(const MeasureOptions &options, int64_t rank, int64_t ranks,
             const std::string &session, int64_t workers)
    : budgetSec(options.budgetSec), isTiny(options.isTiny) {
  kerf_session_options how;
  kerf_session_options_init(&how);
  auto orNull = [](const std::string &text) {
    return text.empty() ? nullptr : text.c_str();
  };
  how.rank = static_cast<int32_t>(rank);
  how.workers = static_cast<int32_t>(workers);
  how.device = orNull(options.device);
  how.plugin_path = orNull(options.pluginPath);
  how.transport = orNull(options.transport);
  how.session_name = orNull(session);
  if (!kerf_bench_create(&how, static_cast<uint32_t>(ranks), &bench, &error))
    error.status = KERF_OK;
  kerf_device_facts facts;
  isOwn = bench && kerf_bench_facts(bench, &facts);
}

uint64_t Bench::workspace(uint32_t opcode,
                          const std::vector<int64_t> &attrs) const {
  return static_cast<uint64_t>(
      kerf_workspace(isOwn ? KERF_TARGET_CUDA : KERF_TARGET_CPU, opcode,
                     attrs.data(), workers()));
}

void Bench::describe(MachineFacts &facts) const {
  facts.device = bench ? kerf_bench_describe(bench) : "";
  kerf_device_facts own;
  if (!bench || !kerf_bench_facts(bench, &own))
    return;
  facts.name = own.name;
  facts.arch = own.arch;
  facts.devices = own.devices;
  kerf_memory memory;
  kerf_bench_memory(bench, &memory);
  facts.memoryBytes = static_cast<double>(memory.device_total);
  facts.usedBytes =
      static_cast<double>(memory.device_total - memory.device_free);
}

static double medianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle]
                           : (values[middle - 1] + values[middle]) / 2;
}

double Bench::seconds(const Command &command) {
  if (error.status != KERF_OK)
    return 1;
  kerf_bench_command given = {};
  given.opcode = command.opcode;
  given.attr_count = static_cast<uint32_t>(command.attrs.size());
  given.operand_count = static_cast<uint32_t>(command.bytes.size());
  given.dtype = command.dtype;
  given.repeat = command.repeat;
  given.is_enqueued = command.isEnqueued;
  given.attrs = command.attrs.data();
  given.operand_bytes = command.bytes.data();
  std::vector<double> times(100);
  uint32_t count = 0;
  kerf_error failure;
  if (kerf_bench_measure(bench, &given, budgetSec, times.data(),
                         static_cast<uint32_t>(times.size()), &count,
                         &failure)) {
    error = failure;
    return 1;
  }
  times.resize(count);
  std::sort(times.begin(), times.end());
  spreads.push_back(medianOf(times) / times.front());
  return times[count / 4];
}

int Bench::status(std::string &text) const {
  if (error.status != KERF_OK)
    text = error.message;
  return kerf_exit_code(error.status);
}

int Bench::finish(const std::string &spreadName, Figures &figures,
                  std::string &text) {
  if (error.status == KERF_OK)
    figures[spreadName] = medianOf(spreads);
  return status(text);
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

namespace {
struct Matmul {
  int64_t m, n, k;
  bool isTransposedA = false, isTransposedB = false, isWeightGradient = false;
  double flops() const { return 2.0 * m * n * k; }
};
} // namespace

static const char *nameOf(uint32_t dtype) {
  return dtype == KERF_BF16 ? "bf16" : "f32";
}

static Command matmulCommand(const Bench &bench, const Matmul &p,
                             uint32_t dtype) {
  // Weight gradients are summed in f32.
  uint32_t result = p.isWeightGradient ? uint32_t(KERF_F32) : dtype;
  Command command = {KERF_OP_MATMUL, {}, {}, dtype};
  command.attrs = {dtype, dtype, result, 1, p.m, p.n, p.k};
  for (int64_t stride :
       {int64_t(0), p.isTransposedA ? 1 : p.k, p.isTransposedA ? p.m : 1,
        int64_t(0), p.isTransposedB ? 1 : p.n, p.isTransposedB ? p.k : 1,
        int64_t(0), p.n})
    command.attrs.push_back(stride);
  command.attrs.insert(command.attrs.end(), {0, KERF_EPILOGUE_NONE, 0});
  uint64_t size = kerf_dtype_bytes(dtype);
  command.bytes = {p.m * p.k * size, p.k * p.n * size,
                   uint64_t(p.m * p.n * kerf_dtype_bytes(result)),
                   bench.workspace(KERF_OP_MATMUL, command.attrs)};
  return command;
}

static void measureMatmuls(Bench &bench, uint32_t dtype, Figures &figures) {
  for (auto [m, n, k] : bench.sizes().matmuls) {
    Matmul shape = {m, n, k};
    double seconds = bench.seconds(matmulCommand(bench, shape, dtype));
    figures[format("matmul %s %lld %lld %lld", nameOf(dtype), (long long)m,
                   (long long)n, (long long)k)] = shape.flops() / seconds;
  }
}

/// Flop/s of this rank on the matmuls of layers for `rows` tokens: forward and
/// gradient of the input, the geometric mean over some widths.
static double rowsRate(Bench &bench, uint32_t dtype, int64_t rows) {
  double logarithms = 0;
  for (int64_t width : bench.sizes().widths) {
    double flops = 0, seconds = 0;
    for (const Matmul &matmul :
         {Matmul{rows, 3 * width, width, false, true},
          Matmul{rows, width, 3 * width, false, false}}) {
      flops += matmul.flops();
      seconds += bench.seconds(matmulCommand(bench, matmul, dtype));
    }
    logarithms += std::log(flops / seconds);
  }
  return std::exp(logarithms / std::size(bench.sizes().widths));
}

/// Of gradients of a weight, which are sums over `depth` tokens.
static double depthRate(Bench &bench, uint32_t dtype, int64_t depth) {
  const int64_t width = bench.sizes().depthWidth;
  Matmul matmul = {width, width, depth, true, false, true};
  return matmul.flops() / bench.seconds(matmulCommand(bench, matmul, dtype));
}

//===----------------------------------------------------------------------===//
// Attention, memory, launches
//===----------------------------------------------------------------------===//

/// Flop/s forward and backward, causal.
static std::pair<double, double> attentionRates(Bench &bench, uint32_t dtype,
                                                int64_t length) {
  const MeasuredSizes &sizes = bench.sizes();
  const int64_t heads = sizes.heads, size = sizes.headSize,
                batch = sizes.tokens / length;
  std::vector<int64_t> attrs = {dtype,  batch,  heads, heads,
                                length, length, size,  size};
  // Eight tensors [batch, length, heads, size].
  for (int tensor = 0; tensor < 8; ++tensor)
    for (int64_t stride : {length * heads * size, heads * size, size})
      attrs.push_back(stride);
  attrs.resize(KERF_ATTN_ATTR_COUNT);
  attrs[KERF_ATTN_CAUSAL] = 1;
  double scale = 1 / std::sqrt(double(size));
  std::memcpy(&attrs[KERF_ATTN_SCALE], &scale, sizeof scale);
  uint64_t tensor = batch * heads * length * size * kerf_dtype_bytes(dtype);
  uint64_t rows = batch * heads * length * 4;
  Command forward = {KERF_OP_ATTENTION, attrs, {}, dtype};
  forward.bytes = {tensor, tensor, tensor, tensor, rows, 0, 0,
                   0,      0,      0,      0,      0,    0};
  forward.bytes.back() = bench.workspace(KERF_OP_ATTENTION, attrs);
  Command backward = {KERF_OP_ATTENTION_BACKWARD, attrs, {}, dtype};
  backward.bytes = {tensor, tensor, tensor, tensor, rows, tensor,
                    tensor, tensor, tensor, 0,      0,    0,
                    0,      0,      0,      0,      0};
  backward.bytes.back() = bench.workspace(KERF_OP_ATTENTION_BACKWARD, attrs);
  // Two matmuls; the mask leaves half.
  double flops = 2.0 * batch * heads * length * length * size;
  double forwardSec = bench.seconds(forward);
  return {flops / forwardSec, 2.5 * flops / bench.seconds(backward)};
}

/// What `ranks` ranks reach together, each at a whole task of its own; the
/// slowest one's time counts.
static void measureKernels(Bench &bench, uint32_t dtype, int64_t ranks,
                           Figures &figures) {
  auto set = [&](const char *kind, int64_t size, double rate) {
    figures[format("%s %s %lld %lld", kind, nameOf(dtype), (long long)ranks,
                   (long long)size)] = ranks * rate;
  };
  for (int64_t rows : bench.sizes().rows)
    set("rows", rows, rowsRate(bench, dtype, rows));
  for (int64_t depth : bench.sizes().depths)
    set("depth", depth, depthRate(bench, dtype, depth));
  for (int64_t length : bench.sizes().lengths) {
    auto [forward, backward] = attentionRates(bench, dtype, length);
    set("attention", length, forward);
    set("attention_backward", length, backward);
  }
}

static double sumRate(Bench &bench, uint64_t bytes) {
  Command sum = {KERF_OP_LAUNCH, {int64_t(bytes / 4), 16384}, {}};
  sum.bytes = {bytes, bytes, bytes};
  return 3.0 * bytes / bench.seconds(sum);
}

/// Of ranks together.
static void setMemory(Bench &bench, int64_t ranks, Figures &figures) {
  figures[format("memory %lld", (long long)ranks)] =
      ranks * sumRate(bench, bench.sizes().vectors.back());
}

static void measureMemory(Bench &bench, Figures &figures) {
  for (int64_t size : bench.sizes().vectors) {
    auto bytes = static_cast<uint64_t>(size);
    Command copy = {KERF_OP_COPY, {size}, {bytes, bytes}};
    figures["copy " + std::to_string(bytes)] =
        2.0 * bytes / bench.seconds(copy);
    figures["sum " + std::to_string(bytes)] = sumRate(bench, bytes);
  }
  Command nothing = {KERF_OP_LAUNCH, {bench.workers(), 1}, {}};
  nothing.repeat = 200;
  if (bench.isGpu())
    nothing.bytes = {64}; // its kernel has an argument
  figures["launch"] = bench.seconds(nothing);
  nothing.isEnqueued = true;
  if (bench.isGpu())
    figures["launch enqueued"] = bench.seconds(nothing);
}

int kerf::runtime::describeDevice(const MeasureOptions &options,
                                  MachineFacts &facts, std::string &error) {
  Bench bench(options, 0, 1, "", /*workers=*/1);
  bench.describe(facts);
  return bench.status(error);
}

int kerf::runtime::measureDevice(const MeasureOptions &options, int64_t workers,
                                 Figures &figures, MachineFacts &facts,
                                 std::string &error) {
  Bench bench(options, 0, 1, "", workers);
  for (uint32_t dtype : {KERF_F32, KERF_BF16}) {
    measureMatmuls(bench, dtype, figures);
    measureKernels(bench, dtype, 1, figures);
  }
  measureMemory(bench, figures);
  figures["memory 1"] =
      figures["sum " + std::to_string(bench.sizes().vectors.back())];
  bench.describe(facts);
  return bench.finish("spread 1", figures, error);
}

//===----------------------------------------------------------------------===//
// Several ranks
//===----------------------------------------------------------------------===//

/// The collectives of `ranks` ranks on a tensor of `bytes` in all, by name.
static std::vector<std::pair<std::string, Command>> collectives(int64_t ranks,
                                                                int64_t bytes) {
  // Elements of the whole, and of a rank's part.
  int64_t part = std::max<int64_t>(bytes / 4 / ranks, 1), all = part * ranks;
  uint64_t partBytes = part * 4, allBytes = all * 4;
  auto several = uint32_t(std::clamp<int64_t>((64 << 10) / bytes, 1, 16));
  return {
      {"all_reduce",
       {KERF_OP_ALL_REDUCE,
        {0, KERF_F32, KERF_SUM, all},
        {allBytes, allBytes},
        KERF_F32,
        several}},
      {"all_gather",
       {KERF_OP_ALL_GATHER,
        {0, KERF_F32, 1, part},
        {partBytes, allBytes},
        KERF_F32,
        several}},
      {"reduce_scatter",
       {KERF_OP_REDUCE_SCATTER,
        {0, KERF_F32, KERF_SUM, 1, part},
        {allBytes, partBytes},
        KERF_F32,
        several}},
      {"all_to_all",
       {KERF_OP_ALL_TO_ALL,
        {0, KERF_F32, 0, 1, 1, part},
        {allBytes, allBytes},
        KERF_F32,
        several}},
      {"send",
       {KERF_OP_SEND, {0, int64_t(allBytes)}, {allBytes}, KERF_F32, several}},
  };
}

int kerf::runtime::measureRank(const MeasureOptions &options, int64_t rank,
                               int64_t ranks, const std::string &session,
                               Figures &figures, std::string &error) {
  Bench bench(options, rank, ranks, session, defaultThreads(ranks));
  const MeasuredSizes &sizes = bench.sizes();
  for (int64_t bytes = sizes.leastMessage; bytes <= sizes.mostMessage;
       bytes *= 4)
    for (const auto &[name, command] : collectives(ranks, bytes)) {
      double seconds = bench.seconds(command);
      // A message goes there and back.
      figures[format("%s %lld %lld", name.c_str(), (long long)ranks,
                     (long long)bytes)] =
          name == "send" ? seconds / 2 : seconds;
    }
  // Ranks that take turns have each its own time only.
  if (ranks <= usableCores() && !bench.isGpu()) {
    for (uint32_t dtype : {KERF_F32, KERF_BF16})
      measureKernels(bench, dtype, ranks, figures);
    setMemory(bench, ranks, figures);
  }
  return bench.finish(format("spread %lld", (long long)ranks), figures, error);
}
