//===- CommandTimes.cpp - how long one command runs -----------------------===//
//
// Problem: the planner prices ops of a model; a program has commands. Price
// them with the same functions (kerf/Cost), from what the file says of them.
//
//   matmul          shape and types are attributes; each operand moves once,
//                   the result twice where it is added to
//   attention       shape, mask and window are attributes
//   grouped matmul  rows that experts can expect: of the command's rows, which
//                   are the room for them, the even share
//   launch          bytes of its operands, but for what the kernel leaves
//                   untouched; a range that two operands share moves once; of
//                   experts' rows that are brought home, the even share
//   collective      `groupCosts` of its group at its own size; one over several
//                   sequences of ranks runs one after the other, as the
//                   planner has it
//
// Example: bf16 m 2048 n 15360 k 10240 on an H100: 644 GFLOP at 0.79 of 989
// TFLOP/s take 0.82 ms; its 420 MB would take 0.14 ms.
//
//===----------------------------------------------------------------------===//

#include "CommandTimes.h"

#include "kerf/Artifact/Check.h"
#include "kerf/Artifact/CudaWorkspace.h"
#include "kerf/Cost/Collectives.h"
#include "kerf/Cost/Kernels.h"
#include "kerf/Support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>

using namespace kerf;

/// The planner's name of a number type.
static llvm::StringRef typeName(int64_t dtype) {
  bool isFloat8 = dtype == KERF_F8E4M3 || dtype == KERF_F8E5M2;
  return isFloat8 ? "fp8" : artifact::dtypeName(uint32_t(dtype));
}

/// Bytes of an element.
static double widthOf(int64_t dtype) {
  return double(kerf_dtype_bytes(uint32_t(dtype)));
}

/// What ranks that exchange rows of experts have room for, as the plan says.
static MoeRoom moeRoomOf(const ArtifactData &data) {
  MoeRoom room;
  auto plan =
      json::parse(data.plan, [](json::Position, const llvm::Twine &) {});
  const json::Value *assign = failed(plan) ? nullptr : plan->find("assign");
  if (!assign)
    return room;
  if (const json::Value *buffer = plan->find("moe_buffer"))
    room.shares = buffer->number;
  for (const json::Value &op : assign->array) {
    const json::Value *variant = op.find("variant");
    const json::Value *factors = op.find("factors");
    const json::Value *rows = factors ? factors->find("r") : nullptr;
    bool exchanges = variant && rows &&
                     llvm::any_of(variant->array, [](const json::Value &name) {
                       return name.string == "all_to_all";
                     });
    if (!exchanges)
      continue;
    for (const json::Value &axis : rows->array)
      room.axes.insert(axis.string);
  }
  return room;
}

CommandTimes::CommandTimes(const ArtifactData &data, const Machine &machine,
                           const Profile &profile)
    : data(data), machine(machine), profile(profile),
      device(machine.perRank().device), moe(moeRoomOf(data)),
      messages(messagesOf()) {}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

double CommandTimes::movingSec(double bytes) const {
  return rowSec(device, profile, bytes, 0);
}

double CommandTimes::copySec(double bytes) const {
  return movingSec(2 * bytes);
}

namespace {
/// Attributes of KERF_OP_MATMUL.
enum MatmulAttr {
  kTypeA,
  kTypeB,
  kTypeC,
  kBatch,
  kM,
  kN,
  kK,
  kBatchStrideA,
  kBatchStrideB = 10,
  kAccumulate = 15
};
} // namespace

double CommandTimes::matmulSec(const kerf_command &command) const {
  const int64_t *a = attrsOf(command);
  MatmulShape shape{double(a[kBatch]), double(a[kM]), double(a[kN]),
                    double(a[kK])};
  double batchA = a[kBatchStrideA] ? shape.batch : 1;
  double batchB = a[kBatchStrideB] ? shape.batch : 1;
  double bytes = batchA * shape.m * shape.k * widthOf(a[kTypeA]) +
                 batchB * shape.k * shape.n * widthOf(a[kTypeB]) +
                 (a[kAccumulate] ? 2 : 1) * shape.batch * shape.m * shape.n *
                     widthOf(a[kTypeC]);
  constexpr uint32_t kAux = 5; // behind a, b, c, workspace and bias
  if (command.operand_count > kAux)
    bytes += double(operand(command, kAux).bytes);
  double sec = kerf::matmulSec(device, profile, shape, typeName(a[kTypeA]),
                               widthOf(a[kTypeA]));
  return std::max(sec, movingSec(bytes));
}

