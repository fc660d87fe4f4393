//===- FactorGraphMinimise.cpp - a sum of tables, minimised ---------------===//
//
// The inner variables make a block of entries; the outer ones are walked like
// an odometer. In a block a table is one cost for each state of the minimised
// variable, if it knows no inner variable, or else a row for each state. Rows
// whose entries do not lie side by side are copied; outer variables that such
// tables do not know turn fastest, so that a copy serves many blocks.
//
// Which variables are inner decides what that costs: few tables should have
// rows, and few of them should be copied. Several choices are rated.
//
// Example: tables T(s, a, b) and U(s, b, c), minimised over s. Inner: c. Each
// block is min over s of the cost T(s, a, b) and the row of U at (s, b).
//
//===----------------------------------------------------------------------===//

#include "FactorGraphMinimise.h"

#include "kerf/FactorGraph/FactorGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>
#include <vector>

using namespace kerf;

namespace {
/// A block has so many entries, if there are as many; which variables it has
/// is chosen with care for sums of `kWorthChoosing` entries.
constexpr int64_t kLeastEntries = 8, kBlockEntries = 64, kWorthChoosing = 4096;
/// What things cost, in entries of a row that are added: an entry that is
/// copied, a block, and a table's cost of a state in a block.
constexpr int64_t kCostOfCopy = 12, kCostOfBlock = 60, kCostOfState = 6;

using PositionList = llvm::SmallVector<int, 8>;
using Steps = llvm::SmallVector<int64_t, 8>;

/// A table as it is walked.
struct Reader {
  const int64_t *costs = nullptr; ///< of the block that is read
  Steps steps;                    ///< of each variable of the sum; 0: not known
  int64_t stateStep = 0;
  int64_t entries = 1;
  bool hasRow = false, copies = false;
  std::vector<int64_t> offsets;        ///< of a block's entries, if it copies
  std::vector<int64_t> copy;           ///< [states, entries]
  const int64_t *copiedFrom = nullptr; ///< the block that `copy` is of
};

/// Positions of a sum's variables, the last fastest.
struct Blocks {
  PositionList outer, inner;
  int64_t blocks = 1, entries = 1; ///< entries of a block
};

/// How a sum is walked.
class Walk {
public:
  Walk(llvm::ArrayRef<int> domains, llvm::ArrayRef<TableView> tables,
       int variable);
  /// Chooses what is cheapest. `order` is when each variable is eliminated.
  void choose(llvm::ArrayRef<int> order);
  /// The variables stay as they are.
  void keepOrder();
  Message run();

private:
  llvm::SmallVector<int, 8> variables; ///< of the sum
  llvm::SmallVector<int64_t, 8> sizes; ///< their states
  int64_t states = 1;                  ///< of the minimised variable
  std::vector<Reader> readers;
  Blocks plan;
  PositionList lies; ///< as the message lies, the last fastest
  Steps steps;       ///< of the message

  std::vector<int64_t> excess; ///< [states, entries]
  llvm::SmallVector<Reader *, 8> withRows, single;
  llvm::SmallVector<int64_t, 16> sums;   ///< of `single`, by state
  llvm::SmallVector<StateCost, 16> open; ///< the states that are possible
  llvm::SmallVector<Row, kMostRows + 1> rows;

  PositionList everything() const;
  PositionList byTables() const;
  PositionList asIn(const Reader &reader) const;
  Blocks blocksOf(llvm::ArrayRef<int> list, size_t count) const;
  void findRows(const Blocks &blocks);
  void sortOuter(Blocks &blocks) const;
  int64_t rate(Blocks &blocks, llvm::ArrayRef<int> soon);
  void use(Blocks blocks);
  void findOpenStates();
  void sumUp(int64_t *best);
  bool turn(Steps &digits, int64_t *&best);
  Row rowOf(Reader &reader);
  Row sumOfRows(llvm::ArrayRef<Row> some);
};
} // namespace

