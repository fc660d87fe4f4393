//===- OpsWarp.cpp - what lanes do together -------------------------------===//

#include "Lanes.h"
#include "OpsMemory.h"
#include "Race.h"

namespace {
// ---- Shuffles and votes -----------------------------------------------------

enum class Shuffle { Up, Down, Butterfly, Index };

/// The lane that `lane` reads from, or itself where that is out of its segment.
template <Shuffle kind> int sourceLane(int lane, U32 b, U32 c, bool &isInside) {
  int segment = c >> 8 & 31, clamp = c & 31;
  int last = (lane & segment) | (clamp & ~segment & 31);
  int first = lane & segment, source = 0, by = b & 31;
  switch (kind) {
  case Shuffle::Up:
    source = lane - by;
    isInside = source >= last;
    break;
  case Shuffle::Down:
    source = lane + by;
    isInside = source <= last;
    break;
  case Shuffle::Butterfly:
    source = lane ^ by;
    isInside = source <= last;
    break;
  case Shuffle::Index:
    source = first | (by & ~segment);
    isInside = source <= last;
    break;
  }
  return isInside ? source : lane;
}

template <Shuffle kind> void shuffle(Warp &warp, const Inst &inst) {
  const U32 *a = slot<U32>(warp, inst.a), *b = slot<U32>(warp, inst.b);
  const U32 *c = slot<U32>(warp, inst.c);
  U32 out[lanes] = {}, inside = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(warp.mask >> lane & 1))
      continue;
    bool isInside = false;
    int source = sourceLane<kind>(lane, b[lane], c[lane], isInside);
    inside |= U32(isInside) << lane;
    if (!(warp.mask >> source & 1))
      trap(warp, lane, IllegalInstruction,
           "reads from lane " + std::to_string(source) +
               ", which does not take part");
    out[lane] = a[source];
  }
  store(warp, inst.to, out);
  if (inst.d != UINT32_MAX)
    setPredicate(warp, inst.d, inside);
}

U32 votes(const Warp &warp, const Inst &inst) {
  U32 value = inst.a & 0x80000000u ? ~warp.predicates[inst.a & 0x7FFFFFFF]
                                   : warp.predicates[inst.a];
  return value & warp.mask;
}
void fill(Warp &warp, U32 place, U32 value) {
  U32 out[lanes];
  for (U32 &lane : out)
    lane = value;
  store(warp, place, out);
}
void ballot(Warp &warp, const Inst &inst) {
  fill(warp, inst.to, votes(warp, inst));
}
void voteAll(Warp &warp, const Inst &inst) {
  setPredicate(warp, inst.to, votes(warp, inst) == warp.mask ? ~0u : 0);
}
void voteAny(Warp &warp, const Inst &inst) {
  setPredicate(warp, inst.to, votes(warp, inst) ? ~0u : 0);
}
void voteUniform(Warp &warp, const Inst &inst) {
  U32 value = votes(warp, inst);
  setPredicate(warp, inst.to, !value || value == warp.mask ? ~0u : 0);
}
void activeMask(Warp &warp, const Inst &inst) {
  fill(warp, inst.to, warp.mask);
}

struct RAdd {
  template <class T> static T run(T a, T b) { return U32(a) + U32(b); }
};
struct RMin {
  template <class T> static T run(T a, T b) { return b < a ? b : a; }
};
struct RMax {
  template <class T> static T run(T a, T b) { return a < b ? b : a; }
};
struct RAnd {
  template <class T> static T run(T a, T b) { return a & b; }
};
struct ROr {
  template <class T> static T run(T a, T b) { return a | b; }
};
struct RXor {
  template <class T> static T run(T a, T b) { return a ^ b; }
};
template <class T, class Op> void reduce(Warp &warp, const Inst &inst) {
  const U32 *a = slot<T>(warp, inst.a);
  int first = __builtin_ctz(warp.mask);
  T result = a[first];
  for (int lane = first + 1; lane < lanes; ++lane)
    if (warp.mask >> lane & 1)
      result = Op::run(result, static_cast<T>(a[lane]));
  fill(warp, inst.to, result);
}

