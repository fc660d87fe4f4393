//===- WarpTest.cpp - threads that branch, meet and exchange --------------===//

#include "Check.h"
#include "Kernels.h"

#include <cmath>
#include <functional>

using namespace kerf::sim;
using namespace kerf::sim::test;

/// Runs `body` in one warp on in[i] = i and compares every thread's word.
static void lanesGive(const std::string &body,
                      const std::function<uint32_t(uint32_t)> &expected,
                      const std::string &before = "") {
  std::vector<uint32_t> in;
  for (uint32_t at = 0; at < 64; ++at)
    in.push_back(at);
  Result result =
      run(kernel(body + "\nst.global.b32 [%o], %r9;", before), in, 32);
  check(result.status == Success, body + ": " + result.text);
  for (uint32_t lane = 0; lane < 32; ++lane)
    same(result.out[lane], expected(lane),
         body + " lane " + std::to_string(lane));
}

static void testExchange() {
  lanesGive("shfl.sync.bfly.b32 %r9, %t, 16, 31, -1;",
            [](uint32_t lane) { return lane ^ 16; });
  lanesGive("shfl.sync.idx.b32 %r9, %t, 3, 31, -1;",
            [](uint32_t) { return 3u; });
  lanesGive("shfl.sync.up.b32 %r9, %t, 1, 0, -1;",
            [](uint32_t lane) { return lane ? lane - 1 : 0; });
  lanesGive("shfl.sync.down.b32 %r9|%p1, %t, 4, 31, -1;"
            "@!%p1 mov.b32 %r9, 99;",
            [](uint32_t lane) { return lane < 28 ? lane + 4 : 99; });
  // Segments of 8 lanes: the mask's upper bits.
  lanesGive("shfl.sync.down.b32 %r9, %t, 4, 0x181F, -1;",
            [](uint32_t lane) { return lane % 8 < 4 ? lane + 4 : lane; });
  // Each half names itself, from two branches.
  lanesGive("setp.lt.u32 %p1, %t, 16; @%p1 bra A;"
            "shfl.sync.bfly.b32 %r9, %t, 1, 31, 0xFFFF0000; bra B;"
            "A: shfl.sync.bfly.b32 %r9, %t, 2, 31, 0xFFFF; B:",
            [](uint32_t lane) { return lane ^ (lane < 16 ? 2 : 1); });
  // Lanes that arrive later are waited for.
  lanesGive("mov.b32 %r1, %t; mov.b32 %r2, 0;"
            "L: setp.eq.u32 %p1, %r1, 0; @%p1 bra E;"
            "sub.u32 %r1, %r1, 1; add.u32 %r2, %r2, 2; bra L;"
            "E: shfl.sync.idx.b32 %r9, %r2, 31, 31, -1;",
            [](uint32_t) { return 62u; });
  lanesGive("setp.lt.u32 %p1, %t, 5; vote.sync.ballot.b32 %r9, %p1, -1;",
            [](uint32_t) { return 31u; });
  lanesGive("setp.lt.u32 %p1, %t, 5; vote.sync.any.pred %p2, %p1, -1;"
            "vote.sync.all.pred %p3, %p1, -1; selp.b32 %r1, 2, 0, %p2;"
            "selp.b32 %r2, 1, 0, %p3; add.u32 %r9, %r1, %r2;",
            [](uint32_t) { return 2u; });
  lanesGive("redux.sync.add.s32 %r9, %t, -1;", [](uint32_t) { return 496u; });
  lanesGive("redux.sync.max.u32 %r9, %t, -1;", [](uint32_t) { return 31u; });
  lanesGive("mov.b32 %r9, 0; setp.gt.u32 %p1, %t, 29; @!%p1 bra X;"
            "activemask.b32 %r9; X:",
            [](uint32_t lane) { return lane < 30 ? 0u : 0xC0000000u; });
  lanesGive("mov.u32 %r9, %lanemask_lt;",
            [](uint32_t lane) { return (1u << lane) - 1; });
}

