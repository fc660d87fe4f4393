//===- BadInputTest.cpp - what the cuda device refuses --------------------===//

#include "Support.h"

#include <cstring>

using namespace cudatest;

static void expectRefusal(const Gpu &gpu, const Command &command,
                          const std::string &expected) {
  Step step(gpu, command);
  expectText(step.message, expected);
}

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

static Command matmul(const Gpu &gpu) {
  return {KERF_OP_MATMUL,
          {KERF_F32, KERF_F32, KERF_F32, 1, 4, 5, 6, 0, 6, 1, 0, 5, 1, 0, 5, 0,
           0, 0},
          {Buffer(gpu, KERF_F32, 24), Buffer(gpu, KERF_F32, 30),
           Buffer(gpu, KERF_F32, 20), Buffer()}};
}

std::string cudatest::matmulMessage(const Gpu &gpu) {
  return Step(gpu, matmul(gpu)).message;
}

static void changeMatmul(const Gpu &gpu, size_t attr, int64_t value,
                         const char *expected) {
  Command command = matmul(gpu);
  command.attrs[attr] = value;
  expectRefusal(gpu, command, expected);
}

static void testMatmulAttributes(const Gpu &gpu) {
  expectRefusal(gpu, matmul(gpu), "");
  changeMatmul(gpu, KERF_MATMUL_A_DTYPE, 77,
               "found dtype 77 of a, expected f32, bf16, f16 or");
  changeMatmul(gpu, KERF_MATMUL_C_DTYPE, KERF_I32,
               "found dtype 3 of c, expected f32, bf16, f16");
  changeMatmul(gpu, KERF_MATMUL_B_DTYPE, KERF_BF16,
               "command 'test': found a matmul of f32 and bf16 into f32, "
               "expected factors of one dtype");
  changeMatmul(gpu, KERF_MATMUL_C_DTYPE, KERF_BF16,
               "found a matmul of f32 and f32 into bf16");
  changeMatmul(gpu, KERF_MATMUL_BATCH, INT64_C(1) << 31,
               "found batch 2147483648, expected 1");
  changeMatmul(gpu, KERF_MATMUL_M, 0, "found m 0, expected 1 to");
  changeMatmul(gpu, KERF_MATMUL_N, INT64_MAX,
               "found n 9223372036854775807, expected 1 to");
  changeMatmul(gpu, KERF_MATMUL_M, 5,
               "operand 0 (a) has 96 bytes, expected at least 120");
  changeMatmul(gpu, KERF_MATMUL_A_ROW, -6,
               "operand 0 (a) has the stride -6, expected none");
  changeMatmul(gpu, KERF_MATMUL_B_ROW, INT64_MAX,
               "operand 1 (b) has 120 bytes");
  changeMatmul(gpu, KERF_MATMUL_C_ROW, 4,
               "found stride 4 of the rows of c, expected at least");
  changeMatmul(gpu, KERF_MATMUL_ACCUMULATE, 2,
               "found accumulate 2, expected 0 to 1");
  changeMatmul(gpu, KERF_MATMUL_EPILOGUE, 1, "operand 4 (bias) is absent");
  changeMatmul(gpu, KERF_MATMUL_EPILOGUE, 11,
               "found epilogue 11, expected 0 to 10");
  changeMatmul(gpu, KERF_MATMUL_EPILOGUE, KERF_EPILOGUE_DGELU,
               "operand 5 (aux) is absent");
}

/// Epilogues where they mean nothing.
static void testMatmulEpilogues(const Gpu &gpu) {
  Command command = matmul(gpu);
  command.attrs[KERF_MATMUL_EPILOGUE] = KERF_EPILOGUE_GELU;
  expectRefusal(gpu, command, "");
  command.attrs[KERF_MATMUL_ACCUMULATE] = 1;
  expectRefusal(gpu, command, "found accumulate 1 with epilogue 2, expected 0");
  command.attrs[KERF_MATMUL_ACCUMULATE] = 0;
  command.attrs[KERF_MATMUL_BATCH] = 2;
  command.operands[0] = command.operands[1] = command.operands[2] =
      Buffer(gpu, KERF_F32, 100);
  expectRefusal(gpu, command, "found batch 2 with epilogue 2, expected 1");
  for (size_t dtype : {0, 1, 2})
    command.attrs[dtype] = KERF_F64;
  command.attrs[KERF_MATMUL_BATCH] = 1;
  command.operands[0] = command.operands[1] = command.operands[2] =
      Buffer(gpu, KERF_F64, 100);
  expectRefusal(gpu, command, "found epilogue 2 of f64, expected none or a");
}

