//===- PtxTest.cpp - instructions of one thread ---------------------------===//
//
// Every case gives up to three operands as bits, in registers of all sizes
// (%d1..%d3, %r1..%r3, %h1..%h3), and expects bits in %d9, %r9, %h9 or %p9.
// Expected values are those of the PTX manual's definitions, worked by hand.
//
//===----------------------------------------------------------------------===//

#include "Check.h"
#include "Machine.h"

#include <cstring>

using namespace kerf::sim;
using namespace kerf::sim::test;

namespace {
struct Case {
  const char *body;
  uint64_t a, b, c, expected;
};
} // namespace

static constexpr uint64_t none = 0;
// f32: 1, 1.5, 2, 3, -1, NaN, infinity; f16 and bf16 the same way.
static constexpr uint32_t f1 = 0x3F800000, f15 = 0x3FC00000, f2 = 0x40000000,
                          f3 = 0x40400000, fm1 = 0xBF800000, nan = 0x7FC00000,
                          inf = 0x7F800000;
static constexpr uint64_t d1 = 0x3FF0000000000000, d2 = 0x4000000000000000,
                          d3 = 0x4008000000000000;

static const Case integers[] = {
    {"add.s32 %r9, %r1, %r2;", 0xFFFFFFFF, 2, none, 1},
    {"add.s64 %d9, %d1, -16;", 20, none, none, 4},
    {"add.s16 %h9, %h1, %h2;", 0xFFFF, 3, none, 2},
    {"sub.s32 %r9, %r1, %r2;", 1, 3, none, 0xFFFFFFFE},
    {"mul.lo.s32 %r9, %r1, %r2;", 0x10001, 0x10001, none, 0x20001},
    {"mul.lo.s64 %d9, %d1, %d2;", 1ull << 40, 1ull << 20, none, 1ull << 60},
    {"mul.lo.s16 %h9, %h1, %h2;", 300, 300, none, 90000 & 0xFFFF},
    {"mul.hi.u32 %r9, %r1, %r2;", 0xFFFFFFFF, 0xFFFFFFFF, none, 0xFFFFFFFE},
    {"mul.hi.s32 %r9, %r1, %r2;", 0xFFFFFFFF, 2, none, 0xFFFFFFFF},
    {"mul.hi.u64 %d9, %d1, %d2;", 1ull << 63, 6, none, 3},
    {"mul.wide.s32 %d9, %r1, %r2;", 0xFFFFFFFF, 5, none, -5ull},
    {"mul.wide.u32 %d9, %r1, 4;", 0xFFFFFFFF, none, none, 0x3FFFFFFFC},
    {"mul.wide.u16 %r9, %h1, %h2;", 0xFFFF, 2, none, 0x1FFFE},
    {"mad.lo.s32 %r9, %r1, %r2, %r3;", 7, 6, 5, 47},
    {"mad.wide.u32 %d9, %r1, %r2, %d3;", 0x80000000, 4, 1, 0x200000001},
    {"mad.hi.u32 %r9, %r1, %r2, %r3;", 0x80000000, 4, 1, 3},
    {"div.s32 %r9, %r1, %r2;", -7u, 2, none, -3u},
    {"div.u32 %r9, %r1, %r2;", -7u, 2, none, 0x7FFFFFFC},
    {"div.s32 %r9, %r1, %r2;", 0x80000000, -1u, none, 0x80000000},
    {"div.u64 %d9, %d1, %d2;", 1ull << 40, 1000, none, 1099511627},
    {"rem.s32 %r9, %r1, %r2;", -7u, 2, none, -1u},
    {"rem.u64 %d9, %d1, %d2;", 1ull << 40, 1000, none, 776},
    {"min.s32 %r9, %r1, %r2;", -1u, 1, none, -1u},
    {"min.u32 %r9, %r1, %r2;", -1u, 1, none, 1},
    {"max.s64 %d9, %d1, %d2;", -1ull, 1, none, 1},
    {"max.relu.s32 %r9, %r1, %r2;", -1u, -5u, none, 0},
    {"max.s32.relu %r9, %r1, %r2;", -1u, 5, none, 5},
    {"min.relu.s32 %r9, %r1, %r2;", -1u, 5, none, 0},
    {"min.relu.s32 %r9, %r1, %r2;", 7, 5, none, 5},
    {"max.s16x2 %r9, %r1, %r2;", 0xFFFF0003, 0x00010002, none, 0x00010003},
    {"max.u16x2 %r9, %r1, %r2;", 0xFFFF0003, 0x00010002, none, 0xFFFF0003},
    {"min.s16x2 %r9, %r1, %r2;", 0xFFFF0003, 0x00010002, none, 0xFFFF0002},
    {"min.u16x2 %r9, %r1, %r2;", 0xFFFF0003, 0x00010002, none, 0x00010002},
    {"abs.s32 %r9, %r1;", -5u, none, none, 5},
    {"neg.s64 %d9, %d1;", 5, none, none, -5ull},
    {"and.b32 %r9, %r1, %r2;", 0xF0F0, 0xFF00, none, 0xF000},
    {"or.b64 %d9, %d1, %d2;", 1ull << 40, 1, none, (1ull << 40) + 1},
    {"xor.b16 %h9, %h1, %h2;", 0xFF00, 0x0FF0, none, 0xF0F0},
    {"not.b32 %r9, %r1;", 0xFF, none, none, 0xFFFFFF00},
    {"shl.b32 %r9, %r1, %r2;", 3, 4, none, 48},
    {"shl.b32 %r9, %r1, %r2;", 3, 32, none, 0},
    {"shl.b64 %d9, %d1, %r2;", 3, 40, none, 3ull << 40},
    {"shr.u32 %r9, %r1, %r2;", 0x80000000, 31, none, 1},
    {"shr.s32 %r9, %r1, %r2;", 0x80000000, 99, none, 0xFFFFFFFF},
    {"shr.s64 %d9, %d1, 4;", -32ull, none, none, -2ull},
    {"shr.u16 %h9, %h1, 8;", 0xABCD, none, none, 0xAB},
    {"bfe.u32 %r9, %r1, 8, 4;", 0x12345678, none, none, 6},
    {"bfe.s32 %r9, %r1, 4, 4;", 0x000000F0, none, none, -1u},
    {"bfe.u64 %d9, %d1, 32, 16;", 0x1234567800000000, none, none, 0x5678},
    {"bfi.b32 %r9, %r1, %r2, 8, 8;", 0xAB, 0xFFFF0000, none, 0xFFFFAB00},
    {"prmt.b32 %r9, %r1, %r2, 0x5410;", 0x11112222, 0x33334444, none,
     0x44442222},
    {"prmt.b32 %r9, %r1, %r2, 0x8880;", 0x80, 0, none, 0xFFFFFF80},
    {"popc.b64 %r9, %d1;", 0xFF000000000000FF, none, none, 16},
    {"clz.b32 %r9, %r1;", 0x00010000, none, none, 15},
    {"clz.b64 %r9, %d1;", none, none, none, 64},
    {"brev.b32 %r9, %r1;", 1, none, none, 0x80000000},
    {"bfind.u32 %r9, %r1;", 0x00010000, none, none, 16},
    {"bfind.s32 %r9, %r1;", -1u, none, none, -1u},
    {"shf.l.wrap.b32 %r9, %r1, %r2, 8;", 0xAABBCCDD, 0x11223344, none,
     0x223344AA},
    {"shf.r.clamp.b32 %r9, %r1, %r2, 8;", 0xAABBCCDD, 0x11223344, none,
     0x44AABBCC},
    {"lop3.b32 %r9, %r1, %r2, %r3, 0x96;", 0xF0, 0xCC, 0xAA,
     0xF0 ^ 0xCC ^ 0xAA},
};