static void testControl() {
  // Collatz: every lane leaves the loop at another time.
  lanesGive("add.u32 %r1, %t, 1; mov.b32 %r9, 0;"
            "L: setp.eq.u32 %p1, %r1, 1; @%p1 bra E; add.u32 %r9, %r9, 1;"
            "and.b32 %r2, %r1, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra O;"
            "shr.u32 %r1, %r1, 1; bra L;"
            "O: mad.lo.u32 %r1, %r1, 3, 1; bra L; E:",
            [](uint32_t lane) {
              uint32_t steps = 0;
              for (uint64_t n = lane + 1; n != 1; ++steps)
                n = n & 1 ? 3 * n + 1 : n / 2;
              return steps;
            });
  lanesGive("and.b32 %r1, %t, 3; T: .branchtargets A, B, C, B;"
            "brx.idx %r1, T; A: mov.b32 %r9, 10; bra E;"
            "B: mov.b32 %r9, 20; bra E; C: mov.b32 %r9, 30; E:",
            [](uint32_t lane) {
              return lane % 4 == 0 ? 10u : lane % 4 == 2 ? 30u : 20u;
            });
  const char *function = R"(
.func (.param .b32 f_result) f(.param .b32 f_a, .param .b64 f_b)
{ .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p<2>;
  .local .align 4 .b8 own[16];
  ld.param.b32 %r1, [f_a]; ld.param.b64 %d1, [f_b];
  mov.b64 %d2, own; st.local.b32 [%d2+8], %r1;
  cvt.u32.u64 %r2, %d1; ld.local.b32 %r3, [own+8];
  setp.gt.u32 %p1, %r3, 20; @%p1 bra BIG;
  add.u32 %r3, %r3, %r2; st.param.b32 [f_result], %r3; ret;
BIG: st.param.b32 [f_result], %r2; ret;
})";
  lanesGive(
      "cvt.u64.u32 %d1, 100; setp.ne.u32 %p1, %t, 7; mov.b32 %r9, 1;"
      "@!%p1 bra E;"
      "{ .param .b32 a; .param .b64 b; .param .b32 result;"
      "st.param.b32 [a], %t; st.param.b64 [b], %d1;"
      "call.uni (result), f, (a, b); ld.param.b32 %r9, [result]; } E:",
      [](uint32_t lane) {
        return lane == 7 ? 1u : lane > 20 ? 100u : lane + 100;
      },
      function);
}

static void testMemory() {
  lanesGive("mad.wide.u32 %d1, %t, 4, %in; ld.global.nc.b32 %r9, [%d1+4];",
            [](uint32_t lane) { return lane + 1; });
  lanesGive("mad.wide.u32 %d1, %t, 8, %in; ld.v2.b32 {%r1, %r9}, [%d1];",
            [](uint32_t lane) { return 2 * lane + 1; });
  lanesGive("ld.global.v4.b32 {%r1, %r2, _, %r9}, [%in+16];",
            [](uint32_t) { return 7u; });
  lanesGive(
      "cvt.u64.u32 %d1, %t; add.s64 %d1, %d1, %in; ld.global.u8 %r9, [%d1];",
      [](uint32_t lane) { return lane % 4 ? 0 : lane / 4; });
  lanesGive("st.global.b32 [%o], -2; ld.global.s8 %r9, [%o];",
            [](uint32_t) { return -2u; });
  lanesGive(".shared .align 4 .b8 s[128]; mov.b64 %d1, s;"
            "mad.wide.u32 %d2, %t, 4, %d1; st.shared.b32 [%d2], %t;"
            "bar.sync 0; xor.b32 %r1, %t, 5; mad.wide.u32 %d3, %r1, 4, %d1;"
            "cvta.shared.u64 %d3, %d3; ld.b32 %r9, [%d3];",
            [](uint32_t lane) { return lane ^ 5; });
  lanesGive(
      "mad.wide.u32 %d1, %t, 4, values; ld.const.b32 %r9, [%d1];"
      "ld.const.b32 %r2, [values+4]; add.u32 %r9, %r9, %r2;",
      [](uint32_t lane) { return (lane < 3 ? lane * 10 : 0) + 10; },
      ".const .align 4 .u32 values[40] = {0, 10, 20};");
  lanesGive(
      "mov.b64 %d1, pointer; ld.global.b64 %d2, [%d1];"
      "ld.global.b32 %r9, [%d2+4];",
      [](uint32_t) { return 6u; },
      ".global .align 4 .u32 data[2] = {5, 6};"
      ".global .align 8 .u64 pointer = generic(data);");
  lanesGive(
      "atom.global.add.u32 %r1, [%out], 0; bar.warp.sync -1;"
      "atom.global.exch.b32 %r1, [%o], 1; atom.global.add.u32 %r9, [%o], 5;"
      "ld.global.b32 %r9, [%o];",
      [](uint32_t) { return 6u; });
  lanesGive("st.global.b32 [%o], 7; atom.global.cas.b32 %r1, [%o], 7, 9;"
            "atom.global.max.s32 %r2, [%o], 4; ld.global.b32 %r9, [%o];",
            [](uint32_t) { return 9u; });
}

