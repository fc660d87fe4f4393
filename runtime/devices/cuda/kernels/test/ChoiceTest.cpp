//===- ChoiceTest.cpp - which kernels are chosen, what is refused ---------===//

#include "AttentionCase.h"
#include "KernelsTest.h"

#include <bit>
#include <cstdio>
#include <unistd.h>

using namespace cudatest;

Captured::Captured() : file(std::tmpfile()), before(dup(2)) {
  std::fflush(stderr);
  dup2(fileno(file), 2);
}

std::string Captured::text() {
  std::fflush(stderr);
  dup2(before, 2);
  close(before);
  std::string result(4096, '\0');
  std::rewind(file);
  result.resize(std::fread(result.data(), 1, result.size(), file));
  std::fclose(file);
  return result;
}

/// A command with operands of the right sizes; `wide`: rows in whole 16 bytes.
static Command attention(const Gpu &gpu, uint32_t dtype, int64_t d, bool wide,
                         bool backward) {
  std::mt19937 random(1);
  AttentionCase c;
  c.dtype = dtype;
  c.b = c.h = c.g = 1;
  c.sq = c.sk = 8;
  c.d = c.dv = d;
  c.scale = 1;
  c.global[0] = c.global[1] = 1;
  c.global[2] = c.global[3] = 8;
  c.draw(random, wide);
  Command command;
  command.opcode = backward ? KERF_OP_ATTENTION_BACKWARD : KERF_OP_ATTENTION;
  command.attrs = c.attributes();
  auto add = [&](uint32_t type, int64_t count) {
    command.operands.push_back(Buffer(gpu, type, count));
  };
  for (const HeadArray *t : {&c.q, &c.k, &c.v, &c.y})
    add(dtype, t->extent());
  add(KERF_F32, c.sq);
  if (backward)
    for (const HeadArray *t : {&c.dy, &c.dq, &c.dk, &c.dvs})
      add(dtype, t->extent());
  command.operands.resize(command.operands.size() + 7); // scalars: absent
  int64_t bytes = kerf_cuda_workspace(command.opcode, command.attrs.data());
  if (bytes)
    add(KERF_F32, bytes / 4);
  else
    command.operands.push_back({});
  return command;
}

static void expectChoice(const Gpu &gpu, const Command &command,
                         const std::string &choice) {
  Captured captured;
  Step step(gpu, command, "it");
  std::string text = captured.text();
  expectText(text, "kerf: cuda: 'it': " + choice);
  if (!step.message.empty())
    failed("refused: %s", step.message.c_str());
}

static void testAttentionChoice(const Gpu &gpu) {
  for (bool backward : {false, true}) {
    auto expect = [&](uint32_t dtype, int64_t d, bool wide,
                      const std::string &choice) {
      expectChoice(gpu, attention(gpu, dtype, d, wide, backward),
                   "attention " + choice);
    };
    expect(KERF_BF16, 64, true, "on tensor cores, 64 channels");
    expect(KERF_F16, 80, true, "on tensor cores, 128 channels");
    expect(KERF_BF16, 256, true, "on tensor cores, 256 channels");
    expect(KERF_BF16, 264, true, "without tensor cores");
    expect(KERF_BF16, 63, false, "without tensor cores");
    expect(KERF_F32, 64, true, "without tensor cores");
    Command negative = attention(gpu, KERF_BF16, 64, true, backward);
    negative.attrs[KERF_ATTN_SCALE] = std::bit_cast<int64_t>(-1.0);
    expectChoice(gpu, negative, "attention without tensor cores");
  }
}

/// A matmul of experts of bf16 or f32 numbers.
static Command grouped(const Gpu &gpu, uint32_t dtype, int64_t k) {
  Command command;
  command.opcode = KERF_OP_GROUPED_MATMUL;
  command.attrs = {0, dtype, dtype, KERF_F32, 1, 4, 2, 8, k, 0, 0, 0};
  command.operands = {Buffer(gpu, dtype, 4 * k), Buffer(gpu, dtype, 16 * k),
                      Buffer(gpu, KERF_I32, 2), Buffer(gpu, KERF_F32, 32),
                      Buffer(gpu, KERF_F32, 16 * 4)};
  return command;
}

