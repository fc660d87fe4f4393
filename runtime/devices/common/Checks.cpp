//===- Checks.cpp - checks of commands that devices share -----------------===//

#include "Checks.h"

#include <cstdarg>
#include <cstdio>
#include <string>

using namespace kerf::device;

void kerf::device::say(char *error, size_t bytes, const char *format, ...) {
  if (!error || !bytes)
    return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error, bytes, format, arguments);
  va_end(arguments);
}

bool Checks::fail(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  say(error, errorBytes, "command '%s': %s", name(), text);
  return false;
}

/// `{4, 5, 8}` -> "4, 5 or 8".
static std::string alternatives(std::initializer_list<uint32_t> counts) {
  std::string text;
  for (const uint32_t *count = counts.begin(); count != counts.end(); ++count) {
    bool isLast = count + 1 == counts.end();
    text += count == counts.begin() ? "" : isLast ? " or " : ", ";
    text += std::to_string(*count);
  }
  return text;
}

bool Checks::hasCounts(uint32_t attrs,
                       std::initializer_list<uint32_t> operands) {
  if (info.command->attr_count != attrs)
    return fail("found %u attributes, expected %u", info.command->attr_count,
                attrs);
  for (uint32_t count : operands)
    if (info.command->operand_count == count)
      return true;
  return fail("found %u operands, expected %s", info.command->operand_count,
              alternatives(operands).c_str());
}

bool Checks::inRange(uint32_t index, const char *what, int64_t low,
                     int64_t high) {
  int64_t found = attr(index);
  if (found >= low && found <= high)
    return true;
  return fail("found %s %lld, expected %lld to %lld", what, (long long)found,
              (long long)low, (long long)high);
}

bool Checks::isSize(uint32_t index, const char *what) {
  return inRange(index, what, 1, (INT64_C(1) << 40) - 1);
}

bool Checks::hasBytes(uint32_t index, const char *what, __int128 bytes) {
  if (absent(index))
    return fail("operand %u (%s) is absent", index, what);
  const kerf_operand &operand = info.operands[index];
  int64_t found = operand.kind == KERF_SCALAR ? 4 : operand.bytes;
  constexpr int64_t most = INT64_C(1) << 46; // all that memory could have
  if (found >= bytes && bytes <= most)
    return true;
  return fail("operand %u (%s) has %lld bytes, expected at least %lld", index,
              what, (long long)found, (long long)(bytes > most ? most : bytes));
}

bool Checks::hasExtent(uint32_t index, const char *what, int64_t elementBytes,
                       std::initializer_list<int64_t> sizes,
                       std::initializer_list<int64_t> strides) {
  __int128 last = 0;
  const int64_t *stride = strides.begin();
  for (int64_t size : sizes) {
    if (*stride < 0)
      return fail("operand %u (%s) has the stride %lld, expected none below 0",
                  index, what, (long long)*stride);
    last += static_cast<__int128>(size - 1) * *stride++;
  }
  return hasBytes(index, what, (last + 1) * elementBytes);
}