/// Scales are for one matrix of 8-bit floats, which have no other epilogue.
static void testMatmulScales(const Gpu &gpu) {
  changeMatmul(gpu, KERF_MATMUL_EPILOGUE, KERF_EPILOGUE_SCALE,
               "found scales of a matmul of f32, expected them with 8-bit");
  Buffer factor(gpu, KERF_F8E4M3, 256);
  Command command = {KERF_OP_MATMUL,
                     {KERF_F8E4M3, KERF_F8E4M3, KERF_BF16, 1, 16, 16, 16, 0, 16,
                      1, 0, 1, 16, 0, 16, 0, KERF_EPILOGUE_SCALE, 0},
                     {factor, factor, Buffer(gpu, KERF_BF16, 256), Buffer(),
                      Buffer(), Buffer(), Buffer(gpu, KERF_BF16, 1)}};
  if (capabilityOf(gpu) < float8Capability)
    return expectRefusal(gpu, command, "need a GPU of sm_89 or later");
  expectRefusal(gpu, command, "operand 6 (scale) has 2 bytes, expected at");
  command.operands[6] = Buffer(gpu, KERF_F32, 1);
  expectRefusal(gpu, command, "");
  command.attrs[KERF_MATMUL_EPILOGUE] = KERF_EPILOGUE_GELU;
  expectRefusal(gpu, command, "epilogue 2 of a matmul of 8-bit floats");
  command.attrs[KERF_MATMUL_EPILOGUE] = KERF_EPILOGUE_SCALE;
  command.operands.resize(9);
  expectRefusal(gpu, command, "found 9 operands, expected 4, 5, 6, 7 or 8");
}

/// Kernels of the plug-in that add a bias read no f64.
static void testMatmulBiases(const Gpu &gpu) {
  Command command = matmul(gpu);
  command.attrs[KERF_MATMUL_EPILOGUE] = KERF_EPILOGUE_BIAS;
  command.attrs[KERF_MATMUL_BIAS_DTYPE] = KERF_F64;
  command.operands.resize(4);
  command.operands.push_back(Buffer(gpu, KERF_F64, 5));
  expectRefusal(gpu, command,
                "found a bias of f64 in a matmul of f32, expected both");
}

/// Matrices that are neither by rows nor by columns.
static void testMatmulStrides(const Gpu &gpu) {
  Command command = matmul(gpu);
  command.operands[0] = command.operands[1] = Buffer(gpu, KERF_F32, 100);
  auto expect = [&](size_t attr, int64_t row, int64_t column,
                    const char *expected) {
    Command changed = command;
    changed.attrs[attr] = row;
    changed.attrs[attr + 1] = column;
    expectRefusal(gpu, changed, expected);
  };
  expect(8, 12, 2, "found strides 12 and 2 of a, [4, 6]; cuBLASLt needs 1");
  expect(8, 5, 1, "found strides 5 and 1 of a, [4, 6]");
  expect(8, 0, 1, "found strides 0 and 1 of a, [4, 6]");
  expect(11, 10, 2, "found strides 10 and 2 of b, [6, 5]");
  expect(11, 1, 5, "copy b first");
  expect(8, 1, 4, "");
  expect(11, 1, 6, "");
}

static void testMatmulCounts(const Gpu &gpu) {
  Command command = matmul(gpu);
  command.operands.pop_back();
  expectRefusal(gpu, command, "found 3 operands, expected 4, 5, 6, 7 or 8");
  command = matmul(gpu);
  command.attrs.pop_back();
  expectRefusal(gpu, command, "found 17 attributes, expected 18");
  command = matmul(gpu);
  command.operands[2] = Buffer();
  expectRefusal(gpu, command, "operand 2 (c) is absent");
}

//===----------------------------------------------------------------------===//
// Other steps
//===----------------------------------------------------------------------===//

