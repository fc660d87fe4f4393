//===- FactorGraphEliminate.cpp - bucket elimination ----------------------===//
//
// The inner loop adds tables that know different subsets of the variables. The
// entries are walked in blocks of the fastest variables; where an entry of the
// block lies in each table is looked up in offsets that are computed once.
//
//===----------------------------------------------------------------------===//

#include "InteractionGraph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>

using namespace kerf;

namespace {
/// At least so many entries are in a block, if there are so many.
constexpr int64_t kBlockEntries = 64;
/// So many costs, each at most kInfiniteCost, add up within int64_t.
constexpr int kSumsWithoutClamp = 7;

/// A table as it is read along a scope that contains its variables.
struct Reader {
  const int64_t *costs;
  int64_t stride = 0;              ///< of the variable that is minimised over
  std::vector<int64_t> inner = {}; ///< offset of each entry of a block
  std::vector<int64_t> outer = {}; ///< offset of each block
  bool constant = true, contiguous = true; ///< in a block
};

/// The combinations of some variables, cut into blocks.
struct Scope {
  const std::vector<int> &domains;
  std::vector<int> variables;
  size_t firstInner; ///< the variables from here make a block
  int64_t blockEntries = 1, blocks = 1;

  Scope(const std::vector<int> &domains, std::vector<int> variables);
  int64_t entries() const { return blockEntries * blocks; }
  Reader read(const CostTable &table, int minimised) const;
};
} // namespace

Scope::Scope(const std::vector<int> &domains, std::vector<int> vars)
    : domains(domains), variables(std::move(vars)),
      firstInner(variables.size()) {
  while (firstInner > 0 && blockEntries < kBlockEntries)
    blockEntries *= domains[variables[--firstInner]];
  for (size_t i = 0; i < firstInner; ++i)
    blocks *= domains[variables[i]];
}

/// The offsets of all combinations of variables with these sizes and strides.
static std::vector<int64_t> offsetsOf(llvm::ArrayRef<int> sizes,
                                      llvm::ArrayRef<int64_t> strides) {
  std::vector<int64_t> offsets = {0};
  for (auto [size, stride] : llvm::zip_equal(sizes, strides)) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * size);
    for (int64_t offset : offsets)
      for (int state = 0; state < size; ++state)
        next.push_back(offset + state * stride);
    offsets = std::move(next);
  }
  return offsets;
}

Reader Scope::read(const CostTable &table, int minimised) const {
  Reader reader{table.costs.data()};
  std::vector<int> sizes;
  std::vector<int64_t> strides(variables.size(), 0);
  for (int variable : variables)
    sizes.push_back(domains[variable]);
  int64_t stride = 1;
  for (int variable : llvm::reverse(table.variables)) {
    if (variable == minimised)
      reader.stride = stride;
    else
      strides[llvm::lower_bound(variables, variable) - variables.begin()] =
          stride;
    stride *= domains[variable];
  }
  auto outerSizes = llvm::ArrayRef(sizes).take_front(firstInner);
  auto outerStrides = llvm::ArrayRef(strides).take_front(firstInner);
  reader.outer = offsetsOf(outerSizes, outerStrides);
  reader.inner = offsetsOf(llvm::ArrayRef(sizes).drop_front(firstInner),
                           llvm::ArrayRef(strides).drop_front(firstInner));
  for (auto [i, offset] : llvm::enumerate(reader.inner)) {
    reader.constant &= offset == 0;
    reader.contiguous &= offset == static_cast<int64_t>(i);
  }
  return reader;
}

/// sum[i] += the costs of a block.
static void addBlock(const Reader &reader, int64_t base, int64_t *sum,
                     int64_t entries) {
  const int64_t *costs = reader.costs + base;
  if (reader.constant) {
    for (int64_t i = 0; i < entries; ++i)
      sum[i] += costs[0];
  } else if (reader.contiguous) {
    for (int64_t i = 0; i < entries; ++i)
      sum[i] += costs[i];
  } else {
    const int64_t *offsets = reader.inner.data();
    for (int64_t i = 0; i < entries; ++i)
      sum[i] += costs[offsets[i]];
  }
}

/// best[i] = min(best[i], sum[i])
static void lower(int64_t *best, const int64_t *sum, int64_t entries) {
  for (int64_t i = 0; i < entries; ++i)
    best[i] = sum[i] < best[i] ? sum[i] : best[i];
}

/// Adds the readers up over one block at one state of the minimised variable.
static void sumBlock(llvm::ArrayRef<Reader> readers, int64_t block, int state,
                     llvm::MutableArrayRef<int64_t> sum) {
  std::fill(sum.begin(), sum.end(), 0);
  int64_t entries = sum.size();
  int added = 0;
  for (const Reader &reader : readers) {
    if (added == kSumsWithoutClamp) {
      for (int64_t &entry : sum)
        entry = std::min(entry, kInfiniteCost);
      added = 1; // the sum so far
    }
    addBlock(reader, reader.outer[block] + state * reader.stride, sum.data(),
             entries);
    ++added;
  }
}

