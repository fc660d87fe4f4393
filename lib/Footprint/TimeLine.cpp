//===- TimeLine.cpp - bytes over time -------------------------------------===//

#include "ProgramSketch.h"

using namespace kerf;
using namespace kerf::program_sketch;

int TimeLine::begin(double bytes, Held held) {
  pieces.emplace_back(roundedBytes(bytes), held);
  live[held] += pieces.back().first;
  return int(pieces.size()) - 1;
}

void TimeLine::end(int piece) {
  auto [bytes, held] = pieces[piece];
  live[held] -= bytes;
}

void TimeLine::simulate(const Lives &lives) {
  Levels busy = live;
  busy += lives.peak;
  note(busy);
  for (auto [all, more] : llvm::zip(lasting, lives.left)) {
    live += more;
    all += more;
  }
}

void TimeLine::endLasting(Lasts lasts) {
  Levels &ended = lasting[static_cast<size_t>(lasts)];
  live -= ended;
  ended = {};
}

StageMemory TimeLine::peak() const {
  StageMemory memory;
  const Levels &levels = live.total() > most.total() ? live : most;
  std::tie(memory.gradients, memory.activations, memory.temporaries,
           memory.communication) = std::tuple_cat(levels.bytes);
  return memory;
}
