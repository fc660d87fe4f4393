//===- JsonTest.cpp - Strict JSON with positions --------------------------===//

#include "kerf/Support/Json.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace kerf::json;
using llvm::FailureOr;
using llvm::StringRef;

namespace {

/// "line:column: message" of the one error that `text` must give.
std::string errorOf(StringRef text, const ParseLimits &limits = {}) {
  std::string result;
  int numErrors = 0;
  FailureOr<Value> value = parse(
      text,
      [&](Position position, const llvm::Twine &message) {
        ++numErrors;
        result = (llvm::Twine(position.line) + ":" +
                  llvm::Twine(position.column) + ": " + message)
                     .str();
      },
      limits);
  EXPECT_TRUE(failed(value)) << text.take_front(100).str();
  EXPECT_EQ(numErrors, 1);
  return result;
}

Value valueOf(StringRef text) {
  FailureOr<Value> value =
      parse(text, [&](Position position, const llvm::Twine &message) {
        ADD_FAILURE() << text.str() << " at " << position.line << ":"
                      << position.column << ": " << message.str();
      });
  return succeeded(value) ? *value : Value();
}

std::string repeat(StringRef unit, size_t count) {
  std::string result;
  result.reserve(unit.size() * count);
  for (size_t i = 0; i < count; ++i)
    result += unit;
  return result;
}

TEST(Json, ReadsEveryKind) {
  Value value = valueOf(R"({"a": null, "b": true, "c": false, "d": [1, -2.5],
                            "e": "x", "f": {}, "g": []})");
  ASSERT_EQ(value.kind, Kind::Object);
  ASSERT_EQ(value.object.size(), 7u);
  EXPECT_EQ(value.find("a")->kind, Kind::Null);
  EXPECT_TRUE(value.find("b")->boolean);
  EXPECT_EQ(value.find("c")->kind, Kind::Bool);
  EXPECT_FALSE(value.find("c")->boolean);
  ASSERT_EQ(value.find("d")->array.size(), 2u);
  EXPECT_EQ(value.find("d")->array[0].integer, 1);
  EXPECT_EQ(value.find("d")->array[1].number, -2.5);
  EXPECT_EQ(value.find("e")->string, "x");
  EXPECT_EQ(value.find("f")->kind, Kind::Object);
  EXPECT_EQ(value.find("g")->kind, Kind::Array);
  EXPECT_EQ(value.find("h"), nullptr);
}

TEST(Json, KeepsPositionsOfValuesAndKeys) {
  Value value = valueOf("{\n  \"a\": 1,\r\n  \"bc\":\t[10,\n 20]\n}");
  EXPECT_EQ(value.position.line, 1);
  EXPECT_EQ(value.position.column, 1);
  const Member *member = value.findMember("bc");
  ASSERT_NE(member, nullptr);
  EXPECT_EQ(member->keyPosition.line, 3);
  EXPECT_EQ(member->keyPosition.column, 3);
  EXPECT_EQ(member->value.position.line, 3);
  EXPECT_EQ(member->value.position.column, 9);
  EXPECT_EQ(member->value.array[1].position.line, 4);
  EXPECT_EQ(member->value.array[1].position.column, 2);
}

