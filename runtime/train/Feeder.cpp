//===- Feeder.cpp - batches ahead of the steps ----------------------------===//

#include "kerf/Train/Feeder.h"

#include "kerf/Train/Permutation.h"

using namespace kerf::runtime;

Feeder::Feeder(const Mixture &data, int64_t seed, int64_t rows,
               int64_t sequence)
    : data(data), seed(seed), order(data.weights, seed),
      marks(static_cast<size_t>(rows), 1),
      made{{Batch(rows, sequence), -1, ""}, {Batch(rows, sequence), -1, ""}} {}

Feeder::~Feeder() {
  if (ahead.valid())
    ahead.wait();
}

void Feeder::keepRows(std::vector<uint8_t> own) { marks = std::move(own); }

/// Sequences come in their order, whichever rows are kept.
void Feeder::make(Made &target, int64_t first) {
  target.first = first;
  target.error.clear();
  for (int64_t row = 0; row < target.batch.rows; ++row) {
    SourcePlace place = order.at(first + row);
    if (!marks[static_cast<size_t>(row)])
      continue;
    const SampleRange &range = data.ranges[place.source];
    int64_t sample = shuffledSample(range.samples(), seed, place.index,
                                    static_cast<int64_t>(place.source));
    if (!range.fill(sample, target.batch, row, target.error))
      return;
  }
}

const Batch *Feeder::next(int64_t first, bool isLast, std::string &error) {
  if (ahead.valid())
    ahead.get();
  current ^= 1;
  Made &own = made[current];
  if (own.first != first)
    make(own, first);
  own.first = -1; // what is handed out may be made anew
  if (!own.error.empty()) {
    error = own.error;
    return nullptr;
  }
  if (!isLast)
    ahead =
        std::async(std::launch::async, [this, first, rows = own.batch.rows] {
          make(made[current ^ 1], first + rows);
        });
  return &own.batch;
}
