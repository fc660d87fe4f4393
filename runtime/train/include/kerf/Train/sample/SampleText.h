//===- SampleText.h - tokens of a sample as text ----------------*- C++ -*-===//
//
// A model over bytes reads and writes text. The tokens of others have meaning
// for their tokenizer alone, and are numbers here.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_SAMPLETEXT_H
#define KERF_TRAIN_SAMPLETEXT_H

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime {

/// What a sample goes on from.
struct SamplePrompt {
  std::vector<int32_t> tokens;
  bool isText = false; ///< its tokens are bytes
};

/// Reads a text, whose bytes are tokens where `takesText`, or "tokens:1,2,3".
/// Ids are below `vocabulary`. Fails, saying what was expected.
[[nodiscard]] bool parsePrompt(const std::string &text, bool takesText,
                               int64_t vocabulary, SamplePrompt &prompt,
                               std::string &error);

/// Makes lines for a terminal of tokens as they come, each behind "  | ".
class SampleText {
public:
  explicit SampleText(bool isText) : isText(isText) {}

  /// What is to be printed for one more token: of a text nothing as long as it
  /// may be a part of a longer character. Control characters but tab and line
  /// break become \xNN, bytes that are no UTF-8 the replacement character, ids
  /// above 255 <ID>.
  std::string add(int32_t token);
  /// The rest, with the end of the line.
  std::string finish();

private:
  /// What is known of `waiting`; with `isLast` all of it.
  std::string take(bool isLast);
  std::string put(const std::string &shown);

  bool isText;
  bool isLineStart = true, isFirst = true;
  size_t column = 0;   ///< of numbers
  std::string waiting; ///< bytes of a character that is not whole
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_SAMPLETEXT_H
