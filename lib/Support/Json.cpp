//===- Json.cpp - Strict JSON with positions ------------------------------===//

#include "kerf/Support/Json.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/raw_ostream.h"

#include <cassert>
#include <charconv>
#include <cmath>
#include <limits>

using namespace kerf;
using namespace kerf::json;
using llvm::failure;
using llvm::FailureOr;
using llvm::LogicalResult;
using llvm::StringRef;
using llvm::success;
using llvm::Twine;

StringRef json::describeKind(Kind kind) {
  switch (kind) {
  case Kind::Null:
    return "null";
  case Kind::Bool:
    return "a boolean";
  case Kind::Number:
    return "a number";
  case Kind::String:
    return "a string";
  case Kind::Array:
    return "an array";
  case Kind::Object:
    return "an object";
  }
  return "an unknown value";
}

std::string json::quote(StringRef text) {
  constexpr size_t maxLength = 80;
  std::string result = "'";
  llvm::raw_string_ostream os(result);
  llvm::printEscapedString(text.take_front(maxLength), os);
  return result + (text.size() > maxLength ? "...'" : "'");
}

//===----------------------------------------------------------------------===//
// Value
//===----------------------------------------------------------------------===//

Value Value::fromBool(bool value) {
  Value result;
  result.kind = Kind::Bool;
  result.boolean = value;
  return result;
}

Value Value::fromInteger(int64_t value) {
  Value result;
  result.kind = Kind::Number;
  result.isInteger = true;
  result.integer = value;
  result.number = static_cast<double>(value);
  return result;
}

Value Value::fromNumber(double value) {
  assert(std::isfinite(value) && "JSON has finite numbers only");
  Value result;
  result.kind = Kind::Number;
  result.number = value;
  return result;
}

Value Value::fromString(StringRef value) {
  Value result;
  result.kind = Kind::String;
  result.string = value.str();
  return result;
}

Value Value::makeArray() {
  Value result;
  result.kind = Kind::Array;
  return result;
}

Value Value::makeObject() {
  Value result;
  result.kind = Kind::Object;
  return result;
}

const Member *Value::findMember(StringRef key) const {
  for (const Member &member : object)
    if (member.key == key)
      return &member;
  return nullptr;
}

const Value *Value::find(StringRef key) const {
  const Member *member = findMember(key);
  return member ? &member->value : nullptr;
}

Value &Value::set(StringRef key, Value value) {
  assert(kind == Kind::Object && "only an object has members");
  for (Member &member : object) {
    if (member.key != key)
      continue;
    member.value = std::move(value);
    return member.value;
  }
  object.push_back({key.str(), std::move(value), Position()});
  return object.back().value;
}

//===----------------------------------------------------------------------===//
// Parser
//===----------------------------------------------------------------------===//

namespace {

class Parser {
public:
  Parser(StringRef text, ErrorHandler onError, const ParseLimits &limits)
      : text(text), onError(onError), limits(limits) {}

  FailureOr<Value> parseText();

private:
  LogicalResult parseValue(Value &value, int depth);
  LogicalResult parseArray(Value &value, int depth);
  LogicalResult parseObject(Value &value, int depth);
  LogicalResult parseMember(Value &value, llvm::StringMap<Position> &firstSeen,
                            int depth);
  LogicalResult parseNumber(Value &value);
  LogicalResult parseWord(Value &value);
  LogicalResult parseString(std::string &result);
  LogicalResult parseEscape(std::string &result);
  LogicalResult parseUnicodeEscape(std::string &result, size_t escapeBegin);
  LogicalResult parseHexDigits(unsigned &unit);
  LogicalResult takeUtf8Sequence(std::string &result);
  LogicalResult checkEnter(int depth);

  bool atEnd() const { return cursor == text.size(); }
  bool at(char c) const { return !atEnd() && text[cursor] == c; }
  bool consume(char c);
  size_t consumeDigits();
  StringRef peekWord() const;
  void skipSpace();
  std::string describeFound() const;

  /// Strings hold no raw newline, so every offset that is asked for lies in
  /// the current line.
  Position getPosition(size_t offset) const {
    return {line, static_cast<int>(offset - lineBegin) + 1};
  }
  LogicalResult fail(size_t offset, const Twine &message) {
    onError(getPosition(offset), message);
    return failure();
  }
  LogicalResult failHere(const Twine &message) { return fail(cursor, message); }

  StringRef text;
  ErrorHandler onError;
  const ParseLimits &limits;
  size_t cursor = 0;
  size_t lineBegin = 0;
  int line = 1;
  int64_t numValues = 0;
};

} // namespace

bool Parser::consume(char c) {
  if (!at(c))
    return false;
  ++cursor;
  return true;
}

size_t Parser::consumeDigits() {
  size_t begin = cursor;
  while (!atEnd() && llvm::isDigit(text[cursor]))
    ++cursor;
  return cursor - begin;
}

