//===- CheckProgram.cpp - functions, calls and commands -------------------===//

#include "CheckDetail.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

using namespace kerf::artifact;

namespace {
/// How many operands and attributes an opcode has.
struct Arity {
  uint32_t operands, moreOperands, attrs;
};
} // namespace

/// KERF_OP_LAUNCH has as many operands as its kernel has arguments.
static constexpr uint32_t kByKernel = UINT32_MAX;

static const Arity kArity[KERF_OP_COUNT] = {
    {kByKernel, 0, KERF_LAUNCH_ATTR_COUNT}, // launch
    {KERF_MATMUL_BIAS, KERF_MATMUL_OPERAND_COUNT,
     KERF_MATMUL_ATTR_COUNT},       // matmul
    {13, 15, KERF_ATTN_ATTR_COUNT}, // attention
    {17, 19, KERF_ATTN_ATTR_COUNT}, // attention_backward
    {KERF_GROUPED_OPERAND_COUNT, KERF_GROUPED_OPERAND_COUNT,
     KERF_GROUPED_ATTR_COUNT},              // grouped_matmul
    {2, 2, KERF_COPY_ATTR_COUNT},           // copy
    {1, 1, KERF_COPY_ATTR_COUNT},           // zero
    {0, 0, KERF_LOOP_ATTR_COUNT},           // loop
    {2, 2, KERF_ALL_REDUCE_ATTR_COUNT},     // all_reduce
    {2, 2, KERF_ALL_GATHER_ATTR_COUNT},     // all_gather
    {2, 2, KERF_REDUCE_SCATTER_ATTR_COUNT}, // reduce_scatter
    {2, 2, KERF_ALL_TO_ALL_ATTR_COUNT},     // all_to_all
    {KERF_TAKE_OPERAND_COUNT, KERF_TAKE_OPERAND_COUNT,
     KERF_TAKE_ATTR_COUNT},         // take
    {2, 2, KERF_ROTATE_ATTR_COUNT}, // rotate
    {1, 1, KERF_SEND_ATTR_COUNT},   // send
    {1, 1, KERF_SEND_ATTR_COUNT},   // receive
    {2, 2, KERF_WAIT_ATTR_COUNT},   // wait
    {1, 1, 0},                      // stop_if
};

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Lowest and highest value of `base` + i * `stride` for i in [first, last].
static bool extend(int64_t &lowest, int64_t &highest, int64_t stride,
                   int64_t first, int64_t last) {
  int64_t a, b;
  return multiply(stride, first, a) && multiply(stride, last, b) &&
         add(lowest, std::min(a, b), lowest) &&
         add(highest, std::max(a, b), highest);
}

/// The operand that a command of the runtime's own fills, or KERF_NONE. What is
/// saved beside a step rests on its access.
static uint32_t filledOperand(uint32_t opcode) {
  switch (opcode) {
  case KERF_OP_ZERO:
  case KERF_OP_RECEIVE:
    return 0;
  case KERF_OP_COPY:
    return 1;
  case KERF_OP_TAKE:
    return KERF_TAKE_DESTINATION;
  default:
    return isCollective(opcode) ? 1 : KERF_NONE;
  }
}

