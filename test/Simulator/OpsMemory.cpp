//===- OpsMemory.cpp - loads, stores and atomics --------------------------===//
//
// Every lane's address is checked before memory is touched: alignment, inside
// an allocation, and of shared memory that somebody wrote it.
//
//===----------------------------------------------------------------------===//

#include "OpsMemory.h"
#include "Lanes.h"
#include "Race.h"

#include <algorithm>
#include <type_traits>

uint64_t kerf::sim::addressOf(const Warp &warp, const Inst &inst, int lane) {
  uint64_t base = 0;
  if (inst.a != UINT32_MAX)
    base = inst.wideAddress ? slot<U64>(warp, inst.a)[lane]
                            : slot<U32>(warp, inst.a)[lane];
  return base + inst.offset;
}

namespace {
[[noreturn]] void outside(const Warp &warp, const Inst &inst, int lane,
                          const char *space, uint64_t offset, uint64_t size) {
  trap(warp, lane, IllegalAddress,
       std::string("accesses ") + std::to_string(inst.bytes) + " bytes at " +
           space + " address " + std::to_string(offset) + " of " +
           std::to_string(size));
}

uint8_t *sharedPlace(Warp &warp, const Inst &inst, int lane, uint64_t offset,
                     bool isWrite) {
  Block &block = *warp.block;
  uint64_t size = block.shared.size();
  if (offset > size || inst.bytes > size - offset)
    outside(warp, inst, lane, "shared", offset, size);
  uint8_t *written = block.sharedWritten.data() + offset;
  for (int byte = 0; byte < inst.bytes; ++byte)
    if (isWrite)
      written[byte] = 1;
    else if (!written[byte])
      trap(warp, lane, LaunchFailed,
           "reads shared address " + std::to_string(offset) +
               ", which no thread of the block wrote");
  return block.shared.data() + offset;
}

uint8_t *localPlace(Warp &warp, const Inst &inst, int lane, uint64_t offset) {
  Block &block = *warp.block;
  uint64_t size = block.entry->localBytes;
  if (offset > size || inst.bytes > size - offset)
    outside(warp, inst, lane, "local", offset, size);
  return block.local.data() + (warp.index * lanes + lane) * size + offset;
}

uint8_t *globalPlace(Warp &warp, const Inst &inst, int lane, uint64_t address) {
  Range *range = inst.range;
  if (!range || inst.generation != memory().generation() ||
      address < range->begin || address >= range->end) {
    range = memory().find(address);
    inst.range = range;
    inst.generation = memory().generation();
  }
  if (!range || inst.bytes > range->end - address)
    trap(warp, lane, IllegalAddress,
         "accesses " + std::to_string(inst.bytes) + " bytes at " +
             describeAddress(address));
  return range->host + (address - range->begin);
}

uint8_t *placeOf(Warp &warp, const Inst &inst, int lane, uint64_t address,
                 bool isWrite) {
  if (address & (inst.bytes - 1))
    trap(
        warp, lane, MisalignedAddress,
        "accesses " + std::to_string(inst.bytes) + " bytes at 0x" +
            [](uint64_t value) {
              char text[20];
              snprintf(text, sizeof text, "%llx", (unsigned long long)value);
              return std::string(text);
            }(address) +
            ", which is not aligned to them");
  switch (inst.space) {
  case Space::Shared:
    return sharedPlace(warp, inst, lane, address, isWrite);
  case Space::Local:
    return localPlace(warp, inst, lane, address);
  case Space::Param: {
    std::vector<uint8_t> &params = warp.block->params;
    if (address > params.size() || inst.bytes > params.size() - address)
      outside(warp, inst, lane, "parameter", address, params.size());
    return params.data() + address;
  }
  case Space::Generic:
    if (address >= localBase)
      return localPlace(warp, inst, lane, address - localBase);
    if (address >= sharedBase)
      return sharedPlace(warp, inst, lane, address - sharedBase, isWrite);
    [[fallthrough]];
  case Space::Global:
    break;
  }
  return globalPlace(warp, inst, lane, address);
}

bool isShared(const Inst &inst, uint64_t address) {
  return inst.space == Space::Shared ||
         (inst.space == Space::Generic && address >= sharedBase &&
          address < localBase);
}
bool isGlobal(const Inst &inst, uint64_t address) {
  return (inst.space == Space::Global || inst.space == Space::Generic) &&
         address >= globalBase && address < sharedBase;
}

/// Counts pieces of 32 bytes, or turns of shared memory: words of one bank
/// that differ are served one after the other, 128 bytes at a time.
void count(Warp &warp, const Inst &inst, const Places &places, bool isWrite) {
  Statistics &statistics = warp.block->statistics;
  int first = __builtin_ctz(warp.mask);
  uint64_t bytes = uint64_t(__builtin_popcount(warp.mask)) * inst.bytes;
  if (isGlobal(inst, places.address[first])) {
    uint64_t seen[lanes], sectors = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      uint64_t sector = places.address[lane] >> 5, known = 0;
      for (uint64_t at = 0; at < sectors; ++at)
        known |= seen[at] == sector;
      if (!known)
        seen[sectors++] = sector;
    }
    (isWrite ? statistics.globalStoreBytes : statistics.globalLoadBytes) +=
        bytes;
    (isWrite ? statistics.globalStoreSectors : statistics.globalLoadSectors) +=
        sectors;
  } else if (isShared(inst, places.address[first])) {
    uint64_t words[lanes * 4], banks[32] = {}, known = 0, most = 1;
    for (int lane = 0; lane < lanes; ++lane)
      for (uint64_t byte = 0; byte < inst.bytes; byte += 4) {
        uint64_t word = (places.address[lane] + byte) >> 2;
        bool isKnown = false;
        for (uint64_t at = 0; at < known; ++at)
          isKnown |= words[at] == word;
        if (isKnown)
          continue;
        words[known++] = word;
        most = std::max(most, ++banks[word & 31]);
      }
    uint64_t ideal = (known * 4 + 127) / 128;
    statistics.sharedAccesses += ideal ? ideal : 1;
    statistics.sharedTurns += most;
  }
}

