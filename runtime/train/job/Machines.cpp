//===- Machines.cpp -------------------------------------------------------===//

#include "kerf/Train/job/Machines.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include <unistd.h>

using namespace kerf::runtime;

namespace {
/// A name as numbers that any transport carries: six bytes are exact in each.
constexpr size_t kBytesEach = 6;
using NameNumbers = std::array<double, 8>;
constexpr size_t kMostBytes = kBytesEach * std::tuple_size_v<NameNumbers> - 1;
} // namespace

std::string kerf::runtime::machineName() {
  char name[kMostBytes + 1] = {};
  const char *given = std::getenv("KERF_MACHINE");
  if (given && *given)
    return std::string(given).substr(0, kMostBytes);
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

static NameNumbers numbersOf(const std::string &name) {
  NameNumbers numbers{};
  for (size_t i = 0; i < kBytesEach * numbers.size(); ++i)
    numbers[i / kBytesEach] =
        256 * numbers[i / kBytesEach] +
        (i < name.size() ? static_cast<unsigned char>(name[i]) : 0);
  return numbers;
}

static std::string textOf(const NameNumbers &numbers) {
  std::string text;
  for (double number : numbers) {
    auto value = static_cast<uint64_t>(number);
    for (size_t i = kBytesEach; i-- > 0;)
      if (auto byte = static_cast<char>(value >> (8 * i)))
        text += byte;
  }
  return text;
}

kerf_status kerf::runtime::gatherMachines(kerf_session *session, uint32_t ranks,
                                          std::vector<std::string> &machines,
                                          kerf_error &failure) {
  NameNumbers name = numbersOf(machineName());
  std::vector<NameNumbers> all(ranks, name);
  kerf_status code =
      ranks > 1 ? kerf_session_gather(session, name.data(), name.size(),
                                      all.data()->data(), &failure)
                : KERF_OK;
  machines.clear();
  for (const NameNumbers &each : all)
    machines.push_back(textOf(each));
  return code;
}

MachineMap::MachineMap(const std::vector<std::string> &names) {
  std::map<std::string, uint32_t> numbers;
  for (uint32_t rank = 0; rank < names.size(); ++rank) {
    auto [it, isNew] = numbers.try_emplace(names[rank], count());
    if (isNew)
      ranks.emplace_back();
    of.push_back(it->second);
    ranks[it->second].push_back(rank);
  }
}

uint32_t MachineMap::keeperOf(uint32_t rank) const {
  const std::vector<uint32_t> &own = ranks[of[rank]];
  const std::vector<uint32_t> &others =
      ranks[(of[rank] + count() / 2) % count()];
  auto place = std::find(own.begin(), own.end(), rank) - own.begin();
  return others[static_cast<size_t>(place) % others.size()];
}
