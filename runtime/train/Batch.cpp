//===- Batch.cpp - windows of tokens as batches ---------------------------===//

#include "kerf/Train/Batch.h"

#include <algorithm>

using namespace kerf::runtime;

Batch::Batch(int64_t rows, int64_t sequence)
    : rows(rows), sequence(sequence), tokens(rows * sequence),
      targets(rows * sequence), segments(rows * sequence),
      positions(rows * sequence) {}

int64_t Batch::validTargets() const {
  return std::count_if(targets.begin(), targets.end(),
                       [](int32_t t) { return t != ignoredTarget; });
}

SampleRange::SampleRange(const TokenFile &file, int64_t begin, int64_t end,
                         int64_t sequence, int64_t documentEnd, bool byIndex)
    : file(&file), begin(begin), end(end), sequence(sequence),
      documentEnd(documentEnd),
      count(std::max<int64_t>(0, (end - begin - 1) / sequence)),
      byIndex(byIndex) {}

bool SampleRange::fill(int64_t index, Batch &batch, int64_t row,
                       std::string &error) const {
  int64_t first = begin + index * sequence;
  if (!file->scan(first, first + sequence + 1, nullptr, error))
    return false;
  int64_t at = row * sequence;
  int32_t segment = 0, position = 0;
  int64_t token = file->at(first);
  int64_t border = byIndex ? file->nextDocument(first) : -1;
  for (int64_t i = 0; i < sequence; ++i, ++at) {
    int64_t next = file->at(first + i + 1);
    bool isBorder = first + i + 1 == border;
    bool isLast = byIndex ? isBorder : token == documentEnd;
    batch.tokens[at] = static_cast<int32_t>(token);
    bool counts = !isLast && file->isTarget(first + i + 1);
    batch.targets[at] = counts ? static_cast<int32_t>(next) : ignoredTarget;
    batch.segments[at] = segment;
    batch.positions[at] = position;
    segment += isLast;
    position = isLast ? 0 : position + 1;
    token = next;
    if (isBorder)
      border = file->nextDocument(border);
  }
  return true;
}

void SampleRange::fillIgnored(Batch &batch, int64_t row) {
  int64_t at = row * batch.sequence;
  for (int64_t i = 0; i < batch.sequence; ++i, ++at) {
    batch.tokens[at] = 0;
    batch.targets[at] = ignoredTarget;
    batch.segments[at] = 0;
    batch.positions[at] = static_cast<int32_t>(i);
  }
}
