//===- Json.cpp - read the JSON of checkpoints ----------------------------===//

#include "kerf/Train/Json.h"

#include "kerf/Train/Text.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

using namespace kerf::runtime;

const JsonValue *JsonValue::find(std::string_view key) const {
  for (const auto &[name, value] : object)
    if (name == key)
      return &value;
  return nullptr;
}

namespace {
class Parser {
public:
  Parser(std::string_view text, std::string &error)
      : text(text), error(error) {}

  bool parseDocument(JsonValue &value) {
    return parseValue(value, 0) && (skipSpace(), true) &&
           (at == text.size() || fail("expected the end of the text"));
  }

private:
  bool fail(const std::string &message) {
    error = "byte " + std::to_string(at) + ": " + message;
    return false;
  }
  char peek() const { return at < text.size() ? text[at] : '\0'; }
  void skipSpace() {
    while (at < text.size() && (peek() == ' ' || peek() == '\n' ||
                                peek() == '\r' || peek() == '\t'))
      ++at;
  }
  bool consume(std::string_view word) {
    if (text.substr(at, word.size()) != word)
      return false;
    at += word.size();
    return true;
  }

  bool parseValue(JsonValue &value, int depth);
  bool parseObject(JsonValue &value, int depth);
  bool parseArray(JsonValue &value, int depth);
  bool parseNumber(JsonValue &value);
  bool parseString(std::string &string);
  bool parseEscape(std::string &string);
  bool parseHex(uint32_t &code);

  std::string_view text;
  std::string &error;
  size_t at = 0;
};
} // namespace

bool Parser::parseValue(JsonValue &value, int depth) {
  if (depth > 64)
    return fail("nested deeper than 64 levels");
  skipSpace();
  if (peek() == '{')
    return parseObject(value, depth);
  if (peek() == '[')
    return parseArray(value, depth);
  if (peek() == '"') {
    value.kind = JsonValue::String;
    return parseString(value.string);
  }
  if (consume("null"))
    return true;
  value.kind = JsonValue::Bool;
  if (consume("true"))
    return value.boolean = true;
  if (consume("false"))
    return true;
  return parseNumber(value);
}

bool Parser::parseObject(JsonValue &value, int depth) {
  value.kind = JsonValue::Object;
  std::unordered_set<std::string> keys;
  ++at;
  skipSpace();
  if (consume("}"))
    return true;
  do {
    skipSpace();
    std::string key;
    if (peek() != '"')
      return fail("expected a key in quotes");
    if (!parseString(key))
      return false;
    if (!keys.insert(key).second)
      return fail("key " + quote(key) + " is there twice");
    skipSpace();
    if (!consume(":"))
      return fail("expected ':'");
    if (!parseValue(value.object.emplace_back(JsonMember{key, {}}).value,
                    depth + 1))
      return false;
    skipSpace();
  } while (consume(","));
  return consume("}") || fail("expected ',' or '}'");
}

bool Parser::parseArray(JsonValue &value, int depth) {
  value.kind = JsonValue::Array;
  ++at;
  skipSpace();
  if (consume("]"))
    return true;
  do {
    if (!parseValue(value.array.emplace_back(), depth + 1))
      return false;
    skipSpace();
  } while (consume(","));
  return consume("]") || fail("expected ',' or ']'");
}

bool Parser::parseNumber(JsonValue &value) {
  auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
  size_t start = at;
  auto digits = [&] {
    size_t first = at;
    while (isDigit(peek()))
      ++at;
    return at > first;
  };
  consume("-");
  bool leadingZero =
      peek() == '0' && at + 1 < text.size() && isDigit(text[at + 1]);
  if (leadingZero || !digits())
    return fail("expected a value");
  bool isInteger = true;
  if (consume(".")) {
    isInteger = false;
    if (!digits())
      return fail("expected digits");
  }
  if (consume("e") || consume("E")) {
    isInteger = false;
    if (!consume("+"))
      consume("-");
    if (!digits())
      return fail("expected digits");
  }
  std::string_view token = text.substr(start, at - start);
  value.kind = JsonValue::Number;
  value.isInteger = isInteger && parseInteger(token, value.integer);
  std::from_chars(token.data(), token.data() + token.size(), value.number);
  return true;
}

bool Parser::parseHex(uint32_t &code) {
  if (text.size() - at < 4)
    return fail("expected four hexadecimal digits");
  const char *start = text.data() + at;
  auto [stop, status] = std::from_chars(start, start + 4, code, 16);
  if (status != std::errc() || stop != start + 4)
    return fail("expected four hexadecimal digits");
  at += 4;
  return true;
}

static void appendUtf8(std::string &string, uint32_t code) {
  auto put = [&](uint32_t byte) { string += static_cast<char>(byte); };
  if (code < 0x80)
    return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3f));
    }
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

bool Parser::parseEscape(std::string &string) {
  static constexpr std::string_view names = "\"\\/bfnrt",
                                    values = "\"\\/\b\f\n\r\t";
  char c = peek();
  if (c != 'u') {
    size_t found = c ? names.find(c) : std::string_view::npos;
    if (found == std::string_view::npos)
      return fail("unknown escape");
    ++at;
    string += values[found];
    return true;
  }
  ++at;
  uint32_t code = 0, low = 0;
  if (!parseHex(code))
    return false;
  if (code >= 0xd800 && code < 0xdc00) {
    if (!consume("\\u") || !parseHex(low) || low < 0xdc00 || low > 0xdfff)
      return fail("half a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xdc00 && code < 0xe000) {
    return fail("half a surrogate pair");
  }
  appendUtf8(string, code);
  return true;
}

bool Parser::parseString(std::string &string) {
  ++at;
  while (at < text.size()) {
    unsigned char c = text[at];
    if (c == '"') {
      ++at;
      return true;
    }
    if (c < 0x20)
      return fail("control character in a string");
    ++at;
    if (c != '\\')
      string += static_cast<char>(c);
    else if (!parseEscape(string))
      return false;
  }
  return fail("string without end");
}

bool kerf::runtime::parseJson(std::string_view text, JsonValue &value,
                              std::string &error) {
  value = JsonValue();
  return Parser(text, error).parseDocument(value);
}
