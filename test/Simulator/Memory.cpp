//===- Memory.cpp - the device memory of the simulator --------------------===//

#include "Memory.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace kerf::sim;

/// Bytes between two allocations, and what each is aligned to, as a driver's.
static constexpr uint64_t gap = 512;

Memory::Memory() {
  const char *text = getenv("KERF_SIM_MEMORY");
  uint64_t mebibytes = text ? strtoull(text, nullptr, 10) : 0;
  limitBytes = (mebibytes ? mebibytes : 4096) << 20;
}

Memory::~Memory() {
  for (auto &[begin, range] : ranges)
    std::free(range.host);
}

Memory &kerf::sim::memory() {
  static Memory memory;
  return memory;
}

uint64_t Memory::allocate(uint64_t bytes) {
  if (!bytes || bytes > limitBytes - usedBytes)
    return 0;
  uint64_t rounded = (bytes + gap - 1) / gap * gap;
  auto *host = static_cast<uint8_t *>(std::aligned_alloc(gap, rounded + gap));
  if (!host)
    return 0;
  memset(host, 0xFF, bytes);
  uint64_t begin = globalBase + reinterpret_cast<uintptr_t>(host);
  Range &range = ranges[begin];
  range.begin = begin;
  range.end = begin + bytes;
  range.host = host;
  usedBytes += bytes;
  ++changes;
  return begin;
}

bool Memory::release(uint64_t address) {
  auto found = ranges.find(address);
  if (found == ranges.end())
    return false;
  usedBytes -= found->second.end - found->second.begin;
  std::free(found->second.host);
  ranges.erase(found);
  ++changes;
  return true;
}

Range *Memory::below(uint64_t address) {
  auto after = ranges.upper_bound(address);
  return after == ranges.begin() ? nullptr : &std::prev(after)->second;
}

Range *Memory::find(uint64_t address) {
  Range *range = below(address);
  return range && address < range->end ? range : nullptr;
}

uint8_t *Memory::host(uint64_t address, uint64_t bytes) {
  Range *range = find(address);
  if (!range || bytes > range->end - address)
    return nullptr;
  return range->host + (address - range->begin);
}

std::string kerf::sim::describeAddress(uint64_t address) {
  char text[160];
  auto print = [&](const char *format, auto... values) {
    snprintf(text, sizeof text, format, (unsigned long long)values...);
    return std::string(text);
  };
  Range *range = memory().below(address);
  uint64_t size = range ? range->end - range->begin : 0;
  if (range && address < range->end)
    return print("0x%llx, byte %llu of an allocation of %llu bytes", address,
                 address - range->begin, size);
  // Indices run off the end of what lies below.
  if (range && address - range->end < 1 << 20)
    return print(
        "0x%llx, %llu bytes past the end of an allocation of %llu bytes",
        address, address - range->end, size);
  return print(address < globalBase
                   ? "0x%llx, in no allocation (a host pointer?)"
                   : "0x%llx, in no allocation",
               address);
}