bool Checker::checkOperand(uint32_t index, uint32_t number, const Loop &loop) {
  const kerf_command &command = view.commands[index];
  uint32_t at = command.first_operand + number;
  const kerf_operand &operand = view.operands[at];
  if (operand.kind > KERF_ABSENT || operand.dtype >= KERF_DTYPE_COUNT ||
      operand.reserved != 0 || (operand.access & ~(KERF_READ | KERF_WRITE)))
    return damaged("operand %u of command %u has kind %u, type %u, access %u",
                   number, index, operand.kind, operand.dtype, operand.access);
  if (operand.kind == KERF_ABSENT)
    return true;
  bool isFilled = number == filledOperand(command.opcode);
  if (operand.access == 0 || (isFilled && !(operand.access & KERF_WRITE)) ||
      (operand.kind == KERF_SCALAR && operand.access != KERF_READ))
    return damaged("operand %u of command %u has access %u", number, index,
                   operand.access);
  if (operand.kind == KERF_SCALAR) {
    if (operand.offset < 0 || operand.offset >= view.scalars.count)
      return damaged("operand %u of command %u is scalar %lld of %u", number,
                     index, (long long)operand.offset, view.scalars.count);
    int32_t modulus = view.scalars[operand.offset].modulus;
    if (modulus < 0)
      return damaged("operand %u of command %u is a scalar modulo %d", number,
                     index, modulus);
    return true;
  }
  int64_t size = kerf_dtype_bytes(operand.dtype);
  if (operand.iter_stride % size != 0 || operand.slot_stride % size != 0)
    return damaged("operand %u of command %u has strides of %lld and %lld "
                   "bytes",
                   number, index, (long long)operand.iter_stride,
                   (long long)operand.slot_stride);
  if (operand.copies < 1 || operand.copies > view.meta->micro_batches)
    return damaged(
        "operand %u of command %u has %u copies for %u micro-batches", number,
        index, operand.copies, view.meta->micro_batches);
  int64_t lowest = operand.offset, highest = operand.offset;
  if (!extend(lowest, highest, operand.iter_stride, loop.start,
              std::max(loop.start, loop.end - 1)) ||
      !extend(lowest, highest, operand.slot_stride, 0,
              int64_t(operand.copies) - 1))
    return damaged("operand %u of command %u lies nowhere", number, index);
  return checkRange(lowest, operand.bytes, size, "operand", at) &&
         checkRange(highest, operand.bytes, size, "operand", at);
}

/// The first `count` operands are in the arena: they are data.
bool Checker::checkDataOperands(uint32_t index, uint32_t count) {
  const kerf_command &command = view.commands[index];
  for (uint32_t n = 0; n < count; ++n)
    if (view.operands[command.first_operand + n].kind != KERF_ARENA)
      return damaged("operand %u of command %u (%s) is not in the arena", n,
                     index, opcodeName(command.opcode));
  return true;
}

bool Checker::checkMemory(uint32_t index) {
  const kerf_command &command = view.commands[index];
  int64_t bytes = view.attrs[command.first_attr + KERF_COPY_BYTES];
  if (!checkDataOperands(index, command.operand_count))
    return false;
  for (uint32_t n = 0; n < command.operand_count; ++n)
    if (bytes < 0 || bytes > view.operands[command.first_operand + n].bytes)
      return damaged("command %u moves %lld bytes, its operand %u has %lld",
                     index, (long long)bytes, n,
                     (long long)view.operands[command.first_operand + n].bytes);
  return true;
}

bool Checker::checkTake(uint32_t index) {
  const kerf_command &command = view.commands[index];
  const int64_t *attrs = view.attrs.data + command.first_attr;
  const kerf_operand *operands = view.operands.data + command.first_operand;
  if (!checkDataOperands(index, 2))
    return false;
  int64_t destination, source;
  if (operands[KERF_TAKE_PART].kind != KERF_SCALAR ||
      attrs[KERF_TAKE_OUTER] < 0 || attrs[KERF_TAKE_PARTS] < 1 ||
      attrs[KERF_TAKE_BYTES] < 0 ||
      !multiply(attrs[KERF_TAKE_OUTER], attrs[KERF_TAKE_BYTES], destination) ||
      !multiply(destination, attrs[KERF_TAKE_PARTS], source) ||
      source > operands[KERF_TAKE_SOURCE].bytes ||
      destination > operands[KERF_TAKE_DESTINATION].bytes)
    return damaged("command %u (take) of %lld x %lld x %lld bytes does not fit "
                   "its operands",
                   index, (long long)attrs[KERF_TAKE_OUTER],
                   (long long)attrs[KERF_TAKE_PARTS],
                   (long long)attrs[KERF_TAKE_BYTES]);
  return true;
}