Walk::Walk(llvm::ArrayRef<int> domains, llvm::ArrayRef<TableView> tables,
           int variable) {
  for (const TableView &table : tables)
    for (int v : table.variables)
      if (v != variable && !llvm::is_contained(variables, v))
        variables.push_back(v);
  for (int v : variables)
    sizes.push_back(domains[v]);
  if (variable >= 0)
    states = domains[variable];
  readers.resize(tables.size());
  for (auto [reader, table] : llvm::zip_equal(readers, tables)) {
    reader.costs = table.costs;
    reader.steps.assign(variables.size(), 0);
    for (int v : llvm::reverse(table.variables)) {
      if (v == variable)
        reader.stateStep = reader.entries;
      else
        reader.steps[llvm::find(variables, v) - variables.begin()] =
            reader.entries;
      reader.entries *= domains[v];
    }
  }
}

// ---- Which variables are inner ----------------------------------------------

/// All variables, those first with which few tables get rows.
PositionList Walk::byTables() const {
  PositionList left = everything(), taken;
  llvm::SmallVector<bool, 8> touched(readers.size(), false);
  while (!left.empty()) {
    auto rank = [&](int i) {
      int64_t step = 0, tables = 0;
      for (auto [reader, hasRow] : llvm::zip_equal(readers, touched)) {
        step = std::max(step, reader.steps[i]);
        tables += reader.steps[i] > 0 && !hasRow;
      }
      return std::pair(tables, step);
    };
    int *best = std::min_element(left.begin(), left.end(), [&](int a, int b) {
      return rank(a) < rank(b);
    });
    for (auto [reader, hasRow] : llvm::zip_equal(readers, touched))
      hasRow |= reader.steps[*best] > 0;
    taken.push_back(*best);
    left.erase(best);
  }
  return taken;
}

PositionList Walk::everything() const {
  PositionList all;
  for (int i = 0, e = variables.size(); i < e; ++i)
    all.push_back(i);
  return all;
}

/// All variables, those first that turn fastest in the table; it need not know
/// all.
PositionList Walk::asIn(const Reader &reader) const {
  PositionList all = everything();
  auto rank = [&](int i) {
    return std::tuple(reader.steps[i] == 0, reader.steps[i], i);
  };
  llvm::sort(all, [&](int a, int b) { return rank(a) < rank(b); });
  return all;
}

/// The first `count` variables of a list are inner, those that turn fastest in
/// the largest table with rows last.
Blocks Walk::blocksOf(llvm::ArrayRef<int> list, size_t count) const {
  Blocks blocks;
  llvm::append_range(blocks.inner, list.take_front(count));
  llvm::append_range(blocks.outer, list.drop_front(count));
  for (int i : blocks.inner)
    blocks.entries *= sizes[i];
  for (int i : blocks.outer)
    blocks.blocks *= sizes[i];
  const Reader *largest = nullptr;
  for (const Reader &reader : readers)
    if ((!largest || reader.entries > largest->entries) &&
        llvm::any_of(blocks.inner, [&](int i) { return reader.steps[i] > 0; }))
      largest = &reader;
  if (largest)
    llvm::sort(blocks.inner, [&](int a, int b) {
      return std::pair(-largest->steps[a], a) <
             std::pair(-largest->steps[b], b);
    });
  return blocks;
}

void Walk::findRows(const Blocks &blocks) {
  for (Reader &reader : readers) {
    reader.hasRow = reader.copies = false;
    int64_t step = 1;
    for (int i : llvm::reverse(blocks.inner)) {
      reader.hasRow |= reader.steps[i] > 0;
      reader.copies |= reader.steps[i] != step;
      step *= sizes[i];
    }
    reader.copies &= reader.hasRow;
  }
}

/// Variables of tables that are copied turn slowest.
void Walk::sortOuter(Blocks &blocks) const {
  auto rank = [&](int i) {
    int64_t copied = 0, step = 0;
    for (const Reader &reader : readers) {
      step = std::max(step, reader.steps[i]);
      if (reader.copies && reader.steps[i] > 0)
        copied += reader.stateStep ? states : 1;
    }
    return std::tuple(-copied, -step, i);
  };
  llvm::sort(blocks.outer, [&](int a, int b) { return rank(a) < rank(b); });
}

