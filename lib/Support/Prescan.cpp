//===- Prescan.cpp - Check text before MLIR parses it ---------------------===//
//
// One pass with a stack of open brackets. A closing ')', ']' or '}' also
// closes the '<' inside it, and '>' closes only a '<' that is innermost: so a
// stray '<' or '>' neither adds up over the file nor hides a real bracket.
//
//===----------------------------------------------------------------------===//

#include "kerf/Support/Prescan.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <limits>

using namespace kerf;
using llvm::StringRef;

namespace {

class Scanner {
public:
  Scanner(StringRef text, int maxDepth) : text(text), maxDepth(maxDepth) {}

  std::optional<PrescanError> scan();
  PrescanError makeError(size_t offset, std::string message) const;

private:
  void skipComment();
  void skipString();
  void close(char bracket);
  char peek(size_t offset) const {
    return offset < text.size() ? text[offset] : '\0';
  }

  StringRef text;
  int maxDepth;
  size_t cursor = 0;
  llvm::SmallVector<char, 256> open;
};

} // namespace

PrescanError Scanner::makeError(size_t offset, std::string message) const {
  auto clamp = [](size_t n) {
    return static_cast<int>(
        std::min<size_t>(n, std::numeric_limits<int>::max()));
  };
  StringRef before = text.take_front(offset);
  // npos + 1 is 0, the begin of the first line.
  size_t lineBegin = before.rfind('\n') + 1;
  return {clamp(before.count('\n') + 1), clamp(offset - lineBegin + 1),
          std::move(message)};
}

/// Stops at the newline.
void Scanner::skipComment() {
  cursor = std::min(text.find('\n', cursor), text.size());
}

/// Stops after the closing quote. A newline ends a string, too: the parser
/// refuses it there, so what follows must not stay hidden.
void Scanner::skipString() {
  for (++cursor; cursor < text.size(); ++cursor) {
    char c = text[cursor];
    if (c == '\n')
      return;
    if (c == '"') {
      ++cursor;
      return;
    }
    if (c == '\\' && peek(cursor + 1) != '\n')
      ++cursor;
  }
  cursor = std::min(cursor, text.size());
}

void Scanner::close(char bracket) {
  if (bracket == '>') {
    if (!open.empty() && open.back() == '<')
      open.pop_back();
    return;
  }
  while (!open.empty() && open.back() == '<')
    open.pop_back();
  if (!open.empty())
    open.pop_back();
}

std::optional<PrescanError> Scanner::scan() {
  while (cursor < text.size()) {
    char c = text[cursor];
    if (c == '"') {
      skipString();
      continue;
    }
    if (c == '/' && peek(cursor + 1) == '/') {
      skipComment();
      continue;
    }
    bool isArrow = c == '>' && cursor > 0 && text[cursor - 1] == '-';
    bool isComparison = (c == '<' || c == '>') && peek(cursor + 1) == '=';
    if (!isArrow && !isComparison) {
      if (StringRef(")]}>").contains(c)) {
        close(c);
      } else if (StringRef("([{<").contains(c)) {
        if (static_cast<int>(open.size()) >= maxDepth)
          return makeError(cursor, "brackets are nested deeper than " +
                                       llvm::itostr(maxDepth));
        open.push_back(c);
      }
    }
    ++cursor;
  }
  return std::nullopt;
}

std::optional<PrescanError> kerf::prescanText(StringRef text, int maxDepth) {
  if (text.starts_with("ML\xefR"))
    return PrescanError{1, 1, "bytecode input is not accepted"};
  Scanner scanner(text, maxDepth);
  // NUL first: MLIR's lexer takes it for the end of the text in places.
  size_t nul = text.find('\0');
  if (nul != StringRef::npos)
    return scanner.makeError(nul, "NUL byte in the text");
  return scanner.scan();
}