static const Case moves[] = {
    {"mov.b32 %r9, 0f40400000;", none, none, none, f3},
    {"mov.u32 %r9, %ntid.x;", none, none, none, 1},
    {"mov.b64 %d9, {%r1, %r2};", 7, 9, none, 0x900000007},
    {"mov.b64 {%r8, %r9}, %d1;", 0x900000007, none, none, 9},
    {"mov.b64 {%r9, _}, %d1;", 0x900000007, none, none, 7},
    {"mov.b32 %r9, {%h1, %h2};", 7, 9, none, 0x90007},
    {"mov.b32 {%h8, %h9}, %r1;", 0x90007, none, none, 9},
    {"mov.b64 %d9, {%h1, %h2, %h3, %h1};", 1, 2, 3, 0x0001000300020001},
    {"{ .reg .b32 t; mov.b32 t, %r1; add.u32 %r9, t, t; }", 21, none, none, 42},
    {"setp.lt.s32 %p1, %r1, %r2; selp.b32 %r9, 10, 20, %p1;", -1u, 0, none, 10},
    {"setp.lt.u32 %p1, %r1, %r2; selp.b32 %r9, 10, 20, %p1;", -1u, 0, none, 20},
    {"setp.eq.s16 %p9, %h1, %h2;", 0x10001, 0x20001, none, 1},
    {"setp.ge.u64 %p9, %d1, %d2;", -1ull, 1, none, 1},
    {"setp.ne.b64 %p9, %d1, 5;", 5, none, none, 0},
    {"setp.gt.f32 %p9, %r1, %r2;", f2, f1, none, 1},
    {"setp.lt.f32 %p9, %r1, %r2;", nan, f1, none, 0},
    {"setp.ltu.f32 %p9, %r1, %r2;", nan, f1, none, 1},
    {"setp.ne.f32 %p9, %r1, %r2;", nan, f1, none, 0},
    {"setp.neu.f32 %p9, %r1, %r2;", nan, nan, none, 1},
    {"setp.num.f32 %p9, %r1, %r2;", f1, f2, none, 1},
    {"setp.nan.f32 %p9, %r1, %r1;", nan, none, none, 1},
    {"setp.eq.f32 %p9, %r1, %r2;", 0x80000000, 0, none, 1},
    {"setp.gt.bf16 %p9, %h1, %h2;", 0x4000, 0x3F80, none, 1},
    {"setp.le.f64 %p9, %d1, %d2;", d1, d2, none, 1},
    {"setp.lt.s32 %p1|%p9, %r1, %r2;", 1, 2, none, 0},
    {"setp.eq.u32 %p1, 0, 0; setp.lt.and.s32 %p9, %r1, %r2, !%p1;", 1, 2, none,
     0},
    {"setp.eq.u32 %p1, %r1, 1; not.pred %p9, %p1;", 1, none, none, 0},
    {"setp.eq.u32 %p1, %r1, 1; mov.pred %p2, -1; xor.pred %p9, %p1, %p2;", 0,
     none, none, 1},
    {"mov.b32 %r9, 1; setp.eq.u32 %p1, %r1, 1; @%p1 mov.b32 %r9, 2;", 1, none,
     none, 2},
    {"mov.b32 %r9, 1; setp.eq.u32 %p1, %r1, 1; @!%p1 mov.b32 %r9, 2;", 1, none,
     none, 1},
};

