//===- LinkTimes.cpp ------------------------------------------------------===//

#include "kerf/Train/job/LinkTimes.h"

#include "kerf/Train/Log.h"

#include <algorithm>

using namespace kerf::runtime;

static std::vector<std::string>
namesOf(const MachineMap &map, const std::vector<std::string> &machines) {
  std::vector<std::string> names;
  for (const std::vector<uint32_t> &own : map.ranks)
    names.push_back(machines[own.front()]);
  return names;
}

LinkTimes::LinkTimes(kerf_session *session,
                     const std::vector<std::string> &machines)
    : session(session), map(machines), machineNames(namesOf(map, machines)),
      links(map.count()), last(now()) {}

bool LinkTimes::isDue() const {
  constexpr double part = 0.01;
  return now() - last >= shortest / part;
}

kerf_status LinkTimes::exchangeOnce(uint32_t other, bool isFirst,
                                    kerf_error &failure) {
  kerf_status code = KERF_OK;
  for (bool sends : {isFirst, !isFirst})
    if (code == KERF_OK)
      code = sends ? kerf_session_send(session, other, message.data(),
                                       message.size(), &failure)
                   : kerf_session_receive(session, other, message.data(),
                                          message.size(), &failure);
  return code;
}

/// The best of some, if this rank has a part in the round.
kerf_status LinkTimes::exchange(double &seconds, kerf_error &failure) {
  constexpr int times = 3;
  uint32_t rank = kerf_session_rank(session);
  for (auto [low, high] : links.pairs(round)) {
    uint32_t first = map.ranks[low].front(), second = map.ranks[high].front();
    if (rank != first && rank != second)
      continue;
    for (int i = 0; i < times; ++i) {
      double start = now();
      kerf_status code =
          exchangeOnce(rank == first ? second : first, rank == first, failure);
      if (code != KERF_OK)
        return code;
      seconds = i ? std::min(seconds, now() - start) : now() - start;
    }
  }
  return KERF_OK;
}

kerf_status LinkTimes::measure(std::vector<SlowLink> &told,
                               kerf_error &failure) {
  constexpr size_t bytes = 1 << 20;
  message.resize(bytes);
  double own = 0;
  kerf_status code = kerf_session_barrier(session, &failure);
  double start = now();
  if (code == KERF_OK)
    code = exchange(own, failure);
  std::vector<double> all(map.of.size());
  if (code == KERF_OK)
    code = kerf_session_gather(session, &own, 1, all.data(), &failure);
  if (code != KERF_OK)
    return code;
  std::vector<double> seconds;
  for (const MachinePair &pair : links.pairs(round))
    seconds.push_back(all[map.ranks[pair.first].front()]);
  told = links.note(round, seconds);
  last = now();
  shortest = round ? std::min(shortest, last - start) : last - start;
  ++round;
  return KERF_OK;
}
