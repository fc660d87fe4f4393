//===- Isa.cpp - what the processor can do --------------------------------===//
//
// CPUID's bits (Intel's Software Developer's Manual, volume 2A; AMD's volume 3)
// and the register state that the system saves (XCR0).
//
//===----------------------------------------------------------------------===//

#include "Isa.h"

#include <cpuid.h>
#include <cstring>
#include <string_view>

using namespace kerf::cpu;

namespace {
enum Register { EAX, EBX, ECX, EDX };
enum State { Sse, Avx, Avx512, Amx }; ///< register state that is needed

struct Feature {
  const char *name;
  uint32_t leaf, subleaf;
  Register where;
  int bit;
  State state;
};
} // namespace

static constexpr Feature features[] = {
    {"cmov", 1, 0, EDX, 15, Sse},
    {"fxsr", 1, 0, EDX, 24, Sse},
    {"mmx", 1, 0, EDX, 23, Sse},
    {"cx8", 1, 0, EDX, 8, Sse},
    {"x87", 1, 0, EDX, 0, Sse},
    {"sse", 1, 0, EDX, 25, Sse},
    {"sse2", 1, 0, EDX, 26, Sse},
    {"sse3", 1, 0, ECX, 0, Sse},
    {"pclmul", 1, 0, ECX, 1, Sse},
    {"ssse3", 1, 0, ECX, 9, Sse},
    {"fma", 1, 0, ECX, 12, Avx},
    {"cx16", 1, 0, ECX, 13, Sse},
    {"sse4.1", 1, 0, ECX, 19, Sse},
    {"sse4.2", 1, 0, ECX, 20, Sse},
    {"crc32", 1, 0, ECX, 20, Sse},
    {"movbe", 1, 0, ECX, 22, Sse},
    {"popcnt", 1, 0, ECX, 23, Sse},
    {"aes", 1, 0, ECX, 25, Sse},
    {"xsave", 1, 0, ECX, 26, Sse},
    {"avx", 1, 0, ECX, 28, Avx},
    {"f16c", 1, 0, ECX, 29, Avx},
    {"rdrnd", 1, 0, ECX, 30, Sse},
    {"bmi", 7, 0, EBX, 3, Sse},
    {"avx2", 7, 0, EBX, 5, Avx},
    {"bmi2", 7, 0, EBX, 8, Sse},
    {"avx512f", 7, 0, EBX, 16, Avx512},
    {"avx512dq", 7, 0, EBX, 17, Avx512},
    {"adx", 7, 0, EBX, 19, Sse},
    {"avx512ifma", 7, 0, EBX, 21, Avx512},
    {"avx512cd", 7, 0, EBX, 28, Avx512},
    {"sha", 7, 0, EBX, 29, Sse},
    {"avx512bw", 7, 0, EBX, 30, Avx512},
    {"avx512vl", 7, 0, EBX, 31, Avx512},
    {"avx512vbmi", 7, 0, ECX, 1, Avx512},
    {"avx512vbmi2", 7, 0, ECX, 6, Avx512},
    {"gfni", 7, 0, ECX, 8, Sse},
    {"vaes", 7, 0, ECX, 9, Avx},
    {"vpclmulqdq", 7, 0, ECX, 10, Avx},
    {"avx512vnni", 7, 0, ECX, 11, Avx512},
    {"avx512bitalg", 7, 0, ECX, 12, Avx512},
    {"avx512vpopcntdq", 7, 0, ECX, 14, Avx512},
    {"amx-bf16", 7, 0, EDX, 22, Amx},
    {"avx512fp16", 7, 0, EDX, 23, Avx512},
    {"amx-tile", 7, 0, EDX, 24, Amx},
    {"amx-int8", 7, 0, EDX, 25, Amx},
    {"avxvnni", 7, 1, EAX, 4, Avx},
    {"avx512bf16", 7, 1, EAX, 5, Avx512},
    {"sahf", 0x80000001, 0, ECX, 0, Sse},
    {"lzcnt", 0x80000001, 0, ECX, 5, Sse},
    {"64bit", 0x80000001, 0, EDX, 29, Sse},
};