/// The sum of 100 threads through shared memory, and of a red.
static void testBlock() {
  std::string body = R"(
  .shared .align 4 .b8 part[16];
  mov.b32 %r1, %t;
  shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1; add.u32 %r1, %r1, %r2;
  shfl.sync.bfly.b32 %r2, %r1, 8, 31, -1;  add.u32 %r1, %r1, %r2;
  shfl.sync.bfly.b32 %r2, %r1, 4, 31, -1;  add.u32 %r1, %r1, %r2;
  shfl.sync.bfly.b32 %r2, %r1, 2, 31, -1;  add.u32 %r1, %r1, %r2;
  shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;  add.u32 %r1, %r1, %r2;
  shr.u32 %r3, %t, 5; mov.b64 %d1, part; mad.wide.u32 %d2, %r3, 4, %d1;
  st.shared.b32 [%d2], %r1;
  bar.sync 0;
  ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [part];
  add.u32 %r4, %r4, %r5; add.u32 %r6, %r6, %r7; add.u32 %r4, %r4, %r6;
  st.global.b32 [%o], %r4;)";
  Setting races("KERF_SIM_RACES", "1");
  for (const char *order : {"forward", "reverse"}) {
    Setting setting("KERF_SIM_ORDER", order);
    Result result = run(kernel(body), {}, 3 * 128, {3, 1, 1}, {128, 1, 1});
    check(result.status == Success, "block sum: " + result.text);
    for (uint32_t word : result.out)
      same(word, 127u * 128 / 2, "block sum");
    same(result.statistics.barriers, 3u, "barriers are counted");
    same(result.statistics.globalStoreSectors, 3u * 16,
         "whole sectors are stored");
  }
}

static uint32_t bits(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  return word;
}
/// Exact for what these tests use.
static uint32_t bf16(float value) { return bits(value) >> 16; }

/// D = A B + C with A[i][k] = i - k, B[k][j] = k + 2 j, C = 1.
static void testMatrix() {
  auto a = [](int row, int k) { return float(row - k); };
  auto b = [](int k, int column) { return float(k + 2 * column); };
  std::vector<uint32_t> in;
  for (int lane = 0; lane < 32; ++lane) {
    int group = lane / 4, pair = lane % 4 * 2;
    auto twoA = [&](int row, int k) {
      return bf16(a(row, k)) | bf16(a(row, k + 1)) << 16;
    };
    auto twoB = [&](int k) {
      return bf16(b(k, group)) | bf16(b(k + 1, group)) << 16;
    };
    for (uint32_t word :
         {twoA(group, pair), twoA(group + 8, pair), twoA(group, pair + 8),
          twoA(group + 8, pair + 8), twoB(pair), twoB(pair + 8), 0u, 0u})
      in.push_back(word);
  }
  Result result = run(kernel(R"(
  mad.wide.u32 %d1, %t, 32, %in; mov.b32 %r20, 0f3F800000;
  ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d1];
  ld.global.v2.b32 {%r5, %r6}, [%d1+16];
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r10, %r11, %r12, %r13},
    {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r20, %r20, %r20, %r20};
  mad.wide.u32 %d2, %t, 16, %out;
  st.global.v4.b32 [%d2], {%r10, %r11, %r12, %r13};)"),
                      in, 128);
  check(result.status == Success, "mma: " + result.text);
  for (int lane = 0; lane < 32; ++lane)
    for (int index = 0; index < 4; ++index) {
      int row = lane / 4 + index / 2 * 8, column = lane % 4 * 2 + index % 2;
      float sum = 1;
      for (int k = 0; k < 16; ++k)
        sum += a(row, k) * b(k, column);
      same(result.out[lane * 4 + index], bits(sum), "mma");
    }
}

