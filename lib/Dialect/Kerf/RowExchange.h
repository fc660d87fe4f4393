//===- RowExchange.h - rows that ranks send to the owners of experts ------===//

#ifndef KERF_LIB_DIALECT_KERF_ROWEXCHANGE_H
#define KERF_LIB_DIALECT_KERF_ROWEXCHANGE_H

#include "kerf/Dialect/Kerf/PlainBuilder.h"

namespace kerf {

/// What a rank sends and what it receives; see RowExchange.cpp.
class RowExchange {
public:
  /// Of this rank's choices: `slots` `[B,S,k]` and `sizes` `[G,E]` as
  /// `kerf.assign_slots` gives them without a capacity. The experts are split
  /// over the ranks of `factor`; an even share of a group's rows, times the
  /// plan's `moe_buffer`, is `share` rows.
  RowExchange(PlainBuilder p, CollectiveBuilder &collectives, unsigned factor,
              mlir::Value slots, mlir::Value sizes, int64_t share);

  /// Tokens `[B,S,D]` to the table of this rank's experts, `[n G,share,D]`.
  mlir::Value send(mlir::Value tokens, mlir::Value weights);
  /// Rows of such a table, home as `[1,n G share,D]`, where `homeSlots` says
  /// which are whose.
  mlir::Value fetch(mlir::Value table);
  mlir::Value homeSlots() const { return sent; }

  /// Tells the step by how much `moe_buffer` is too small, if it is. A group
  /// has `rows` choices.
  void tellNeed(int64_t rows);

private:
  PlainBuilder p;
  CollectiveBuilder &collectives;
  unsigned factor;
  int64_t ranks, groups, share;
  mlir::Value sent;     ///< rows of choices where they leave, `[B,S,k]`
  mlir::Value received; ///< rows of this rank's table for what arrives
  mlir::Value perRank;  ///< choices for each rank's experts, `[n]`
};

/// Rows in use by each of this rank's experts, `[1,e]`, from the `sizes` of all
/// groups whose rows it got, `[n G,e]`.
mlir::Value exchangedSizes(PlainBuilder p, mlir::Value sizes, int64_t ranks,
                           int64_t share);

} // namespace kerf

#endif // KERF_LIB_DIALECT_KERF_ROWEXCHANGE_H
