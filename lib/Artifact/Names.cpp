//===- Names.cpp - names of parameters and enumerators --------------------===//

#include "kerf/Artifact/Check.h"

#include <charconv>
#include <vector>

using namespace kerf::artifact;

namespace {
/// `{a*i+b}`, `{e}` or `{k,v}` found in a pattern.
struct Hole {
  size_t begin, end; ///< of the text with its braces
  bool isStack;
  int64_t scale = 1, offset = 0;
  std::vector<std::string_view> names; ///< of a stack; empty: numbers
};
} // namespace

static bool parseNumber(std::string_view text, int64_t &number) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  constexpr int64_t limit = 1 << 20;
  return error == std::errc() && end == text.data() + text.size() &&
         number >= 0 && number < limit;
}

/// Parses names between commas; false if one is empty.
static bool parseNames(std::string_view text,
                       std::vector<std::string_view> &names) {
  while (true) {
    size_t comma = text.find(',');
    names.push_back(text.substr(0, comma));
    if (names.back().empty())
      return false;
    if (comma == std::string_view::npos)
      return true;
    text.remove_prefix(comma + 1);
  }
}

/// Parses the text between braces: `i`, `2*i`, `i+1`, `2*i+1`, `e` or `k,v`.
static bool parseHole(std::string_view text, Hole &hole) {
  bool isList = text.find(',') != std::string_view::npos;
  hole.isStack = text == "e" || isList;
  if (hole.isStack)
    return !isList || parseNames(text, hole.names);
  size_t at = text.find('i');
  if (at == std::string_view::npos)
    return false;
  std::string_view before = text.substr(0, at), after = text.substr(at + 1);
  if (!before.empty() &&
      (before.back() != '*' ||
       !parseNumber(before.substr(0, before.size() - 1), hole.scale)))
    return false;
  if (!after.empty() &&
      (after.front() != '+' || !parseNumber(after.substr(1), hole.offset)))
    return false;
  return hole.scale > 0;
}

static bool findHoles(std::string_view pattern, std::vector<Hole> &holes) {
  size_t at = 0;
  while (true) {
    size_t open = pattern.find_first_of("{}", at);
    if (open == std::string_view::npos)
      return true;
    size_t close = pattern.find_first_of("{}", open + 1);
    if (pattern[open] != '{' || close == std::string_view::npos ||
        pattern[close] != '}')
      return false;
    Hole hole{open, close + 1, false, 1, 0, {}};
    if (!parseHole(pattern.substr(open + 1, close - open - 1), hole))
      return false;
    holes.push_back(hole);
    at = close + 1;
  }
}

std::string kerf::artifact::expandName(std::string_view pattern,
                                       int64_t iteration, int64_t member) {
  std::vector<Hole> holes;
  if (!findHoles(pattern, holes))
    return std::string(pattern);
  std::string name;
  size_t at = 0;
  for (const Hole &hole : holes) {
    name += pattern.substr(at, hole.begin - at);
    if (!hole.isStack)
      name += std::to_string(hole.scale * iteration + hole.offset);
    else if (member < 0 ||
             (!hole.names.empty() && member >= std::ssize(hole.names)))
      name += pattern.substr(hole.begin, hole.end - hole.begin);
    else if (hole.names.empty())
      name += std::to_string(member);
    else
      name += hole.names[member];
    at = hole.end;
  }
  return name += pattern.substr(at);
}

NameHoles kerf::artifact::holesOf(std::string_view pattern) {
  std::vector<Hole> holes;
  NameHoles found;
  found.valid = findHoles(pattern, holes);
  for (const Hole &hole : holes) {
    found.valid &= !(hole.isStack && found.stack);
    (hole.isStack ? found.stack : found.iteration) = true;
    found.names += std::ssize(hole.names);
  }
  return found;
}

const char *kerf::artifact::dtypeName(uint32_t dtype) {
  static const char *const names[KERF_DTYPE_COUNT] = {
      "f32", "bf16", "f16", "i32", "i1", "f64", "i8", "f8e4m3", "f8e5m2"};
  return dtype < KERF_DTYPE_COUNT ? names[dtype] : "?";
}

const char *kerf::artifact::opcodeName(uint32_t opcode) {
  static const char *const names[KERF_OP_COUNT] = {
      "launch",         "matmul",     "attention",      "attention_backward",
      "grouped_matmul", "copy",       "zero",           "loop",
      "all_reduce",     "all_gather", "reduce_scatter", "all_to_all",
      "take",           "rotate",     "send",           "receive",
      "wait",           "stop_if"};
  return opcode < KERF_OP_COUNT ? names[opcode] : "?";
}

bool kerf::artifact::isMessage(uint32_t opcode) {
  return opcode == KERF_OP_SEND || opcode == KERF_OP_RECEIVE;
}

bool kerf::artifact::isCollective(uint32_t opcode) {
  return opcode >= KERF_OP_ALL_REDUCE && opcode <= KERF_OP_ROTATE &&
         opcode != KERF_OP_TAKE;
}

const char *kerf::artifact::bufferClassName(uint32_t bufferClass) {
  static const char *const names[KERF_CLASS_COUNT] = {
      "parameters",  "masters",     "optimizer state", "gradients",
      "activations", "temporaries", "workspaces",      "inputs and outputs"};
  return bufferClass < KERF_CLASS_COUNT ? names[bufferClass] : "?";
}

const char *kerf::artifact::roleName(uint32_t role) {
  static const char *const names[KERF_ROLE_COUNT] = {
      "none", "tokens", "targets",       "segments",  "positions",
      "seed", "step",   "learning_rate", "loss_scale"};
  return role < KERF_ROLE_COUNT ? names[role] : "?";
}
