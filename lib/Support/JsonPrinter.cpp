//===- JsonPrinter.cpp - Deterministic JSON text --------------------------===//

#include "kerf/Support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cassert>
#include <charconv>
#include <cmath>

using namespace kerf;
using namespace kerf::json;
using llvm::StringRef;

namespace {

class Printer {
public:
  Printer(llvm::raw_ostream &os, const PrintOptions &options)
      : os(os), options(options) {}

  void print(const Value &value, int level);

private:
  void printNumber(const Value &value);
  void printString(StringRef string);
  void printArray(const Value &value, int level);
  void printObject(const Value &value, int level);
  void printLineBreak(int level);

  llvm::raw_ostream &os;
  const PrintOptions &options;
};

} // namespace

void Printer::printLineBreak(int level) {
  if (options.indent > 0)
    (os << '\n').indent(options.indent * level);
}

void Printer::printNumber(const Value &value) {
  if (value.isInteger) {
    os << value.integer;
    return;
  }
  assert(std::isfinite(value.number) && "JSON has finite numbers only");
  char buffer[32];
  std::to_chars_result result =
      std::to_chars(buffer, buffer + sizeof(buffer), value.number);
  StringRef digits(buffer, result.ptr - buffer);
  os << digits;
  if (digits.find_first_of(".e") == StringRef::npos)
    os << ".0";
}

void Printer::printString(StringRef string) {
  constexpr StringRef special = "\"\\\b\f\n\r\t";
  constexpr StringRef names = "\"\\bfnrt";
  os << '"';
  for (char c : string) {
    size_t index = special.find(c);
    if (index != StringRef::npos)
      os << '\\' << names[index];
    else if (static_cast<unsigned char>(c) < 0x20)
      os << "\\u00" << llvm::toHex(StringRef(&c, 1), /*LowerCase=*/true);
    else
      os << c;
  }
  os << '"';
}

void Printer::printArray(const Value &value, int level) {
  if (value.array.empty()) {
    os << "[]";
    return;
  }
  os << '[';
  for (const auto &[i, element] : llvm::enumerate(value.array)) {
    if (i)
      os << ',';
    printLineBreak(level + 1);
    print(element, level + 1);
  }
  printLineBreak(level);
  os << ']';
}

void Printer::printObject(const Value &value, int level) {
  if (value.object.empty()) {
    os << "{}";
    return;
  }
  llvm::SmallVector<const Member *> members;
  for (const Member &member : value.object)
    members.push_back(&member);
  if (options.sortKeys)
    llvm::sort(members, [](const Member *a, const Member *b) {
      return StringRef(a->key) < StringRef(b->key);
    });
  os << '{';
  for (const auto &[i, member] : llvm::enumerate(members)) {
    if (i)
      os << ',';
    printLineBreak(level + 1);
    printString(member->key);
    os << (options.indent > 0 ? ": " : ":");
    print(member->value, level + 1);
  }
  printLineBreak(level);
  os << '}';
}

void Printer::print(const Value &value, int level) {
  switch (value.kind) {
  case Kind::Null:
    os << "null";
    return;
  case Kind::Bool:
    os << (value.boolean ? "true" : "false");
    return;
  case Kind::Number:
    return printNumber(value);
  case Kind::String:
    return printString(value.string);
  case Kind::Array:
    return printArray(value, level);
  case Kind::Object:
    return printObject(value, level);
  }
}

std::string json::print(const Value &value, const PrintOptions &options) {
  std::string result;
  llvm::raw_string_ostream os(result);
  Printer(os, options).print(value, 0);
  return result;
}
