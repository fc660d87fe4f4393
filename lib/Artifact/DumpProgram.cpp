//===- DumpProgram.cpp - commands as text ---------------------------------===//

#include "kerf/Artifact/Check.h"
#include "kerf/Artifact/Dump.h"
#include "kerf/Support/Counts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace kerf;
using artifact::dtypeName;
using artifact::opcodeName;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

static void printStride(llvm::raw_ostream &os, int64_t stride,
                        llvm::StringRef index) {
  if (stride != 0)
    os << (stride < 0 ? " - " : " + ") << std::abs(stride) << ' ' << index;
}

/// `1000 + 100 i + 10 m + 1 data`, `(1000 + 1 data) mod 4000`.
static void printScalar(llvm::raw_ostream &os, const ArtifactData &data,
                        const kerf_scalar &scalar) {
  os << (scalar.modulus ? "(" : "") << scalar.constant;
  printStride(os, scalar.iteration, "i");
  printStride(os, scalar.micro, "m");
  for (auto [a, axis] : llvm::enumerate(data.axes))
    printStride(os, scalar.axis[a], data.strings.get(axis.name));
  if (scalar.modulus)
    os << ") mod " << scalar.modulus;
}

static void printOperand(llvm::raw_ostream &os, const ArtifactData &data,
                         const kerf_operand &operand) {
  if (operand.kind == KERF_ABSENT) {
    os << "none";
    return;
  }
  if (operand.kind == KERF_SCALAR) {
    os << "scalar ";
    printScalar(os, data, data.scalars[operand.offset]);
    return;
  }
  os << (operand.access & KERF_READ ? "r" : "")
     << (operand.access & KERF_WRITE ? "w" : "") << ' '
     << dtypeName(operand.dtype) << " [" << operand.offset << ", "
     << operand.offset + operand.bytes << ')';
  printStride(os, operand.iter_stride, "i");
  bool isOwn = operand.copies >= data.meta.micro_batches;
  printStride(os, operand.slot_stride,
              isOwn ? "m" : "(m mod " + std::to_string(operand.copies) + ")");
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

static void printGroup(llvm::raw_ostream &os, const ArtifactData &data,
                       const int64_t *attrs) {
  const kerf_group &group = data.groups[attrs[KERF_COLLECTIVE_GROUP]];
  os << " over";
  for (auto [a, axis] : llvm::enumerate(data.axes))
    if (group.axes >> a & 1)
      os << ' ' << data.strings.get(axis.name);
  os << " (" << group.size << " ranks) "
     << dtypeName(attrs[KERF_COLLECTIVE_DTYPE]);
}

static void printReduction(llvm::raw_ostream &os, int64_t reduction) {
  os << (reduction == KERF_MAX ? " max" : " sum");
}

/// What a command matmul does behind the multiplication: " gelu aux bias bf16".
static void printEpilogue(llvm::raw_ostream &os, int64_t epilogue,
                          int64_t biasDtype) {
  static const char *const kNames[] = {"",
                                       " bias",
                                       " gelu",
                                       " gelu bias",
                                       " gelu aux",
                                       " gelu aux bias",
                                       " dgelu",
                                       " dgelu bgrad",
                                       " bgrad of a",
                                       " bgrad of b",
                                       " scale"};
  static_assert(std::size(kNames) == KERF_EPILOGUE_COUNT);
  if (epilogue < 0 || epilogue >= KERF_EPILOGUE_COUNT) {
    os << " epilogue " << epilogue;
    return;
  }
  llvm::StringRef name = kNames[epilogue];
  os << name;
  if (name.contains("bias") || name.contains("bgrad"))
    os << ' ' << dtypeName(biasDtype);
}

static void printMatmul(llvm::raw_ostream &os, const int64_t *attrs) {
  os << ' ' << dtypeName(attrs[KERF_MATMUL_A_DTYPE]) << " x "
     << dtypeName(attrs[KERF_MATMUL_B_DTYPE]) << " -> "
     << dtypeName(attrs[KERF_MATMUL_C_DTYPE]);
  if (attrs[KERF_MATMUL_BATCH] != 1)
    os << " batch " << attrs[KERF_MATMUL_BATCH];
  os << " m " << attrs[KERF_MATMUL_M] << " n " << attrs[KERF_MATMUL_N] << " k "
     << attrs[KERF_MATMUL_K];
  if (attrs[KERF_MATMUL_A_COL] != 1)
    os << " a transposed";
  if (attrs[KERF_MATMUL_B_COL] != 1)
    os << " b transposed";
  if (attrs[KERF_MATMUL_ACCUMULATE])
    os << " accumulate";
  printEpilogue(os, attrs[KERF_MATMUL_EPILOGUE], attrs[KERF_MATMUL_BIAS_DTYPE]);
}

static void printAttention(llvm::raw_ostream &os, const int64_t *attrs) {
  os << ' ' << dtypeName(attrs[KERF_ATTN_DTYPE]) << " b " << attrs[KERF_ATTN_B]
     << " h " << attrs[KERF_ATTN_H] << " kv " << attrs[KERF_ATTN_G] << " sq "
     << attrs[KERF_ATTN_SQ] << " sk " << attrs[KERF_ATTN_SK] << " d "
     << attrs[KERF_ATTN_D] << " dv " << attrs[KERF_ATTN_DV];
  if (attrs[KERF_ATTN_CAUSAL])
    os << " causal";
  if (attrs[KERF_ATTN_WINDOW])
    os << " window " << attrs[KERF_ATTN_WINDOW];
  if (attrs[KERF_ATTN_ZIGZAG])
    os << " zigzag " << attrs[KERF_ATTN_ZIGZAG];
  os << " scale "
     << llvm::format("%g", llvm::bit_cast<double>(attrs[KERF_ATTN_SCALE]));
  if (double cap = llvm::bit_cast<double>(attrs[KERF_ATTN_SOFTCAP]))
    os << " softcap " << llvm::format("%g", cap);
  if (double rate = llvm::bit_cast<double>(attrs[KERF_ATTN_DROPOUT]))
    os << " dropout " << llvm::format("%g", rate);
}

static void printCollective(llvm::raw_ostream &os, const ArtifactData &data,
                            uint32_t opcode, const int64_t *attrs) {
  printGroup(os, data, attrs);
  if (opcode == KERF_OP_ALL_REDUCE || opcode == KERF_OP_REDUCE_SCATTER)
    printReduction(os, attrs[KERF_ALL_REDUCE_REDUCTION]);
  if (opcode == KERF_OP_ALL_REDUCE)
    os << " count " << attrs[KERF_ALL_REDUCE_ELEMENTS];
  else if (opcode == KERF_OP_ROTATE)
    os << " count " << attrs[KERF_ROTATE_ELEMENTS];
  else if (opcode == KERF_OP_ALL_GATHER)
    os << " outer " << attrs[KERF_ALL_GATHER_OUTER] << " inner "
       << attrs[KERF_ALL_GATHER_INNER];
  else if (opcode == KERF_OP_REDUCE_SCATTER)
    os << " outer " << attrs[KERF_REDUCE_SCATTER_OUTER] << " inner "
       << attrs[KERF_REDUCE_SCATTER_INNER];
  else
    os << (attrs[KERF_ALL_TO_ALL_BACK] ? " back" : "") << " outer "
       << attrs[KERF_ALL_TO_ALL_OUTER] << " middle "
       << attrs[KERF_ALL_TO_ALL_MIDDLE] << " inner "
       << attrs[KERF_ALL_TO_ALL_INNER];
}

/// `"forward" to 1`: the message's channel and the other stage.
static void printMessage(llvm::raw_ostream &os, const ArtifactData &data,
                         const kerf_program &program, uint32_t opcode,
                         const int64_t *attrs) {
  const kerf_channel &channel =
      data.channels[program.first_channel + attrs[KERF_SEND_CHANNEL]];
  os << " '" << data.strings.get(channel.name) << "' "
     << (opcode == KERF_OP_SEND ? "to " : "from ")
     << (opcode == KERF_OP_SEND ? channel.to : channel.from) << " bytes "
     << attrs[KERF_SEND_BYTES];
}

static void printAttrs(llvm::raw_ostream &os, const ArtifactData &data,
                       const kerf_program &program,
                       const kerf_command &command) {
  const int64_t *attrs = data.attrs.data() + command.first_attr;
  switch (command.opcode) {
  case KERF_OP_LAUNCH: {
    const kerf_kernel &kernel = data.kernels[attrs[KERF_LAUNCH_KERNEL]];
    os << ' ' << data.strings.get(kernel.symbol) << " units " << kernel.units;
    break;
  }
  case KERF_OP_MATMUL:
    printMatmul(os, attrs);
    break;
  case KERF_OP_ATTENTION:
  case KERF_OP_ATTENTION_BACKWARD:
    printAttention(os, attrs);
    break;
  case KERF_OP_GROUPED_MATMUL:
    os << (attrs[KERF_GROUPED_KIND] ? " weight gradient " : " ")
       << dtypeName(attrs[KERF_GROUPED_X_DTYPE]) << " x "
       << dtypeName(attrs[KERF_GROUPED_W_DTYPE]) << " -> "
       << dtypeName(attrs[KERF_GROUPED_Y_DTYPE]) << " groups "
       << attrs[KERF_GROUPED_GROUPS] << " rows " << attrs[KERF_GROUPED_ROWS]
       << " experts " << attrs[KERF_GROUPED_EXPERTS] << " n "
       << attrs[KERF_GROUPED_N] << " k " << attrs[KERF_GROUPED_K]
       << (attrs[KERF_GROUPED_TRANSPOSED] ? " transposed" : "");
    if (attrs[KERF_GROUPED_CAPACITY])
      os << " capacity " << attrs[KERF_GROUPED_CAPACITY];
    if (attrs[KERF_GROUPED_ACCUMULATE])
      os << " accumulate";
    break;
  case KERF_OP_COPY:
  case KERF_OP_ZERO:
    os << " bytes " << attrs[KERF_COPY_BYTES];
    break;
  case KERF_OP_TAKE:
    os << " outer " << attrs[KERF_TAKE_OUTER] << " parts "
       << attrs[KERF_TAKE_PARTS] << " bytes " << attrs[KERF_TAKE_BYTES];
    break;
  case KERF_OP_SEND:
  case KERF_OP_RECEIVE:
    printMessage(os, data, program, command.opcode, attrs);
    break;
  case KERF_OP_LOOP:
    os << " i = " << attrs[KERF_LOOP_START] << " .. "
       << attrs[KERF_LOOP_END] - 1
       << (attrs[KERF_LOOP_REVERSE] ? " reversed" : "");
    break;
  case KERF_OP_STOP_IF:
    break;
  case KERF_OP_WAIT:
    os << " back " << attrs[KERF_WAIT_BACK];
    break;
  default:
    printCollective(os, data, command.opcode, attrs);
  }
}

//===----------------------------------------------------------------------===//
// Functions and calls
//===----------------------------------------------------------------------===//

static void printCommand(llvm::raw_ostream &os, const ArtifactData &data,
                         const kerf_program &program, uint32_t index,
                         unsigned indent) {
  const kerf_command &command = data.commands[index];
  os << llvm::format("%6u  ", index);
  os.indent(indent) << data.strings.get(command.name) << " = "
                    << opcodeName(command.opcode);
  printAttrs(os, data, program, command);
  if (command.operand_count != 0) {
    os << " (";
    for (uint32_t n = 0; n < command.operand_count; ++n) {
      os << (n ? ", " : "");
      printOperand(os, data, data.operands[command.first_operand + n]);
    }
    os << ')';
  }
  os << (command.flags & KERF_IF_FIRST ? " if first" : "")
     << (command.flags & KERF_UNLESS_FIRST ? " unless first" : "")
     << (command.flags & KERF_IF_LAST ? " if last" : "")
     << (command.flags & KERF_STARTS ? " starts" : "");
  if (command.location != KERF_NONE)
    os << "  // " << data.strings.get(command.location);
  os << '\n';
}

static void printFunc(llvm::raw_ostream &os, const ArtifactData &data,
                      const kerf_program &program, const kerf_func &func) {
  os << "\nfunction " << data.strings.get(func.name) << ":\n";
  uint32_t bodyEnd = 0;
  for (uint32_t c = func.first_command;
       c < func.first_command + func.command_count; ++c) {
    printCommand(os, data, program, c, c < bodyEnd ? 2 : 0);
    if (data.commands[c].opcode == KERF_OP_LOOP)
      bodyEnd =
          c + 1 + data.attrs[data.commands[c].first_attr + KERF_LOOP_BODY];
  }
}

static void printCalls(llvm::raw_ostream &os, const ArtifactData &data,
                       const kerf_program &program, llvm::StringRef title,
                       uint32_t begin, uint32_t end) {
  os << '\n' << title << ": " << end - begin << " calls\n";
  for (uint32_t c = begin; c < end; ++c) {
    const kerf_call &call = data.calls[c];
    os << llvm::format("%6u  ", c)
       << data.strings.get(data.funcs[program.first_func + call.func].name)
       << " micro-batch " << call.micro_batch
       << (call.flags & KERF_CALL_FIRST ? " first" : "")
       << (call.flags & KERF_CALL_LAST ? " last" : "") << '\n';
  }
}

/// What is special about a stage: its memory and its channels.
static void printStage(llvm::raw_ostream &os, const ArtifactData &data,
                       uint32_t stage) {
  const kerf_program &program = data.programs[stage];
  os << "\nstage " << stage << " '" << data.strings.get(program.name)
     << "': arena of " << program.arena_bytes << " bytes, "
     << countOf(program.slots, "slot") << '\n';
  for (uint32_t c = 0; c < program.channel_count; ++c) {
    const kerf_channel &channel = data.channels[program.first_channel + c];
    bool sends = channel.from == stage;
    os << "  channel '" << data.strings.get(channel.name) << "' "
       << (sends ? "to " : "from ") << (sends ? channel.to : channel.from)
       << ": messages of up to " << channel.bytes << " bytes, holds "
       << channel.holds << '\n';
  }
}

void kerf::dumpProgram(const ArtifactData &data, llvm::raw_ostream &os) {
  const kerf_meta &meta = data.meta;
  bool isPipeline = data.programs.size() > 1;
  os << "model '" << data.strings.get(meta.model) << "' for "
     << data.strings.get(meta.target) << ' ' << data.strings.get(meta.cpu)
     << ", compiled by " << data.strings.get(meta.compiler) << '\n'
     << countOf(meta.world_size, "rank") << (data.axes.empty() ? "" : ":");
  for (const kerf_axis &axis : data.axes)
    os << ' ' << data.strings.get(axis.name) << " = " << axis.size;
  os << "; " << countOf(meta.micro_batches, "micro-batch", "es") << " in "
     << (isPipeline ? countOf(data.programs.size(), "stage")
                    : countOf(data.programs[0].slots, "slot"))
     << "; " << countOf(data.commands.size(), "command") << '\n'
     << "a step of the model has " << groupDigits(meta.model_flops)
     << " flops of matmuls, all ranks do " << groupDigits(meta.matmul_flops)
     << '\n';
  for (uint32_t p = 0; p < data.programs.size(); ++p) {
    const kerf_program &program = data.programs[p];
    uint32_t begin = program.first_call, end = begin + program.call_count;
    uint32_t evaluation = begin + program.train_calls;
    if (isPipeline)
      printStage(os, data, p);
    printCalls(os, data, program, "step", begin, evaluation);
    printCalls(os, data, program, "evaluation", evaluation, end);
    for (uint32_t f = 0; f < program.func_count; ++f)
      printFunc(os, data, program, data.funcs[program.first_func + f]);
  }
}
