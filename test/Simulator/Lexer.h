//===- Lexer.h - tokens of PTX --------------------------------------------===//

#ifndef KERF_SIMULATOR_LEXER_H
#define KERF_SIMULATOR_LEXER_H

#include <cstdint>
#include <string>
#include <string_view>

namespace kerf::sim {

struct Token {
  enum Kind : uint8_t { End, Word, Number, Text, Punctuation } kind = End;
  std::string_view text; ///< of Text: without quotes
  int line = 0;
};

/// A number as bits: integers are sign-extended, floats those of their format.
struct Number {
  uint64_t bits = 0;
  bool isFloat = false;
};

/// Splits a module into words (names, directives, mnemonics with their
/// modifiers), numbers, quoted text and single characters, without comments.
class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) { advance(); }

  const Token &peek() const { return current; }
  Token take();
  bool at(std::string_view word) const { return current.text == word; }
  /// Takes the next token if it is `word`.
  bool accept(std::string_view word);
  /// Takes `word` or throws.
  void expect(std::string_view word);
  /// Takes a name or throws; `what` names it for the message.
  std::string name(const char *what);
  /// Takes a number, perhaps with a sign, or throws.
  Number number();
  /// Skips to the end of the current line.
  void skipLine();
  /// Throws Trap{InvalidPtx}: line, what was found, `expected`.
  [[noreturn]] void fail(const std::string &expected) const;

private:
  void advance();
  void skipBlanks();
  std::string_view text;
  size_t position = 0;
  int line = 1;
  Token current;
};

} // namespace kerf::sim

#endif // KERF_SIMULATOR_LEXER_H
