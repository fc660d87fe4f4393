//===- SampleTextTest.cpp - prompts and what is printed of tokens ---------===//

#include "kerf/Train/sample/SampleText.h"
#include "kerf/Train/Text.h"

#include "gtest/gtest.h"

using namespace kerf::runtime;

static std::string parsed(const std::string &text, bool takesText,
                          SamplePrompt &prompt) {
  std::string error;
  bool isRead = parsePrompt(text, takesText, 300, prompt, error);
  EXPECT_EQ(isRead, error.empty());
  return error;
}

TEST(SampleTextTest, ReadsPrompts) {
  SamplePrompt text, numbers;
  EXPECT_EQ(parsed("a\xc3\xa9", true, text), "");
  EXPECT_TRUE(text.isText);
  EXPECT_EQ(text.tokens, (std::vector<int32_t>{'a', 0xc3, 0xa9}));
  EXPECT_EQ(parsed("tokens:0,299,7", false, numbers), "");
  EXPECT_FALSE(numbers.isText);
  EXPECT_EQ(numbers.tokens, (std::vector<int32_t>{0, 299, 7}));
}

TEST(SampleTextTest, RefusesOtherPrompts) {
  SamplePrompt prompt;
  EXPECT_EQ(parsed("", true, prompt),
            "'--sample' is empty: the model goes on from one token at least");
  EXPECT_NE(parsed("text", false, prompt).find("are no bytes"),
            std::string::npos);
  EXPECT_EQ(parsed("tokens:300", true, prompt),
            "'--sample': token 300 is not in the vocabulary of 300");
  for (const char *wrong : {"tokens:", "tokens:1,", "tokens:,1", "tokens:1.5",
                            "tokens:99999999999999999999"})
    EXPECT_NE(parsed(wrong, true, prompt).find("expected token numbers"),
              std::string::npos)
        << wrong;
}

/// What is printed of bytes.
static std::string shown(const std::string &bytes) {
  SampleText text(/*isText=*/true);
  std::string all;
  for (unsigned char byte : bytes)
    all += text.add(byte);
  return all + text.finish();
}

TEST(SampleTextTest, PutsLinesBehindAGutter) {
  EXPECT_EQ(shown("ab\n\ncd\te"), "  | ab\n  | \n  | cd\te\n");
  EXPECT_EQ(shown("ab\n"), "  | ab\n");
  EXPECT_EQ(shown(""), "");
}

TEST(SampleTextTest, ShowsNothingThatATerminalObeys) {
  EXPECT_EQ(shown("a\x1b[2Jb\r\x7f"), "  | a\\x1b[2Jb\\x0d\\x7f\n");
  EXPECT_EQ(shown("\xc2\x9b"), "  | \\u009b\n");
  EXPECT_EQ(shown("\xe2\x82\xac"), "  | \xe2\x82\xac\n");
}

TEST(SampleTextTest, ReplacesWhatIsNoUtf8) {
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(shown("\xff"), "  | " + bad + "\n");
  EXPECT_EQ(shown("\xe2\x82"), "  | " + bad + bad + "\n");
  EXPECT_EQ(shown("\xe2\x82z"), "  | " + bad + bad + "z\n");
  // Longer than needed, a surrogate, above U+10FFFF.
  EXPECT_EQ(shown("\xc0\xaf"), "  | " + bad + bad + "\n");
  EXPECT_EQ(shown("\xed\xa0\x80"), "  | " + bad + bad + bad + "\n");
  EXPECT_EQ(shown("\xf4\x90\x80\x80"), "  | " + bad + bad + bad + bad + "\n");
  EXPECT_EQ(jsonQuote("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
}

// A character is printed with its last byte, not before.
TEST(SampleTextTest, WaitsForWholeCharacters) {
  SampleText text(/*isText=*/true);
  EXPECT_EQ(text.add(0xf0), "");
  EXPECT_EQ(text.add(0x9f), "");
  EXPECT_EQ(text.add(0x8c), "");
  EXPECT_EQ(text.add(0x8d), "  | \xf0\x9f\x8c\x8d");
  EXPECT_EQ(text.add(0xc3), "");
  EXPECT_EQ(text.add(300), "\xef\xbf\xbd<300>");
  EXPECT_EQ(text.finish(), "\n");
}

TEST(SampleTextTest, ListsNumbers) {
  SampleText text(/*isText=*/false);
  std::string all;
  for (int32_t token = 100; token < 140; ++token)
    all += text.add(token);
  all += text.finish();
  EXPECT_EQ(all.substr(0, 16), "  | 100,101,102,");
  std::string list;
  size_t longest = 0;
  for (size_t at = 0; at < all.size();) {
    size_t end = all.find('\n', at);
    longest = std::max(longest, end - at);
    EXPECT_EQ(all.substr(at, 4), "  | ");
    list += all.substr(at + 4, end - at - 4);
    at = end + 1;
  }
  EXPECT_LE(longest, 80u);
  EXPECT_EQ(list.size(), 40 * 4 - 1u);
  EXPECT_EQ(list.substr(list.size() - 8), ",138,139");
}
