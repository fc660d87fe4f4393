//===- TuningTimes.cpp - timing the algorithms of a matmul ----------------===//
//
// Each algorithm is recorded several times in a row as a graph, as steps run.
// Rounds go over all algorithms, so that a GPU that gets warm slows none of
// them alone; a graph that runs before the one that is timed hides what the
// host needs to start it. The median of the rounds counts.
//
// Another algorithm than the library's first must be faster by more than one
// percent: less is noise, and the first one needs no explanation.
//
// Large matmuls are what a model's time for tuning is spent on: of those that
// take more than 5 ms the first 8 algorithms of the list are timed, and after
// one round those that took half as long again as the fastest are left alone.
//
//===----------------------------------------------------------------------===//

#include "Events.h"
#include "Memory.h"
#include "Step.h"
#include "Streams.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

using namespace kerf::cuda;

namespace {
struct DropGraph {
  void operator()(kerf_graph *graph) const { destroyGraph(graph); }
};
using Graph = std::unique_ptr<kerf_graph, DropGraph>;

/// An algorithm as it is timed.
struct Timed {
  size_t number; ///< of the candidate
  Graph graph;
  bool isSlow = false;         ///< after the first round
  std::vector<double> seconds; ///< of one matmul, by round
  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

/// Times the algorithms of one matmul until a call fails.
class Timing {
public:
  Timing(kerf_step &step, void *const *pointers, double budgetSec, char *error,
         size_t errorBytes)
      : step(step), device(step.device), tunable(*step.tunable()),
        pointers(pointers), budgetSec(budgetSec), error(error),
        errorBytes(errorBytes) {}
  ~Timing() { reserveTimes(&device, 0, nullptr, 0); }
  Timing(const Timing &) = delete;

  kerf_device_status run(kerf_tuned &tuned);

private:
  void fill();
  bool call(kerf_device_status result) {
    status = status ? status : result;
    return status == KERF_DEVICE_OK;
  }
  void take(size_t number) {
    *tunable.algorithm = tunable.candidates[number].algo;
    *tunable.workspaceBytes = tunable.candidates[number].workspaceSize;
    if (tunable.leaves)
      *tunable.leaves = number >= tunable.leavingFrom;
  }
  bool enqueue(int64_t count);
  bool takeAnyThatRuns();
  template <typename Enqueue> double timeOf(Enqueue enqueue);
  int64_t countFor(double seconds) const;
  void record(size_t number);
  void recordAll();
  void timeRounds();
  void leaveSlow();
  const Timed &best() const;
  void tell(const Timed &best, const Timed &first, kerf_tuned &tuned) const;

