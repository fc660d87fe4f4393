//===- YamlTree.cpp - YAML as values with positions -----------------------===//
//
// LLVM's nodes are read from the text while they are walked, each once. The
// walk stops at the first error, so nothing is skipped by LLVM's own recursion,
// which has no bound of depth; ours has. Kerf's `prescanText` knows the
// brackets and comments of MLIR and would refuse fine YAML, so it has no use
// here.
//
//===----------------------------------------------------------------------===//

#include "YamlTree.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Casting.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"

#include <algorithm>
#include <tuple>

using namespace kerf;
using namespace kerf::cluster;
using llvm::StringRef;

/// Largest description. Shipped ones have about 2 kB.
static constexpr size_t kMaxBytes = 1000 * 1000;
/// Deepest nesting; the format itself needs 4.
static constexpr int kMaxDepth = 256;
/// Problems that are told. Nobody reads more, and hostile text has many.
static constexpr size_t kMaxProblems = 64;
/// Problems that are kept until they are sorted.
static constexpr size_t kMaxKept = 1024;

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

bool Problems::isFull() const { return diagnostics.size() - first >= kMaxKept; }

void Problems::add(MachineDiagnostic diagnostic) {
  if (isFull())
    ++dropped;
  else
    diagnostics.push_back(std::move(diagnostic));
}

void Problems::error(Place place, std::string message,
                     std::vector<std::string> notes) {
  ++errors;
  add({true, place.line, place.column, std::move(message), std::move(notes)});
}

void Problems::warning(Place place, std::string message) {
  add({false, place.line, place.column, std::move(message), {}});
}

void Problems::finish() {
  auto begin = diagnostics.begin() + first;
  std::sort(begin, diagnostics.end(),
            [](const MachineDiagnostic &a, const MachineDiagnostic &b) {
              return std::tie(a.line, a.column, a.message) <
                     std::tie(b.line, b.column, b.message);
            });
  if (diagnostics.size() - first <= kMaxProblems)
    return;
  size_t more = diagnostics.size() - first - kMaxProblems + dropped;
  diagnostics.resize(first + kMaxProblems);
  diagnostics.back().notes.push_back("and " + std::to_string(more) +
                                     " more problems");
}

//===----------------------------------------------------------------------===//
// Walk
//===----------------------------------------------------------------------===//

const YamlValue *YamlValue::get(StringRef key) const {
  for (const YamlMember &member : members)
    if (member.key == key)
      return &member.value;
  return nullptr;
}

