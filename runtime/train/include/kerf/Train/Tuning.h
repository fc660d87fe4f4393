//===- Tuning.h - files of tuned algorithms ---------------------*- C++ -*-===//
//
// `kerf-run MODEL.kerf --tune=FILE` times the algorithms that a GPU's library
// has for the model's matmuls and writes the fastest; `--tuning=FILE` takes
// them. The file is JSON: what it was measured on, and a line per matmul.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_TUNING_H
#define KERF_TRAIN_TUNING_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/Options.h"

#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

/// What a file of tuned algorithms says.
struct TuningFile {
  std::string tunedOn; ///< device and library
  std::string driver;  ///< at that time; any may be there later
  std::string date;    ///< "2026-01-31"
  std::vector<kerf_tuned> entries;

  /// Reads `path`. Fails, with the file's name and what is wrong where, on
  /// anything that `print` would not have written.
  [[nodiscard]] bool read(const std::string &path, std::string &error);
  /// The same from memory; `error` without a name.
  [[nodiscard]] bool parse(std::string_view text, std::string &error);
  std::string print() const;
  /// As sessions take it. Lives as long as this does and stays as it is.
  kerf_tuning view() const;
};

/// `kerf-run MODEL.kerf --tune=FILE`. Returns the exit status; writes the whole
/// file or none.
int tuneModel(const RunOptions &options, const kerf_artifact *artifact,
              std::string &error);

} // namespace kerf::runtime

#endif // KERF_TRAIN_TUNING_H
