//===- BadInputTest.cpp - commands that the cpu device refuses ------------===//

#include "Support.h"

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iterator>

using namespace cputest;

static void expectMessage(const Command &command, const char *expected) {
  std::string message = prepareMessage(command);
  if (message.find(expected) == message.npos)
    failed("found message '%s', expected '%s'", message.c_str(), expected);
}

static Command matmul() {
  Command command = {KERF_OP_MATMUL,
                     {KERF_F32, KERF_F32, KERF_F32, 1, 4, 5, 6, 0, 6, 1, 0, 5,
                      1, 0, 5, 0, 0, 0},
                     {Buffer(KERF_F32, 24), Buffer(KERF_F32, 30),
                      Buffer(KERF_F32, 20), Buffer()},
                     3};
  command.operands[3] =
      Buffer(KERF_F32, kerf_cpu_matmul_workspace(command.attrs.data(), 1) / 4);
  return command;
}

static void changeMatmul(size_t attr, int64_t value, const char *expected) {
  Command command = matmul();
  command.attrs[attr] = value;
  expectMessage(command, expected);
}

static void testBadScales() {
  Command command = matmul();
  command.attrs[KERF_MATMUL_EPILOGUE] = KERF_EPILOGUE_SCALE;
  expectMessage(command, "");
  command.operands.resize(7);
  command.operands[6] = Buffer(KERF_BF16, 1);
  expectMessage(command, "operand 6 (scale) has 2 bytes, expected at least 4");
  command.operands[6] = Buffer(KERF_BF16, 2);
  expectMessage(command, "operand 6 (scale) has dtype 1, expected f32");
  command.operands[6] = Buffer(KERF_F32, 1);
  expectMessage(command, "");
  command.attrs[KERF_MATMUL_BATCH] = 2;
  expectMessage(command, "found batch 2 with epilogue 10, expected 1");
}

static void testBadMatmul() {
  expectMessage(matmul(), "");
  if (!prepareMessage(matmul()).empty())
    failed("the sound matmul was refused: %s",
           prepareMessage(matmul()).c_str());
  changeMatmul(KERF_MATMUL_A_DTYPE, 77,
               "found dtype 77 of a, expected f32, bf16 or f16");
  changeMatmul(KERF_MATMUL_C_DTYPE, KERF_I32,
               "found dtype 3 of c, expected f32, bf16 or f16");
  changeMatmul(KERF_MATMUL_M, 0, "found m 0, expected 1 to");
  changeMatmul(KERF_MATMUL_M, -1, "found m -1, expected 1 to");
  changeMatmul(KERF_MATMUL_N, INT64_MAX,
               "found n 9223372036854775807, expected 1 to");
  changeMatmul(KERF_MATMUL_M, 5,
               "operand 0 (a) has 96 bytes, expected at least 120");
  changeMatmul(KERF_MATMUL_A_ROW, -6,
               "operand 0 (a) has the stride -6, expected none below 0");
  changeMatmul(KERF_MATMUL_A_COL, 2,
               "found strides 6 and 2 of a, expected 1 as one of them");
  changeMatmul(KERF_MATMUL_B_COL, 2,
               "found strides 5 and 2 of b, expected 1 as one of them");
  changeMatmul(KERF_MATMUL_B_ROW, INT64_MAX, "operand 1 (b) has 120 bytes");
  changeMatmul(KERF_MATMUL_C_ROW, 4,
               "found stride 4 of the rows of c, expected at least 5");
  changeMatmul(KERF_MATMUL_ACCUMULATE, 2,
               "found accumulate 2, expected 0 to 1");
  changeMatmul(KERF_MATMUL_EPILOGUE, 1, "operand 4 (bias) is absent");
  changeMatmul(KERF_MATMUL_EPILOGUE, 2,
               "found epilogue 2, expected 0, 1 or 10");
  testBadScales();
  Command command = matmul();
  command.operands[3] = Buffer(KERF_F32, 8);
  expectMessage(command, "operand 3 (workspace) has 32 bytes, expected");
  command.operands.pop_back();
  expectMessage(command, "found 3 operands, expected 4, 5, 7 or 8");
  command = matmul();
  command.attrs.pop_back();
  expectMessage(command, "found 17 attributes, expected 18");
  command.opcode = KERF_OP_LOOP;
  expectMessage(command, "the cpu device has no opcode 7");
}

static Command attention() {
  Command command = {
      KERF_OP_ATTENTION, {KERF_F32, 1, 2, 1, 3, 3, 4, 4}, {}, 12};
  for (int i = 0; i < 8; ++i)
    for (int64_t stride : {24, 8, 4})
      command.attrs.push_back(stride);
  command.attrs.resize(KERF_ATTN_ATTR_COUNT);
  command.operands.resize(13);
  for (int i : {0, 1, 2, 3, 4})
    command.operands[i] = Buffer(KERF_F32, 24);
  command.operands[12] = Buffer(
      KERF_F32, kerf_cpu_attention_workspace(command.attrs.data(), 1) / 4);
  return command;
}

static void changeAttention(size_t attr, int64_t value, const char *expected) {
  Command command = attention();
  command.attrs[attr] = value;
  expectMessage(command, expected);
}