/// Pairs of a query and a key that it sees, of one head and sequence: on the
/// square a triangle, or a band of the window's width. A rank with a part of
/// the queries has its share of them in zigzag order, else at most what the
/// last rank has.
static double visiblePairs(const int64_t *a) {
  auto queries = double(a[KERF_ATTN_SQ]), keys = double(a[KERF_ATTN_SK]);
  if (!a[KERF_ATTN_CAUSAL])
    return queries * keys;
  double window =
      a[KERF_ATTN_WINDOW] ? std::min(double(a[KERF_ATTN_WINDOW]), keys) : keys;
  double square = keys * window - window * (window - 1) / 2;
  double parts = std::max(1.0, keys / queries);
  double skew = a[KERF_ATTN_ZIGZAG] ? 1 : (2 * parts - 1) / parts;
  return skew * square / parts;
}

/// Do own kernels compute it on a GPU?
bool CommandTimes::isOwnAttention(const kerf_command &command) const {
  if (device.target != BackendTarget::Cuda)
    return false;
  const int64_t *a = attrsOf(command);
  bool isBackward = command.opcode == KERF_OP_ATTENTION_BACKWARD;
  uint32_t scalars = kerf_attention_scalars(isBackward);
  auto has = [&](uint32_t n) {
    return operand(command, n).kind != KERF_ABSENT;
  };
  bool isPacked = command.operand_count > scalars + KERF_ATTN_SEGMENTS_Q;
  bool isPart =
      has(scalars + KERF_ATTN_OFFSET_Q) || has(scalars + KERF_ATTN_OFFSET_K);
  return kerf_cuda_attention_is_own(a, isBackward, isPacked, isPart);
}

double CommandTimes::attentionSec(const kerf_command &command) const {
  const int64_t *a = attrsOf(command);
  bool isBackward = command.opcode == KERF_OP_ATTENTION_BACKWARD;
  auto size = [a](int attr) { return double(a[attr]); };
  double heads = size(KERF_ATTN_B) * size(KERF_ATTN_H);
  double d = size(KERF_ATTN_D), dv = size(KERF_ATTN_DV);
  double queries = heads * size(KERF_ATTN_SQ);
  double keys = size(KERF_ATTN_B) * size(KERF_ATTN_G) * size(KERF_ATTN_SK);
  double pairs = heads * visiblePairs(a);
  double flops = 2 * pairs * (isBackward ? 3 * d + 2 * dv : d + dv);
  double once = queries * (d + dv) + keys * (d + dv);
  double elements = isBackward ? 2 * once : once;
  double bytes = elements * widthOf(a[KERF_ATTN_DTYPE]) + 4 * queries;
  bool isOwn = isOwnAttention(command);
  AttentionWork work = {flops,
                        bytes,
                        d,
                        queries * size(KERF_ATTN_SK),
                        typeName(a[KERF_ATTN_DTYPE]),
                        isBackward,
                        size(KERF_ATTN_SK),
                        isOwn};
  double sec = kerf::attentionSec(device, profile, work);
  if (device.target != BackendTarget::Cuda || isOwn ||
      !kerf_cuda_attention_is_sorted(a))
    return sec;
  double copied = keys * (d + dv) * widthOf(a[KERF_ATTN_DTYPE]);
  return sec +
         movingSec(copied * (isBackward ? kSortedBackward : kSortedForward));
}

/// Of the rows that a matmul in groups has room for, the part that even
/// experts fill: one of as many parts as the experts are split into, but
/// where ranks exchange rows one of as many even shares as there is room for.
double CommandTimes::usedShare(const kerf_program &program,
                               const int64_t *attrs) const {
  int64_t experts = attrs[KERF_GROUPED_EXPERTS],
          sides[] = {attrs[KERF_GROUPED_N], attrs[KERF_GROUPED_K]};
  if (bool hasCapacity = attrs[KERF_GROUPED_CAPACITY] > 0; hasCapacity)
    return 1;
  for (uint32_t p = 0; p < program.param_count; ++p) {
    const kerf_layout &layout = data.params[program.first_param + p].layout;
    bool isWeight = layout.rank == 3 && layout.local[0] == experts &&
                    layout.local[1] * layout.local[2] == sides[0] * sides[1];
    if (isWeight)
      return shareOf(layout);
  }
  return 1;
}

double CommandTimes::shareOf(const kerf_layout &layout) const {
  double share = 1;
  for (uint8_t number : layout.axes[0]) {
    if (number >= data.axes.size())
      continue;
    const kerf_axis &axis = data.axes[number];
    double parts = axis.size;
    if (moe.shares > 0 && moe.axes.contains(data.strings.get(axis.name)))
      parts = std::min(parts, moe.shares);
    share /= parts;
  }
  return share;
}

