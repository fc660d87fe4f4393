#include "LayerNames.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace kerf;

/// The number at the beginning of `text`, which digits alone make.
static std::optional<int64_t> leadingNumber(llvm::StringRef text) {
  llvm::StringRef digits = text.take_while(llvm::isDigit);
  int64_t number = 0;
  if (digits.empty() || digits.size() > 9 || digits.getAsInteger(10, number))
    return std::nullopt;
  llvm::StringRef rest = text.drop_front(digits.size());
  // `h.3.weight` and `h_3`, but not `conv1d`.
  if (!rest.empty() && llvm::isAlnum(rest.front()))
    return std::nullopt;
  return number;
}

std::optional<int64_t> Stack::numberOf(llvm::StringRef name) const {
  return name.starts_with(start) ? leadingNumber(name.drop_front(start.size()))
                                 : std::nullopt;
}

llvm::StringRef Stack::suffixOf(llvm::StringRef name) const {
  return name.drop_front(start.size()).drop_while(llvm::isDigit);
}

bool Stack::isLater(llvm::StringRef name, llvm::StringRef later,
                    int64_t by) const {
  auto a = numberOf(name), b = numberOf(later);
  return a && b && *b == *a + by && suffixOf(name) == suffixOf(later);
}

std::string Stack::templateOf(llvm::StringRef name, int64_t period,
                              int64_t offset) const {
  std::string index = period == 1 ? "i" : std::to_string(period) + "*i";
  if (offset)
    index += "+" + std::to_string(offset);
  return start + "{" + index + "}" + suffixOf(name).str();
}

std::string Stack::withoutNumber(llvm::StringRef name, int64_t layer,
                                 int64_t period) const {
  if (period > 1)
    return start + std::to_string(layer) + suffixOf(name).str();
  return llvm::StringRef(start).rtrim("._").str() + suffixOf(name).str();
}

/// The prefixes of a name that end where a number begins, the shortest first.
static std::vector<std::pair<std::string, int64_t>>
numbersIn(llvm::StringRef name) {
  std::vector<std::pair<std::string, int64_t>> found;
  for (size_t at = 0; at < name.size(); ++at) {
    bool isStart = at == 0 || name[at - 1] == '.' || name[at - 1] == '_';
    auto number = isStart ? leadingNumber(name.drop_front(at)) : std::nullopt;
    if (number)
      found.push_back({name.take_front(at).str(), *number});
  }
  return found;
}

std::vector<Stack> kerf::findStacks(ModelOp model) {
  std::map<std::string, std::set<int64_t>> all, numbers;
  std::map<std::string, int64_t> parameters;
  for (ParamOp param : model.getBody().getOps<ParamOp>())
    for (auto &[prefix, number] : numbersIn(param.getName()))
      all[prefix].insert(number);
  // The outermost number that differs among parameters is the layer's.
  for (ParamOp param : model.getBody().getOps<ParamOp>())
    for (auto &[prefix, number] : numbersIn(param.getName())) {
      if (all[prefix].size() < 2)
        continue;
      numbers[prefix].insert(number);
      ++parameters[prefix];
      break;
    }
  std::vector<std::string> order;
  for (auto &[prefix, found] : numbers)
    if (found.size() > 1)
      order.push_back(prefix);
  llvm::sort(order, [&](const std::string &a, const std::string &b) {
    return parameters[a] != parameters[b] ? parameters[a] > parameters[b]
                                          : a < b;
  });
  std::vector<Stack> stacks;
  for (const std::string &prefix : order)
    stacks.emplace_back(prefix, numbers[prefix]);
  return stacks;
}