/// What wgmma has to see of an access.
void noteWrites(const Warp &warp, const Inst &inst, const Places &places) {
  for (int lane = 0; lane < lanes; ++lane)
    if (uint64_t address = places.address[lane];
        warp.mask >> lane & 1 && isShared(inst, address))
      warp.block->proxy->write(
          warp, lane, address >= sharedBase ? address - sharedBase : address,
          inst.bytes);
}

/// Addresses of all lanes, and what they have in common.
struct Span {
  uint64_t low = UINT64_MAX, high = 0, bits = 0;
};
Span addresses(const Warp &warp, const Inst &inst, Places &places) {
  uint64_t *to = places.address;
  if (inst.a == UINT32_MAX)
    std::fill_n(to, lanes, inst.offset);
  else if (inst.wideAddress)
    for (int lane = 0; lane < lanes; ++lane)
      to[lane] = slot<U64>(warp, inst.a)[lane] + inst.offset;
  else
    for (int lane = 0; lane < lanes; ++lane)
      to[lane] = slot<U32>(warp, inst.a)[lane] + inst.offset;
  if (warp.mask != ~0u) {
    uint64_t first = to[__builtin_ctz(warp.mask)];
    for (int lane = 0; lane < lanes; ++lane)
      to[lane] = warp.mask >> lane & 1 ? to[lane] : first;
  }
  Span span;
  for (int lane = 0; lane < lanes; ++lane) {
    span.low = std::min(span.low, to[lane]);
    span.high = std::max(span.high, to[lane]);
    span.bits |= to[lane];
  }
  return span;
}

/// Marks bytes of shared memory as written, or tells whether all are. `T` has
/// the size of the access.
template <class T>
bool touchShared(uint8_t *written, const Places &places, bool isWrite) {
  T ones, all;
  memset(&ones, 1, sizeof ones);
  all = ones;
  for (int lane = 0; lane < lanes; ++lane) {
    uint8_t *at = written + places.address[lane];
    T bytes;
    memcpy(&bytes, at, sizeof bytes);
    all &= bytes;
    if (isWrite)
      memcpy(at, &ones, sizeof ones);
  }
  return isWrite || all == ones;
}
bool touchShared(uint8_t *written, const Inst &inst, const Places &places,
                 bool isWrite) {
  switch (inst.bytes) {
  case 1:
    return touchShared<uint8_t>(written, places, isWrite);
  case 2:
    return touchShared<uint16_t>(written, places, isWrite);
  case 4:
    return touchShared<uint32_t>(written, places, isWrite);
  case 8:
    return touchShared<uint64_t>(written, places, isWrite);
  case 16:
    return touchShared<unsigned __int128>(written, places, isWrite);
  }
  return false;
}