static uint64_t savedState() {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1))
    return 3;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

static bool isSaved(State state) {
  constexpr uint64_t masks[] = {3, 7, 0xe7, 0x600e7};
  return (savedState() & masks[state]) == masks[state] || state == Sse;
}

static bool hasBit(const Feature &feature) {
  uint32_t r[4];
  return __get_cpuid_count(feature.leaf, feature.subleaf, &r[EAX], &r[EBX],
                           &r[ECX], &r[EDX]) &&
         (r[feature.where] >> feature.bit & 1) && isSaved(feature.state);
}

/// The features of a level, or null.
static const char *levelFeatures(std::string_view name) {
  if (name == "x86-64")
    return "sse2";
  if (name == "x86-64-v2")
    return "cx16,sahf,popcnt,sse4.2";
  if (name == "x86-64-v3")
    return "cx16,sahf,popcnt,sse4.2,avx2,bmi,bmi2,f16c,fma,lzcnt,movbe";
  if (name == "x86-64-v4")
    return "cx16,sahf,popcnt,sse4.2,avx2,bmi,bmi2,f16c,fma,lzcnt,movbe,"
           "avx512f,avx512bw,avx512cd,avx512dq,avx512vl";
  return nullptr;
}

bool kerf::cpu::hasFeature(const char *name) {
  if (const char *level = levelFeatures(name))
    return checkFeatures(level, nullptr, 0) == 0;
  for (const Feature &feature : features)
    if (std::strcmp(feature.name, name) == 0)
      return hasBit(feature);
  return false;
}

static void append(char *text, size_t bytes, const std::string &name) {
  size_t length = bytes ? std::strlen(text) : 0;
  std::string added = (length ? "," : "") + name;
  if (length + added.size() < bytes)
    std::memcpy(text + length, added.c_str(), added.size() + 1);
}

int32_t kerf::cpu::checkFeatures(const char *list, char *missing,
                                 size_t missingBytes) {
  if (missingBytes)
    *missing = 0;
  int32_t count = 0;
  for (std::string_view rest = list ? list : ""; !rest.empty();) {
    size_t comma = rest.find(',');
    std::string name(rest.substr(0, comma));
    rest = comma == rest.npos ? "" : rest.substr(comma + 1);
    if (!name.empty() && name[0] == '+')
      name.erase(0, 1);
    // "-name" asks for nothing.
    if (name.empty() || name[0] == '-' || hasFeature(name.c_str()))
      continue;
    ++count;
    append(missing, missingBytes, name);
  }
  return count;
}

std::string kerf::cpu::processorName() {
  uint32_t words[12];
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t *r = words + 4 * i;
    if (!__get_cpuid(0x80000002 + i, r, r + 1, r + 2, r + 3))
      return "x86-64";
  }
  char text[sizeof words + 1] = {};
  std::memcpy(text, words, sizeof words);
  std::string name = text;
  while (!name.empty() && name.back() == ' ')
    name.pop_back();
  return name.substr(std::min(name.find_first_not_of(' '), name.size()));
}

bool kerf::cpu::isBf16Fast() {
  uint32_t r[4];
  if (!__get_cpuid(0, &r[EAX], &r[EBX], &r[ECX], &r[EDX]))
    return false;
  char vendor[12];
  std::memcpy(vendor, &r[EBX], 4);
  std::memcpy(vendor + 4, &r[EDX], 4);
  std::memcpy(vendor + 8, &r[ECX], 4);
  __get_cpuid(1, &r[EAX], &r[EBX], &r[ECX], &r[EDX]);
  return isBf16Fast({vendor, sizeof vendor}, r[EAX]);
}