// ---- Matmuls --------------------------------------------------------

/// Register `index` of the instruction's list, as lanes.
U32 *listed(Warp &warp, const Inst &inst, int index) {
  U32 place = warp.program->places[inst.target + index];
  return reinterpret_cast<U32 *>(warp.registers + place);
}
template <class T> float element(U32 bits, int index) {
  if constexpr (sizeof(T) == 4)
    return cast<float>(bits & 0xFFFFE000); // tf32 has 10 bits
  else
    return float(T{U16(bits >> 16 * index)});
}

/// D[16x8] = A[16xK] B[Kx8] + C in f32. A device's order of sums is not known:
/// the matmul is summed in f64 here. Registers: D, A, B, C.
template <class T, int K> void multiplyTiles(Warp &warp, const Inst &inst) {
  constexpr int pack = 4 / sizeof(T), half = K / 2;
  constexpr int aCount = 16 * K / 32 / pack, bCount = 8 * K / 32 / pack;
  float a[16][K], b[K][8];
  for (int lane = 0; lane < lanes; ++lane) {
    int group = lane >> 2, column = (lane & 3) * pack;
    for (int part = 0; part < pack; ++part) {
      for (int index = 0; index < aCount; ++index)
        a[group + (index & 1) * 8][column + part + (index >> 1) * half] =
            element<T>(listed(warp, inst, 4 + index)[lane], part);
      for (int index = 0; index < bCount; ++index)
        b[column + part + index * (bCount == 1 ? 0 : half)][group] =
            element<T>(listed(warp, inst, 4 + aCount + index)[lane], part);
    }
  }
  U32 out[4][lanes];
  for (int lane = 0; lane < lanes; ++lane)
    for (int index = 0; index < 4; ++index) {
      int row = (lane >> 2) + (index >> 1) * 8;
      int column = (lane & 3) * 2 + (index & 1);
      double sum = 0;
      for (int k = 0; k < K; ++k)
        sum += double(a[row][k]) * b[k][column];
      float c =
          cast<float>(listed(warp, inst, 4 + aCount + bCount + index)[lane]);
      out[index][lane] = cast<U32>(float(sum + c));
    }
  for (int index = 0; index < 4; ++index)
    memcpy(listed(warp, inst, index), out[index], sizeof out[index]);
}

/// Places of `count` matrices of 8 x 8 b16; lanes 8i..8i+7 name the rows of
/// matrix i.
void resolveRows(Warp &warp, const Inst &inst, bool isWrite, Places &places) {
  U32 all = warp.mask;
  if (inst.count < 4)
    warp.mask &= (1u << inst.count * 8) - 1; // other addresses do not count
  resolve(warp, inst, isWrite, places);
  warp.mask = all;
}

void loadMatrix(Warp &warp, const Inst &inst) {
  Places places;
  resolveRows(warp, inst, false, places);
  for (int lane = 0; warp.block->races && lane < inst.count * 8; ++lane)
    checkRaces(warp, inst, places, lane, false, false);
  bool transposed = inst.mode;
  for (int matrix = 0; matrix < inst.count; ++matrix) {
    U32 *to = listed(warp, inst, matrix);
    for (int lane = 0; lane < lanes; ++lane) {
      U16 parts[2];
      for (int part = 0; part < 2; ++part) {
        int row = lane >> 2, column = (lane & 3) * 2 + part;
        if (transposed)
          std::swap(row, column);
        memcpy(&parts[part], places.host[matrix * 8 + row] + column * 2, 2);
      }
      to[lane] = U32(parts[1]) << 16 | parts[0];
    }
  }
}

void storeMatrix(Warp &warp, const Inst &inst) {
  Places places;
  resolveRows(warp, inst, true, places);
  bool transposed = inst.mode;
  for (int row = 0; row < inst.count * 8; ++row) {
    U32 *from = listed(warp, inst, row / 8);
    U16 values[8];
    for (int column = 0; column < 8; ++column) {
      int line = row % 8, at = column;
      if (transposed)
        std::swap(line, at);
      values[column] = from[line * 4 + at / 2] >> at % 2 * 16;
    }
    bool isSame = memcmp(places.host[row], values, sizeof values) == 0;
    if (warp.block->races)
      checkRaces(warp, inst, places, row, true, isSame);
    memcpy(places.host[row], values, sizeof values);
  }
}

