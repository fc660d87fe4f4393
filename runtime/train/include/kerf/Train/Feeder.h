//===- Feeder.h - batches ahead of the steps --------------------*- C++ -*-===//
//
// Reading tokens and splitting them into rows takes a rank no time of a step:
// the next batch is made by a thread while the step runs. Of a batch a rank
// makes only the rows that it has a part of; the others of its tensors are
// whatever they were.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_FEEDER_H
#define KERF_TRAIN_FEEDER_H

#include "kerf/Train/Batch.h"
#include "kerf/Train/Interleave.h"
#include "kerf/Train/Sources.h"

#include <cstdint>
#include <future>
#include <string>
#include <vector>

namespace kerf::runtime {

class Feeder {
public:
  /// `data` must outlive this. The order of sequences depends on the seed
  /// alone.
  Feeder(const Mixture &data, int64_t seed, int64_t rows, int64_t sequence);
  ~Feeder();
  Feeder(const Feeder &) = delete;

  /// Makes only rows whose mark is set; all before. Not while a batch is made.
  void keepRows(std::vector<uint8_t> marks);

  /// The batch of sequences `first` to `first` + rows - 1, made by the thread
  /// if it was the one expected, and valid until the next call. Unless
  /// `isLast`, the one after it is begun. Null and the reason in `error` where
  /// a sequence cannot be read.
  const Batch *next(int64_t first, bool isLast, std::string &error);

private:
  struct Made {
    Batch batch;
    int64_t first = -1;
    std::string error; ///< or ""
  };
  void make(Made &made, int64_t first);

  const Mixture &data;
  int64_t seed;
  Interleave order; ///< of who makes a batch
  std::vector<uint8_t> marks;
  Made made[2];
  int current = 0;
  std::future<void> ahead; ///< makes the other one
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_FEEDER_H