namespace {

class Walker {
public:
  Walker(StringRef text, Problems &problems)
      : text(text), problems(problems), stream(text, sources, false) {
    sources.setDiagHandler(takeSyntaxError, this);
    lineBegins.push_back(0);
    for (size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n')
        lineBegins.push_back(i + 1);
  }

  std::optional<YamlValue> walk();

private:
  bool walkValue(llvm::yaml::Node *node, Place fallback, int depth,
                 YamlValue &value);
  bool walkScalar(llvm::yaml::ScalarNode &node, YamlValue &value);
  bool walkMap(llvm::yaml::MappingNode &node, int depth, YamlValue &value);
  bool walkMember(llvm::yaml::KeyValueNode &node, int depth,
                  YamlMember &member);
  bool walkList(llvm::yaml::SequenceNode &node, int depth, YamlValue &value);
  bool fail(Place place, const char *message);

  static void takeSyntaxError(const llvm::SMDiagnostic &diagnostic, void *self);
  Place placeOf(const char *pointer) const;
  Place openingOf(const llvm::yaml::Node &node) const;

  StringRef text;
  Problems &problems;
  llvm::SourceMgr sources;
  llvm::yaml::Stream stream;
  std::vector<size_t> lineBegins; ///< offsets
};

} // namespace

void Walker::takeSyntaxError(const llvm::SMDiagnostic &diagnostic, void *self) {
  auto *walker = static_cast<Walker *>(self);
  if (walker->problems.hasErrors())
    return;
  Place place{std::max(diagnostic.getLineNo(), 1),
              std::max(diagnostic.getColumnNo() + 1, 1)};
  std::string message = diagnostic.getMessage().str();
  if (!message.empty())
    message[0] = llvm::toLower(message[0]);
  walker->problems.error(place, "not YAML: " + message);
}

bool Walker::fail(Place place, const char *message) {
  problems.error(place, message);
  return false;
}

Place Walker::placeOf(const char *pointer) const {
  size_t offset = std::clamp<ptrdiff_t>(pointer - text.data(), 0, text.size());
  auto next = std::upper_bound(lineBegins.begin(), lineBegins.end(), offset);
  return {static_cast<int>(next - lineBegins.begin()),
          static_cast<int>(offset - next[-1]) + 1};
}

/// LLVM's range of a map or list begins behind its opening bracket.
Place Walker::openingOf(const llvm::yaml::Node &node) const {
  const char *begin = node.getSourceRange().Start.getPointer();
  const char *opening = begin;
  while (opening > text.begin() && llvm::isSpace(opening[-1]))
    --opening;
  bool isBracket =
      opening > text.begin() && (opening[-1] == '{' || opening[-1] == '[');
  return placeOf(isBracket ? opening - 1 : begin);
}

bool Walker::walkScalar(llvm::yaml::ScalarNode &node, YamlValue &value) {
  llvm::SmallString<64> storage;
  value.kind = YamlKind::Scalar;
  value.place = placeOf(node.getSourceRange().Start.getPointer());
  value.text = node.getValue(storage).str();
  return !stream.failed();
}

bool Walker::walkMember(llvm::yaml::KeyValueNode &node, int depth,
                        YamlMember &member) {
  llvm::yaml::Node *key = node.getKey();
  if (!key || stream.failed())
    return false;
  YamlValue name;
  Place place = placeOf(key->getSourceRange().Start.getPointer());
  auto *scalar = llvm::dyn_cast<llvm::yaml::ScalarNode>(key);
  if (!scalar)
    return fail(place, "expected the name of a field");
  if (!walkScalar(*scalar, name))
    return false;
  member.key = std::move(name.text);
  member.keyPlace = name.place;
  return walkValue(node.getValue(), name.place, depth, member.value);
}

bool Walker::walkMap(llvm::yaml::MappingNode &node, int depth,
                     YamlValue &value) {
  value.kind = YamlKind::Map;
  value.place = openingOf(node);
  for (llvm::yaml::KeyValueNode &entry : node)
    if (!walkMember(entry, depth, value.members.emplace_back()))
      return false;
  return !stream.failed();
}

bool Walker::walkList(llvm::yaml::SequenceNode &node, int depth,
                      YamlValue &value) {
  value.kind = YamlKind::List;
  value.place = openingOf(node);
  for (llvm::yaml::Node &item : node)
    if (!walkValue(&item, value.place, depth, value.items.emplace_back()))
      return false;
  return !stream.failed();
}

bool Walker::walkValue(llvm::yaml::Node *node, Place fallback, int depth,
                       YamlValue &value) {
  if (!node || stream.failed())
    return false;
  value.place = fallback;
  // The name of an anchor or alias is behind its '&' or '*'.
  if (StringRef anchor = node->getAnchor(); !anchor.empty())
    return fail(placeOf(anchor.data() - 1),
                "anchors are not part of a description");
  if (auto *alias = llvm::dyn_cast<llvm::yaml::AliasNode>(node))
    return fail(placeOf(alias->getName().data() - 1),
                "aliases are not part of a description");
  if (StringRef tag = node->getRawTag(); !tag.empty())
    return fail(placeOf(tag.data()), "tags are not part of a description");
  Place place = placeOf(node->getSourceRange().Start.getPointer());
  if (depth == kMaxDepth)
    return fail(place, "nested deeper than 256");
  if (auto *scalar = llvm::dyn_cast<llvm::yaml::ScalarNode>(node))
    return walkScalar(*scalar, value);
  if (auto *map = llvm::dyn_cast<llvm::yaml::MappingNode>(node))
    return walkMap(*map, depth + 1, value);
  if (auto *list = llvm::dyn_cast<llvm::yaml::SequenceNode>(node))
    return walkList(*list, depth + 1, value);
  if (llvm::isa<llvm::yaml::NullNode>(node))
    return true;
  return fail(fallback, "blocks of text are not part of a description");
}

std::optional<YamlValue> Walker::walk() {
  YamlValue root;
  llvm::yaml::document_iterator document = stream.begin();
  if (document == stream.end())
    return stream.failed() ? std::nullopt : std::optional(root);
  if (!walkValue(document->getRoot(), Place(), 0, root)) {
    // LLVM gives no root, and tells nothing, for some texts without any value.
    if (!problems.hasErrors())
      problems.error(Place(), "not YAML: expected a map");
    return std::nullopt;
  }
  ++document;
  if (stream.failed())
    return std::nullopt;
  if (document == stream.end())
    return root;
  llvm::yaml::Node *second = document->getRoot();
  problems.error(second ? placeOf(second->getSourceRange().Start.getPointer())
                        : Place(),
                 "expected one document, found a second one");
  return std::nullopt;
}

std::optional<YamlValue> kerf::cluster::readYaml(StringRef text,
                                                 Problems &problems) {
  if (text.size() > kMaxBytes) {
    problems.error({}, "description of " + std::to_string(text.size()) +
                           " bytes is larger than 1 MB");
    return std::nullopt;
  }
  if (size_t nul = text.find('\0'); nul != StringRef::npos) {
    StringRef before = text.take_front(nul);
    int line = before.count('\n') + 1;
    problems.error({line, static_cast<int>(nul - (before.rfind('\n') + 1)) + 1},
                   "NUL byte, expected text");
    return std::nullopt;
  }
  // LLVM's scanner looks one byte beyond the end.
  std::string terminated = text.str();
  return Walker(terminated, problems).walk();
}
