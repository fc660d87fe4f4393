//===- Layouts.h - the layout that a row ran with -------------------------===//
//
// Published runs lay layers out as Megatron does (Shoeybi et al. 2019, arXiv
// 1909.08053; Korthikanti et al. 2022, arXiv 2205.05198). Here that is stated
// as a rule for the planner's own layer solver, and as pins for its outer
// search.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_COST_VALIDATION_LAYOUTS_H
#define KERF_TEST_COST_VALIDATION_LAYOUTS_H

#include "Rows.h"

#include "kerf/Layer/LayerProblem.h"
#include "kerf/Search/Search.h"

namespace kerf::validate {

/// Megatron's layout on the tensor axis: matmuls of queries, keys, values,
/// gate, up and the head cut by columns, those of attention's output and down
/// by rows, the embedding by vocabulary. Norms, dropout and residual sums are
/// whole, or cut by the sequence (`sequenceParallel`). Other axes are free.
OptionFilter megatronFilter(bool sequenceParallel);

/// Tables with one point per key: the pinned layout of a row. Layouts are
/// solved once, by the first profile, and costed again under others.
struct PinnedLayouts {
  std::map<TableKey, LayerLayout> layouts;
};
class PinnedTables : public LayerTables {
public:
  /// `layouts` is filled on demand and may be shared by rows that differ in
  /// batch, micro-batch, machine and profile only.
  PinnedTables(LayerContext context, const Row &row,
               std::shared_ptr<PinnedLayouts> layouts,
               std::shared_ptr<const StepFacts> facts);
  const LayerTable &get(const TableKey &key) override;
  double lowerBoundSec(const TableKey &key) override;
  double lowerBoundSavedBytes(const TableKey &key) override;
  int64_t solved() const override { return tables.size(); }

private:
  LayerContext context;
  const Row &row;
  std::shared_ptr<PinnedLayouts> layouts;
  std::shared_ptr<const StepFacts> facts;
  std::map<TableKey, LayerTable> tables;

  /// The layout that a query finds, null when there is none.
  const LayerLayout *layoutOf(const LayerQuery &query);
  LayerTable make(const TableKey &key);
};

/// Pins of everything outside layers, as the row states it. None when the row
/// does not say enough or contradicts itself; `why` then says so.
std::optional<Pins> pinsOf(const Row &row, std::string &why);

/// Layers of each stage by the rule of the row's runtime: evenly; with
/// embedding and head counted as layers; or balanced by parameters, head
/// included (nanotron). Empty without a pipeline.
std::vector<int64_t> stageLayersOf(const Row &row);

} // namespace kerf::validate

#endif // KERF_TEST_COST_VALIDATION_LAYOUTS_H