double CommandTimes::groupedSec(const kerf_program &program,
                                const kerf_command &command) const {
  const int64_t *a = attrsOf(command);
  auto experts = double(a[6]), n = double(a[7]), k = double(a[8]);
  double rows = double(a[4] * a[5]) * usedShare(program, a) / experts;
  bool isGradient = a[0];
  MatmulShape shape = isGradient ? MatmulShape{experts, n, k, rows, true}
                                 : MatmulShape{experts, rows, n, k, true};
  double weights = experts * n * k * widthOf(isGradient ? a[3] : a[2]);
  // Rows of no expert are set to zero.
  double written = isGradient ? experts * rows : double(a[4] * a[5]);
  double rest = (experts * rows * k + written * n) * widthOf(a[1]);
  double bytes = weights * (a[11] ? 2 : 1) + rest;
  return std::max(
      kerf::matmulSec(device, profile, shape, typeName(a[1]), widthOf(a[1])),
      movingSec(bytes));
}

namespace {
struct Range {
  int64_t begin, end;
};
} // namespace

/// Bytes in any of the ranges.
static double unionOf(llvm::SmallVectorImpl<Range> &ranges) {
  llvm::sort(ranges, [](Range a, Range b) { return a.begin < b.begin; });
  double bytes = 0;
  int64_t end = INT64_MIN;
  for (Range range : ranges) {
    int64_t begin = std::max(range.begin, end);
    bytes += double(std::max<int64_t>(0, range.end - begin));
    end = std::max(end, range.end);
  }
  return bytes;
}

/// Of the rows that a program's experts have room for, the part that even
/// experts fill.
double CommandTimes::filledShare(const kerf_program &program) const {
  double share = 1;
  for (uint32_t f = 0; f < program.func_count; ++f) {
    const kerf_func &func = data.funcs[program.first_func + f];
    for (uint32_t c = 0; c < func.command_count; ++c) {
      const kerf_command &command = data.commands[func.first_command + c];
      if (command.opcode == KERF_OP_GROUPED_MATMUL)
        share = std::min(share, usedShare(program, attrsOf(command)));
    }
  }
  return share;
}

