//===- Rows.h - published measurements as data ----------------------------===//
//
// CSV files whose header has the columns of `kColumns` (in any order, among
// others). Fields may be quoted and hold commas, quotes ("") and line breaks.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TEST_COST_VALIDATION_ROWS_H
#define KERF_TEST_COST_VALIDATION_ROWS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kerf::validate {

/// One record and the line on which it starts, from 1.
struct CsvRecord {
  int line = 0;
  std::vector<std::string> fields;
};

/// Splits `text`; on failure (a quote that is not closed, text after a closing
/// quote) `error` is "line: message". Empty lines are left out.
std::vector<CsvRecord> parseCsv(llvm::StringRef text, std::string &error);

/// One measured (or failed) run. Absent: the source does not say.
struct Row {
  std::string file; ///< name without its folder
  int line = 0;
  std::string source, table, modelName, ffnKind, device, precision, schedule,
      recompute, formula, notes, status, phase;
  std::optional<int64_t> layers, hidden, heads, kvHeads, ffn, vocab, sequence,
      experts, topK, devices, devicesPerNode, tp, pp, dp, cp, ep, zero, chunks,
      microBatch, globalBatch, complete;
  std::optional<bool> sequenceParallel, flash;
  /// GB/s (1e9 bytes) per device and direction.
  std::optional<double> intraNode, interNode;
  std::optional<double> stepSec, tokensPerSec, teraflops, mfu, memoryGb;

  bool isOutOfMemory() const { return status == "oom"; }
  /// "file:line".
  std::string place() const;
};

/// All rows of the `*.csv` files of `folder`, by file name and line. Files with
/// another kind of header (fewer than half of the columns) are named in
/// `skipped`. Problems are appended to `errors` as "path:line: message"; the
/// result is then of no use.
std::vector<Row> readRows(llvm::StringRef folder,
                          std::vector<std::string> &skipped,
                          std::vector<std::string> &errors);

/// Rows of one file's text; `isOther` is set when it holds something else.
std::vector<Row> parseRows(llvm::StringRef text, llvm::StringRef path,
                           bool &isOther, std::vector<std::string> &errors);

/// Seconds of a step as measured: stated, else from tokens per second, else
/// from flop/s or from the utilization of `peak` flop/s, by the row's formula
/// (`flopsOfFormula`). None when the row has no measurement.
std::optional<double> measuredStepSec(const Row &row, double peak);

/// Flops of a step as the row's source counts them, for TFLOP/s: Megatron's
/// with full recomputation (Narayanan et al. 2021, arXiv 2104.04473, eq. 3),
/// without it (Korthikanti et al. 2022, arXiv 2205.05198, appendix A), 6 P
/// tokens (Kaplan et al. 2020), or that of active parameters and causal scores
/// (Megatron-Bridge). None when the formula is none of these, or the row does
/// not state the sizes that it needs.
std::optional<double> flopsOfFormula(const Row &row);

/// Matmuls inside layers are in an 8-bit type, whatever its scales.
bool isFloat8(const Row &row);

/// Attention reads latents (DeepSeek's MLA), by the row's notes.
bool hasLatents(const Row &row);

/// Parameters of the row's model: embeddings (the head apart, when it has its
/// own), attention with grouped keys, gated or plain MLPs, all experts.
double parametersOf(const Row &row);

/// Micro-batches of a step, 0 when the batch does not divide.
int64_t microBatchesOf(const Row &row);

} // namespace kerf::validate

#endif // KERF_TEST_COST_VALIDATION_ROWS_H
