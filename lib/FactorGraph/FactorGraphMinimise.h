//===- FactorGraphMinimise.h - a sum of tables, minimised -----------------===//

#ifndef KERF_LIB_FACTORGRAPH_FACTORGRAPHMINIMISE_H
#define KERF_LIB_FACTORGRAPH_FACTORGRAPHMINIMISE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <memory>

namespace kerf {

/// A table as it lies in memory: its variables in any order, the last fastest,
/// each with more than one state. It does not own the costs.
struct TableView {
  llvm::SmallVector<int, 8> variables;
  const int64_t *costs = nullptr;
};

/// A table of its own.
struct Message {
  llvm::SmallVector<int, 8> variables; ///< the last fastest
  int64_t entries = 1;
  std::shared_ptr<int64_t[]> costs;
  TableView view() const { return {variables, costs.get()}; }
};

/// min over the states of `variable` of the sum of the tables, saturating at
/// kInfiniteCost, over all their other variables. They lie as is fast now and
/// when they are eliminated themselves: `order` says when, by variable. That
/// changes no entry. `domains` are the states of all variables of the graph.
/// All tables know `variable`.
Message minimise(llvm::ArrayRef<int> domains, llvm::ArrayRef<TableView> tables,
                 int variable, llvm::ArrayRef<int> order);

/// The sum of the tables, saturating; the first one knows all their variables,
/// and the result lies as it does.
Message addUp(llvm::ArrayRef<int> domains, llvm::ArrayRef<TableView> tables);

/// A row of a table for each state of a variable: those of state s start at
/// `costs` + s * `stride`.
struct Row {
  const int64_t *costs;
  int64_t stride;
};

/// A state and what all entries of a block have to pay for it.
struct StateCost {
  int64_t state;
  int64_t cost;
};

/// At most so many rows are added up at once.
constexpr int kMostRows = 6;

/// best[i] = min over `states` of cost + sum over `rows` of row[i], at most
/// kInfiniteCost, for i below `entries`; costs are at most kInfiniteCost.
void minimiseRows(llvm::ArrayRef<Row> rows, llvm::ArrayRef<StateCost> states,
                  int64_t entries, int64_t *best);

} // namespace kerf

#endif // KERF_LIB_FACTORGRAPH_FACTORGRAPHMINIMISE_H