StringRef Parser::peekWord() const {
  return text.substr(cursor).take_while(
      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

void Parser::skipSpace() {
  for (; !atEnd(); ++cursor) {
    char c = text[cursor];
    if (c == '\n') {
      ++line;
      lineBegin = cursor + 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

std::string Parser::describeFound() const {
  if (atEnd())
    return "end of input";
  unsigned char c = text[cursor];
  if (llvm::isAlpha(c))
    return quote(peekWord());
  if (llvm::isPrint(c))
    return quote(text.substr(cursor, 1));
  return "byte 0x" + llvm::toHex(text.substr(cursor, 1));
}

FailureOr<Value> Parser::parseText() {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int>::max() - 1)) {
    onError({1, 1}, "input of " + Twine(text.size()) +
                        " bytes is larger than the limit of 2 GiB");
    return failure();
  }
  if (text.starts_with("\xef\xbb\xbf"))
    cursor = lineBegin = 3;
  Value value;
  skipSpace();
  if (failed(parseValue(value, 0)))
    return failure();
  skipSpace();
  if (!atEnd()) {
    (void)failHere("expected end of input after the value, found " +
                   describeFound());
    return failure();
  }
  return value;
}

LogicalResult Parser::parseValue(Value &value, int depth) {
  value.position = getPosition(cursor);
  if (++numValues > limits.maxValues)
    return failHere("more than " + Twine(limits.maxValues) + " values");
  if (at('{'))
    return parseObject(value, depth);
  if (at('['))
    return parseArray(value, depth);
  if (at('"')) {
    value.kind = Kind::String;
    return parseString(value.string);
  }
  // Every number-like start belongs to parseNumber, which names what is wrong.
  if (at('-') || (!atEnd() && llvm::isDigit(text[cursor])))
    return parseNumber(value);
  return parseWord(value);
}

LogicalResult Parser::checkEnter(int depth) {
  if (depth < limits.maxDepth)
    return success();
  return failHere("nesting is deeper than " + Twine(limits.maxDepth));
}

LogicalResult Parser::parseArray(Value &value, int depth) {
  if (failed(checkEnter(depth)))
    return failure();
  value.kind = Kind::Array;
  consume('[');
  skipSpace();
  if (consume(']'))
    return success();
  while (true) {
    skipSpace();
    if (failed(parseValue(value.array.emplace_back(), depth + 1)))
      return failure();
    skipSpace();
    if (consume(']'))
      return success();
    if (!consume(','))
      return failHere("expected ',' or ']' after an element, found " +
                      describeFound());
  }
}

LogicalResult Parser::parseObject(Value &value, int depth) {
  if (failed(checkEnter(depth)))
    return failure();
  value.kind = Kind::Object;
  consume('{');
  skipSpace();
  if (consume('}'))
    return success();
  llvm::StringMap<Position> firstSeen;
  while (true) {
    if (failed(parseMember(value, firstSeen, depth)))
      return failure();
    skipSpace();
    if (consume('}'))
      return success();
    if (!consume(','))
      return failHere("expected ',' or '}' after a member, found " +
                      describeFound());
  }
}

LogicalResult Parser::parseMember(Value &value,
                                  llvm::StringMap<Position> &firstSeen,
                                  int depth) {
  skipSpace();
  size_t keyBegin = cursor;
  if (!at('"'))
    return failHere("expected a key in double quotes, found " +
                    describeFound());
  Member &member = value.object.emplace_back();
  member.keyPosition = getPosition(keyBegin);
  if (failed(parseString(member.key)))
    return failure();
  auto [first, inserted] =
      firstSeen.try_emplace(member.key, member.keyPosition);
  if (!inserted)
    return fail(keyBegin, "duplicate key " + quote(member.key) +
                              ", first written at " +
                              Twine(first->second.line) + ":" +
                              Twine(first->second.column));
  skipSpace();
  if (!consume(':'))
    return failHere("expected ':' after key " + quote(member.key) + ", found " +
                    describeFound());
  skipSpace();
  return parseValue(member.value, depth + 1);
}

LogicalResult Parser::parseWord(Value &value) {
  StringRef word = peekWord();
  if (word == "true" || word == "false") {
    value.kind = Kind::Bool;
    value.boolean = word == "true";
  } else if (word == "NaN" || word == "Infinity") {
    return failHere(quote(word) + " is not a JSON number, expected a finite "
                                  "number or null");
  } else if (word != "null") {
    return failHere("expected a value, found " + describeFound());
  }
  cursor += word.size();
  return success();
}

LogicalResult Parser::parseNumber(Value &value) {
  size_t begin = cursor;
  bool isIntegral = true;
  consume('-');
  if (peekWord() == "Infinity" || peekWord() == "NaN")
    return fail(begin, quote("-" + peekWord().str()) +
                           " is not a JSON number, expected a finite number "
                           "or null");
  size_t digitsBegin = cursor;
  if (consumeDigits() == 0)
    return failHere("expected a digit after '-', found " + describeFound());
  if (text[digitsBegin] == '0' && cursor - digitsBegin > 1)
    return fail(begin, "number starts with a superfluous '0'");
  if (consume('.')) {
    isIntegral = false;
    if (consumeDigits() == 0)
      return failHere("expected a digit after '.', found " + describeFound());
  }
  if (at('e') || at('E')) {
    isIntegral = false;
    ++cursor;
    if (!consume('+'))
      consume('-');
    if (consumeDigits() == 0)
      return failHere("expected a digit in the exponent, found " +
                      describeFound());
  }
  StringRef spelling = text.slice(begin, cursor);
  if (!peekWord().empty())
    return failHere("expected the end of number " + quote(spelling) +
                    ", found " + describeFound());

  value.kind = Kind::Number;
  value.isInteger = isIntegral && !spelling.getAsInteger(10, value.integer);
  std::from_chars_result result =
      std::from_chars(spelling.begin(), spelling.end(), value.number);
  if (result.ec != std::errc())
    return fail(begin, "number " + quote(spelling) +
                           " is outside the range of a 64-bit float");
  return success();
}

LogicalResult Parser::parseString(std::string &result) {
  size_t begin = cursor;
  consume('"');
  while (true) {
    size_t run = cursor;
    while (!atEnd() && text[cursor] != '"' && text[cursor] != '\\' &&
           static_cast<unsigned char>(text[cursor]) >= 0x20 &&
           static_cast<unsigned char>(text[cursor]) < 0x80)
      ++cursor;
    result.append(text.data() + run, cursor - run);
    if (atEnd())
      return fail(begin, "expected '\"' at the end of the string, found end of "
                         "input");
    if (consume('"'))
      return success();
    if (static_cast<unsigned char>(text[cursor]) < 0x20)
      return failHere("control character " + describeFound() +
                      " in a string, expected an escape");
    if (failed(at('\\') ? parseEscape(result) : takeUtf8Sequence(result)))
      return failure();
  }
}

LogicalResult Parser::takeUtf8Sequence(std::string &result) {
  auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data() + cursor);
  auto *end = reinterpret_cast<const llvm::UTF8 *>(text.end());
  if (!llvm::isLegalUTF8Sequence(begin, end))
    return failHere("invalid UTF-8, found " + describeFound());
  unsigned size = llvm::getNumBytesForUTF8(*begin);
  result.append(text.data() + cursor, size);
  cursor += size;
  return success();
}

LogicalResult Parser::parseEscape(std::string &result) {
  size_t begin = cursor;
  consume('\\');
  if (consume('u'))
    return parseUnicodeEscape(result, begin);
  constexpr StringRef names = "\"\\/bfnrt";
  constexpr StringRef meanings = "\"\\/\b\f\n\r\t";
  size_t index = atEnd() ? StringRef::npos : names.find(text[cursor]);
  if (index == StringRef::npos)
    return fail(begin, "unknown escape in a string, found " + describeFound() +
                           " after '\\'");
  result.push_back(meanings[index]);
  ++cursor;
  return success();
}

LogicalResult Parser::parseHexDigits(unsigned &unit) {
  unit = 0;
  for (int i = 0; i < 4; ++i, ++cursor) {
    unsigned digit = atEnd() ? ~0u : llvm::hexDigitValue(text[cursor]);
    if (digit == ~0u)
      return failHere("expected four hexadecimal digits after '\\u', found " +
                      describeFound());
    unit = unit * 16 + digit;
  }
  return success();
}

LogicalResult Parser::parseUnicodeEscape(std::string &result,
                                         size_t escapeBegin) {
  auto isHigh = [](unsigned unit) { return unit >= 0xD800 && unit < 0xDC00; };
  auto isLow = [](unsigned unit) { return unit >= 0xDC00 && unit < 0xE000; };
  unsigned codePoint = 0;
  if (failed(parseHexDigits(codePoint)))
    return failure();
  if (isHigh(codePoint)) {
    unsigned low = 0;
    if (text.substr(cursor).starts_with("\\u")) {
      cursor += 2;
      if (failed(parseHexDigits(low)))
        return failure();
    }
    if (!isLow(low))
      return fail(escapeBegin, "lone surrogate, expected a pair of '\\u'");
    codePoint = 0x10000 + ((codePoint - 0xD800) << 10) + (low - 0xDC00);
  } else if (isLow(codePoint)) {
    return fail(escapeBegin, "lone surrogate, expected a pair of '\\u'");
  }
  char buffer[UNI_MAX_UTF8_BYTES_PER_CODE_POINT];
  char *end = buffer;
  llvm::ConvertCodePointToUTF8(codePoint, end);
  result.append(buffer, end);
  return success();
}

FailureOr<Value> json::parse(StringRef text, ErrorHandler onError,
                             const ParseLimits &limits) {
  return Parser(text, onError, limits).parseText();
}