  kerf_step &step;
  kerf_device &device;
  Tunable &tunable;
  void *const *pointers;
  double budgetSec;
  char *error;
  size_t errorBytes;
  kerf_device_status status = KERF_DEVICE_OK;
  std::vector<Timed> all;
  int64_t inGraph = 1; ///< matmuls of a graph
};
} // namespace

/// Numbers of either sign that are finite and not 0 in every format of floats,
/// of 1 and 2 bytes (every byte is 0x3c to 0x3f but for the sign) and more:
/// zeros would let a GPU run faster than it does in training, and NaNs too. A
/// piece is copied from the host, the rest from what is there, twice as much
/// each time.
void Timing::fill() {
  std::vector<uint16_t> block(1 << 16);
  for (size_t n = 0; n < block.size(); ++n) {
    auto mixed = static_cast<uint32_t>(n) * 2654435761u;
    block[n] = static_cast<uint16_t>(0x3c3c | (mixed >> 16 & 0x8383));
  }
  uint64_t most = block.size() * sizeof block[0];
  for (size_t n = 0; n < tunable.operandBytes.size(); ++n) {
    uint64_t bytes = tunable.operandBytes[n], done = std::min(most, bytes);
    copyIn(&device, pointers[n], block.data(), done);
    auto at = reinterpret_cast<CUdeviceptr>(pointers[n]);
    for (uint64_t count; done < bytes; done += count) {
      count = std::min(done, bytes - done);
      device.driver.copyOnDevice(at + done, at, count, device.streams[0]);
    }
  }
}

bool Timing::enqueue(int64_t count) {
  for (int64_t n = 0; n < count; ++n)
    if (step.execute(pointers, error, errorBytes))
      return false;
  return true;
}

/// Takes the first candidate that the library does not refuse after all.
bool Timing::takeAnyThatRuns() {
  for (size_t n = 0; n < tunable.candidates.size(); ++n) {
    take(n);
    if (enqueue(1))
      return true;
  }
  return call(KERF_DEVICE_FAILED);
}

/// Seconds on the GPU's clock.
template <typename Enqueue> double Timing::timeOf(Enqueue enqueueAll) {
  double start = 0, end = 0;
  bool isDone = call(noteTime(&device, 0, 0, error, errorBytes)) &&
                call(enqueueAll()) &&
                call(noteTime(&device, 0, 1, error, errorBytes)) &&
                call(synchronize(&device, error, errorBytes)) &&
                call(readTime(&device, 0, &start, error, errorBytes)) &&
                call(readTime(&device, 1, &end, error, errorBytes));
  return isDone ? std::max(end - start, 0.0) : 0;
}

/// Matmuls in a row that make a time long enough for the clock of a GPU, half
/// a microsecond, to be no matter.
int64_t Timing::countFor(double seconds) const {
  constexpr double goal = 200e-6;
  constexpr int64_t most = 50;
  return std::clamp<int64_t>(static_cast<int64_t>(goal / (seconds + 1e-9)), 1,
                             most);
}

/// Records a candidate. One that the library refuses after all is left out.
void Timing::record(size_t number) {
  take(number);
  if (!enqueue(1) || !call(beginGraph(&device, error, errorBytes)))
    return;
  bool isWhole = enqueue(inGraph);
  kerf_graph *graph = nullptr;
  auto ended = endGraph(&device, isWhole ? &graph : nullptr, error, errorBytes);
  if (isWhole && call(ended))
    all.push_back({number, Graph(graph), false, {}});
}

void Timing::tell(const Timed &best, const Timed &first,
                  kerf_tuned &tuned) const {
  const cublasLtMatmulHeuristicResult_t &taken =
      tunable.candidates[best.number];
  std::snprintf(tuned.choice, sizeof tuned.choice, "%s%s",
                best.number >= tunable.leavingFrom ? leavingWords : "",
                choiceOf(device.blas, taken).c_str());
  std::memcpy(tuned.data, &taken.algo, sizeof tuned.data);
  tuned.index = static_cast<int32_t>(best.number);
  tuned.choices = static_cast<int32_t>(all.size());
  tuned.seconds = best.median();
  tuned.first_seconds = first.number == 0 ? first.median() : 0;
}

/// Records the candidates that are worth it, after one matmul told how long
/// they may take.
void Timing::recordAll() {
  double once = 0;
  if (takeAnyThatRuns()) // which loads everything
    once = timeOf(
        [&] { return enqueue(1) ? KERF_DEVICE_OK : KERF_DEVICE_FAILED; });
  inGraph = countFor(once);
  constexpr double longSec = 5e-3;
  constexpr size_t fewOfLong = 8;
  size_t count = tunable.candidates.size(), few = count;
  if (once > longSec)
    few = fewOfLong;
  size_t whole = std::min(tunable.leavingFrom, count);
  for (size_t n = 0; n < count && !status; ++n)
    if ((n < whole ? n : n - whole) < few)
      record(n);
}

/// Leaves those alone that the first round showed to be far from the fastest,
/// but the library's first.
void Timing::leaveSlow() {
  double fastest = all[0].seconds[0];
  for (const Timed &timed : all)
    fastest = std::min(fastest, timed.seconds[0]);
  for (size_t n = 1; n < all.size(); ++n)
    all[n].isSlow = all[n].seconds[0] > 1.5 * fastest;
}

void Timing::timeRounds() {
  auto launch = [&](Timed &timed) {
    return launchGraph(&device, timed.graph.get(), error, errorBytes);
  };
  constexpr int fewest = 3, most = 21;
  double spent = 0;
  for (int round = 0; round < most && !status; ++round) {
    for (Timed &timed : all) {
      if (timed.isSlow)
        continue;
      if (!call(launch(timed)))
        break;
      double seconds = timeOf([&] { return launch(timed); });
      timed.seconds.push_back(seconds / static_cast<double>(inGraph));
      spent += 2 * seconds;
    }
    if (round == 0 && !status && !all.empty())
      leaveSlow();
    if (round + 1 >= fewest && spent > budgetSec)
      break;
  }
}

const Timed &Timing::best() const {
  const Timed *best = &all[0];
  for (const Timed &timed : all)
    if (!timed.isSlow && timed.median() < 0.99 * all[0].median() &&
        timed.median() < best->median())
      best = &timed;
  return *best;
}

kerf_device_status Timing::run(kerf_tuned &tuned) {
  fill();
  if (!call(reserveTimes(&device, 2, error, errorBytes)) ||
      !call(startTimes(&device, error, errorBytes)))
    return status;
  recordAll();
  timeRounds();
  if (status || all.empty())
    return status ? status : KERF_DEVICE_FAILED;
  take(best().number);
  tell(best(), all[0], tuned);
  return KERF_DEVICE_OK;
}

kerf_device_status kerf::cuda::tune(kerf_step *step, void *const *pointers,
                                    double budgetSec, kerf_tuned *tuned,
                                    char *error, size_t errorBytes) {
  *tuned = {};
  Tunable *tunable = step->tunable();
  if (!tunable || tunable->candidates.empty())
    return KERF_DEVICE_OK;
  std::snprintf(tuned->matmul, sizeof tuned->matmul, "%s",
                tunable->matmul.c_str());
  if (!pointers)
    return KERF_DEVICE_OK;
  step->device.makeCurrent();
  return Timing(*step, pointers, budgetSec, error, errorBytes).run(*tuned);
}