bool Checker::checkStopIf(uint32_t index) {
  const kerf_operand &operand =
      view.operands[view.commands[index].first_operand];
  if (!checkDataOperands(index, 1))
    return false;
  if (operand.dtype != KERF_F32 || operand.bytes < 4)
    return damaged("command %u (stop_if) reads %lld bytes of %s, expected an "
                   "f32",
                   index, (long long)operand.bytes, dtypeName(operand.dtype));
  return true;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

namespace {
/// Elements that a collective reads and writes.
struct Volume {
  int64_t source = 1, destination = 1;
};
} // namespace

static bool volumeOf(uint32_t opcode, const int64_t *attrs, int64_t ranks,
                     Volume &volume) {
  bool hasMode = opcode != KERF_OP_ALL_GATHER && opcode != KERF_OP_ROTATE;
  uint32_t first = KERF_COLLECTIVE_ATTR_COUNT + hasMode;
  int64_t elements = 1;
  for (uint32_t a = first; a < kArity[opcode].attrs; ++a)
    if (attrs[a] < 0 || !multiply(elements, attrs[a], elements))
      return false;
  int64_t whole;
  if (!multiply(elements, ranks, whole))
    return false;
  volume.source =
      opcode == KERF_OP_REDUCE_SCATTER || opcode == KERF_OP_ALL_TO_ALL
          ? whole
          : elements;
  volume.destination =
      opcode == KERF_OP_ALL_GATHER || opcode == KERF_OP_ALL_TO_ALL ? whole
                                                                   : elements;
  return true;
}

bool Checker::checkCollective(uint32_t index) {
  const kerf_command &command = view.commands[index];
  const int64_t *attrs = view.attrs.data + command.first_attr;
  const char *name = opcodeName(command.opcode);
  if (!checkDataOperands(index, 2))
    return false;
  if (attrs[KERF_COLLECTIVE_GROUP] < 0 ||
      attrs[KERF_COLLECTIVE_GROUP] >= view.groups.count)
    return damaged("command %u (%s) is in group %lld of %u", index, name,
                   (long long)attrs[KERF_COLLECTIVE_GROUP], view.groups.count);
  bool reduces = command.opcode == KERF_OP_ALL_REDUCE ||
                 command.opcode == KERF_OP_REDUCE_SCATTER;
  static_assert(KERF_SUM == 0 && KERF_MAX == 1);
  constexpr int kMode = KERF_COLLECTIVE_ATTR_COUNT; // where there is one
  bool hasMode = reduces || command.opcode == KERF_OP_ALL_TO_ALL;
  if (hasMode && (attrs[kMode] < 0 || attrs[kMode] > 1))
    return damaged("command %u (%s) has %s %lld", index, name,
                   reduces ? "reduction" : "direction",
                   (long long)attrs[kMode]);
  if (attrs[KERF_COLLECTIVE_DTYPE] < 0 ||
      attrs[KERF_COLLECTIVE_DTYPE] >= KERF_DTYPE_COUNT ||
      (reduces && kerf_dtype_bytes(attrs[KERF_COLLECTIVE_DTYPE]) == 1))
    return damaged("command %u (%s) has type %lld", index, name,
                   (long long)attrs[KERF_COLLECTIVE_DTYPE]);
  Volume volume;
  int64_t source, destination,
      size = kerf_dtype_bytes(attrs[KERF_COLLECTIVE_DTYPE]);
  const kerf_operand *operands = view.operands.data + command.first_operand;
  if (!volumeOf(command.opcode, attrs,
                view.groups[attrs[KERF_COLLECTIVE_GROUP]].size, volume) ||
      !multiply(volume.source, size, source) ||
      !multiply(volume.destination, size, destination) ||
      source > operands[0].bytes || destination > operands[1].bytes ||
      operands[0].dtype != attrs[KERF_COLLECTIVE_DTYPE] ||
      operands[1].dtype != attrs[KERF_COLLECTIVE_DTYPE])
    return damaged("command %u (%s) does not fit its operands of %lld and "
                   "%lld bytes",
                   index, name, (long long)operands[0].bytes,
                   (long long)operands[1].bytes);
  return true;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

bool Checker::checkMessage(uint32_t index) {
  const kerf_command &command = view.commands[index];
  const int64_t *attrs = view.attrs.data + command.first_attr;
  const char *name = opcodeName(command.opcode);
  if (!checkDataOperands(index, 1))
    return false;
  if (attrs[KERF_SEND_CHANNEL] < 0 ||
      attrs[KERF_SEND_CHANNEL] >= program->channel_count)
    return damaged("command %u (%s) is of channel %lld of %u", index, name,
                   (long long)attrs[KERF_SEND_CHANNEL], program->channel_count);
  const kerf_channel &channel =
      view.channels[program->first_channel + attrs[KERF_SEND_CHANNEL]];
  bool sends = command.opcode == KERF_OP_SEND;
  uint32_t end = sends ? channel.from : channel.to;
  if (end != program - view.programs.data)
    return damaged(
        "command %u (%s) is of program %zd, channel '%s' has program "
        "%u there",
        index, name, program - view.programs.data, view.string(channel.name),
        end);
  int64_t bytes = view.operands[command.first_operand].bytes;
  if (attrs[KERF_SEND_BYTES] < 0 || attrs[KERF_SEND_BYTES] > bytes ||
      static_cast<uint64_t>(attrs[KERF_SEND_BYTES]) > channel.bytes)
    return damaged("command %u (%s) moves %lld bytes, its operand has %lld and "
                   "channel '%s' %llu",
                   index, name, (long long)attrs[KERF_SEND_BYTES],
                   (long long)bytes, view.string(channel.name),
                   (unsigned long long)channel.bytes);
  return true;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

/// The last operands of a matmul are left out one by one, those of others all
/// at once.
static bool mayHave(uint32_t opcode, const Arity &wanted, uint32_t operands) {
  if (opcode == KERF_OP_MATMUL)
    return operands >= wanted.operands && operands <= wanted.moreOperands;
  return operands == wanted.operands || operands == wanted.moreOperands;
}

/// The numbers that `mayHave` takes, for people.
static std::string expectedOperands(uint32_t opcode, const Arity &wanted) {
  std::string text = std::to_string(wanted.operands);
  if (wanted.moreOperands > wanted.operands)
    text += (opcode == KERF_OP_MATMUL ? " to " : " or ") +
            std::to_string(wanted.moreOperands);
  return text;
}

bool Checker::checkCommand(uint32_t index, const Loop &loop) {
  const kerf_command &command = view.commands[index];
  constexpr uint32_t known =
      KERF_IF_FIRST | KERF_UNLESS_FIRST | KERF_IF_LAST | KERF_STARTS;
  if (command.opcode >= KERF_OP_COUNT || (command.flags & ~known) ||
      (command.flags & KERF_STARTS && !isCollective(command.opcode)))
    return damaged("command %u has opcode %u and flags %u", index,
                   command.opcode, command.flags);
  if (!checkString(command.name, "command", index) ||
      !checkString(command.location, "command", index, /*optional=*/true))
    return false;
  const char *name = opcodeName(command.opcode);
  if (command.first_operand > view.operands.count ||
      command.operand_count > view.operands.count - command.first_operand ||
      command.first_attr > view.attrs.count ||
      command.attr_count > view.attrs.count - command.first_attr)
    return damaged("command %u (%s) has operands or attributes behind the last",
                   index, name);
  const Arity &arity = kArity[command.opcode];
  if (command.attr_count != arity.attrs)
    return damaged("command %u (%s) has %u attributes, expected %u", index,
                   name, command.attr_count, arity.attrs);
  Arity wanted = arity;
  if (command.opcode == KERF_OP_LAUNCH) {
    int64_t kernel = view.attrs[command.first_attr + KERF_LAUNCH_KERNEL];
    if (kernel < 0 || kernel >= view.kernels.count)
      return damaged("command %u launches kernel %lld of %u", index,
                     (long long)kernel, view.kernels.count);
    wanted.operands = wanted.moreOperands = view.kernels[kernel].argument_count;
  }
  if (!mayHave(command.opcode, wanted, command.operand_count))
    return damaged("command %u (%s) has %u operands, expected %s", index, name,
                   command.operand_count,
                   expectedOperands(command.opcode, wanted).c_str());
  for (uint32_t n = 0; n < command.operand_count; ++n)
    if (!checkOperand(index, n, loop))
      return false;
  if (command.opcode == KERF_OP_COPY || command.opcode == KERF_OP_ZERO)
    return checkMemory(index);
  if (command.opcode == KERF_OP_TAKE)
    return checkTake(index);
  if (command.opcode == KERF_OP_STOP_IF)
    return checkStopIf(index);
  if (command.opcode == KERF_OP_SEND || command.opcode == KERF_OP_RECEIVE)
    return checkMessage(index);
  if (isCollective(command.opcode))
    return checkCollective(index);
  return true;
}

/// A wait names a collective that was started in the same turn, once, and has
/// its operands.
bool Checker::checkWait(uint32_t index, uint32_t first,
                        std::vector<uint32_t> &started) {
  const kerf_command &command = view.commands[index];
  int64_t back = view.attrs[command.first_attr + KERF_WAIT_BACK];
  auto at = back < 1 || back > int64_t(index - first)
                ? started.end()
                : std::find(started.begin(), started.end(), index - back);
  if (at == started.end())
    return damaged("command %u waits for command %lld, which starts nothing "
                   "in its turn or is waited for before",
                   index, (long long)index - back);
  const kerf_command &start = view.commands[*at];
  const kerf_operand *own = view.operands.data + command.first_operand;
  const kerf_operand *there = view.operands.data + start.first_operand;
  if (std::memcmp(own, there, 2 * sizeof *own) != 0 ||
      (start.flags & ~uint32_t(KERF_STARTS)) != command.flags)
    return damaged("command %u waits for command %u and has other operands or "
                   "flags",
                   index, *at);
  started.erase(at);
  return true;
}

bool Checker::checkLoop(uint32_t index, uint32_t funcEnd, Loop &loop,
                        uint32_t &last) {
  const int64_t *attrs = view.attrs.data + view.commands[index].first_attr;
  constexpr int64_t mostIterations = 1 << 24;
  if (attrs[KERF_LOOP_START] < 0 ||
      attrs[KERF_LOOP_END] < attrs[KERF_LOOP_START] ||
      attrs[KERF_LOOP_END] > mostIterations || attrs[KERF_LOOP_REVERSE] < 0 ||
      attrs[KERF_LOOP_REVERSE] > 1)
    return damaged("command %u loops from %lld to %lld", index,
                   (long long)attrs[KERF_LOOP_START],
                   (long long)attrs[KERF_LOOP_END]);
  if (attrs[KERF_LOOP_BODY] < 0 || attrs[KERF_LOOP_BODY] > funcEnd - index - 1)
    return damaged("command %u loops over %lld commands, its function has %u "
                   "more",
                   index, (long long)attrs[KERF_LOOP_BODY],
                   funcEnd - index - 1);
  loop = {attrs[KERF_LOOP_START], attrs[KERF_LOOP_END]};
  last = index + attrs[KERF_LOOP_BODY];
  return true;
}

bool Checker::checkFunc(uint32_t index) {
  const kerf_func &func = view.funcs[index];
  if (!checkString(func.name, "function", index))
    return false;
  uint32_t end = func.first_command + func.command_count;
  uint32_t bodyEnd = func.first_command; // first command behind the loop
  uint32_t turn = func.first_command;    // first command that runs as often
  std::vector<uint32_t> started;
  Loop loop;
  for (uint32_t c = func.first_command; c <= end; ++c) {
    bool isTurn = c == end || (c == bodyEnd && c != func.first_command) ||
                  view.commands[c].opcode == KERF_OP_LOOP;
    if (isTurn && !started.empty())
      return damaged("command %u starts what no command of its turn waits for",
                     started.front());
    if (c == end)
      break;
    if (isTurn)
      turn = c;
    bool inside = c < bodyEnd;
    if (!checkCommand(c, inside ? loop : Loop()))
      return false;
    const kerf_command &command = view.commands[c];
    if (command.opcode == KERF_OP_WAIT && !checkWait(c, turn, started))
      return false;
    if (command.flags & KERF_STARTS)
      started.push_back(c);
    if (command.opcode != KERF_OP_LOOP)
      continue;
    uint32_t last;
    if (inside)
      return damaged("command %u is a loop in a loop", c);
    if (!checkLoop(c, end, loop, last))
      return false;
    bodyEnd = last + 1;
  }
  return true;
}

bool Checker::checkFuncs() {
  uint64_t next = 0;
  for (const kerf_program &own : view.programs) {
    program = &own;
    for (uint32_t f = own.first_func; f < own.first_func + own.func_count;
         ++f) {
      const kerf_func &func = view.funcs[f];
      if (func.first_command != next ||
          func.command_count > view.commands.count - next)
        return damaged("function %u starts at command %u, expected %llu", f,
                       func.first_command, (unsigned long long)next);
      next += func.command_count;
      if (func.reserved != 0)
        return damaged("function %u has what it must not", f);
      if (!checkFunc(f))
        return false;
    }
  }
  if (next != view.commands.count)
    return damaged("%u commands, functions have %llu", view.commands.count,
                   (unsigned long long)next);
  return true;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

bool Checker::checkCall(uint32_t index) {
  const kerf_call &call = view.calls[index];
  constexpr uint32_t known = KERF_CALL_FIRST | KERF_CALL_LAST;
  if (call.func >= program->func_count || (call.flags & ~known) ||
      call.micro_batch >= view.meta->micro_batches || call.reserved != 0)
    return damaged("call %u is of function %u, micro-batch %u", index,
                   call.func, call.micro_batch);
  return true;
}

/// Flags of the calls of a step or of an evaluation, each for itself.
bool Checker::checkCallFlags(uint32_t begin, uint32_t end) {
  std::vector<uint32_t> first(program->func_count, KERF_NONE),
      last(program->func_count, KERF_NONE);
  for (uint32_t c = begin; c < end; ++c) {
    uint32_t func = view.calls[c].func;
    if (first[func] == KERF_NONE)
      first[func] = c;
    last[func] = c;
  }
  for (uint32_t c = begin; c < end; ++c) {
    const kerf_call &call = view.calls[c];
    uint32_t flags = (first[call.func] == c ? KERF_CALL_FIRST : 0) |
                     (last[call.func] == c ? KERF_CALL_LAST : 0);
    if (call.flags != flags)
      return damaged("call %u has flags %u, expected %u", c, call.flags, flags);
  }
  return true;
}

bool Checker::checkCalls() {
  for (const kerf_program &own : view.programs) {
    program = &own;
    uint32_t begin = own.first_call, end = begin + own.call_count;
    uint32_t evaluation = begin + own.train_calls;
    for (uint32_t c = begin; c < end; ++c)
      if (!checkCall(c))
        return false;
    if (!checkCallFlags(begin, evaluation) || !checkCallFlags(evaluation, end))
      return false;
  }
  return true;
}

bool Checker::checkPrograms() { return checkFuncs() && checkCalls(); }
