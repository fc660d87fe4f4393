//===- Lexer.cpp - tokens of PTX ------------------------------------------===//

#include "Lexer.h"
#include "Memory.h"

#include <cctype>
#include <cstdlib>

using namespace kerf::sim;

static bool startsName(char c) {
  return isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         c == '%' || c == '.';
}
static bool isInName(char c) {
  return startsName(c) || isdigit(static_cast<unsigned char>(c));
}

void Lexer::skipBlanks() {
  while (position < text.size()) {
    char c = text[position];
    if (c == '\n')
      ++line;
    if (isspace(static_cast<unsigned char>(c))) {
      ++position;
    } else if (text.substr(position, 2) == "//") {
      position = std::min(text.find('\n', position), text.size());
    } else if (text.substr(position, 2) == "/*") {
      size_t end = std::min(text.find("*/", position + 2), text.size() - 2);
      for (; position < end + 2; ++position)
        line += text[position] == '\n';
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skipBlanks();
  size_t begin = position;
  current = {Token::End, {}, line};
  if (begin == text.size() || text[begin] == '\0')
    return;
  char c = text[begin];
  if (startsName(c)) {
    current.kind = Token::Word;
    while (position < text.size() &&
           (isInName(text[position]) || text.substr(position, 2) == "::"))
      position += text[position] == ':' ? 2 : 1;
  } else if (isdigit(static_cast<unsigned char>(c))) {
    current.kind = Token::Number;
    while (position < text.size() &&
           (isalnum(static_cast<unsigned char>(text[position])) ||
            text[position] == '.'))
      ++position;
  } else if (c == '"') {
    current.kind = Token::Text;
    position = std::min(text.find('"', begin + 1), text.size() - 1) + 1;
    current.text = text.substr(begin + 1, position - begin - 2);
    return;
  } else {
    current.kind = Token::Punctuation;
    ++position;
  }
  current.text = text.substr(begin, position - begin);
}

Token Lexer::take() {
  Token token = current;
  advance();
  return token;
}

bool Lexer::accept(std::string_view word) {
  if (!at(word))
    return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view word) {
  if (!accept(word))
    fail("'" + std::string(word) + "'");
}

std::string Lexer::name(const char *what) {
  if (current.kind != Token::Word)
    fail(what);
  return std::string(take().text);
}

Number Lexer::number() {
  bool negative = accept("-");
  if (current.kind != Token::Number)
    fail("a number");
  std::string digits(take().text);
  bool isHex = digits.size() > 2 && digits[0] == '0' &&
               std::string_view("fFdD").find(digits[1]) != std::string::npos;
  if (isHex) {
    Number number{strtoull(digits.c_str() + 2, nullptr, 16), true};
    if (negative)
      number.bits ^= digits.size() > 10 ? 1ull << 63 : 1ull << 31;
    return number;
  }
  uint64_t value = digits.starts_with("0b")
                       ? strtoull(digits.c_str() + 2, nullptr, 2)
                       : strtoull(digits.c_str(), nullptr, 0);
  return {negative ? 0 - value : value, false};
}

void Lexer::skipLine() {
  int first = current.line;
  while (current.kind != Token::End && current.line == first)
    advance();
}

void Lexer::fail(const std::string &expected) const {
  std::string found = current.kind == Token::End
                          ? "the end"
                          : "'" + std::string(current.text) + "'";
  throw Trap{InvalidPtx, "line " + std::to_string(current.line) + ": found " +
                             found + ", expected " + expected};
}
