//===- PrescanTest.cpp - Check text before MLIR parses it -----------------===//

#include "kerf/Support/Prescan.h"

#include "gtest/gtest.h"

using kerf::PrescanError;
using kerf::prescanText;
using llvm::StringRef;

namespace {

/// "line:column: message", or "" when the text passes.
std::string scan(StringRef text, int maxDepth) {
  std::optional<PrescanError> error = prescanText(text, maxDepth);
  if (!error)
    return "";
  return std::to_string(error->line) + ":" + std::to_string(error->column) +
         ": " + error->message;
}

TEST(Prescan, CountsEveryKindOfBracket) {
  for (StringRef text :
       {"((()))", "[[[]]]", "{{{}}}", "a<b<c<d>>>", "([<>])"}) {
    EXPECT_EQ(scan(text, 3), "") << text.str();
    EXPECT_NE(scan(text, 2), "") << text.str();
  }
}

TEST(Prescan, PointsAtTheFirstBracketTooMany) {
  EXPECT_EQ(scan("(\n ([", 2), "2:3: brackets are nested deeper than 2");
  EXPECT_EQ(scan("[[", 1), "1:2: brackets are nested deeper than 1");
}

TEST(Prescan, SideBySideIsNotDeep) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += "{ f(x) : tensor<4xf32> }\n";
  EXPECT_EQ(scan(text, 2), "");
}

TEST(Prescan, ArrowsAndComparisonsAreNoBrackets) {
  // Were '->' a closing bracket, the second '<' would be at depth one.
  EXPECT_NE(scan("<->-><", 1), "");
  EXPECT_EQ(scan("<>-><", 1), "");
  EXPECT_EQ(scan("d0 <= 1 d0 <= 2 d0 <= 3", 1), "");
  EXPECT_NE(scan("<>=<", 1), "");
}

TEST(Prescan, StrayAnglesNeitherAddUpNorHideBrackets) {
  EXPECT_EQ(scan("(a < b) (a < b) (a < b)", 2), "");
  EXPECT_NE(scan("(>>>(>>>(", 2), "");
  EXPECT_EQ(scan(">>>>(())", 2), "");
  EXPECT_EQ(scan(")]})()", 1), "");
}

TEST(Prescan, SkipsCommentsAndStrings) {
  EXPECT_EQ(scan("// ((((\n()", 1), "");
  EXPECT_EQ(scan("\"((((\" ()", 1), "");
  EXPECT_EQ(scan("\"a\\\"((((\" ()", 1), "");
  EXPECT_EQ(scan("\"a\\\\\" ()", 1), "");
  EXPECT_EQ(scan("\"//\" ()", 1), "");
  EXPECT_EQ(scan("// no newline ((", 1), "");
}

TEST(Prescan, CountsAfterCommentsAndStrings) {
  EXPECT_EQ(scan("// \" \n((", 1), "2:2: brackets are nested deeper than 1");
  EXPECT_NE(scan("\"a\\\\\" ((", 1), "");
  EXPECT_NE(scan("/ ((", 1), "");
  // The parser ends an unterminated string at the newline.
  EXPECT_NE(scan("\"abc\n((", 1), "");
  EXPECT_NE(scan("\"abc\\\n((", 1), "");
  EXPECT_EQ(scan("\"abc", 1), "");
  EXPECT_EQ(scan("\"abc\\", 1), "");
}

TEST(Prescan, DefaultLimitIs256) {
  EXPECT_FALSE(prescanText(std::string(256, '[')));
  std::optional<PrescanError> error = prescanText(std::string(200000, '['));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->line, 1);
  EXPECT_EQ(error->column, 257);
}

TEST(Prescan, RefusesNulBytesEverywhere) {
  EXPECT_EQ(scan(StringRef("a\n\0b", 4), 9), "2:1: NUL byte in the text");
  EXPECT_EQ(scan(StringRef("\"\0\"", 3), 9), "1:2: NUL byte in the text");
  EXPECT_EQ(scan(StringRef("// \0", 4), 9), "1:4: NUL byte in the text");
}

TEST(Prescan, RefusesBytecode) {
  EXPECT_EQ(scan(StringRef("ML\xefR\0\1", 6), 9),
            "1:1: bytecode input is not accepted");
  EXPECT_EQ(scan("ML\xef", 9), "");
}

TEST(Prescan, PassesOrdinaryText) {
  EXPECT_EQ(scan("", 0), "");
  EXPECT_EQ(scan("func.func @f(%a: tensor<?x4xf32, #s<[{\"x\"}]>>) -> (i1) {\n"
                 "  return // done\n}\n",
                 5),
            "");
}

} // namespace