static void testSimple(const Gpu &gpu) {
  Buffer x(gpu, KERF_I32, 10), y(gpu, KERF_I32, 5);
  expectRefusal(gpu, {KERF_OP_COPY, {40}, {x, y}},
                "operand 1 (destination) has 20 bytes, expected at least 40");
  expectRefusal(gpu, {KERF_OP_COPY, {-1}, {x, y}}, "found bytes -1");
  expectRefusal(gpu, {KERF_OP_COPY, {20}, {x, Buffer()}}, "is absent");
  expectRefusal(gpu, {KERF_OP_ZERO, {21}, {y}}, "has 20 bytes, expected");
  expectRefusal(gpu, {KERF_OP_ZERO, {}, {y}}, "found 0 attributes, expected 1");
  expectRefusal(gpu, {KERF_OP_TAKE, {1, 3, 20}, {x, y, y}, 2},
                "operand 0 (source) has 40 bytes, expected at least 60");
  expectRefusal(gpu, {KERF_OP_TAKE, {2, 1, 20}, {x, y, y}, 2},
                "operand 1 (destination) has 20 bytes, expected at least 40");
  expectRefusal(gpu, {KERF_OP_TAKE, {1, 2, 0}, {x, y, y}, 2},
                "found bytes of a part 0, expected 1 to");
  expectRefusal(gpu, {KERF_OP_TAKE, {1, 2, 20}, {x, y, y}},
                "operand 2 (part) is no scalar");
  expectRefusal(gpu, {KERF_OP_LOOP, {}, {}}, "the cuda device has no opcode 7");
}

static void testTakePart(const Gpu &gpu) {
  Buffer x(gpu, KERF_I32, 10), y(gpu, KERF_I32, 5);
  for (int32_t part : {-1, 2}) {
    Step step(gpu, {KERF_OP_TAKE, {1, 2, 20}, {x, y, y}, 2, part});
    expectText(step.runMessage(),
               "found part " + std::to_string(part) + ", expected 0 to 1");
  }
}

static void testLaunch(const Gpu &gpu) {
  Image image(gpu, "", kernelText);
  Buffer x(gpu, KERF_I32, 64);
  Command launch = {KERF_OP_LAUNCH,         {}, {x, x}, -1, 0,
                    image.find("long_add"), 1,  64};
  expectRefusal(gpu, launch, "");
  auto change = [&](auto Command::*member, auto value, const char *expected) {
    Command changed = launch;
    changed.*member = value;
    expectRefusal(gpu, changed, expected);
  };
  change(&Command::units, INT64_C(-1), "found -1 units, expected 0 to");
  change(&Command::units, INT64_C(1) << 31, "found 2147483648 units");
  change(&Command::threads, 0u, "found 0 threads a block, expected 1 to 64");
  change(&Command::threads, 65u, "found 65 threads a block, expected 1 to 64");
  change(&Command::function, (kerf_function *)nullptr, "its kernel is missing");
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

static void testNoMemory(const Gpu &gpu) {
  void *memory;
  char error[256] = "";
  kerf_device_status status =
      api().alloc(gpu, UINT64_C(1) << 46, &memory, error, sizeof error);
  if (status != KERF_DEVICE_NO_MEMORY || memory)
    failed("65536 GiB were given");
  expectText(error, "cannot allocate 65536.000 GiB for the model: ");
  expectText(error, "GiB are free on the GPU");
}

static void expectMissing(const char *features, const char *expected) {
  char missing[256];
  int32_t count = api().check_features(features, missing, sizeof missing);
  int32_t wanted = *expected != 0;
  for (const char *c = expected; *c; ++c)
    wanted += *c == ',';
  if (count != wanted || std::strcmp(missing, expected) != 0)
    failed("features '%s': %d are missing, '%s', expected '%s'", features,
           count, missing, expected);
}

static void testFeatures() {
  expectMissing("", "");
  expectMissing("sm_80", "");
  expectMissing("sm_80,+ptx70", "");
  expectMissing("sm_80,sm_999,avx2", "sm_999,avx2");
  expectMissing("sm_999a,sm_,ptx,ptx12345,sm_80b",
                "sm_999a,sm_,ptx,ptx12345,sm_80b");
}

void cudatest::testBadInput() {
  {
    Gpu gpu;
    testMatmulAttributes(gpu);
    testMatmulEpilogues(gpu);
    testMatmulBiases(gpu);
    testMatmulScales(gpu);
    testMatmulStrides(gpu);
    testMatmulCounts(gpu);
    testSimple(gpu);
    testTakePart(gpu);
    testLaunch(gpu);
    testNoMemory(gpu);
    gpu.wait();
  }
  testFeatures();
}
