//===- Sources.h - where the sequences of a run come from -------*- C++ -*-===//

#ifndef KERF_TRAIN_SOURCES_H
#define KERF_TRAIN_SOURCES_H

#include "kerf/Train/Batch.h"
#include "kerf/Train/Interleave.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf::runtime {

/// A file as the user named it.
struct SourceOption {
  std::string path;
  int64_t weight = 0; ///< in millionths; 0: none was named
};

/// "PATH" or "WEIGHT:PATH"; the weight is a number from 0.000001 to 1,000,000
/// and is rounded to six decimals.
[[nodiscard]] bool parseSource(const std::string &text, SourceOption &source);

/// Samples of one or more files.
struct Mixture {
  std::vector<SampleRange> ranges;
  /// Of the ranges, as Interleave takes them; where the user named none, their
  /// numbers of samples.
  std::vector<int64_t> weights;

  /// All samples.
  int64_t samples() const;
  /// The part of the sequences that come from range `i`, 0 to 1.
  double share(size_t i) const;
};

/// The data of a run. The mixtures point to the files: it stays where it is.
struct Sources {
  Sources() = default;
  Sources(const Sources &) = delete;

  std::vector<TokenFile> files, heldoutFiles;
  Mixture training;
  /// What is kept for evaluation.
  std::optional<Mixture> heldout;

  /// A hash of files and weights: tells data apart.
  uint64_t fingerprint() const;
};

/// What is asked of the data.
struct SourceOptions {
  std::vector<SourceOption> training, heldout;
  DataFormat format = DataFormat::Auto;
  int64_t vocabulary = 0, sequence = 0;
  /// Part of each file that is kept for evaluation, where `heldout` names none.
  std::optional<double> heldoutPart;
  /// Token that ends a document (-1: none). By default files with an index have
  /// the documents that it tells; of the others it is 0 where all are bytes,
  /// else none.
  std::optional<int64_t> documentEnd;
};

/// Opens the files; `documentEnd` is what is used of those without an index.
[[nodiscard]] bool openSources(const SourceOptions &options, Sources &sources,
                               int64_t &documentEnd, std::string &error);

/// Looks at the first tokens of all files: are the ids in range? `entropy` is
/// that of single tokens, in nats, of the training data as they are mixed.
[[nodiscard]] bool scanSources(const Sources &sources, double &entropy,
                               std::string &error);

/// The sequences of an evaluation: at most `wanted` from the start, each range
/// in its order, none of them twice.
int64_t countWithoutRepeat(const Mixture &mixture, int64_t seed,
                           int64_t wanted);

} // namespace kerf::runtime

#endif // KERF_TRAIN_SOURCES_H