static int64_t bitsOf(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

static void testBadAttention() {
  if (!prepareMessage(attention()).empty())
    failed("the sound attention was refused: %s",
           prepareMessage(attention()).c_str());
  changeAttention(KERF_ATTN_DTYPE, KERF_I32, "found dtype 3, expected f32");
  changeAttention(KERF_ATTN_G, 0, "found size 0, expected 1 to");
  changeAttention(KERF_ATTN_H, 3, "operand 0 (q) has 96 bytes");
  changeAttention(KERF_ATTN_D, 1 << 20, "found channels 1048576, expected 1");
  changeAttention(KERF_ATTN_SQ, INT64_C(1) << 40, "found size 1099511627776");
  changeAttention(KERF_ATTN_WINDOW, 3, "found window 3, expected 0 to 0");
  changeAttention(KERF_ATTN_CAUSAL, 7, "found causal 7, expected 0 to 1");
  changeAttention(KERF_ATTN_SCALE, bitsOf(NAN), "expected a finite number");
  changeAttention(KERF_ATTN_DROPOUT, bitsOf(1), "found dropout 1, expected it");
  changeAttention(KERF_ATTN_DROPOUT, bitsOf(0.5), "operand 5 (seed) is absent");
  changeAttention(KERF_ATTN_ZIGZAG, -1, "found a zigzag over -1 ranks");
  changeAttention(KERF_ATTN_ZIGZAG, 1000, "found a zigzag over 1000 ranks");
  changeAttention(KERF_ATTN_K_STRIDES + 1, INT64_MAX, "operand 1 (k) has");
  Command command = attention();
  command.attrs[KERF_ATTN_G] = 2;
  command.attrs[KERF_ATTN_H] = 3;
  expectMessage(command, "found 2 key heads, expected a divisor of 3");
}

static void testBadSizes() {
  Command command = {KERF_OP_GROUPED_MATMUL,
                     {0, KERF_F32, KERF_F32, KERF_F32, 1, 4, 2, 3, 5, 0, 0, 0},
                     {Buffer(KERF_F32, 20), Buffer(KERF_F32, 30),
                      Buffer(KERF_I32, 2), Buffer(KERF_F32, 12), Buffer()},
                     4};
  int64_t bytes = kerf_cpu_grouped_workspace(command.attrs.data(), 1);
  command.operands[4] = Buffer(KERF_F32, bytes / 4);
  kerf_device_options options = {};
  options.workers = 1;
  kerf_device *device;
  api().create(&options, &device, nullptr, 0);
  std::vector<kerf_operand> operands(5);
  std::vector<void *> pointers;
  for (int i = 0; i < 5; ++i) {
    operands[i].bytes = command.operands[i].bytes();
    pointers.push_back(command.operands[i].data());
  }
  kerf_command record = {};
  record.opcode = command.opcode;
  record.operand_count = 5;
  record.attr_count = 12;
  kerf_step_info info = {};
  info.command = &record;
  info.operands = operands.data();
  info.attrs = command.attrs.data();
  kerf_step *step = nullptr;
  char error[256] = {};
  if (api().prepare(device, &info, &step, error, sizeof error))
    return failed("grouped matmul was refused: %s", error);
  for (int32_t size : {3, -1, INT32_MAX}) {
    command.operands[2].setInt(0, 2);
    command.operands[2].setInt(1, size);
    if (!api().execute(step, pointers.data(), error, sizeof error) ||
        !std::strstr(error, "expected the sizes of a group to sum to at most"))
      failed("size %d was taken: %s", size, error);
  }
  api().destroy_step(step);
  api().destroy(device);
  // Only the gradient of the weights is summed over micro-batches.
  command.attrs[KERF_GROUPED_ACCUMULATE] = 1;
  expectMessage(command, "found accumulate 1, expected 0 to 0");
}

/// The device library itself is a sound image: loads it from memory.
static void testImage(kerf_device *device) {
  Dl_info info;
  dladdr(reinterpret_cast<void *>(kerf_device_entry), &info);
  std::ifstream file(info.dli_fname, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  kerf_image *image;
  char error[256] = {};
  if (api().load_image(device, bytes.data(), bytes.size(), nullptr, 0, &image,
                       error, sizeof error))
    return failed("%s", error);
  if (!api().find_kernel(image, "kerf_device_entry"))
    failed("a symbol of the image was not found");
  if (api().find_kernel(image, "no_such_kernel"))
    failed("a symbol that the image lacks was found");
  api().unload_image(image);
}

static void testDevice() {
  char text[256];
  if (api().check_features("sse2,x86-64,+cmov,-avx", text, sizeof text) != 0)
    failed("features every machine has are missing: %s", text);
  if (api().check_features("warp-drive,sse2,frobnicate", text, sizeof text) !=
          2 ||
      std::strcmp(text, "warp-drive,frobnicate") != 0)
    failed("found missing features '%s'", text);
  kerf_device *device;
  kerf_device_options options = {};
  options.workers = 3;
  options.max_workers = 2;
  if (!api().create(&options, &device, text, sizeof text) ||
      !std::strstr(text, "found 3 workers, expected 1 to 2"))
    failed("3 of at most 2 workers were taken: %s", text);
  options = {};
  options.max_workers = 1;
  if (api().create(&options, &device, text, sizeof text))
    return failed("%s", text);
  if (api().workers(device) != 1)
    failed("found %d workers, expected 1", api().workers(device));
  kerf_image *image;
  if (!api().load_image(device, "no ELF file", 11, nullptr, 0, &image, text,
                        sizeof text) ||
      !std::strstr(text, "no x86-64 shared object"))
    failed("a damaged image was taken: %s", text);
  testImage(device);
  void *memory;
  if (!api().alloc(device, UINT64_MAX, &memory, text, sizeof text))
    failed("all memory there is was given");
  if (api().alloc(device, 1 << 20, &memory, text, sizeof text))
    failed("%s", text);
  for (int i = 0; i < 1 << 20; ++i)
    if (static_cast<char *>(memory)[i])
      failed("byte %d of new memory is not zero", i);
  api().free(device, memory, 1 << 20);
  api().destroy(device);
}

void cputest::testBadInput() {
  testBadMatmul();
  testBadAttention();
  testBadSizes();
  testDevice();
}
