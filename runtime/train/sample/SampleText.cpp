//===- SampleText.cpp - tokens of a sample as text ------------------------===//

#include "kerf/Train/sample/SampleText.h"

#include "kerf/Train/Text.h"

#include <algorithm>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static constexpr std::string_view numbersPrefix = "tokens:";

/// "1,2,3" behind the prefix.
static bool parseNumbers(std::string_view list, SamplePrompt &prompt,
                         int64_t vocabulary, std::string &error) {
  for (size_t at = 0; at <= list.size();) {
    size_t comma = std::min(list.find(',', at), list.size());
    std::string_view text = list.substr(at, comma - at);
    int64_t id = 0;
    if (!parseInteger(text, id)) {
      error = "'--sample': expected token numbers as tokens:1,2,3, found " +
              quote(text);
      return false;
    }
    if (id < 0 || id >= vocabulary) {
      error = "'--sample': token " + std::to_string(id) +
              " is not in the vocabulary of " + withCommas(vocabulary);
      return false;
    }
    prompt.tokens.push_back(static_cast<int32_t>(id));
    at = comma + 1;
  }
  return true;
}

bool kerf::runtime::parsePrompt(const std::string &text, bool takesText,
                                int64_t vocabulary, SamplePrompt &prompt,
                                std::string &error) {
  if (text.rfind(numbersPrefix, 0) == 0)
    return parseNumbers(std::string_view(text).substr(numbersPrefix.size()),
                        prompt, vocabulary, error);
  if (!takesText) {
    error = "'--sample' is a text, and the model's " + withCommas(vocabulary) +
            " tokens are no bytes: give their numbers, --sample=tokens:1,2,3, "
            "which examples/tokenize.py --encode prints";
    return false;
  }
  if (text.empty()) {
    error = "'--sample' is empty: the model goes on from one token at least";
    return false;
  }
  prompt.isText = true;
  for (unsigned char byte : text)
    prompt.tokens.push_back(byte);
  return true;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static constexpr const char *gutter = "  | ";

/// Begins a line where one has ended.
std::string SampleText::put(const std::string &shown) {
  if (shown.empty())
    return "";
  std::string head = isLineStart ? gutter : "";
  isLineStart = shown == "\n";
  return head + shown;
}

/// A character of valid UTF-8, as a terminal may show it.
static std::string shownCharacter(const std::string &character) {
  auto first = static_cast<unsigned char>(character[0]);
  if (character == "\n" || character == "\t")
    return character;
  if (character.size() == 1 && (first < 0x20 || first == 0x7f))
    return format("\\x%02x", first);
  // U+0080 to U+009F control terminals, too.
  bool isControl = character.size() == 2 && first == 0xc2 &&
                   static_cast<unsigned char>(character[1]) < 0xa0;
  return isControl ? format("\\u%04x", static_cast<unsigned char>(character[1]))
                   : character;
}

std::string SampleText::take(bool isLast) {
  constexpr size_t longest = 4; // of a character
  std::string shown;
  while (!waiting.empty()) {
    size_t length = utf8Length(waiting);
    if (length == 0 && !isLast && waiting.size() < longest &&
        mayBeginUtf8(waiting))
      break;
    shown += put(length ? shownCharacter(waiting.substr(0, length))
                        : "\xef\xbf\xbd");
    waiting.erase(0, std::max<size_t>(length, 1));
  }
  return shown;
}

std::string SampleText::add(int32_t token) {
  if (!isText) {
    constexpr size_t width = 72;
    std::string shown = std::to_string(token);
    if (!isFirst)
      shown = "," + shown;
    isFirst = false;
    bool isFull = column + shown.size() > width;
    column = isFull ? shown.size() - 1 : column + shown.size();
    return isFull ? put(",") + put("\n") + put(shown.substr(1)) : put(shown);
  }
  if (token > 255) {
    std::string shown = take(/*isLast=*/true);
    return shown + put("<" + std::to_string(token) + ">");
  }
  waiting += static_cast<char>(token);
  return take(/*isLast=*/false);
}

std::string SampleText::finish() {
  std::string shown = take(/*isLast=*/true);
  return shown + (isLineStart ? "" : "\n");
}