/// The sum of the tables, minimised over one of their variables.
static CostTable minimise(const std::vector<int> &domains,
                          llvm::ArrayRef<CostTable> tables, int variable) {
  std::vector<int> variables;
  for (const CostTable &table : tables)
    llvm::append_range(variables, table.variables);
  llvm::sort(variables);
  variables.erase(llvm::unique(variables), variables.end());
  llvm::erase(variables, variable);

  Scope scope(domains, std::move(variables));
  std::vector<Reader> readers;
  for (const CostTable &table : tables)
    readers.push_back(scope.read(table, variable));
  CostTable message{scope.variables,
                    std::vector<int64_t>(scope.entries(), kInfiniteCost)};
  std::vector<int64_t> sum(scope.blockEntries);
  for (int64_t block = 0; block < scope.blocks; ++block)
    for (int state = 0; state < domains[variable]; ++state) {
      sumBlock(readers, block, state, sum);
      lower(&message.costs[block * scope.blockEntries], sum.data(), sum.size());
    }
  return message;
}

/// table += other, whose variables are among the table's.
static void addTo(const std::vector<int> &domains, CostTable &table,
                  const CostTable &other) {
  Scope scope(domains, table.variables);
  Reader reader = scope.read(other, -1);
  int64_t *costs = table.costs.data();
  for (int64_t block = 0; block < scope.blocks; ++block) {
    addBlock(reader, reader.outer[block], costs, scope.blockEntries);
    for (int64_t i = 0; i < scope.blockEntries; ++i)
      costs[i] = std::min(costs[i], kInfiniteCost);
    costs += scope.blockEntries;
  }
}

/// Adds each table to one that knows all its variables, if there is one.
static void merge(const std::vector<int> &domains,
                  std::vector<CostTable> &tables) {
  llvm::sort(tables, [](const CostTable &a, const CostTable &b) {
    return std::pair(b.variables.size(), b.variables) <
           std::pair(a.variables.size(), a.variables);
  });
  std::vector<CostTable> merged;
  for (CostTable &table : tables) {
    auto into = llvm::find_if(merged, [&](const CostTable &larger) {
      return std::includes(larger.variables.begin(), larger.variables.end(),
                           table.variables.begin(), table.variables.end());
    });
    if (into != merged.end())
      addTo(domains, *into, table);
    else
      merged.push_back(std::move(table));
  }
  tables = std::move(merged);
}

namespace {
/// Tables by the variable of theirs that is eliminated first.
struct Buckets {
  const FactorGraph &graph;
  const std::vector<int> &order;
  std::vector<int> position; ///< in the order
  std::vector<std::vector<CostTable>> tables;
  int64_t constant = 0;

  Buckets(const FactorGraph &graph, const std::vector<int> &order);
  void add(CostTable table);
  void eliminateAll();
  std::vector<int> bestStates() const;
};
} // namespace

Buckets::Buckets(const FactorGraph &graph, const std::vector<int> &order)
    : graph(graph), order(order), position(order.size()), tables(order.size()) {
  for (auto [i, variable] : llvm::enumerate(order))
    position[variable] = i;
  for (CostTable table : graph.tables) {
    llvm::erase_if(table.variables,
                   [&](int v) { return graph.domains[v] == 1; });
    add(std::move(table));
  }
}

void Buckets::add(CostTable table) {
  if (table.variables.empty()) {
    constant = addCost(constant, table.costs[0]);
    return;
  }
  int first = *llvm::min_element(
      table.variables, [&](int a, int b) { return position[a] < position[b]; });
  tables[first].push_back(std::move(table));
}

void Buckets::eliminateAll() {
  for (int variable : order) {
    if (tables[variable].empty())
      continue;
    merge(graph.domains, tables[variable]);
    add(minimise(graph.domains, tables[variable], variable));
  }
}

std::vector<int> Buckets::bestStates() const {
  std::vector<int> states(order.size(), 0);
  for (int variable : llvm::reverse(order)) {
    int64_t best = kInfiniteCost;
    int bestState = 0;
    for (int state = 0; state < graph.domains[variable]; ++state) {
      states[variable] = state;
      int64_t cost = 0;
      for (const CostTable &table : tables[variable])
        cost = addCost(cost, table.at(graph.domains, states));
      if (cost < best) {
        best = cost;
        bestState = state;
      }
    }
    states[variable] = bestState;
  }
  return states;
}

Elimination kerf::eliminate(const FactorGraph &graph,
                            const std::vector<int> &order, int64_t budget,
                            int64_t maxKept) {
  assert(order.size() == graph.domains.size() && "order of all variables");
  Elimination result{simulateElimination(graph, order)};
  result.gaveUp = result.work > budget || result.kept > maxKept;
  if (result.gaveUp)
    return result;
  Buckets buckets(graph, order);
  buckets.eliminateAll();
  result.cost = buckets.constant;
  if (result.cost < kInfiniteCost)
    result.states = buckets.bestStates();
  return result;
}

/// Looking for dominated states reads every table about this often: worth it
/// only for graphs whose elimination computes more.
constexpr int64_t kReadsOfDominance = 128;

/// Whether leaving states out can pay.
static bool isHard(const FactorGraph &graph, int64_t work) {
  int64_t entries = 0;
  for (const CostTable &table : graph.tables)
    entries += table.costs.size();
  return work / kReadsOfDominance > entries;
}

Elimination kerf::eliminate(const FactorGraph &graph, int64_t budget,
                            int64_t maxKept) {
  std::vector<int> order = eliminationOrder(graph);
  if (!isHard(graph, simulateElimination(graph, order).work))
    return eliminate(graph, order, budget, maxKept);
  KeptStates kept = undominated(graph);
  FactorGraph left = restrictTo(graph, kept);
  Elimination result = eliminate(left, eliminationOrder(left), budget, maxKept);
  for (auto [state, names] : llvm::zip(result.states, kept))
    state = names[state];
  return result;
}