/// The common case: all lanes in one allocation, or in shared memory that is
/// written. False leaves it to `placeOf`, which knows what is wrong.
bool resolveTogether(Warp &warp, const Inst &inst, bool isWrite,
                     const Span &span, Places &places) {
  if (span.bits & (inst.bytes - 1))
    return false;
  if (inst.space == Space::Shared) {
    Block &block = *warp.block;
    uint64_t size = block.shared.size();
    if (span.high > size || inst.bytes > size - span.high ||
        !touchShared(block.sharedWritten.data(), inst, places, isWrite))
      return false;
    for (int lane = 0; lane < lanes; ++lane)
      places.host[lane] = block.shared.data() + places.address[lane];
    return true;
  }
  const Range *range = inst.range;
  bool isKnown =
      (inst.space == Space::Global || inst.space == Space::Generic) && range &&
      inst.generation == memory().generation() && span.low >= range->begin &&
      span.high < range->end && inst.bytes <= range->end - span.high;
  if (!isKnown)
    return false;
  for (int lane = 0; lane < lanes; ++lane)
    places.host[lane] = range->host + (places.address[lane] - range->begin);
  return true;
}
} // namespace

void kerf::sim::resolve(Warp &warp, const Inst &inst, bool isWrite,
                        Places &places) {
  Span span = addresses(warp, inst, places);
  if (!resolveTogether(warp, inst, isWrite, span, places)) {
    for (int lane = 0; lane < lanes; ++lane)
      if (warp.mask >> lane & 1)
        places.host[lane] =
            placeOf(warp, inst, lane, places.address[lane], isWrite);
    int first = __builtin_ctz(warp.mask);
    for (int lane = 0; lane < lanes; ++lane)
      if (!(warp.mask >> lane & 1))
        places.host[lane] = places.host[first];
  }
  if (isWrite && warp.block->proxy)
    noteWrites(warp, inst, places);
  if (warp.block->countAccesses)
    count(warp, inst, places, isWrite);
}

void kerf::sim::checkRaces(Warp &warp, const Inst &inst, const Places &places,
                           int lane, bool isWrite, bool isSame) {
  Access access{warp, lane, inst.bytes, isWrite, isSame};
  uint64_t address = places.address[lane];
  if (isShared(inst, address))
    warp.block->races->shared(
        access, inst.space == Space::Shared ? address : address - sharedBase);
  else if (isGlobal(inst, address))
    warp.block->races->global(access, *memory().find(address), address);
}

namespace {
U32 placeOfElement(const Warp &warp, const Inst &inst, int element) {
  return inst.count == 1 ? inst.to : warp.program->places[inst.list + element];
}

/// Elements of T in memory to registers of K, extended as T says.
template <class T, class K> void load(Warp &warp, const Inst &inst) {
  Places places;
  resolve(warp, inst, false, places);
  if (warp.block->races)
    for (int lane = 0; lane < lanes; ++lane)
      if (warp.mask >> lane & 1)
        checkRaces(warp, inst, places, lane, false, false);
  for (int element = 0; element < inst.count; ++element) {
    U32 to = placeOfElement(warp, inst, element);
    if (to == UINT32_MAX)
      continue;
    K out[lanes];
    for (int lane = 0; lane < lanes; ++lane) {
      T value;
      memcpy(&value, places.host[lane] + element * sizeof(T), sizeof value);
      out[lane] = static_cast<K>(value);
    }
    store(warp, to, out);
  }
}

template <class T, class K> void storeLanes(Warp &warp, const Inst &inst) {
  Places places;
  resolve(warp, inst, true, places);
  bool isChecked = warp.block->races;
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(warp.mask >> lane & 1))
      continue;
    T values[16 / sizeof(T) < 8 ? 8 : 16 / sizeof(T)];
    for (int element = 0; element < inst.count; ++element)
      values[element] = static_cast<T>(
          slot<K>(warp, placeOfElement(warp, inst, element))[lane]);
    if (isChecked)
      checkRaces(warp, inst, places, lane, true,
                 memcmp(places.host[lane], values, inst.bytes) == 0);
    memcpy(places.host[lane], values, inst.bytes);
  }
}

// ---- Atomics: one lane after the other --------------------------------------

struct Sum {
  template <class T> static T run(T a, T b) {
    if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>)
      return narrow<T>(float(a) + float(b));
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(U64(a) + U64(b));
    else
      return a + b;
  }
};
struct Least {
  template <class T> static T run(T a, T b) { return b < a ? b : a; }
};
struct Greatest {
  template <class T> static T run(T a, T b) { return a < b ? b : a; }
};
struct And {
  template <class T> static T run(T a, T b) { return a & b; }
};
struct Or {
  template <class T> static T run(T a, T b) { return a | b; }
};
struct Xor {
  template <class T> static T run(T a, T b) { return a ^ b; }
};
struct Exchange {
  template <class T> static T run(T, T b) { return b; }
};
struct Increment {
  template <class T> static T run(T a, T b) { return a >= b ? 0 : a + 1; }
};
struct Decrement {
  template <class T> static T run(T a, T b) {
    return a == 0 || a > b ? b : a - 1;
  }
};