static const Case floats[] = {
    {"add.rn.f32 %r9, %r1, %r2;", f1, f2, none, f3},
    {"add.f32 %r9, %r1, 0f3F800000;", f2, none, none, f3},
    {"sub.f32 %r9, %r1, %r2;", f1, f2, none, fm1},
    {"mul.f32 %r9, %r1, %r2;", f15, f2, none, f3},
    // 1 + 2^-23 squared needs 47 bits: only a fused multiply-add keeps them.
    {"fma.rn.f32 %r9, %r1, %r1, %r2;", 0x3F800001, 0xBF800002, none,
     0x28800000},
    {"fma.rn.f64 %d9, %d1, %d2, %d3;", d1, d2, d1, d3},
    {"div.rn.f32 %r9, %r1, %r2;", f3, f2, none, f15},
    {"div.full.f32 %r9, %r1, %r2;", f3, f2, none, f15},
    {"div.rn.f64 %d9, %d1, %d2;", d3, d1, none, d3},
    {"min.f32 %r9, %r1, %r2;", nan, f1, none, f1},
    {"min.f32 %r9, %r1, %r2;", 0, 0x80000000, none, 0x80000000},
    {"max.f32 %r9, %r1, %r2;", f1, nan, none, f1},
    {"max.NaN.f32 %r9, %r1, %r2;", f1, nan, none, nan},
    {"abs.f32 %r9, %r1;", fm1, none, none, f1},
    {"neg.f64 %d9, %d1;", d1, none, none, d1 | 1ull << 63},
    {"sqrt.rn.f32 %r9, %r1;", 0x40800000, none, none, f2},
    {"rsqrt.approx.f32 %r9, %r1;", 0x3E800000, none, none, f2},
    {"rcp.rn.f32 %r9, %r1;", f2, none, none, 0x3F000000},
    {"ex2.approx.f32 %r9, %r1;", f1, none, none, f2},
    {"ex2.approx.ftz.f32 %r9, %r1;", 0xC3020000, none, none, 0},
    {"lg2.approx.f32 %r9, %r1;", f2, none, none, f1},
    {"sin.approx.f32 %r9, %r1;", 0, none, none, 0},
    {"cos.approx.f32 %r9, %r1;", 0, none, none, f1},
    {"tanh.approx.f32 %r9, %r1;", inf, none, none, f1},
    {"copysign.f32 %r9, %r1, %r2;", fm1, f2, none, 0xC0000000},
    {"add.ftz.f32 %r9, %r1, %r2;", 1, 1, none, 0},
    {"add.f32 %r9, %r1, %r2;", 1, 1, none, 2},
    {"add.sat.f32 %r9, %r1, %r2;", f1, f1, none, f1},
    {"testp.finite.f32 %p9, %r1;", inf, none, none, 0},
    // f16: 1 is 3C00, 2 is 4000; 2048 + 1 is a tie to even.
    {"add.f16 %h9, %h1, %h2;", 0x3C00, 0x3C00, none, 0x4000},
    {"add.f16 %h9, %h1, %h2;", 0x6800, 0x3C00, none, 0x6800},
    {"fma.rn.f16 %h9, %h1, %h2, %h3;", 0x4000, 0x4200, 0x3C00, 0x4700},
    {"mul.bf16 %h9, %h1, %h2;", 0x3FC0, 0x4000, none, 0x4040},
    {"fma.rn.bf16 %h9, %h1, %h2, %h3;", 0x4000, 0x4000, 0xBF80, 0x4040},
    {"fma.rn.bf16x2 %r9, %r1, %r2, %r3;", 0x3F804000, 0x40004000, 0x3F803F80,
     0x404040A0},
    {"add.f16x2 %r9, %r1, %r2;", 0x3C004000, 0x3C003C00, none, 0x40004200},
    {"max.bf16x2 %r9, %r1, %r2;", 0x3F80BF80, 0x40004000, none, 0x40004000},
    {"neg.bf16x2 %r9, %r1;", 0x3F80BF80, none, none, 0xBF803F80},
};

