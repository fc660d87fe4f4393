//===- RankTimes.cpp ------------------------------------------------------===//

#include "kerf/Train/job/RankTimes.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <string_view>

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

/// Links are measured of host memory's transports: what a device's library
/// uses are others.
kerf_status RankTimes::begin(kerf_session *session,
                             const kerf_artifact *artifact,
                             kerf_error &failure) {
  const kerf_meta *meta = kerf_artifact_meta(artifact);
  auto ranks = static_cast<uint32_t>(meta->world_size);
  std::vector<uint32_t> stages;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    stages.push_back(stageOf(artifact, rank));
  slowRanks.emplace(std::move(stages));
  kerf_status code = gatherMachines(session, ranks, machines, failure);
  bool isOnHost =
      std::string_view("cpu") == kerf_artifact_string(artifact, meta->target);
  if (code == KERF_OK && isOnHost && MachineMap(machines).count() > 1)
    links.emplace(session, machines);
  return code;
}

kerf_status RankTimes::measureLinks(int64_t step, Log &log,
                                    kerf_error &failure) {
  std::vector<SlowLink> told;
  kerf_status code = links->measure(told, failure);
  for (const SlowLink &found : told)
    log.slowLink(found, links->names(), step);
  return code;
}

kerf_status RankTimes::compare(kerf_session *session,
                               const kerf_artifact *artifact, int64_t step,
                               std::vector<std::array<double, 3>> &waits,
                               Log &log, kerf_error &failure) {
  auto ranks = static_cast<uint32_t>(kerf_artifact_meta(artifact)->world_size);
  if (!slowRanks)
    if (kerf_status code = begin(session, artifact, failure); code != KERF_OK)
      return code;
  std::array<double, 5> mine = {
      own[0], own[1], own[2],
      busySec / static_cast<double>(std::max<int64_t>(steps, 1)),
      links && links->isDue() ? 1.0 : 0.0};
  busySec = 0;
  steps = 0;
  std::vector<std::array<double, 5>> all(ranks, mine);
  if (ranks > 1)
    if (kerf_status code = kerf_session_gather(
            session, mine.data(), mine.size(), all.data()->data(), &failure);
        code != KERF_OK)
      return code;
  std::vector<double> busy;
  for (auto [data, communication, barrier, busyOfRank, isDue] : all) {
    waits.push_back({data, communication, barrier});
    busy.push_back(busyOfRank);
  }
  if (all.front().back() > 0)
    if (kerf_status code = measureLinks(step, log, failure); code != KERF_OK)
      return code;
  if (kerf_session_rank(session) != 0)
    return KERF_OK;
  for (const SlowRank &found : slowRanks->note(busy))
    log.slow(found, machines[found.rank], step);
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
