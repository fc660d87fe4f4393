//===- Warpgroups.h - kernels that multiply by wgmma ----------------------===//
//
// Matrices are laid into shared memory by the canonical layouts of the PTX
// manual, written down here once more from its table.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_TEST_WARPGROUPS_H
#define KERF_SIMULATOR_TEST_WARPGROUPS_H

#include "Kernels.h"

namespace kerf::sim::test {
inline constexpr int rowsOfA = 64, depth = 16;
inline constexpr uint32_t sharedBytes = 48 * 1024;

/// A matrix in shared memory. `row`: 16 without swizzling, else 32, 64 or 128.
struct Layout {
  int row = 128;
  bool isMnMajor = false;
  uint32_t start = 0, leading = 16, stride = 1024;
  uint32_t pattern = 0; ///< where the swizzled pattern begins
};

/// Byte of number (mn, k): the manual's table of canonical layouts, in which
/// T = 8 numbers are 16 bytes.
inline uint32_t placeOf(const Layout &layout, int mn, int k) {
  int q = layout.row / 16;
  uint32_t offset = 0;
  if (layout.isMnMajor && q == 1) // ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
    offset = mn % 8 * 2 + mn / 8 * layout.stride + k % 8 * 16 +
             k / 8 * layout.leading;
  else if (layout.isMnMajor) // ((T,q,m),(8,k)):((1,T,LBO),(qT,SBO))
    offset = mn % 8 * 2 + mn / 8 % q * 16 + mn / 8 / q * layout.leading +
             k % 8 * layout.row + k / 8 * layout.stride;
  else if (q == 1) // ((8,m),(T,2k)):((1T,SBO),(1,LBO))
    offset = mn % 8 * 16 + mn / 8 * layout.stride + k % 8 * 2 +
             k / 8 * layout.leading;
  else // ((8,m),(T,2k)):((qT,SBO),(1,T))
    offset = mn % 8 * layout.row + mn / 8 * layout.stride + k * 2;
  // Swizzle<B,4,3>, counted from where the pattern begins.
  uint32_t at = layout.start + offset - layout.pattern;
  return layout.pattern + (at ^ (at & (q - 1) << 7) >> 3);
}

/// Without the address, which the kernel adds.
inline uint64_t descriptorOf(const Layout &layout) {
  uint64_t mode = layout.row == 128  ? 1
                  : layout.row == 64 ? 2
                  : layout.row == 32 ? 3
                                     : 0;
  return uint64_t(layout.start >> 4) | uint64_t(layout.leading >> 4) << 16 |
         uint64_t(layout.stride >> 4) << 32 |
         uint64_t(layout.pattern >> 7 & 7) << 49 | mode << 62;
}

// Small integers: every sum is exact.
inline float valueOfA(int row, int k) {
  return float((row * 7 + k * 3) % 13 - 6);
}
inline float valueOfB(int k, int n) { return float((k * 5 + n * 11) % 17 - 8); }
/// As bf16 or f16.
inline uint16_t bitsOf(float value, bool isHalf) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (!isHalf || value == 0)
    return bits >> 16;
  return (bits >> 16 & 0x8000) | ((bits & 0x7FFFFFFF) - 0x38000000) >> 13;
}

struct MatmulCase {
  Layout a, b;
  int columns = 8;
  bool isHalf = false, accumulates = true, inRegisters = false;
  int signA = 1, signB = 1;
};

inline std::vector<uint32_t> imageOf(const MatmulCase &one) {
  std::vector<uint32_t> words(sharedBytes / 4);
  auto put = [&](uint32_t at, float value) {
    uint16_t bits = bitsOf(value, one.isHalf);
    memcpy(reinterpret_cast<char *>(words.data()) + at, &bits, sizeof bits);
  };
  for (int k = 0; k < depth; ++k) {
    for (int row = 0; row < rowsOfA && !one.inRegisters; ++row)
      put(placeOf(one.a, row, k), valueOfA(row, k));
    for (int n = 0; n < one.columns; ++n)
      put(placeOf(one.b, n, k), valueOfB(k, n));
  }
  // A's fragments, thread by thread, where no descriptor points.
  for (int at = 0; at < 128 * 8 && one.inRegisters; ++at) {
    int thread = at / 8, index = at % 8, lane = thread % 32;
    int row = thread / 32 * 16 + lane / 4 + index / 2 % 2 * 8;
    put(sharedBytes - 128 * 16 + at * 2,
        valueOfA(row, lane % 4 * 2 + index % 2 + index / 4 * 8));
  }
  return words;
}