// ---- Asynchronous copies ----------------------------------------------------

/// The target may be written from now on, so that the race check sees a write
/// here and one at the end.
void beginCopy(Warp &warp, int lane, U64 offset, U32 bytes) {
  Block &block = *warp.block;
  if (block.races)
    block.races->shared({warp, lane, bytes, true, false}, offset);
  if (block.proxy)
    block.proxy->beginCopy(warp, lane, offset);
}
void endCopy(Warp &warp, const PendingCopy &copy) {
  Block &block = *warp.block;
  U8 *to = block.shared.data() + copy.offset;
  bool isSame = memcmp(to, copy.data, copy.bytes) == 0;
  if (block.races)
    block.races->shared({warp, copy.lane, copy.bytes, true, isSame},
                        copy.offset);
  if (block.proxy)
    block.proxy->endCopy(warp, copy.lane, copy.offset, copy.bytes);
  memcpy(to, copy.data, copy.bytes);
  memset(block.sharedWritten.data() + copy.offset, 1, copy.bytes);
}

/// Reads now, writes when the group is waited for: who forgets to wait sees
/// what was there before. The next instruction holds the source's address.
void copyAsync(Warp &warp, const Inst &inst) {
  auto validOf = [&](int lane) {
    return inst.b == UINT32_MAX ? inst.bytes : slot<U32>(warp, inst.b)[lane];
  };
  Places from;
  U32 mask = warp.mask;
  for (int lane = 0; lane < lanes; ++lane) // who reads nothing has no source
    if (validOf(lane) == 0)
      warp.mask &= ~(U32(1) << lane);
  resolve(warp, (&inst)[1], false, from);
  warp.mask = mask;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(warp.mask >> lane & 1))
      continue;
    U64 offset = addressOf(warp, inst, lane);
    if (offset >= sharedBase)
      offset -= sharedBase;
    if (offset & (inst.bytes - 1))
      trap(warp, lane, MisalignedAddress, "the target is not aligned");
    if (offset + inst.bytes > warp.block->shared.size())
      trap(warp, lane, IllegalAddress,
           "the target is shared address " + std::to_string(offset) + " of " +
               std::to_string(warp.block->shared.size()));
    beginCopy(warp, lane, offset, inst.bytes);
    PendingCopy copy{
        U8(lane), inst.bytes, warp.copyGroup[lane], U32(offset), {}};
    if (U32 valid = validOf(lane))
      memcpy(copy.data, from.host[lane],
             valid < inst.bytes ? valid : inst.bytes);
    warp.copies.push_back(copy);
  }
}
void commitCopies(Warp &warp, const Inst &) {
  for (int lane = 0; lane < lanes; ++lane)
    warp.copyGroup[lane] += warp.mask >> lane & 1;
}
/// All but the last `offset` groups are done then; -1: all copies.
void waitCopies(Warp &warp, const Inst &inst) {
  size_t kept = 0;
  for (const PendingCopy &copy : warp.copies) {
    bool isDone = warp.mask >> copy.lane & 1 &&
                  (inst.offset < 0 ||
                   copy.group + inst.offset < warp.copyGroup[copy.lane]);
    if (!isDone) {
      warp.copies[kept++] = copy;
      continue;
    }
    endCopy(warp, copy);
  }
  warp.copies.resize(kept);
}

// ---- Registers of two or four parts -----------------------------------------