/// Rows that are brought home are looked up: those of no expert of the rank
/// are not read.
double CommandTimes::launchSec(const kerf_program &program,
                               const kerf_command &command) const {
  llvm::SmallVector<Range, 16> reads, writes;
  for (uint32_t n = 0; n < command.operand_count; ++n) {
    const kerf_operand &own = operand(command, n);
    Range range{own.offset, own.offset + own.bytes};
    if (own.kind != KERF_ARENA)
      continue;
    if (own.access & KERF_READ)
      reads.push_back(range);
    if (own.access & KERF_WRITE)
      writes.push_back(range);
  }
  auto isLonger = [](Range a, Range b) {
    return a.end - a.begin < b.end - b.begin;
  };
  llvm::StringRef name = data.strings.get(command.name);
  if (name.starts_with("combine") && !reads.empty()) {
    Range &table = *llvm::max_element(reads, isLonger);
    table.end = table.begin +
                int64_t(double(table.end - table.begin) * filledShare(program));
  }
  double bytes = unionOf(reads) + unionOf(writes);
  if (!name.starts_with("combine"))
    bytes -=
        double(data.kernels[attrsOf(command)[KERF_LAUNCH_KERNEL]].untouched);
  return movingSec(std::max(bytes, 0.0));
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

std::vector<Group> CommandTimes::sequencesOf(const kerf_group &group) const {
  std::vector<Group> sequences;
  int64_t stride = 1;
  for (size_t a = data.axes.size(); a-- > 0;) {
    int64_t size = data.axes[a].size;
    bool isNext = !sequences.empty() &&
                  sequences.back().size * sequences.back().stride == stride;
    if ((group.axes >> a & 1) && size > 1) {
      if (isNext)
        sequences.back().size *= size;
      else
        sequences.push_back({size, stride});
    }
    stride *= size;
  }
  return sequences;
}

bool CommandTimes::isAcrossStages(const kerf_group &group) const {
  uint32_t axis = data.meta.pipeline_axis;
  return axis != KERF_NONE && data.programs.size() > 1 &&
         (group.axes >> axis & 1);
}

/// Elements of the whole tensor that a collective is about.
static double elementsOf(uint32_t opcode, const int64_t *a, double ranks) {
  switch (opcode) {
  case KERF_OP_ALL_REDUCE:
    return double(a[3]);
  case KERF_OP_ALL_GATHER:
    return double(a[2]) * double(a[3]) * ranks;
  case KERF_OP_REDUCE_SCATTER:
    return double(a[3]) * double(a[4]) * ranks;
  case KERF_OP_ALL_TO_ALL:
    return double(a[3]) * double(a[4]) * double(a[5]) * ranks;
  default: // KERF_OP_ROTATE
    return double(a[2]);
  }
}

/// Over several sequences: reduce-scatters inside, an all-reduce outermost,
/// gathers inside; all of them see what those before have left.
double CommandTimes::collectiveSec(const kerf_command &command,
                                   double bytes) const {
  auto costs = [&](Group group, double part) {
    return groupCosts(machine, profile, group, part);
  };
  double sec = 0;
  auto sequences = sequencesOf(data.groups[attrsOf(command)[0]]);
  for (size_t s = 0; s < sequences.size(); ++s) {
    GroupCosts own = costs(sequences[s], bytes);
    auto ranks = double(sequences[s].size);
    bool isLast = s + 1 == sequences.size();
    switch (command.opcode) {
    case KERF_OP_ALL_REDUCE:
      sec += isLast ? own.allReduce(bytes)
                    : own.reduceScatter(bytes) + own.allGather(bytes);
      break;
    case KERF_OP_ALL_GATHER:
      sec += own.allGather(bytes);
      break;
    case KERF_OP_REDUCE_SCATTER:
      sec += own.reduceScatter(bytes);
      break;
    case KERF_OP_ALL_TO_ALL:
      sec += own.allToAll(bytes);
      break;
    default: // KERF_OP_ROTATE
      return own.rotate(bytes);
    }
    if (command.opcode != KERF_OP_ALL_TO_ALL)
      bytes /= ranks;
  }
  return sec;
}

/// What does not lie in one piece is put in order by copies of rows before or
/// after the exchange (runtime/transport/nccl). Ranks that share memory read
/// rows where they are.
double CommandTimes::packSec(const kerf_command &command, double bytes) const {
  const int64_t *a = attrsOf(command);
  if (device.target != BackendTarget::Cuda)
    return 0;
  switch (command.opcode) {
  case KERF_OP_ALL_GATHER:
    return a[2] > 1 ? copySec(bytes) : 0;
  case KERF_OP_REDUCE_SCATTER:
    return a[3] > 1 ? copySec(bytes) : 0;
  case KERF_OP_ALL_TO_ALL:
    // One side has members outside the middle, the other one inside.
    return ((a[3] > 1) + (a[3] * a[4] > 1)) * copySec(bytes);
  default:
    return 0;
  }
}

CommandTime CommandTimes::collective(const kerf_command &command) const {
  const int64_t *a = attrsOf(command);
  CommandTime time;
  time.bytes =
      elementsOf(command.opcode, a, data.groups[a[0]].size) * widthOf(a[1]);
  time.sec = collectiveSec(command, time.bytes) + packSec(command, time.bytes);
  return time;
}

std::vector<AlphaBeta> CommandTimes::messagesOf() const {
  uint32_t axis = data.meta.pipeline_axis;
  if (axis >= data.axes.size())
    return {};
  int64_t stride = 1;
  for (size_t a = data.axes.size(); a-- > axis + 1;)
    stride *= data.axes[a].size;
  std::vector<AlphaBeta> costs;
  for (size_t tier : tiersOfBorders(machine, {data.axes[axis].size, stride},
                                    data.meta.world_size))
    costs.push_back(messageCost(machine, profile, tier));
  return costs;
}

double CommandTimes::messageSec(uint32_t from, uint32_t to,
                                double bytes) const {
  uint32_t first = std::min(from, to), second = std::max(from, to);
  // Others than neighbours are the two ends.
  size_t border = second - first == 1 ? first : messages.size() - 1;
  return border < messages.size() ? messages[border](bytes) : 0;
}

//===----------------------------------------------------------------------===//
// All commands
//===----------------------------------------------------------------------===//

CommandTime CommandTimes::of(const kerf_program &program,
                             const kerf_command &command) const {
  const int64_t *a = attrsOf(command);
  switch (command.opcode) {
  case KERF_OP_LAUNCH:
    return {WorkPart::Memory, launchSec(program, command)};
  case KERF_OP_MATMUL:
    return {WorkPart::Matmul, matmulSec(command)};
  case KERF_OP_GROUPED_MATMUL:
    return {WorkPart::Matmul, groupedSec(program, command)};
  case KERF_OP_ATTENTION:
  case KERF_OP_ATTENTION_BACKWARD:
    return {WorkPart::Attention, attentionSec(command)};
  case KERF_OP_COPY:
    return {WorkPart::Memory, copySec(double(a[0]))};
  case KERF_OP_ZERO:
    return {WorkPart::Memory, movingSec(double(a[0]))};
  case KERF_OP_TAKE:
    return {WorkPart::Memory, copySec(double(a[0]) * double(a[2]))};
  default:
    return artifact::isCollective(command.opcode) ? collective(command)
                                                  : CommandTime();
  }
}