static const Case conversions[] = {
    {"cvt.u64.u32 %d9, %r1;", 0xFFFFFFFF, none, none, 0xFFFFFFFF},
    {"cvt.s64.s32 %d9, %r1;", 0xFFFFFFFF, none, none, -1ull},
    {"cvt.u32.u64 %r9, %d1;", 0x1234567890, none, none, 0x34567890},
    {"cvt.s32.s8 %r9, %r1;", 0x80, none, none, 0xFFFFFF80},
    {"cvt.s64.s8 %d9, %d1;", 0x180, none, none, -128ull},
    {"cvt.u16.u32 %h9, %r1;", 0x12345, none, none, 0x2345},
    {"cvt.sat.u8.s32 %r9, %r1;", -5u, none, none, 0},
    {"cvt.sat.s8.s32 %r9, %r1;", 500, none, none, 127},
    {"cvt.rn.f32.s32 %r9, %r1;", -1u, none, none, fm1},
    {"cvt.rn.f32.u32 %r9, %r1;", -1u, none, none, 0x4F800000},
    {"cvt.rz.f32.u32 %r9, %r1;", -1u, none, none, 0x4F7FFFFF},
    {"cvt.rn.f32.s64 %r9, %d1;", -1ull, none, none, fm1},
    {"cvt.rn.f64.u64 %d9, %d1;", 3, none, none, d3},
    {"cvt.rn.f16.u32 %h9, %r1;", 2, none, none, 0x4000},
    {"cvt.rzi.s32.f32 %r9, %r1;", 0xC0200000, none, none, -2u}, // -2.5
    {"cvt.rni.s32.f32 %r9, %r1;", 0x40200000, none, none, 2},   // 2.5
    {"cvt.rmi.s32.f32 %r9, %r1;", 0xC0200000, none, none, -3u},
    {"cvt.rpi.s32.f32 %r9, %r1;", 0x40200000, none, none, 3},
    {"cvt.rzi.s32.f32 %r9, %r1;", nan, none, none, 0},
    {"cvt.rzi.s32.f32 %r9, %r1;", inf, none, none, 0x7FFFFFFF},
    {"cvt.rzi.u32.f32 %r9, %r1;", fm1, none, none, 0},
    {"cvt.rzi.u64.f64 %d9, %d1;", d3, none, none, 3},
    {"cvt.rni.f32.f32 %r9, %r1;", 0x40200000, none, none, f2},
    {"cvt.rmi.f32.f32 %r9, %r1;", 0xC0200000, none, none, 0xC0400000},
    {"cvt.sat.f32.f32 %r9, %r1;", f3, none, none, f1},
    {"cvt.f64.f32 %d9, %r1;", f3, none, none, d3},
    {"cvt.rn.f32.f64 %r9, %d1;", d3, none, none, f3},
    {"cvt.rz.f32.f64 %r9, %d1;", 0x3FEFFFFFFFFFFFFF, none, none, 0x3F7FFFFF},
    {"cvt.rn.f32.f64 %r9, %d1;", 0x3FEFFFFFFFFFFFFF, none, none, f1},
    {"cvt.rn.bf16.f32 %h9, %r1;", 0x3F808000, none, none, 0x3F80},
    {"cvt.rn.bf16.f32 %h9, %r1;", 0x3F818000, none, none, 0x3F82},
    {"cvt.rz.bf16.f32 %h9, %r1;", 0x3F81FFFF, none, none, 0x3F81},
    {"cvt.rn.bf16.f32 %h9, %r1;", 0xFFFFFFFF, none, none, 0x7FFF},
    {"cvt.f32.bf16 %r9, %h1;", 0x4040, none, none, f3},
    {"cvt.rn.f16.f32 %h9, %r1;", f1 + 0x1000, none, none, 0x3C00},
    {"cvt.rn.f16.f32 %h9, %r1;", 0x33800000, none, none, 1}, // 2^-24
    {"cvt.rn.f16.f32 %h9, %r1;", 0x477FF000, none, none, 0x7C00},
    {"cvt.f32.f16 %r9, %h1;", 1, none, none, 0x33800000},
    {"cvt.f32.f16 %r9, %h1;", 0xFC00, none, none, 0xFF800000},
    // 1 + 2^-11 + 2^-50 is above the tie, which only one rounding sees.
    {"cvt.rn.f16.f64 %h9, %d1;", 0x3FF0020000000004, none, none, 0x3C01},
    {"cvt.rn.bf16x2.f32 %r9, %r1, %r2;", f1, f2, none, 0x3F804000},
    {"cvt.rn.f16x2.f32 %r9, %r1, %r2;", f1, f2, none, 0x3C004000},
    // 1 is 38 (3C), 2 is 40; ties go to even, and the largest is 7E (7B).
    {"cvt.rn.satfinite.e4m3x2.f32 %h9, %r1, %r2;", f1, f2, none, 0x3840},
    {"cvt.rn.satfinite.e4m3x2.f32 %h9, %r1, %r2;", 0x3F880000, 0x3F980000, none,
     0x383A},
    {"cvt.rn.satfinite.e4m3x2.f32 %h9, %r1, %r2;", inf, 0xBAC00000, none,
     0x7E81},
    {"cvt.rn.satfinite.e5m2x2.f32 %h9, %r1, %r2;", fm1, 0x47800000, none,
     0xBC7B},
    {"cvt.rn.relu.bf16x2.f32 %r9, %r1, %r2;", fm1, f2, none, 0x4000},
};

