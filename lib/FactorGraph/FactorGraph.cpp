//===- FactorGraph.cpp - tables, text, and trying everything --------------===//

#include "kerf/FactorGraph/FactorGraph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <cassert>
#include <numeric>

using namespace kerf;

int FactorGraph::addVariable(int states) {
  domains.push_back(states);
  return static_cast<int>(domains.size()) - 1;
}

/// Steps through all combinations of `sizes`, the last fastest; false at the
/// end.
static bool advance(std::vector<int> &states, const std::vector<int> &sizes) {
  for (size_t i = states.size(); i-- > 0;) {
    if (++states[i] < sizes[i])
      return true;
    states[i] = 0;
  }
  return false;
}

void FactorGraph::addCosts(std::vector<int> variables,
                           std::vector<int64_t> costs) {
  if (llvm::is_sorted(variables)) {
    tables.push_back({std::move(variables), std::move(costs)});
    return;
  }
  std::vector<int64_t> strides(variables.size(), 1);
  for (size_t i = variables.size(); i-- > 1;)
    strides[i - 1] = strides[i] * domains[variables[i]];
  std::vector<size_t> from(variables.size());
  std::iota(from.begin(), from.end(), 0);
  llvm::sort(from,
             [&](size_t a, size_t b) { return variables[a] < variables[b]; });

  CostTable table;
  std::vector<int> sizes, states(variables.size(), 0);
  for (size_t i : from) {
    table.variables.push_back(variables[i]);
    sizes.push_back(domains[variables[i]]);
  }
  table.costs.reserve(costs.size());
  do {
    int64_t offset = 0;
    for (auto [state, i] : llvm::zip_equal(states, from))
      offset += state * strides[i];
    table.costs.push_back(costs[offset]);
  } while (advance(states, sizes));
  tables.push_back(std::move(table));
}

int64_t FactorGraph::evaluate(const std::vector<int> &states) const {
  int64_t total = 0;
  for (const CostTable &table : tables)
    total = addCost(total, table.at(domains, states));
  return total;
}

// ---- Consistency ------------------------------------------------------------

/// The number of entries over `variables`; at most kInfiniteCost.
static int64_t entriesOf(const std::vector<int> &domains,
                         const std::vector<int> &variables) {
  int64_t entries = 1;
  for (int variable : variables) {
    if (entries > kInfiniteCost / domains[variable])
      return kInfiniteCost;
    entries *= domains[variable];
  }
  return entries;
}

/// What is wrong with a table; "" if nothing.
static std::string checkTable(const std::vector<int> &domains,
                              const CostTable &table) {
  for (auto [i, variable] : llvm::enumerate(table.variables)) {
    if (variable < 0 || variable >= static_cast<int>(domains.size()))
      return "unknown variable " + std::to_string(variable);
    if (i && table.variables[i - 1] >= variable)
      return "variables do not ascend";
  }
  int64_t entries = entriesOf(domains, table.variables);
  if (entries != static_cast<int64_t>(table.costs.size()))
    return "expected " + std::to_string(entries) + " costs, found " +
           std::to_string(table.costs.size());
  for (int64_t cost : table.costs)
    if (cost < 0 || cost > kInfiniteCost)
      return "cost " + std::to_string(cost) + " is out of range";
  return "";
}

std::string FactorGraph::check() const {
  for (auto [variable, states] : llvm::enumerate(domains))
    if (states < 1)
      return "variable " + std::to_string(variable) + " has no state";
  for (auto [number, table] : llvm::enumerate(tables))
    if (std::string wrong = checkTable(domains, table); !wrong.empty())
      return "table " + std::to_string(number) + ": " + wrong;
  return "";
}

// ---- Text -------------------------------------------------------------------

std::string FactorGraph::print() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "domains";
  for (int states : domains)
    out << ' ' << states;
  out << '\n';
  for (const CostTable &table : tables) {
    out << "table";
    for (int variable : table.variables)
      out << ' ' << variable;
    out << ':';
    for (int64_t cost : table.costs)
      if (cost >= kInfiniteCost)
        out << " inf";
      else
        out << ' ' << cost;
    out << '\n';
  }
  return text;
}

/// Reads numbers (and "inf" as kInfiniteCost) up to the end of the text.
template <typename T>
static bool readNumbers(llvm::StringRef text, std::vector<T> &numbers) {
  for (llvm::StringRef word : llvm::split(text, ' ')) {
    word = word.trim();
    T number;
    if (word.empty())
      continue;
    if (sizeof(T) == 8 && word == "inf")
      number = static_cast<T>(kInfiniteCost);
    else if (word.getAsInteger(10, number))
      return false;
    numbers.push_back(number);
  }
  return true;
}

/// Reads one line; what is wrong with it, "" if nothing.
static std::string readLine(llvm::StringRef line, FactorGraph &graph) {
  if (line.consume_front("domains")) {
    if (!graph.domains.empty() || !graph.tables.empty())
      return "'domains' must come once, before the tables";
    return readNumbers(line, graph.domains) ? graph.check()
                                            : "expected numbers of states";
  }
  if (!line.consume_front("table"))
    return "expected 'domains' or 'table'";
  auto [variables, costs] = line.split(':');
  CostTable table;
  if (!readNumbers(variables, table.variables))
    return "expected numbers of variables before ':'";
  if (!readNumbers(costs, table.costs))
    return "expected costs after ':'";
  std::string wrong = checkTable(graph.domains, table);
  graph.tables.push_back(std::move(table));
  return wrong;
}

std::optional<FactorGraph> kerf::parseFactorGraph(const std::string &text,
                                                  std::string *error) {
  FactorGraph graph;
  int number = 0;
  for (llvm::StringRef line : llvm::split(text, '\n')) {
    ++number;
    line = line.trim();
    if (line.empty() || line.starts_with("#"))
      continue;
    std::string wrong = readLine(line, graph);
    if (wrong.empty())
      continue;
    if (error)
      *error = "line " + std::to_string(number) + ": " + wrong;
    return std::nullopt;
  }
  return graph;
}

// ---- Trying everything ------------------------------------------------------

Elimination kerf::enumerate(const FactorGraph &graph) {
  std::vector<int> all(graph.domains.size());
  std::iota(all.begin(), all.end(), 0);
  Elimination result;
  result.work = entriesOf(graph.domains, all);
  result.gaveUp = result.work > int64_t(1) << 24;
  if (result.gaveUp)
    return result;
  std::vector<int> states(graph.domains.size(), 0);
  do {
    int64_t cost = graph.evaluate(states);
    if (cost < result.cost) {
      result.cost = cost;
      result.states = states;
    }
  } while (advance(states, graph.domains));
  return result;
}
