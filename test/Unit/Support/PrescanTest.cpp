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

TEST(Prescan, RefusesLongWords) {
  EXPECT_EQ(scan(std::string(1024, 'x') + " y", 9), "");
  EXPECT_EQ(scan(" " + std::string(1025, 'x'), 9),
            "1:2: word of 1025 bytes, expected at most 1024");
  EXPECT_EQ(scan("\"" + std::string(1025, 'x') + "\"", 9), "");
}

TEST(Prescan, RefusesLongAffineMaps) {
  std::string minus(4097, '-');
  EXPECT_EQ(scan(("affine_map<" + minus + ">"), 9),
            "1:11: affine map of more than 4096 bytes");
  EXPECT_EQ(scan("affine_set<(" + minus + ")>", 9),
            "1:11: affine map of more than 4096 bytes");
  EXPECT_EQ(scan("affine_map<()> " + minus, 9), "");
  EXPECT_EQ(scan("other<" + minus + ">", 9), "");
}

TEST(Prescan, CountsTheDepthOfAliases) {
  // #c is [[[1]]].
  std::string chain = "#a = [1]\n#b = [#a]\n#c =\n [#b]\n";
  EXPECT_EQ(scan(chain, 2), "");
  EXPECT_EQ(scan(chain + "#d = [#c]", 2),
            "5:7: alias '#d' is nested deeper than 2");
  EXPECT_EQ(scan(chain + "op #c #c", 2), "");
  EXPECT_EQ(scan("!a = f32\n!b = t<!a>\n!c = t<!b>", 1),
            "3:8: alias '!c' is nested deeper than 1");
}

TEST(Prescan, CountsTheTextOfAliases) {
  std::string doubling = "#a0 = [1]\n";
  for (int i = 1; i < 64; ++i) {
    std::string before = "#a" + std::to_string(i - 1);
    doubling +=
        "#a" + std::to_string(i) + " = [" + before + ", " + before + "]\n";
  }
  EXPECT_NE(scan(doubling, 256).find("stands for more than 1048576 bytes"),
            std::string::npos);
  // Uses add up, too, but a definition's cost once.
  std::string large = "#a = \"" + std::string(1 << 19, 'x') + "\"\n";
  std::string uses;
  for (int i = 0; i < 129; ++i)
    uses += "op #a\n";
  EXPECT_EQ(scan(large + "op #a\n", 9), "");
  EXPECT_EQ(scan(large + uses, 9),
            "129:4: aliases stand for more than 67108864 bytes of text");
}

TEST(Prescan, PassesOrdinaryText) {
  EXPECT_EQ(scan("", 0), "");
  EXPECT_EQ(scan("func.func @f(%a: tensor<?x4xf32, #s<[{\"x\"}]>>) -> (i1) {\n"
                 "  return // done\n}\n",
                 5),
            "");
}

} // namespace