static std::string programOf(const Case &one) {
  std::string body = one.body, result = "9";
  std::string convert =
      body.find("%r9") != body.npos   ? "cvt.u64.u32 %d9, %r9;"
      : body.find("%h9") != body.npos ? "cvt.u64.u16 %d9, %h9;"
      : body.find("%p9") != body.npos ? "selp.b64 %d9, 1, 0, %p9;"
                                      : "";
  std::string text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{ .reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<10>; .reg .b64 %d<12>;
  ld.param.b64 %d10, [in];
  ld.param.b64 %d11, [out];
)";
  for (std::string n : {"1", "2", "3"}) {
    text += "ld.global.b64 %d" + n + ", [%d10+" +
            std::to_string((n[0] - '1') * 8) + "];\n";
    text += "cvt.u32.u64 %r" + n + ", %d" + n + ";\n";
    text += "cvt.u16.u64 %h" + n + ", %d" + n + ";\n";
  }
  return text + body + "\n" + convert +
         "\nst.global.b64 [%d11], %d9;\nret;\n}\n";
}

static void run(const Case &one) {
  Memory &device = memory();
  uint64_t in = device.allocate(24), out = device.allocate(8), found = 0;
  const uint64_t operands[] = {one.a, one.b, one.c}, places[] = {in, out};
  memcpy(device.host(in, 24), operands, sizeof operands);
  std::vector<uint8_t> params(sizeof places);
  memcpy(params.data(), places, sizeof places);
  try {
    std::unique_ptr<Program> program = loadPtx(programOf(one));
    launch(*program, *program->find("k"), {}, {}, 0, params);
    memcpy(&found, device.host(out, 8), sizeof found);
    char text[200];
    snprintf(text, sizeof text, "%s found 0x%llx, expected 0x%llx", one.body,
             (unsigned long long)found, (unsigned long long)one.expected);
    check(found == one.expected, text);
  } catch (const Trap &trap) {
    check(false, std::string(one.body) + ": " + trap.text);
  }
  device.release(in);
  device.release(out);
}

int main() {
  for (const Case &one : integers)
    run(one);
  for (const Case &one : moves)
    run(one);
  for (const Case &one : floats)
    run(one);
  for (const Case &one : conversions)
    run(one);
  return finish("instructions");
}