inline std::string registers(int count) {
  std::string list;
  for (int at = 0; at < count; ++at)
    list += (at ? ", %f" : "%f") + std::to_string(at);
  return "{" + list + "}";
}

/// Copies `in` to shared memory s, runs `body`, and stores the accumulators
/// %f0.. of each thread. %da and %db hold the descriptors.
inline std::string kernelOf(const MatmulCase &one, const std::string &body,
                            const char *target = "sm_90a") {
  std::string text = ".version 8.0\n.target " + std::string(target) + R"(
.address_size 64
.visible .entry k(.param .u64 k_in, .param .u64 k_out)
{ .reg .pred %p<9>; .reg .b32 %r<20>; .reg .f32 %f<130>; .reg .b64 %d<20>;
  .reg .b64 %da, %db; .shared .align 1024 .b8 s[)" +
                     std::to_string(sharedBytes) + R"(];
  ld.param.u64 %d1, [k_in]; ld.param.u64 %d2, [k_out];
  mov.u32 %r1, %tid.x; mov.u32 %r9, %ntid.x; mov.u64 %d3, s; mov.u32 %r2, %r1;
L: mad.wide.u32 %d4, %r2, 16, %d1; mad.wide.u32 %d5, %r2, 16, %d3;
  ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%d4];
  st.shared.v4.b32 [%d5], {%r3, %r4, %r5, %r6};
  add.u32 %r2, %r2, %r9; setp.lt.u32 %p1, %r2, )" +
                     std::to_string(sharedBytes / 16) + R"(; @%p1 bra L;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u64 %d6, %d3, 4;
)";
  text += "  add.u64 %da, %d6, " + std::to_string(descriptorOf(one.a)) + ";\n";
  text += "  add.u64 %db, %d6, " + std::to_string(descriptorOf(one.b)) + ";\n";
  if (one.inRegisters)
    text += "  mad.wide.u32 %d7, %r1, 16, %d3;\n  ld.shared.v4.b32 {%r11, "
            "%r12, %r13, %r14}, [%d7+" +
            std::to_string(sharedBytes - 128 * 16) + "];\n";
  for (int at = 0; at < one.columns / 2; ++at)
    text += "  mov.f32 %f" + std::to_string(at) + ", 0f3F800000;\n";
  text += body + "\n  mul.lo.u32 %r7, %r1, " + std::to_string(one.columns * 2) +
          "; cvt.u64.u32 %d8, %r7; add.u64 %d8, %d8, %d2;\n";
  for (int at = 0; at < one.columns / 2; ++at)
    text += "  st.global.f32 [%d8+" + std::to_string(at * 4) + "], %f" +
            std::to_string(at) + ";\n";
  return text + "  ret;\n}\n";
}

inline std::string matmulOf(const MatmulCase &one) {
  std::string type = one.isHalf ? ".f16" : ".bf16";
  std::string text =
      "wgmma.mma_async.sync.aligned.m64n" + std::to_string(one.columns) +
      "k16.f32" + type + type + " " + registers(one.columns / 2) + ", " +
      (one.inRegisters ? "{%r11, %r12, %r13, %r14}" : "%da") + ", %db, ";
  text += (one.accumulates ? "1, " : "0, ") + std::to_string(one.signA) + ", " +
          std::to_string(one.signB);
  if (!one.inRegisters)
    text += one.a.isMnMajor ? ", 1" : ", 0";
  return text + (one.b.isMnMajor ? ", 1;\n" : ", 0;\n");
}

inline const std::string fenceLine = "wgmma.fence.sync.aligned;\n",
                         commitLine = "wgmma.commit_group.sync.aligned;\n",
                         waitLine = "wgmma.wait_group.sync.aligned 0;\n";

} // namespace kerf::sim::test

#endif // KERF_SIMULATOR_TEST_WARPGROUPS_H
