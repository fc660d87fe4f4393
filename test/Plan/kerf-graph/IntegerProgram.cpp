#include "IntegerProgram.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace kerf;

/// The largest cost in the program. Solvers compare with absolute tolerances of
/// 1e-7 to 1e-5, so costs of 1e7 are compared to about twelve digits.
constexpr double kLargestCoefficient = 1e7;

static std::string stateName(int variable, int state) {
  return "x_" + std::to_string(variable) + "_" + std::to_string(state);
}

namespace {
struct ProgramText {
  const FactorGraph &graph;
  double scale = 1;
  std::map<std::string, int64_t> objective;
  std::vector<std::string> constraints;

  explicit ProgramText(const FactorGraph &graph);
  void addUnary(const CostTable &table);
  void addTable(int number, const CostTable &table);
  void addOneState(int variable);
  std::string print() const;
};
} // namespace

ProgramText::ProgramText(const FactorGraph &graph) : graph(graph) {
  int64_t largest = 0;
  for (const CostTable &table : graph.tables)
    for (int64_t cost : table.costs)
      if (cost < kInfiniteCost)
        largest = std::max(largest, cost);
  if (largest > kLargestCoefficient)
    scale = kLargestCoefficient / largest;
  for (int v = 0, e = graph.domains.size(); v < e; ++v)
    addOneState(v);
  for (auto [number, table] : llvm::enumerate(graph.tables)) {
    if (table.variables.size() == 1)
      addUnary(table);
    else if (!table.variables.empty())
      addTable(number, table);
    else if (table.costs[0] >= kInfiniteCost) // no assignment
      constraints.push_back(stateName(0, 0) + " = 2");
  }
}

void ProgramText::addOneState(int variable) {
  std::vector<std::string> names;
  for (int s = 0; s < graph.domains[variable]; ++s) {
    names.push_back(stateName(variable, s));
    objective[names.back()] += 0;
  }
  constraints.push_back(llvm::join(names, "\n + ") + " = 1");
}

void ProgramText::addUnary(const CostTable &table) {
  for (auto [state, cost] : llvm::enumerate(table.costs)) {
    std::string name = stateName(table.variables[0], state);
    if (cost < kInfiniteCost)
      objective[name] = addCost(objective[name], cost);
    else
      constraints.push_back(name + " = 0");
  }
}

void ProgramText::addTable(int number, const CostTable &table) {
  std::map<std::pair<int, int>, std::string> sums;
  for (int variable : table.variables)
    for (int s = 0; s < graph.domains[variable]; ++s)
      sums[{variable, s}] = stateName(variable, s);
  for (auto [entry, cost] : llvm::enumerate(table.costs)) {
    if (cost >= kInfiniteCost)
      continue;
    std::string name =
        "y_" + std::to_string(number) + "_" + std::to_string(entry);
    objective[name] = cost;
    int64_t rest = entry;
    for (int variable : llvm::reverse(table.variables)) {
      sums[{variable, rest % graph.domains[variable]}] += "\n - " + name;
      rest /= graph.domains[variable];
    }
  }
  for (auto &[place, sum] : sums)
    constraints.push_back(sum + " = 0");
}

std::string ProgramText::print() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "Minimize\n cost:";
  for (auto &[name, cost] : objective)
    out << llvm::format(" + %.17g %s\n", cost * scale, name.c_str());
  out << "Subject To\n";
  for (auto [number, constraint] : llvm::enumerate(constraints))
    out << " c" << number << ": " << constraint << '\n';
  out << "Binaries\n";
  for (int v = 0, e = graph.domains.size(); v < e; ++v)
    for (int s = 0; s < graph.domains[v]; ++s)
      out << ' ' << stateName(v, s) << '\n';
  out << "End\n";
  return text;
}

std::string writeIntegerProgram(const FactorGraph &graph) {
  return ProgramText(graph).print();
}

std::optional<std::vector<int>> readSolution(const FactorGraph &graph,
                                             const std::string &text) {
  auto [status, lines] = llvm::StringRef(text).split('\n');
  if (status.contains("nfeasible"))
    return std::vector<int>();
  if (!status.starts_with("Optimal"))
    return std::nullopt;
  // Columns: index, name, value, reduced cost; of all that are not zero.
  std::vector<int> states(graph.domains.size(), -1);
  for (llvm::StringRef line : llvm::split(lines, '\n')) {
    llvm::SmallVector<llvm::StringRef, 4> words;
    llvm::SplitString(line, words);
    double value;
    unsigned variable, state;
    if (words.size() < 3 || !words[1].consume_front("x_") ||
        words[2].getAsDouble(value) || value < 0.5)
      continue;
    auto [left, right] = words[1].split('_');
    if (left.getAsInteger(10, variable) || right.getAsInteger(10, state) ||
        variable >= states.size())
      return std::nullopt;
    states[variable] = state;
  }
  if (llvm::is_contained(states, -1))
    return std::nullopt;
  return states;
}
