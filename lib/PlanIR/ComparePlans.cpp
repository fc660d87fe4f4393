#include "kerf/PlanIR/PlanFile.h"
#include "kerf/Support/Json.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <vector>

using namespace kerf;

/// Decisions by name, in the order of the text.
struct Decisions {
  std::vector<std::string> names;
  llvm::StringMap<std::string> values;

  void set(const std::string &name, std::string value) {
    if (values.try_emplace(name, value).second)
      names.push_back(name);
  }
  /// "-" for a decision that the plan does not have.
  std::string get(llvm::StringRef name) const {
    auto found = values.find(name);
    return found == values.end() ? "-" : found->second;
  }
};

static std::string onOneLine(const json::Value &value) {
  json::PrintOptions line;
  line.indent = 0;
  return json::print(value, line);
}

/// What a rule is about: its text without what it decides.
static std::string subjectOf(const json::Value &rule) {
  std::string subject;
  for (llvm::StringRef key : {"op", "param", "weight"})
    if (const json::Value *value = rule.find(key))
      subject += (subject.empty() ? "" : " ") + value->string;
  return subject;
}

/// What is left of a rule are its decisions; "at" only tells a reader what the
/// op is.
static void addRule(const json::Value &rule, Decisions &decisions) {
  json::Value rest = json::Value::makeObject();
  for (const json::Member &member : rule.object)
    if (member.key != "op" && member.key != "param" && member.key != "weight" &&
        member.key != "at")
      rest.set(member.key, member.value);
  decisions.set(subjectOf(rule), onOneLine(rest));
}

static Decisions decisionsOf(const json::Value &plan) {
  Decisions decisions;
  for (const json::Member &field : plan.object) {
    if (field.key == "reserve_bytes" || field.key == "checked" ||
        field.key == "priced")
      continue;
    if (field.key == "assign")
      for (const json::Value &rule : field.value.array)
        addRule(rule, decisions);
    else if (field.value.kind == json::Kind::Object)
      for (const json::Member &member : field.value.object)
        decisions.set(field.key + "." + member.key, onOneLine(member.value));
    else
      decisions.set(field.key, onOneLine(field.value));
  }
  return decisions;
}

static std::optional<Decisions>
readDecisions(llvm::StringRef text, llvm::StringRef path, std::string &error) {
  auto root =
      json::parse(text, [&](json::Position at, const llvm::Twine &what) {
        error = (path + ":" + llvm::Twine(at.line) + ":" +
                 llvm::Twine(at.column) + ": error: " + what)
                    .str();
      });
  if (failed(root))
    return std::nullopt;
  if (root->kind == json::Kind::Object)
    return decisionsOf(*root);
  error = (path + ":" + llvm::Twine(root->position.line) + ":" +
           llvm::Twine(root->position.column) +
           ": error: expected an object as a plan, found " +
           json::describeKind(root->kind))
              .str();
  return std::nullopt;
}

std::optional<std::string>
kerf::comparePlans(llvm::StringRef a, llvm::StringRef pathA, llvm::StringRef b,
                   llvm::StringRef pathB, std::string &error) {
  auto first = readDecisions(a, pathA, error);
  auto second = first ? readDecisions(b, pathB, error) : std::nullopt;
  if (!second)
    return std::nullopt;
  std::string text;
  llvm::raw_string_ostream os(text);
  auto show = [&](const std::string &key) {
    std::string own = first->get(key), other = second->get(key);
    if (own != other)
      os << key << ": " << own << " -> " << other << '\n';
  };
  for (const std::string &key : first->names)
    show(key);
  for (const std::string &key : second->names)
    if (!first->values.contains(key))
      show(key);
  return text;
}