static bool hasWgmma(const Gpu &gpu) {
  return std::string(api().describe(gpu)).find(" sm_90,") != std::string::npos;
}

static void testGroupedChoice(const Gpu &gpu) {
  auto expect = [&](uint32_t dtype, int64_t k, const std::string &choice) {
    expectChoice(gpu, grouped(gpu, dtype, k), "matmuls of experts " + choice);
  };
  expect(KERF_BF16, 16,
         hasWgmma(gpu) ? "on tensor cores by wgmma\n"
                       : "on tensor cores by mma.sync\n");
  expect(KERF_BF16, 12, "without tensor cores\n");
  expect(KERF_F32, 16, "without tensor cores\n");
}

/// The form for all GPUs, where a variable or the driver wants it.
static void testGroupedForms() {
  {
    Variable form("KERF_CUDA_NO_WGMMA", "1");
    Gpu gpu;
    expectChoice(gpu, grouped(gpu, KERF_BF16, 16),
                 "matmuls of experts on tensor cores by mma.sync\n");
  }
  // Of the simulator: a driver that knows no PTX 8.0, as wgmma's kernels are.
  Variable driver("KERF_SIM_DRIVER", "11080");
  Gpu gpu;
  bool isOld =
      std::string(api().describe(gpu)).find("driver 11.8") != std::string::npos;
  if (!isOld || !hasWgmma(gpu))
    return;
  expectChoice(gpu, grouped(gpu, KERF_BF16, 16),
               "matmuls of experts not by wgmma: cannot load");
  expectChoice(gpu, grouped(gpu, KERF_BF16, 16),
               "matmuls of experts on tensor cores by mma.sync\n");
}

static void expectRefusal(const Gpu &gpu, const Command &command,
                          const std::string &message) {
  Step step(gpu, command, "it");
  if (step.message.empty())
    failed("accepted, expected: %s", message.c_str());
  else
    expectText(step.message, "command 'it': " + message);
}

static void testRefusals(const Gpu &gpu) {
  auto refuse = [&](int attr, int64_t value, const std::string &message) {
    Command command = attention(gpu, KERF_BF16, 64, true, true);
    command.attrs[attr] = value;
    expectRefusal(gpu, command, message);
  };
  refuse(KERF_ATTN_DTYPE, KERF_F64, "found dtype 5, expected f32, bf16 or f16");
  refuse(KERF_ATTN_G, 2, "found 2 key heads, expected a divisor of 1");
  refuse(KERF_ATTN_D, 5000, "found channels 5000, expected 1 to 4096");
  refuse(KERF_ATTN_WINDOW, 4, "found window 4, expected 0 to 0");
  refuse(KERF_ATTN_SQ, 99, "operand 0 (q) has");
  refuse(KERF_ATTN_ZIGZAG, 3, "found a zigzag over 3 ranks");
  refuse(KERF_ATTN_GLOBAL + 2, int64_t{1} << 31,
         "found 2147483648 positions, expected at most 2147483647");
  refuse(KERF_ATTN_DROPOUT, std::bit_cast<int64_t>(0.5),
         "operand 9 (seed) is absent");
  refuse(KERF_ATTN_SCALE, std::bit_cast<int64_t>(1.0 / 0.0),
         "found scale inf, expected a finite number");
  Command small = attention(gpu, KERF_BF16, 64, true, true);
  small.operands[16] = Buffer(gpu, KERF_F32, 15);
  expectRefusal(gpu, small,
                "operand 16 (workspace) has 60 bytes, expected at least 64");
  Command tiles;
  tiles.opcode = KERF_OP_GROUPED_MATMUL;
  tiles.attrs = {0,         KERF_F32, KERF_F32, KERF_F32, 1, INT32_MAX,
                 INT32_MAX, 1,        1,        0,        0, 0};
  tiles.operands.resize(5);
  expectRefusal(gpu, tiles,
                "found 2147483647 rows of 2147483647 experts, which are "
                "2164260863 tiles, expected at most 2147483647");
}

void cudatest::testChoices() {
  Variable log("KERF_CUDA_LOG", "1");
  Gpu gpu;
  testAttentionChoice(gpu);
  testGroupedChoice(gpu);
  testGroupedForms();
  testRefusals(gpu);
}
