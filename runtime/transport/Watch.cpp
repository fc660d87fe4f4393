//===- Watch.cpp ----------------------------------------------------------===//

#include "Watch.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <unistd.h>

using namespace kerf::runtime;

double kerf::runtime::secondsNow() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

std::string kerf::runtime::listRanks(const std::vector<uint32_t> &ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t begin = 0, end; begin < ranks.size(); begin = end) {
    end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
      ++end;
    text += (begin == 0 ? "" : ", ") + std::to_string(ranks[begin]);
    if (end - begin == 2)
      text += ", " + std::to_string(ranks[end - 1]);
    else if (end - begin > 2)
      text += "-" + std::to_string(ranks[end - 1]);
  }
  return text;
}

Watch::Watch(const Rendezvous &rendezvous)
    : rank(rendezvous.rank), limitSec(rendezvous.stallSec),
      nameCommand(rendezvous.nameCommand), notes(rendezvous.size),
      lastLooks(rendezvous.size) {}

void Watch::setNote(uint32_t of, RankNote *note) {
  notes[of] = note;
  if (of != rank || !note)
    return;
  // Where it does not fit the name is truncated, and may lack its end.
  if (gethostname(note->host, sizeof note->host - 1) != 0)
    note->host[0] = 0;
  note->host[sizeof note->host - 1] = 0;
  note->process.store(static_cast<uint32_t>(getpid()));
}

void Watch::enter(uint32_t command) {
  notes[rank]->command.store(command + 1, std::memory_order_relaxed);
  move();
}

void Watch::move() {
  RankNote &note = *notes[rank];
  note.moves.store(note.moves.load(std::memory_order_relaxed) + 1,
                   std::memory_order_relaxed);
}

uint64_t Watch::totalMoves() const {
  uint64_t total = 0;
  for (const RankNote *note : notes)
    total += note ? note->moves.load(std::memory_order_relaxed) : 0;
  return total;
}

void Watch::restart() {
  lastTotal = totalMoves();
  since = lastLook = secondsNow();
  for (uint32_t r = 0; r < notes.size(); ++r)
    lastLooks[r] = notes[r] ? notes[r]->looks.load() : 0;
}

void Watch::beginWait() {
  notes[rank]->isWaiting.store(1);
  restart();
}

void Watch::endWait() {
  RankNote &note = *notes[rank];
  note.isWaiting.store(0);
  note.moves.store(note.moves.load() + 1);
}

double Watch::limit() const {
  bool isPatient = std::any_of(notes.begin(), notes.end(), [](RankNote *note) {
    return !note || (note->command.load() == 0 && !note->isWaiting.load());
  });
  return limitSec * (isPatient && !isLeaving ? 10 : 1);
}

bool Watch::isStalled() {
  // Looks are some 50 ms apart, on a busy machine more.
  constexpr double longestPauseSec = 1;
  notes[rank]->looks.fetch_add(1);
  if (totalMoves() != lastTotal)
    restart();
  double time = secondsNow();
  if (time - lastLook > longestPauseSec)
    since += time - lastLook;
  lastLook = time;
  return limitSec > 0 && time - since > limit();
}

bool Watch::isLate(uint32_t of) const {
  const RankNote *note = notes[of];
  return of != rank && (!note || !note->isWaiting.load() ||
                        note->looks.load() == lastLooks[of]);
}

/// " (process 4711 on 'node7')", of a rank that has said it.
static std::string processOf(const RankNote &note) {
  uint32_t process = note.process.load();
  if (process == 0)
    return "";
  std::string host(note.host, strnlen(note.host, sizeof note.host));
  return " (process " + std::to_string(process) +
         (host.empty() ? "" : " on '" + host + "'") + ")";
}

/// "rank 2 (process 4711 on 'node7') in 'fc' (matmul)".
std::string Watch::place(uint32_t of) const {
  std::string text = "rank " + std::to_string(of);
  const RankNote *note = notes[of];
  if (!note)
    return text + " (not seen from here)";
  text += processOf(*note);
  uint32_t command = note->command.load();
  if (command == 0)
    return text + " outside of a step";
  return text + " in " +
         (nameCommand ? nameCommand(command - 1)
                      : "command " + std::to_string(command - 1));
}

std::string Watch::describe() const {
  std::vector<uint32_t> late, all;
  for (uint32_t r = 0; r < notes.size(); ++r) {
    all.push_back(r);
    if (isLate(r))
      late.push_back(r);
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", limit());
  std::string text = std::string("waited ") + seconds + " s in a group of " +
                     listRanks(group ? *group : all) +
                     (late.empty() ? "; all ranks wait: " : "; late: ");
  constexpr size_t shown = 8;
  const std::vector<uint32_t> &named = late.empty() ? all : late;
  for (size_t i = 0; i < std::min(named.size(), shown); ++i)
    text += (i == 0 ? "" : ", ") + place(named[i]);
  if (named.size() > shown)
    text += " and " + std::to_string(named.size() - shown) + " more";
  return text;
}