TEST(Json, KeepsIntegersExact) {
  Value value = valueOf("[9223372036854775807, -9223372036854775808, "
                        "9223372036854775808, 1.0, 1e3, -0]");
  EXPECT_TRUE(value.array[0].isInteger);
  EXPECT_EQ(value.array[0].integer, std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(value.array[1].isInteger);
  EXPECT_EQ(value.array[1].integer, std::numeric_limits<int64_t>::min());
  EXPECT_FALSE(value.array[2].isInteger);
  EXPECT_EQ(value.array[2].number, 0x1p63);
  EXPECT_FALSE(value.array[3].isInteger);
  EXPECT_FALSE(value.array[4].isInteger);
  EXPECT_EQ(value.array[4].number, 1000.0);
  EXPECT_TRUE(value.array[5].isInteger);
}

TEST(Json, RefusesMalformedNumbers) {
  EXPECT_EQ(errorOf("[01]"), "1:2: number starts with a superfluous '0'");
  EXPECT_EQ(errorOf("[-]"), "1:3: expected a digit after '-', found ']'");
  EXPECT_EQ(errorOf("[1.]"), "1:4: expected a digit after '.', found ']'");
  EXPECT_EQ(errorOf("1e+"),
            "1:4: expected a digit in the exponent, found end of input");
  EXPECT_EQ(errorOf("[.5]"), "1:2: expected a value, found '.'");
  EXPECT_EQ(errorOf("[+1]"), "1:2: expected a value, found '+'");
  EXPECT_EQ(errorOf("0x10"),
            "1:2: expected the end of number '0', found 'x10'");
}

TEST(Json, RefusesNumbersThatNoDoubleHolds) {
  EXPECT_EQ(errorOf("1e999"),
            "1:1: number '1e999' is outside the range of a 64-bit float");
  EXPECT_EQ(errorOf("[-1e999]"),
            "1:2: number '-1e999' is outside the range of a 64-bit float");
  EXPECT_EQ(errorOf(repeat("9", 400)),
            "1:1: number '" + repeat("9", 80) +
                "...' is outside the range of a 64-bit float");
  EXPECT_EQ(valueOf("5e-324").number,
            std::numeric_limits<double>::denorm_min());
}

TEST(Json, RefusesNanAndInfinity) {
  StringRef suffix = " is not a JSON number, expected a finite number or null";
  EXPECT_EQ(errorOf("{\"a\": NaN}"), ("1:7: 'NaN'" + suffix).str());
  EXPECT_EQ(errorOf("[Infinity]"), ("1:2: 'Infinity'" + suffix).str());
  EXPECT_EQ(errorOf("[-Infinity]"), ("1:2: '-Infinity'" + suffix).str());
}

TEST(Json, RefusesDuplicateKeysAndNamesTheFirst) {
  EXPECT_EQ(errorOf("{\"a\": 1,\n \"b\": 2,\n  \"\\u0061\": 3}"),
            "3:3: duplicate key 'a', first written at 1:2");
  // The same key in another object is no duplicate.
  EXPECT_EQ(valueOf("{\"a\": {\"a\": 1}}").find("a")->find("a")->integer, 1);
}

TEST(Json, RefusesWrongPunctuation) {
  EXPECT_EQ(errorOf(""), "1:1: expected a value, found end of input");
  EXPECT_EQ(errorOf("[1 2]"),
            "1:4: expected ',' or ']' after an element, found '2'");
  EXPECT_EQ(errorOf("[1,]"), "1:4: expected a value, found ']'");
  EXPECT_EQ(errorOf("{\"a\": 1,}"),
            "1:9: expected a key in double quotes, found '}'");
  EXPECT_EQ(errorOf("{a: 1}"),
            "1:2: expected a key in double quotes, found 'a'");
  EXPECT_EQ(errorOf("{\"a\" 1}"), "1:6: expected ':' after key 'a', found '1'");
  EXPECT_EQ(errorOf("{\"a\": 1"),
            "1:8: expected ',' or '}' after a member, found end of input");
  EXPECT_EQ(errorOf("1 // x"),
            "1:3: expected end of input after the value, found '/'");
  EXPECT_EQ(errorOf("{}\n{}"),
            "2:1: expected end of input after the value, found '{'");
  EXPECT_EQ(errorOf("True"), "1:1: expected a value, found 'True'");
  EXPECT_EQ(errorOf("nullx"), "1:1: expected a value, found 'nullx'");
  EXPECT_EQ(errorOf(StringRef("1\0", 2)),
            "1:2: expected end of input after the value, found byte 0x00");
}

TEST(Json, ResolvesEscapes) {
  EXPECT_EQ(valueOf(R"("\"\\\/\b\f\n\r\t")").string, "\"\\/\b\f\n\r\t");
  EXPECT_EQ(valueOf(R"("\u00e9\u20AC\ud83d\ude00")").string,
            "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(valueOf(R"("a\u0000b")").string, std::string("a\0b", 3));
}

TEST(Json, RefusesBadStrings) {
  EXPECT_EQ(errorOf("\"abc"),
            "1:1: expected '\"' at the end of the string, found end of input");
  EXPECT_EQ(errorOf("\"a\\x\""),
            "1:3: unknown escape in a string, found 'x' after '\\'");
  EXPECT_EQ(errorOf("\"\\u12g4\""),
            "1:6: expected four hexadecimal digits after '\\u', found 'g4'");
  StringRef lone = "1:2: lone surrogate, expected a pair of '\\u'";
  EXPECT_EQ(errorOf("\"\\ud83d\""), lone);
  EXPECT_EQ(errorOf("\"\\ude00\""), lone);
  EXPECT_EQ(errorOf("\"\\ud83d\\u0041\""), lone);
  EXPECT_EQ(errorOf("\"a\nb\""),
            "1:3: control character byte 0x0A in a string, expected an escape");
}

TEST(Json, RefusesInvalidUtf8WithPosition) {
  EXPECT_EQ(errorOf("\n \"a\xff\""), "2:4: invalid UTF-8, found byte 0xFF");
  // Overlong, a surrogate, cut off, beyond U+10FFFF.
  for (StringRef bad :
       {"\xc0\x80", "\xed\xa0\x80", "\xe2\x82", "\xf4\x90\x80\x80"})
    EXPECT_TRUE(StringRef(errorOf(("\"" + bad + "\"").str()))
                    .starts_with("1:2: invalid UTF-8"));
  EXPECT_TRUE(StringRef(errorOf("\"\xe2\x82")).starts_with("1:2: invalid"));
  EXPECT_EQ(valueOf("\"\xf0\x9f\x98\x80\"").string, "\xf0\x9f\x98\x80");
}

TEST(Json, SkipsByteOrderMark) {
  Value value = valueOf("\xef\xbb\xbf{\"a\": 1}");
  EXPECT_EQ(value.find("a")->integer, 1);
  EXPECT_EQ(value.position.column, 1);
  EXPECT_EQ(errorOf("\xef\xbb\xbf!"), "1:1: expected a value, found '!'");
}

TEST(Json, LimitsDepth) {
  std::string deepest = repeat("[", 256) + repeat("]", 256);
  EXPECT_EQ(valueOf(deepest).kind, Kind::Array);
  EXPECT_EQ(errorOf(repeat("[", 257) + repeat("]", 257)),
            "1:257: nesting is deeper than 256");
  EXPECT_EQ(errorOf(repeat("[", 100000)), "1:257: nesting is deeper than 256");
  EXPECT_EQ(errorOf(repeat("{\"a\":", 100000)),
            "1:1281: nesting is deeper than 256");
}

TEST(Json, LimitsTheNumberOfValues) {
  ParseLimits limits;
  limits.maxValues = 3;
  EXPECT_EQ(errorOf("[1,2,3]", limits), "1:6: more than 3 values");
  limits.maxValues = 4;
  EXPECT_TRUE(succeeded(
      parse("[1,2,3]", [](Position, const llvm::Twine &) {}, limits)));
}

TEST(Json, TakesHugeLines) {
  constexpr size_t size = 100'000'000;
  // One value: accepted.
  EXPECT_EQ(valueOf("\"" + std::string(size, 'x') + "\"").string.size(), size);
  // 50 million values: refused before they fill the memory.
  std::string many = "[" + repeat("1,", size / 2) + "1]";
  EXPECT_EQ(errorOf(many), "1:8388608: more than 4194304 values");
  EXPECT_EQ(errorOf(std::string(size, '9')),
            "1:1: number '" + repeat("9", 80) +
                "...' is outside the range of a 64-bit float");
}

TEST(Json, EveryTruncationIsRefused) {
  StringRef text = R"({"a": [1.5e3, "x\u00e9\n", true, null], "b": {"c": -1}})";
  EXPECT_EQ(valueOf(text).object.size(), 2u);
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(errorOf(text.take_front(size)).empty()) << size;
}

TEST(Json, PrintsSortedAndIndented) {
  Value value = valueOf(R"({"b": [1, {}], "a": {"d": null, "c": []}})");
  EXPECT_EQ(print(value), "{\n  \"a\": {\n    \"c\": [],\n    \"d\": null\n  "
                          "},\n  \"b\": [\n    1,\n    {}\n  ]\n}");
  PrintOptions compact{/*indent=*/0, /*sortKeys=*/false};
  EXPECT_EQ(print(value, compact), R"({"b":[1,{}],"a":{"d":null,"c":[]}})");
}

TEST(Json, PrintedNumbersReadBackTheSame) {
  PrintOptions compact{/*indent=*/0};
  EXPECT_EQ(print(Value::fromNumber(1.0), compact), "1.0");
  EXPECT_EQ(print(Value::fromNumber(0.1), compact), "0.1");
  EXPECT_EQ(print(Value::fromInteger(-5), compact), "-5");
  for (double number : {1.0 / 3.0, 1e300, -0.0, 5e-324, 0x1p63, 123456789.0}) {
    Value copy = valueOf(print(Value::fromNumber(number), compact));
    EXPECT_FALSE(copy.isInteger);
    EXPECT_EQ(copy.number, number);
    EXPECT_EQ(std::signbit(copy.number), std::signbit(number));
  }
  int64_t largest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(valueOf(print(Value::fromInteger(largest))).integer, largest);
}

TEST(Json, PrintedStringsReadBackTheSame) {
  std::string text("\"\\\n\r\t\b\f\0\x01\x1f\x7f/\xc3\xa9", 14);
  EXPECT_EQ(valueOf(print(Value::fromString(text))).string, text);
  EXPECT_EQ(print(Value::fromString(StringRef("\0\x1f", 2))),
            "\"\\u0000\\u001f\"");
}

TEST(Json, SetAddsAndReplaces) {
  Value value = Value::makeObject();
  value.set("a", Value::fromInteger(1));
  value.set("b", Value::fromBool(true));
  value.set("a", Value::fromString("x"));
  EXPECT_EQ(print(value, {/*indent=*/0}), R"({"a":"x","b":true})");
}

TEST(Json, QuoteIsSafeToPrint) {
  EXPECT_EQ(quote("a\x1b[0m\n"), "'a\\1B[0m\\0A'");
  EXPECT_EQ(quote(repeat("x", 81)), "'" + repeat("x", 80) + "...'");
}

} // namespace
