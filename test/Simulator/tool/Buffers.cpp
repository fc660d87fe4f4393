//===- Buffers.cpp - arguments of a kernel, from the command line ---------===//

#include "Buffers.h"
#include "Memory.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

using namespace kerf::sim;

static uint32_t bytesOf(const std::string &type) {
  size_t digits = type.find_first_of("0123456789");
  std::string kind = type.substr(0, digits);
  int bits = digits == std::string::npos ? 0 : atoi(type.c_str() + digits);
  bool isFloat = (kind == "f" && (bits == 16 || bits == 32 || bits == 64)) ||
                 (kind == "bf" && bits == 16);
  bool isInteger = (kind == "i" || kind == "u") &&
                   (bits == 8 || bits == 16 || bits == 32 || bits == 64);
  if (!isFloat && !isInteger)
    throw "'" + type + "' is no type: f32 f64 f16 bf16 i8..i64 u8..u64";
  return bits / 8;
}

/// f32 to the nearest bf16 or f16 by looking for it: not meant to be fast.
static uint16_t halfOf(const std::string &type, double value);

static double ofHalf(const std::string &type, uint16_t bits) {
  if (type == "bf16") {
    uint32_t wide = uint32_t(bits) << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
  }
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                     : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                    : std::ldexp(fraction, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

static uint16_t halfOf(const std::string &type, double value) {
  // Magnitudes grow with their bits: the first that is not below.
  uint16_t low = 0, high = type == "bf16" ? 0x7F80 : 0x7C00;
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double magnitude = std::fabs(value);
  if (value != value)
    return 0x7FFF;
  while (low < high) {
    uint16_t middle = (low + high) / 2;
    if (ofHalf(type, middle) < magnitude)
      low = middle + 1;
    else
      high = middle;
  }
  if (low && ofHalf(type, low) != magnitude) {
    double down = magnitude - ofHalf(type, low - 1);
    double up = ofHalf(type, low) - magnitude;
    if (down < up || (down == up && !(low - 1 & 1)))
      --low;
  }
  return sign | low;
}

static void append(Argument &argument, double value, uint64_t integer) {
  uint64_t bits = integer;
  float single = static_cast<float>(value);
  if (argument.type == "f32")
    memcpy(&bits, &single, sizeof single);
  else if (argument.type == "f64")
    memcpy(&bits, &value, sizeof value);
  else if (argument.type == "f16" || argument.type == "bf16")
    bits = halfOf(argument.type, value);
  for (uint32_t byte = 0; byte < bytesOf(argument.type); ++byte)
    argument.bytes.push_back(static_cast<uint8_t>(bits >> 8 * byte));
}

/// In [-1, 1); integers are 0..255.
static double randomValue(uint64_t &state) {
  uint64_t mixed = state += 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBull;
  return static_cast<double>((mixed ^ mixed >> 31) >> 11) * 0x1p-52 - 1;
}

static void fill(Argument &argument, const std::string &how) {
  uint64_t bytes = argument.count * bytesOf(argument.type);
  uint64_t seed =
      how.starts_with("random:") ? strtoull(&how[7], nullptr, 0) : 0;
  if (how.starts_with("file:")) {
    std::ifstream file(how.substr(5), std::ios::binary);
    argument.bytes.assign(std::istreambuf_iterator<char>(file), {});
    if (argument.bytes.size() < bytes)
      throw "'" + how.substr(5) + "' has " +
          std::to_string(argument.bytes.size()) + " of " +
          std::to_string(bytes) + " bytes";
    argument.bytes.resize(bytes);
  } else if (how == "zero") {
    argument.bytes.assign(bytes, 0);
  } else if (how == "iota" || how.starts_with("random")) {
    for (uint64_t index = 0; index < argument.count; ++index) {
      double value = how == "iota" ? double(index) : randomValue(seed);
      append(argument, value, how == "iota" ? index : (value + 1) * 128);
    }
  } else {
    std::istringstream values(how);
    for (std::string value; std::getline(values, value, ',');)
      append(argument, strtod(value.c_str(), nullptr),
             strtoll(value.c_str(), nullptr, 0));
    if (argument.bytes.empty())
      throw std::string("no values after '='");
    for (uint64_t at = 0; argument.bytes.size() < bytes; ++at) // repeat them
      argument.bytes.push_back(argument.bytes[at]);
    argument.bytes.resize(bytes);
  }
}

Argument kerf::sim::parseArgument(const std::string &text) {
  Argument argument;
  size_t equals = text.find('='), colon = text.find(':');
  std::string value =
      equals == std::string::npos ? "" : text.substr(equals + 1);
  if (colon > equals)
    colon = std::string::npos;
  argument.type = text.substr(0, std::min(colon, equals));
  uint32_t size = bytesOf(argument.type);
  if (colon == std::string::npos) {
    if (value.empty())
      throw "'" + text + "' needs a value: TYPE=VALUE or TYPE:COUNT";
    argument.count = 1;
    fill(argument, value);
    argument.count = 0;
    return argument;
  }
  argument.count = strtoull(&text[colon + 1], nullptr, 0);
  if (!argument.count)
    throw "'" + text + "' has no elements";
  argument.address = memory().allocate(argument.count * size);
  if (!argument.address)
    throw "no memory for '" + text + "'";
  if (value.empty())
    argument.bytes.assign(argument.count * size, 0xFF);
  else
    fill(argument, value);
  memcpy(memory().host(argument.address, argument.bytes.size()),
         argument.bytes.data(), argument.bytes.size());
  return argument;
}

std::string kerf::sim::printElement(const Argument &argument,
                                    const std::vector<uint8_t> &bytes,
                                    uint64_t index) {
  uint32_t size = bytesOf(argument.type);
  uint64_t bits = 0;
  memcpy(&bits, bytes.data() + index * size, size);
  char text[40];
  double value = 0;
  if (argument.type == "f64") {
    memcpy(&value, &bits, sizeof value);
    snprintf(text, sizeof text, "%.17g", value);
  } else if (argument.type == "f32") {
    float single;
    memcpy(&single, &bits, sizeof single);
    snprintf(text, sizeof text, "%.9g", single);
  } else if (argument.type == "f16" || argument.type == "bf16") {
    snprintf(text, sizeof text, "%.5g", ofHalf(argument.type, bits));
  } else if (argument.type[0] == 'i') {
    int shift = 64 - size * 8;
    snprintf(text, sizeof text, "%lld",
             static_cast<long long>(bits << shift) >> shift);
  } else {
    snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(bits));
  }
  return text;
}