static void testCopies() {
  // ldmatrix of an 8 x 8 matrix of its own indices, and its transpose.
  std::string body = R"(
  .shared .align 16 .b8 s[128]; mov.b64 %d1, s; mad.wide.u32 %d2, %t, 4, %d1;
  shl.b32 %r1, %t, 1; add.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 16;
  or.b32 %r1, %r1, %r2; st.shared.b32 [%d2], %r1; bar.sync 0;
  and.b32 %r3, %t, 7; mad.wide.u32 %d3, %r3, 16, %d1;
  ldmatrix.sync.aligned.m8n8.x1TRANS.shared.b16 {%r9}, [%d3];)";
  auto variant = [&](const std::string &text) {
    std::string made = body;
    return made.replace(made.find("TRANS"), 5, text);
  };
  lanesGive(variant(""),
            [](uint32_t lane) { return lane * 2 | (lane * 2 + 1) << 16; });
  lanesGive(variant(".trans"), [](uint32_t lane) {
    uint32_t row = lane / 4, column = lane % 4 * 2;
    return (column * 8 + row) | ((column + 1) * 8 + row) << 16;
  });
  // stmatrix of the same, two matrices at once.
  std::string store = R"(
  .shared .align 16 .b8 s[256]; mov.b64 %d1, s; mad.wide.u32 %d2, %t, 4, %d1;
  shl.b32 %r1, %t, 1; add.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 16;
  or.b32 %r1, %r1, %r2; and.b32 %r3, %t, 15; mad.wide.u32 %d3, %r3, 16, %d1;
  stmatrix.sync.aligned.m8n8.x2TRANS.shared.b16 [%d3], {%t, %r1};
  bar.sync 0; ld.shared.b32 %r9, [%d2+128];)";
  lanesGive(std::string(store).replace(store.find("TRANS"), 5, ""),
            [](uint32_t lane) { return lane * 2 | (lane * 2 + 1) << 16; });
  lanesGive(std::string(store).replace(store.find("TRANS"), 5, ".trans"),
            [](uint32_t lane) {
              uint32_t row = lane / 4, column = lane % 4 * 2;
              return (column * 8 + row) | ((column + 1) * 8 + row) << 16;
            });
  // The first of two groups is there after a wait for all but one.
  lanesGive(R"(
  .shared .align 16 .b8 s[256]; mov.b64 %d1, s; mad.wide.u32 %d2, %t, 4, %d1;
  mad.wide.u32 %d3, %t, 4, %in; st.shared.b32 [%d2+128], 77;
  cp.async.ca.shared.global [%d2], [%d3], 4; cp.async.commit_group;
  cp.async.ca.shared.global [%d2+128], [%d3], 4; cp.async.commit_group;
  cp.async.wait_group 1; ld.shared.b32 %r1, [%d2];
  ld.shared.b32 %r2, [%d2+128]; mad.lo.u32 %r9, %r1, 1000, %r2;)",
            [](uint32_t lane) { return lane * 1000 + 77; });
  // Copies of no bytes put zeros, and read nowhere: their sources may be none.
  lanesGive(R"(
  .shared .align 16 .b8 s[256]; mov.b64 %d1, s; mad.wide.u32 %d2, %t, 4, %d1;
  mad.wide.u32 %d3, %t, 4, %in; and.b32 %r1, %t, 1; mul.lo.u32 %r2, %r1, 4;
  setp.eq.u32 %p1, %r1, 0; selp.b64 %d3, 0, %d3, %p1;
  st.shared.b32 [%d2], 77; cp.async.ca.shared.global [%d2], [%d3], 4, %r2;
  cp.async.wait_all; ld.shared.b32 %r9, [%d2];)",
            [](uint32_t lane) { return lane % 2 ? lane : 0; });
}

void testWarpgroups(); // WarpgroupTest.cpp

int main() {
  testExchange();
  testControl();
  testMemory();
  testBlock();
  testMatrix();
  testCopies();
  testWarpgroups();
  return finish("warps");
}
