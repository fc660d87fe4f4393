//===- CpuSample.cpp - a file for the cpu device --------------------------===//

#include "Samples.h"

#include "kerf/Artifact/CpuWorkspace.h"

#include "llvm/ADT/bit.h"

using namespace kerf;
using namespace kerf::test;

namespace {
/// Places operands one behind the other.
struct CpuBuilder {
  ArtifactData data = emptyProgram();
  int64_t end = 0;

  kerf_operand place(uint32_t dtype, int64_t elements, uint32_t access) {
    int64_t bytes = elements * kerf_dtype_bytes(dtype);
    kerf_operand operand = arenaOperand(end, bytes, dtype, access);
    end += (bytes + 63) / 64 * 64;
    return operand;
  }
  kerf_operand workspace(uint32_t opcode, llvm::ArrayRef<int64_t> attrs) {
    int64_t bytes =
        kerf_cpu_workspace(opcode, attrs.data(), data.meta.max_workers);
    return place(KERF_F32, bytes / 4, KERF_READ | KERF_WRITE);
  }
  void add(uint32_t opcode, llvm::StringRef name,
           llvm::ArrayRef<kerf_operand> operands,
           llvm::ArrayRef<int64_t> attrs) {
    data.addCommand(opcode, 0, data.strings.intern(name), KERF_NONE, operands,
                    attrs);
  }
  void input(llvm::StringRef name, const kerf_operand &operand,
             llvm::ArrayRef<int64_t> shape) {
    data.inputs.push_back({data.strings.intern(name), KERF_ROLE_NONE,
                           wholeLayout(shape, operand.dtype), operand.offset,
                           operand.bytes});
  }
  void matmuls();
  void attention();
  void experts();
};
} // namespace

static kerf_operand absent() {
  kerf_operand operand = {};
  operand.kind = KERF_ABSENT;
  return operand;
}

void CpuBuilder::matmuls() {
  std::vector<int64_t> attrs = matmulAttrs(4, 5, 6);
  kerf_operand a = place(KERF_F32, 24, KERF_READ);
  kerf_operand b = place(KERF_F32, 30, KERF_READ);
  kerf_operand c = place(KERF_F32, 20, KERF_READ | KERF_WRITE);
  input("a", a, {4, 6});
  input("b", b, {6, 5});
  add(KERF_OP_ZERO, "zero", {c}, {c.bytes});
  add(KERF_OP_LOOP, "twice", {}, {0, 2, 0, 1});
  attrs[15] = 1;
  add(KERF_OP_MATMUL, "matmul", {a, b, c, workspace(KERF_OP_MATMUL, attrs)},
      attrs);
  kerf_operand result = place(KERF_F32, 1, KERF_WRITE);
  kerf_operand last = c;
  last.offset += 19 * 4;
  last.bytes = 4;
  add(KERF_OP_COPY, "last", {last, result}, {4});
  data.addScalarOutput("loss", KERF_F32, result.offset);
  attrs = matmulAttrs(4, 5, 6);
  attrs[0] = attrs[1] = attrs[2] = KERF_BF16;
  add(KERF_OP_MATMUL, "narrow",
      {place(KERF_BF16, 24, KERF_READ), place(KERF_BF16, 30, KERF_READ),
       place(KERF_BF16, 20, KERF_WRITE), workspace(KERF_OP_MATMUL, attrs)},
      attrs);
}

void CpuBuilder::attention() {
  constexpr int64_t b = 1, h = 2, g = 1, s = 5, d = 8;
  std::vector<int64_t> attrs = {KERF_F32, b, h, g, s, s, d, d};
  for (int64_t heads : {h, g, g, h, h, h, g, g})
    attrs.insert(attrs.end(), {s * heads * d, heads * d, d});
  attrs.resize(KERF_ATTN_ATTR_COUNT);
  attrs[KERF_ATTN_CAUSAL] = 1;
  attrs[KERF_ATTN_SCALE] = llvm::bit_cast<int64_t>(0.5);
  attrs[KERF_ATTN_DROPOUT] = llvm::bit_cast<int64_t>(0.25);
  const int64_t whole[] = {b, h, s, s};
  std::copy(whole, whole + 4, attrs.begin() + KERF_ATTN_GLOBAL);
  kerf_operand q = place(KERF_F32, b * s * h * d, KERF_READ);
  kerf_operand k = place(KERF_F32, b * s * g * d, KERF_READ);
  kerf_operand v = place(KERF_F32, b * s * g * d, KERF_READ);
  kerf_operand y = place(KERF_F32, b * s * h * d, KERF_WRITE);
  kerf_operand lse = place(KERF_F32, b * h * s, KERF_WRITE);
  kerf_operand seed = place(KERF_I32, 1, KERF_READ);
  kerf_operand step = place(KERF_I32, 1, KERF_READ);
  kerf_operand none = absent();
  input("q", q, {b, s, h, d});
  add(KERF_OP_ATTENTION, "attention",
      {q, k, v, y, lse, seed, step, none, none, none, none, none,
       workspace(KERF_OP_ATTENTION, attrs)},
      attrs);
  kerf_operand dq = place(KERF_F32, b * s * h * d, KERF_WRITE);
  kerf_operand dk = place(KERF_F32, b * s * g * d, KERF_WRITE);
  kerf_operand dv = place(KERF_F32, b * s * g * d, KERF_WRITE);
  y.access = lse.access = KERF_READ;
  add(KERF_OP_ATTENTION_BACKWARD, "attention_backward",
      {q, k, v, y, lse, q, dq, dk, dv, seed, step, none, none, none, none, none,
       workspace(KERF_OP_ATTENTION_BACKWARD, attrs)},
      attrs);
}

void CpuBuilder::experts() {
  std::vector<int64_t> attrs = {0, KERF_F32, KERF_F32, KERF_F32, 2, 6,
                                3, 4,        8,        0,        0, 0};
  kerf_operand sizes = place(KERF_I32, 2 * 3, KERF_READ);
  input("sizes", sizes, {2, 3});
  add(KERF_OP_GROUPED_MATMUL, "experts",
      {place(KERF_F32, 2 * 6 * 8, KERF_READ),
       place(KERF_F32, 3 * 4 * 8, KERF_READ), sizes,
       place(KERF_F32, 2 * 6 * 4, KERF_WRITE),
       workspace(KERF_OP_GROUPED_MATMUL, attrs)},
      attrs);
}

ArtifactData test::cpuProgram() {
  CpuBuilder builder;
  ArtifactData &data = builder.data;
  data.meta.target = data.strings.intern("cpu");
  data.meta.max_workers = 2;
  data.beginFunc("step");
  builder.matmuls();
  builder.attention();
  builder.experts();
  data.endFunc();
  data.programs[0].arena_bytes = builder.end;
  data.programs[0].train_calls = 1;
  addCall(data, 0, 0);
  return std::move(data);
}
