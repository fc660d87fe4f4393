//===- RankTimes.cpp ------------------------------------------------------===//

#include "kerf/Train/job/RankTimes.h"

#include "kerf/Train/Text.h"

#include <algorithm>

#include <unistd.h>

using namespace kerf::runtime;

void RankTimes::begin(kerf_session *session) {
  before = kerf_session_waits(session);
}

void RankTimes::end(kerf_session *session, const StepTimes &times) {
  kerf_waits waits = kerf_session_waits(session);
  double communication =
      waits.collectives + waits.messages - before.collectives - before.messages;
  own = {times.runStart - times.dataStart, communication,
         waits.barriers - between.barriers};
  between = waits;
  busySec += std::max(times.runEnd - times.runStart - communication, 0.0);
  ++steps;
}

namespace {
/// A name as numbers that any transport carries: six bytes are exact in each.
constexpr size_t kBytesEach = 6;
using MachineName = std::array<double, 8>;
} // namespace

static MachineName ownMachine() {
  char name[kBytesEach * std::tuple_size<MachineName>::value + 1] = {};
  if (gethostname(name, sizeof name - 1) != 0)
    name[0] = 0;
  MachineName numbers{};
  for (size_t i = 0; i + 1 < sizeof name; ++i)
    numbers[i / kBytesEach] =
        256 * numbers[i / kBytesEach] + static_cast<unsigned char>(name[i]);
  return numbers;
}

static std::string textOf(const MachineName &numbers) {
  std::string text;
  for (double number : numbers) {
    auto value = static_cast<uint64_t>(number);
    for (size_t i = kBytesEach; i-- > 0;)
      if (auto byte = static_cast<char>(value >> (8 * i)))
        text += byte;
  }
  return text;
}

kerf_status RankTimes::gatherMachines(kerf_session *session, uint32_t ranks,
                                      kerf_error &failure) {
  MachineName name = ownMachine();
  std::vector<MachineName> all(ranks, name);
  kerf_status code =
      ranks > 1 ? kerf_session_gather(session, name.data(), name.size(),
                                      all.data()->data(), &failure)
                : KERF_OK;
  for (const MachineName &each : all)
    machines.push_back(textOf(each));
  return code;
}

kerf_status RankTimes::compare(kerf_session *session,
                               const kerf_artifact *artifact,
                               std::vector<std::array<double, 3>> &waits,
                               std::vector<SlowRank> &slow,
                               kerf_error &failure) {
  auto ranks = static_cast<uint32_t>(kerf_artifact_meta(artifact)->world_size);
  if (!slowRanks) {
    std::vector<uint32_t> stages;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      stages.push_back(stageOf(artifact, rank));
    slowRanks.emplace(std::move(stages));
    if (kerf_status code = gatherMachines(session, ranks, failure);
        code != KERF_OK)
      return code;
  }
  std::array<double, 4> mine = {
      own[0], own[1], own[2],
      busySec / static_cast<double>(std::max<int64_t>(steps, 1))};
  busySec = 0;
  steps = 0;
  std::vector<std::array<double, 4>> all(ranks, mine);
  if (ranks > 1)
    if (kerf_status code = kerf_session_gather(
            session, mine.data(), mine.size(), all.data()->data(), &failure);
        code != KERF_OK)
      return code;
  std::vector<double> busy;
  for (auto [data, communication, barrier, busyOfRank] : all) {
    waits.push_back({data, communication, barrier});
    busy.push_back(busyOfRank);
  }
  if (kerf_session_rank(session) != 0)
    return KERF_OK;
  slow = slowRanks->note(busy);
  add(waits, busy);
  return KERF_OK;
}

void RankTimes::add(const std::vector<std::array<double, 3>> &waits,
                    const std::vector<double> &busySec) {
  for (size_t rank = 0; rank < waits.size(); ++rank) {
    for (size_t kind = 0; kind < 3; ++kind)
      sums[kind] += waits[rank][kind];
    sums[3] += busySec[rank];
  }
  slowestIn.resize(busySec.size());
  ++slowestIn[std::max_element(busySec.begin(), busySec.end()) -
              busySec.begin()];
  ++compared;
}

std::string RankTimes::summary() const {
  if (compared == 0 || slowestIn.size() < 2)
    return "";
  auto [data, communication, barriers, computing] = sums;
  double all = std::max(data + communication + barriers + computing, 1e-9);
  auto slowest = std::max_element(slowestIn.begin(), slowestIn.end());
  return format(
      " of the ranks' time %.1f %% was computing, %.1f %% waiting in "
      "steps, %.1f %% between them, %.1f %% making batches; rank "
      "%lld was the slowest in %.0f %% of %lld steps",
      100 * computing / all, 100 * communication / all, 100 * barriers / all,
      100 * data / all, static_cast<long long>(slowest - slowestIn.begin()),
      100 * static_cast<double>(*slowest) / static_cast<double>(compared),
      static_cast<long long>(compared));
}