template <class T, class Op> void atomic(Warp &warp, const Inst &inst) {
  Places places;
  resolve(warp, inst, true, places);
  const Kept<T> *b = slot<T>(warp, inst.b);
  Kept<T> out[lanes] = {};
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(warp.mask >> lane & 1))
      continue;
    T old;
    memcpy(&old, places.host[lane], sizeof old);
    T next = Op::run(old, read<T>(b[lane]));
    memcpy(places.host[lane], &next, sizeof next);
    out[lane] = keep<T>(old);
  }
  if (inst.to != UINT32_MAX)
    store(warp, inst.to, out);
}
template <class T> void compareAndSwap(Warp &warp, const Inst &inst) {
  Places places;
  resolve(warp, inst, true, places);
  const Kept<T> *b = slot<T>(warp, inst.b), *c = slot<T>(warp, inst.c);
  Kept<T> out[lanes] = {};
  for (int lane = 0; lane < lanes; ++lane) {
    if (!(warp.mask >> lane & 1))
      continue;
    T old;
    memcpy(&old, places.host[lane], sizeof old);
    T next = c[lane];
    if (old == static_cast<T>(b[lane]))
      memcpy(places.host[lane], &next, sizeof next);
    out[lane] = old;
  }
  if (inst.to != UINT32_MAX)
    store(warp, inst.to, out);
}

/// Between a space's addresses and generic ones; mode 1: to the space.
void convertAddress(Warp &warp, const Inst &inst) {
  uint64_t base = inst.space == Space::Shared  ? sharedBase
                  : inst.space == Space::Local ? localBase
                                               : 0;
  if (inst.mode)
    base = 0 - base;
  map1<U64, U64>(warp, inst, [=](U64 a) { return a + base; });
}
void isInSpace(Warp &warp, const Inst &inst) {
  const U64 *a = slot<U64>(warp, inst.a);
  U32 result = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    Space space = a[lane] >= localBase    ? Space::Local
                  : a[lane] >= sharedBase ? Space::Shared
                                          : Space::Global;
    result |= U32(space == inst.space) << lane;
  }
  setPredicate(warp, inst.to, result);
}
} // namespace

#define LOAD(name, T)                                                          \
  {"ld." name ".32", load<T, U32>}, { "ld." name ".64", load<T, U64> }
#define STORE(name, T)                                                         \
  {"st." name ".32", storeLanes<T, U32>}, {                                    \
    "st." name ".64", storeLanes<T, U64>                                       \
  }
#define ATOMIC(op, Op, type, T) {"atom." op "." type, atomic<T, Op>}
#define ATOMIC_INTEGERS(op, Op)                                                \
  ATOMIC(op, Op, "u32", U32), ATOMIC(op, Op, "s32", S32),                      \
      ATOMIC(op, Op, "u64", U64), ATOMIC(op, Op, "s64", S64)
#define ATOMIC_BITS(op, Op)                                                    \
  ATOMIC(op, Op, "b32", U32), ATOMIC(op, Op, "b64", U64)

static const NamedHandler table[] = {
    LOAD("u8", U8),
    LOAD("s8", S8),
    LOAD("u16", U16),
    LOAD("s16", S16),
    LOAD("u32", U32),
    LOAD("s32", S32),
    LOAD("u64", U64),
    STORE("8", U8),
    STORE("16", U16),
    STORE("32", U32),
    STORE("64", U64),
    ATOMIC_INTEGERS("add", Sum),
    ATOMIC("add", Sum, "f16", F16),
    ATOMIC("add", Sum, "bf16", BF16),
    ATOMIC("add", Sum, "f32", F32),
    ATOMIC("add", Sum, "f64", F64),
    ATOMIC_INTEGERS("min", Least),
    ATOMIC_INTEGERS("max", Greatest),
    ATOMIC_BITS("and", And),
    ATOMIC_BITS("or", Or),
    ATOMIC_BITS("xor", Xor),
    ATOMIC_BITS("exch", Exchange),
    ATOMIC("inc", Increment, "u32", U32),
    ATOMIC("dec", Decrement, "u32", U32),
    {"atom.cas.b16", compareAndSwap<U16>},
    {"atom.cas.b32", compareAndSwap<U32>},
    {"atom.cas.b64", compareAndSwap<U64>},
    {"cvta", convertAddress},
    {"isspacep", isInSpace},
};

HandlerTable kerf::sim::memoryHandlers() {
  return {table, sizeof table / sizeof *table};
}