/// What the blocks cost; sorts their outer variables. `soon` are the variables
/// by when they are eliminated.
int64_t Walk::rate(Blocks &blocks, llvm::ArrayRef<int> soon) {
  findRows(blocks);
  sortOuter(blocks);
  int64_t rows = 0, copies = 0, single = 0;
  for (const Reader &reader : readers) {
    rows += reader.hasRow;
    single += !reader.hasRow;
    if (!reader.copies)
      continue;
    int64_t times = 1, product = 1;
    for (int i : blocks.outer) {
      product *= sizes[i];
      if (reader.steps[i] > 0)
        times = product;
    }
    copies += times * blocks.entries * (reader.stateStep ? states : 1);
  }
  int64_t message = blocks.blocks * blocks.entries;
  for (int i : blocks.inner) // likely to be copied when it is eliminated
    copies += message >> (llvm::find(soon, i) - soon.begin());
  return blocks.blocks * (blocks.entries * states * (1 + rows) + kCostOfBlock +
                          single * states * kCostOfState) +
         kCostOfCopy * copies;
}

/// Variables that make a block, of those in the list.
static size_t fewest(llvm::ArrayRef<int> list, llvm::ArrayRef<int64_t> sizes,
                     int64_t least) {
  size_t count = 0;
  for (int64_t entries = 1; count < list.size() && entries < least; ++count)
    entries *= sizes[list[count]];
  return count;
}

void Walk::choose(llvm::ArrayRef<int> order) {
  PositionList soon = everything();
  llvm::sort(soon, [&](int a, int b) {
    return order[variables[a]] < order[variables[b]];
  });
  PositionList list = byTables();
  Blocks best = blocksOf(list, fewest(list, sizes, kBlockEntries));
  if (best.blocks * best.entries * states >= kWorthChoosing) {
    int64_t least = rate(best, soon);
    auto consider = [&](const PositionList &list) {
      size_t count = fewest(list, sizes, kLeastEntries),
             most = fewest(list, sizes, kBlockEntries);
      for (; count <= most; ++count) {
        Blocks other = blocksOf(list, count);
        int64_t cost = rate(other, soon);
        if (cost >= least)
          continue;
        least = cost;
        best = std::move(other);
      }
    };
    consider(list);
    for (const Reader &reader : readers)
      consider(asIn(reader));
    consider(PositionList(llvm::reverse(soon)));
  }
  lies = llvm::to_vector<8>(llvm::make_filter_range(
      soon, [&](int i) { return llvm::is_contained(best.outer, i); }));
  llvm::append_range(lies, best.inner);
  use(std::move(best));
}

void Walk::keepOrder() {
  Blocks blocks;
  for (int i = variables.size() - 1; i >= 0; --i) {
    bool isInner = blocks.entries < kBlockEntries;
    (isInner ? blocks.inner : blocks.outer).push_back(i);
    (isInner ? blocks.entries : blocks.blocks) *= sizes[i];
  }
  std::reverse(blocks.inner.begin(), blocks.inner.end());
  std::reverse(blocks.outer.begin(), blocks.outer.end());
  lies = llvm::to_vector<8>(llvm::concat<int>(blocks.outer, blocks.inner));
  use(std::move(blocks));
}

// ---- The walk ---------------------------------------------------------------

/// The offsets of all entries of a block.
static std::vector<int64_t> offsetsOf(llvm::ArrayRef<int> inner,
                                      llvm::ArrayRef<int64_t> sizes,
                                      llvm::ArrayRef<int64_t> steps) {
  std::vector<int64_t> offsets = {0};
  for (int i : inner) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * sizes[i]);
    for (int64_t offset : offsets)
      for (int64_t state = 0; state < sizes[i]; ++state)
        next.push_back(offset + state * steps[i]);
    offsets = std::move(next);
  }
  return offsets;
}