template <class W, class P> void packParts(Warp &warp, const Inst &inst) {
  constexpr int parts = sizeof(W) / sizeof(P);
  W out[lanes] = {};
  for (int part = 0; part < parts; ++part) {
    const U32 *from = listed(warp, inst, part);
    for (int lane = 0; lane < lanes; ++lane)
      out[lane] |= W(P(from[lane])) << part * sizeof(P) * 8;
  }
  store(warp, inst.to, out);
}
template <class W, class P> void unpackParts(Warp &warp, const Inst &inst) {
  constexpr int parts = sizeof(W) / sizeof(P);
  W from[lanes];
  memcpy(from, warp.registers + inst.a, sizeof from);
  for (int part = 0; part < parts; ++part) {
    U32 place = warp.program->places[inst.target + part];
    if (place == UINT32_MAX)
      continue;
    U32 out[lanes];
    for (int lane = 0; lane < lanes; ++lane)
      out[lane] = P(from[lane] >> part * sizeof(P) * 8);
    store(warp, place, out);
  }
}

// ---- Calls and ends ---------------------------------------------------------

/// `b` bytes of each thread's own memory from `a` to `to`: parameters.
void copyLocal(Warp &warp, const Inst &inst) {
  Block &block = *warp.block;
  for (int lane = 0; lane < lanes; ++lane)
    if (warp.mask >> lane & 1) {
      U8 *own = block.local.data() +
                U64(warp.index * lanes + lane) * block.entry->localBytes;
      memmove(own + inst.to, own + inst.a, inst.b);
    }
}
void nothing(Warp &, const Inst &) {}
void stop(Warp &warp, const Inst &inst) {
  trap(warp, __builtin_ctz(warp.mask), inst.mode ? AssertFailed : LaunchFailed,
       inst.mode ? "an assertion fails" : "the kernel stops itself");
}
} // namespace

#define REDUCE(op, Op)                                                         \
  {"redux." op ".u32", reduce<U32, Op>}, { "redux." op ".s32", reduce<S32, Op> }
#define REDUCE_BITS(op, Op) {"redux." op ".b32", reduce<U32, Op>}

static const NamedHandler table[] = {
    {"shfl.up.b32", shuffle<Shuffle::Up>},
    {"shfl.down.b32", shuffle<Shuffle::Down>},
    {"shfl.bfly.b32", shuffle<Shuffle::Butterfly>},
    {"shfl.idx.b32", shuffle<Shuffle::Index>},
    {"vote.ballot.b32", ballot},
    {"vote.all.pred", voteAll},
    {"vote.any.pred", voteAny},
    {"vote.uni.pred", voteUniform},
    {"activemask.b32", activeMask},
    REDUCE("add", RAdd),
    REDUCE("min", RMin),
    REDUCE("max", RMax),
    REDUCE_BITS("and", RAnd),
    REDUCE_BITS("or", ROr),
    REDUCE_BITS("xor", RXor),
    {"mma.m16n8k16.f32.bf16.bf16.f32", multiplyTiles<BF16, 16>},
    {"mma.m16n8k16.f32.f16.f16.f32", multiplyTiles<F16, 16>},
    {"mma.m16n8k8.f32.bf16.bf16.f32", multiplyTiles<BF16, 8>},
    {"mma.m16n8k8.f32.f16.f16.f32", multiplyTiles<F16, 8>},
    {"mma.m16n8k8.f32.tf32.tf32.f32", multiplyTiles<F32, 8>},
    {"ldmatrix", loadMatrix},
    {"stmatrix", storeMatrix},
    {"cp.async", copyAsync},
    {"cp.async.commit_group", commitCopies},
    {"cp.async.wait_group", waitCopies},
    {"pack.2x16", packParts<U32, U16>},
    {"pack.4x8", packParts<U32, U8>},
    {"pack.2x32", packParts<U64, U32>},
    {"pack.4x16", packParts<U64, U16>},
    {"unpack.2x16", unpackParts<U32, U16>},
    {"unpack.4x8", unpackParts<U32, U8>},
    {"unpack.2x32", unpackParts<U64, U32>},
    {"unpack.4x16", unpackParts<U64, U16>},
    {"copy.local", copyLocal},
    {"nothing", nothing},
    {"stop", stop},
};

HandlerTable kerf::sim::warpHandlers() {
  return {table, sizeof table / sizeof *table};
}
