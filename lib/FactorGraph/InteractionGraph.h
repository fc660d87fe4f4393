//===- InteractionGraph.h - who shares a table with whom ------------------===//
//
// The variables that are left of a factor graph while it is eliminated, and
// their neighbours: eliminating one makes its neighbours neighbours of each
// other.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_FACTORGRAPH_INTERACTIONGRAPH_H
#define KERF_LIB_FACTORGRAPH_INTERACTIONGRAPH_H

#include "kerf/FactorGraph/FactorGraph.h"

#include "llvm/ADT/bit.h"

namespace kerf {

/// A set of variables.
class VariableSet {
public:
  explicit VariableSet(size_t variables) : words((variables + 63) / 64) {}
  void insert(int v) { words[v / 64] |= uint64_t(1) << (v % 64); }
  void erase(int v) { words[v / 64] &= ~(uint64_t(1) << (v % 64)); }
  bool contains(int v) const { return words[v / 64] >> (v % 64) & 1; }
  void insert(const VariableSet &other) {
    for (size_t i = 0; i < words.size(); ++i)
      words[i] |= other.words[i];
  }
  int size() const {
    int count = 0;
    for (uint64_t word : words)
      count += llvm::popcount(word);
    return count;
  }
  /// Calls `visit` for each, ascending.
  template <typename Fn> void forEach(Fn visit) const {
    for (size_t i = 0; i < words.size(); ++i)
      for (uint64_t word = words[i]; word; word &= word - 1)
        visit(static_cast<int>(i * 64) + llvm::countr_zero(word));
  }
  /// Calls `visit` for each that is not in `other`, ascending.
  template <typename Fn>
  void forEachNotIn(const VariableSet &other, Fn visit) const {
    for (size_t i = 0; i < words.size(); ++i)
      for (uint64_t word = words[i] & ~other.words[i]; word; word &= word - 1)
        visit(static_cast<int>(i * 64) + llvm::countr_zero(word));
  }
  int countNotIn(const VariableSet &other) const {
    int count = 0;
    for (size_t i = 0; i < words.size(); ++i)
      count += llvm::popcount(words[i] & ~other.words[i]);
    return count;
  }

private:
  std::vector<uint64_t> words;
};

class InteractionGraph {
public:
  explicit InteractionGraph(const FactorGraph &graph);

  /// Variables with more than one state, not yet taken away.
  const VariableSet &left() const { return variables; }
  const VariableSet &neighbours(int v) const { return adjacent[v]; }
  int64_t states(int v) const { return domains[v]; }
  /// Entries of the table that eliminating `v` would compute; saturates.
  int64_t entries(int v) const;
  /// New pairs of neighbours that eliminating `v` would make.
  int64_t fill(int v) const;
  /// The same, each with the sum of the logarithms of its states, in 1/1024.
  int64_t logFill(int v) const;
  /// Takes `v` away and connects its neighbours; adds to `size`.
  void eliminate(int v, EliminationSize &size);
  /// Takes `v` away: its state is known.
  void remove(int v);

private:
  std::vector<int> domains;
  std::vector<int64_t> logs; ///< 1024 log2 of the states
  std::vector<VariableSet> adjacent;
  VariableSet variables;
};

} // namespace kerf

#endif // KERF_LIB_FACTORGRAPH_INTERACTIONGRAPH_H
