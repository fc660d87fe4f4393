//===- Wgmma.h - matmuls of tiles by the four warps of a warpgroup --------===//
//
// wgmma.mma_async of compute capability 9.0 (PTX target sm_90a): both factors
// are read from shared memory, which descriptors tell of; sums stay in
// registers. Warp i of the group has rows 16 i to 16 i + 15 of the sums, laid
// out as those of mma.sync (Mma.h).
//
// Factors lie in lines of 128 bytes whose 16-byte chunks are exchanged as in
// SharedTile<64>, which is the hardware's 128-byte swizzle. Eight lines are an
// atom of 1024 bytes, at a multiple of 1024. "Along": a line is a row of the
// factor, 64 of the summed index. "Across": a line is one of the summed index,
// 64 rows of the factor; 64 lines follow each other, then the next 64 rows.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_WGMMA_H
#define KERF_DEVICES_CUDA_KERNELS_WGMMA_H

#include "Mma.h"

namespace kerf::cuda {

constexpr int warpgroupThreads = 128;
constexpr int wgmmaRows = 64;    ///< of the left factor
constexpr int wgmmaDepth = 16;   ///< of the summed index
constexpr int lineChannels = 64; ///< 16-bit numbers of a line
constexpr int lineBytes = 128, atomLines = 8;
constexpr int atomBytes = atomLines * lineBytes;

/// Makes writes of this thread to shared memory visible to `multiplyGroup`, for
/// those who meet this thread at a barrier.
KERF_DEVICE void publishShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// Before the first matmul, and after other instructions had the sums.
KERF_DEVICE void beginMatmuls() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
KERF_DEVICE void endMatmuls() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits for the matmuls of all groups but the last `pending`.
template <int pending> KERF_DEVICE void waitForMatmuls() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/// What tells of a factor, of which `address` is the first byte. Between atoms:
/// `stride` bytes from eight rows (along) or eight of the summed index (across)
/// to the next, `leading` bytes from 64 rows to the next (across; along it has
/// no meaning and is 16).
KERF_DEVICE uint64_t describeFactor(uint32_t address, int leading, int stride) {
  constexpr uint64_t swizzle128 = 1;
  return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 |
         (uint64_t)(stride >> 4) << 32 | swizzle128 << 62;
}

/// A factor of `depth` of the summed index in shared memory.
template <bool across, int depth> struct WgmmaFactor {
  static_assert(across || depth == lineChannels);
  uint64_t descriptor;

  explicit KERF_MEMBER WgmmaFactor(uint32_t address)
      : descriptor(describeFactor(address, across ? depth * lineBytes : 16,
                                  atomBytes)) {}
  /// Bytes of `rows` rows, a multiple of 64.
  static constexpr int bytes(int rows) { return rows * depth * 2; }
  /// From 16 `step` of the summed index on.
  KERF_MEMBER uint64_t at(int step) const {
    constexpr int bytes = wgmmaDepth * (across ? lineBytes : 2);
    return descriptor + step * (bytes >> 4);
  }
};

#define KERF_SUMS_64                                                           \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20," \
  "%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,"   \
  "%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"   \
  "%57,%58,%59,%60,%61,%62,%63"
#define KERF_SUMS_128                                                          \
  KERF_SUMS_64                                                                 \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,"  \
  "%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,"   \
  "%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,"     \
  "%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define KERF_OUT_4(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define KERF_OUT_16(j)                                                         \
  KERF_OUT_4(j), KERF_OUT_4(j + 1), KERF_OUT_4(j + 2), KERF_OUT_4(j + 3)
#define KERF_OUT_64                                                            \
  KERF_OUT_16(0), KERF_OUT_16(4), KERF_OUT_16(8), KERF_OUT_16(12)
#define KERF_OUT_128                                                           \
  KERF_OUT_64, KERF_OUT_16(16), KERF_OUT_16(20), KERF_OUT_16(24),              \
      KERF_OUT_16(28)
/// Operands: the sums, both descriptors, whether to add, and whether factors
/// lie across.
#define KERF_WGMMA(SHAPE, TYPES, SUMS, OUT, LEFT, RIGHT, ADD, LA, RA)          \
  asm volatile("{ .reg .pred add; setp.ne.b32 add, " ADD ", 0; "               \
               "wgmma.mma_async.sync.aligned." SHAPE "k16.f32." TYPES          \
               " {" SUMS "}, " LEFT ", " RIGHT ", add, 1, 1, " LA ", " RA      \
               "; }"                                                           \
               : OUT                                                           \
               : "l"(left), "l"(right), "r"(add), "n"((int)leftAcross),        \
                 "n"((int)rightAcross))

/// sums = left right^T, plus the sums where `add` is not 0, for 64 rows of
/// left, `columns` rows of right and 16 of the summed index. Sums, laid out as
/// in MmaSums, must be left alone until the matmul was waited for; all threads
/// of a warpgroup take part.
template <class T, bool leftAcross, bool rightAcross, int columns, int n>
KERF_DEVICE void multiplyGroup(MmaSums<1, n> &sums, uint64_t left,
                               uint64_t right, int add) {
  static_assert((columns == 128 || columns == 256) && columns <= 8 * n);
  constexpr bool bf16 = __is_same(T, Bf16), wide = columns == 256;
  auto &c = sums.at[0];
  if constexpr (wide && bf16)
    KERF_WGMMA("m64n256", "bf16.bf16", KERF_SUMS_128, KERF_OUT_128, "%128",
               "%129", "%130", "%131", "%132");
  else if constexpr (wide)
    KERF_WGMMA("m64n256", "f16.f16", KERF_SUMS_128, KERF_OUT_128, "%128",
               "%129", "%130", "%131", "%132");
  else if constexpr (bf16)
    KERF_WGMMA("m64n128", "bf16.bf16", KERF_SUMS_64, KERF_OUT_64, "%64", "%65",
               "%66", "%67", "%68");
  else
    KERF_WGMMA("m64n128", "f16.f16", KERF_SUMS_64, KERF_OUT_64, "%64", "%65",
               "%66", "%67", "%68");
}

#undef KERF_WGMMA
#undef KERF_OUT_128
#undef KERF_OUT_64
#undef KERF_OUT_16
#undef KERF_OUT_4
#undef KERF_SUMS_128
#undef KERF_SUMS_64

} // namespace kerf::cuda

#endif // KERF_DEVICES_CUDA_KERNELS_WGMMA_H
