//===- Prescan.cpp - Check text before MLIR parses it ---------------------===//
//
// One pass with a stack of open brackets. A closing ')', ']' or '}' also
// closes the '<' inside it, and '>' closes only a '<' that is innermost: so a
// stray '<' or '>' neither adds up over the file nor hides a real bracket.
//
// An alias (`#a = [#b, #b]`) stands for its text with the aliases in it put in:
// that text is printed, and walked by recursion. An alias is defined before
// another one uses it, so its size and depth are known where it is used. A
// definition ends at the first line end outside brackets.
//
//===----------------------------------------------------------------------===//

#include "kerf/Support/Prescan.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <limits>

using namespace kerf;
using llvm::StringRef;

/// Longest name, number or shape: the parser looks at each 'x' of a shape and
/// then at the whole rest of the word.
static constexpr size_t kMaxWord = 1024;
/// Longest text of an affine map, whose parser recurses without brackets.
static constexpr size_t kMaxAffineMap = 4096;
/// Longest text that one alias, and all aliases together, may stand for.
static constexpr int64_t kMaxAlias = int64_t(1) << 20;
static constexpr int64_t kMaxAliases = int64_t(1) << 26;

namespace {

/// What an alias stands for.
struct Alias {
  int64_t sizeBytes = 0;
  int depth = 0;
};

/// The alias that is being defined.
struct Definition {
  StringRef name;
  size_t begin;
  Alias value;
  bool hasText = false;
};

class Scanner {
public:
  Scanner(StringRef text, int maxDepth) : text(text), maxDepth(maxDepth) {}

  std::optional<PrescanError> scan();
  PrescanError makeError(size_t offset, std::string message) const;

private:
  using Error = std::optional<PrescanError>;
  void skipComment();
  void skipString();
  Error takeWord();
  Error takeAlias();
  Error useAlias(size_t begin, StringRef name);
  Error takeBracket(char c);
  Error openBracket(char c);
  void endDefinition();
  void close(char bracket);
  bool startsDefinition(size_t offset) const;
  char peek(size_t offset) const {
    return offset < text.size() ? text[offset] : '\0';
  }

  StringRef text;
  int maxDepth;
  size_t cursor = 0;
  llvm::SmallVector<char, 256> open;
  /// Begin of an affine map and its place in `open`; a place of 0 is none.
  size_t affineBegin = 0, affinePlace = 0;
  llvm::StringMap<Alias> aliases;
  std::optional<Definition> definition;
  int64_t usedBytes = 0; ///< text that aliases outside definitions stand for
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

//===----------------------------------------------------------------------===//
// Words and aliases
//===----------------------------------------------------------------------===//

static bool isWordCharacter(char c) { return llvm::isAlnum(c) || c == '_'; }

std::optional<PrescanError> Scanner::takeWord() {
  size_t begin = cursor;
  while (cursor < text.size() && isWordCharacter(text[cursor]))
    ++cursor;
  if (cursor - begin <= kMaxWord)
    return std::nullopt;
  return makeError(begin, "word of " + llvm::utostr(cursor - begin) +
                              " bytes, expected at most " +
                              llvm::utostr(kMaxWord));
}

/// True for a '=' after spaces.
bool Scanner::startsDefinition(size_t offset) const {
  while (peek(offset) == ' ' || peek(offset) == '\t')
    ++offset;
  return open.empty() && peek(offset) == '=' && peek(offset + 1) != '=';
}

void Scanner::endDefinition() {
  if (!definition)
    return;
  definition->value.sizeBytes += cursor - definition->begin;
  aliases[definition->name] = definition->value;
  definition.reset();
}

/// A '#' or '!' with the name after it.
std::optional<PrescanError> Scanner::takeAlias() {
  size_t begin = cursor++;
  while (cursor < text.size() && (isWordCharacter(text[cursor]) ||
                                  StringRef(".$-").contains(text[cursor])))
    ++cursor;
  StringRef name = text.slice(begin, cursor);
  if (startsDefinition(cursor)) {
    endDefinition();
    cursor = text.find('=', cursor) + 1;
    definition = Definition{name, cursor, {}};
    return std::nullopt;
  }
  return useAlias(begin, name);
}

std::optional<PrescanError> Scanner::useAlias(size_t begin, StringRef name) {
  auto known = aliases.find(name);
  if (known == aliases.end())
    return std::nullopt;
  const Alias &used = known->second;
  if (!definition) {
    usedBytes += used.sizeBytes;
    if (usedBytes <= kMaxAliases)
      return std::nullopt;
    return makeError(begin, "aliases stand for more than " +
                                llvm::itostr(kMaxAliases) + " bytes of text");
  }
  Alias &value = definition->value;
  value.sizeBytes += used.sizeBytes;
  int depth = static_cast<int>(open.size()) + used.depth;
  value.depth = std::max(value.depth, depth);
  if (value.sizeBytes > kMaxAlias)
    return makeError(begin, "alias '" + definition->name.str() +
                                "' stands for more than " +
                                llvm::itostr(kMaxAlias) + " bytes of text");
  if (value.depth > maxDepth)
    return makeError(begin, "alias '" + definition->name.str() +
                                "' is nested deeper than " +
                                llvm::itostr(maxDepth));
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Brackets
//===----------------------------------------------------------------------===//

std::optional<PrescanError> Scanner::openBracket(char c) {
  if (static_cast<int>(open.size()) >= maxDepth)
    return makeError(cursor, "brackets are nested deeper than " +
                                 llvm::itostr(maxDepth));
  open.push_back(c);
  StringRef before = text.take_front(cursor);
  if (affinePlace == 0 &&
      (before.ends_with("affine_map") || before.ends_with("affine_set"))) {
    affineBegin = cursor;
    affinePlace = open.size();
  }
  return std::nullopt;
}

/// Any other character than those that the scan handles itself.
std::optional<PrescanError> Scanner::takeBracket(char c) {
  bool isArrow = c == '>' && cursor > 0 && text[cursor - 1] == '-';
  bool isComparison = (c == '<' || c == '>') && peek(cursor + 1) == '=';
  if (isArrow || isComparison)
    return std::nullopt;
  if (StringRef("([{<").contains(c))
    return openBracket(c);
  if (StringRef(")]}>").contains(c))
    close(c);
  if (open.size() < affinePlace)
    affinePlace = 0;
  return std::nullopt;
}

std::optional<PrescanError> Scanner::scan() {
  while (cursor < text.size()) {
    char c = text[cursor];
    Error error;
    if (c == '\n' && definition && definition->hasText && open.empty())
      endDefinition();
    if (c == '/' && peek(cursor + 1) == '/') {
      skipComment();
      continue;
    }
    if (definition && !llvm::isSpace(c))
      definition->hasText = true;
    if (affinePlace > 0 && cursor - affineBegin > kMaxAffineMap)
      return makeError(affineBegin, "affine map of more than " +
                                        llvm::utostr(kMaxAffineMap) + " bytes");
    if (c == '"') {
      skipString();
    } else if (isWordCharacter(c)) {
      error = takeWord();
    } else if (c == '#' || c == '!') {
      error = takeAlias();
    } else {
      error = takeBracket(c);
      ++cursor;
    }
    if (error)
      return error;
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
