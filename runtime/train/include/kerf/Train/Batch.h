//===- Batch.h - windows of tokens as batches -------------------*- C++ -*-===//
//
// Sample k of a range of tokens is the window [k S, k S + S], S + 1 tokens: the
// first S are the model's tokens, the last S its targets. Windows share one
// token, so that every token but the first is a target once per epoch.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_BATCH_H
#define KERF_TRAIN_BATCH_H

#include "kerf/Train/TokenFile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime {

/// Targets that the loss leaves out.
inline constexpr int32_t ignoredTarget = -100;

/// Inputs of the model, each [rows, sequence], row-major.
struct Batch {
  Batch(int64_t rows, int64_t sequence);

  int64_t rows, sequence;
  std::vector<int32_t> tokens, targets;
  /// Number of the document within the window, from 0.
  std::vector<int32_t> segments;
  /// Place in the document; in the window for the document that it begins in.
  std::vector<int32_t> positions;

  /// Targets that count.
  int64_t validTargets() const;
};

/// A part of a token file, split into samples.
class SampleRange {
public:
  /// Tokens [begin, end) of `file`, which must outlive this. Documents end with
  /// the token `documentEnd` (-1: there is one document), or with `byIndex`
  /// where the file's index says; only a model with segments or positions asks
  /// for either.
  SampleRange(const TokenFile &file, int64_t begin, int64_t end,
              int64_t sequence, int64_t documentEnd, bool byIndex = false);

  /// Number of samples; 0 if the range is shorter than S + 1.
  int64_t samples() const { return count; }
  int64_t tokens() const { return end - begin; }
  /// Whether an index tells where documents end.
  bool isByIndex() const { return byIndex; }

  /// Writes sample `index` in [0, samples()) to a row. Where documents are
  /// separated, the target of a document's last token is ignored: it is the
  /// next one's first. So are targets that the file's mask leaves out. Fails on
  /// an id beyond the vocabulary.
  [[nodiscard]] bool fill(int64_t index, Batch &batch, int64_t row,
                          std::string &error) const;
  /// Makes a row whose targets are all ignored.
  static void fillIgnored(Batch &batch, int64_t row);

private:
  const TokenFile *file;
  int64_t begin, end, sequence, documentEnd, count;
  bool byIndex;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_BATCH_H