void Walk::use(Blocks blocks) {
  plan = std::move(blocks);
  findRows(plan);
  sortOuter(plan);
  for (Reader &reader : readers) {
    (reader.hasRow ? withRows : single).push_back(&reader);
    if (reader.copies) {
      reader.offsets = offsetsOf(plan.inner, sizes, reader.steps);
      reader.copy.resize(plan.entries * (reader.stateStep ? states : 1));
    }
  }
}

/// The states with a finite sum of the tables without rows.
void Walk::findOpenStates() {
  sums.assign(states, 0);
  for (const Reader *reader : single) {
    const int64_t *cost = reader->costs;
    for (int64_t &sum : sums) {
      sum = addCost(sum, *cost);
      cost += reader->stateStep;
    }
  }
  open.clear();
  for (int64_t state = 0; state < states; ++state)
    if (sums[state] < kInfiniteCost)
      open.push_back({state, sums[state]});
}

Row Walk::rowOf(Reader &reader) {
  if (!reader.copies)
    return {reader.costs, reader.stateStep};
  int64_t stride = reader.stateStep ? plan.entries : 0;
  if (reader.copiedFrom != reader.costs) {
    reader.copiedFrom = reader.costs;
    int64_t *to = reader.copy.data();
    for (int64_t state = 0; state < (stride ? states : 1); ++state) {
      const int64_t *costs = reader.costs + state * reader.stateStep;
      for (int64_t offset : reader.offsets)
        *to++ = costs[offset];
    }
  }
  return {reader.copy.data(), stride};
}

/// One row in place of several.
Row Walk::sumOfRows(llvm::ArrayRef<Row> some) {
  excess.assign(states * plan.entries, 0);
  for (const Row &row : some) {
    int64_t *sum = excess.data();
    for (int64_t state = 0; state < states; ++state)
      for (int64_t i = 0; i < plan.entries; ++i, ++sum)
        *sum = addCost(*sum, row.costs[state * row.stride + i]);
  }
  return {excess.data(), plan.entries};
}

/// One block.
void Walk::sumUp(int64_t *best) {
  findOpenStates();
  rows.clear();
  for (Reader *reader : withRows)
    rows.push_back(rowOf(*reader));
  if (rows.size() > kMostRows) {
    Row sum = sumOfRows(llvm::ArrayRef(rows).drop_front(kMostRows - 1));
    rows.truncate(kMostRows - 1);
    rows.push_back(sum);
  }
  minimiseRows(rows, open, plan.entries, best);
}

/// To the next block, whose entries start at `best`; false after the last one.
bool Walk::turn(Steps &digits, int64_t *&best) {
  for (int i : llvm::reverse(plan.outer)) {
    bool wraps = ++digits[i] == sizes[i];
    int64_t by = wraps ? 1 - sizes[i] : 1;
    best += by * steps[i];
    for (Reader &reader : readers)
      reader.costs += by * reader.steps[i];
    if (!wraps)
      return true;
    digits[i] = 0;
  }
  return false;
}

Message Walk::run() {
  Message message;
  steps.resize(variables.size());
  for (int i : llvm::reverse(lies)) {
    steps[i] = message.entries;
    message.entries *= sizes[i];
  }
  for (int i : lies)
    message.variables.push_back(variables[i]);
  message.costs = std::make_shared_for_overwrite<int64_t[]>(message.entries);
  Steps digits(variables.size(), 0);
  int64_t *best = message.costs.get();
  do
    sumUp(best);
  while (turn(digits, best));
  return message;
}

Message kerf::minimise(llvm::ArrayRef<int> domains,
                       llvm::ArrayRef<TableView> tables, int variable,
                       llvm::ArrayRef<int> order) {
  Walk walk(domains, tables, variable);
  walk.choose(order);
  return walk.run();
}

Message kerf::addUp(llvm::ArrayRef<int> domains,
                    llvm::ArrayRef<TableView> tables) {
  Walk walk(domains, tables, -1);
  walk.keepOrder();
  return walk.run();
}
