//===- Timeline.cpp - work of several streams and what orders it ----------===//

#include "Timeline.h"

#include <algorithm>

using namespace kerf::sim;

static uint64_t at(const Clock &clock, size_t lane) {
  return lane < clock.size() ? clock[lane] : 0;
}

static void raise(Clock &clock, const Clock &by) {
  clock.resize(std::max(clock.size(), by.size()));
  for (size_t lane = 0; lane < by.size(); ++lane)
    clock[lane] = std::max(clock[lane], by[lane]);
}

size_t Timeline::addLane() {
  queues.emplace_back();
  tips.emplace_back();
  done.push_back(0);
  return queues.size() - 1;
}

void Timeline::append(size_t lane, Work work) {
  Clock &tip = tips[lane];
  queues[lane].push_back({tip, std::move(work), appended++});
  tip.resize(std::max(tip.size(), lane + 1));
  ++tip[lane];
}

Clock Timeline::all() const {
  Clock clock;
  for (size_t lane = 0; lane < tips.size(); ++lane)
    clock.push_back(at(tips[lane], lane));
  return clock;
}

void Timeline::join(size_t lane, const Clock &clock) {
  raise(tips[lane], clock);
}

bool Timeline::isDone(const Clock &clock) const {
  for (size_t lane = 0; lane < clock.size(); ++lane)
    if (clock[lane] > done[lane])
      return false;
  return true;
}

void Timeline::runFront(size_t lane) {
  Work work = std::move(queues[lane].front().work);
  queues[lane].pop_front();
  ++done[lane];
  work();
}

void Timeline::runLane(size_t lane, uint64_t count) {
  while (done[lane] < count) {
    Clock needs = queues[lane].front().needs;
    for (size_t other = 0; other < needs.size(); ++other)
      if (other != lane)
        runLane(other, needs[other]);
    runFront(lane);
  }
}

void Timeline::run(const Clock &clock) {
  for (size_t lane = clock.size(); lane-- > 0;)
    runLane(lane, clock[lane]);
}

void Timeline::runInOrder() {
  for (;;) {
    size_t first = queues.size();
    for (size_t lane = 0; lane < queues.size(); ++lane)
      if (!queues[lane].empty() &&
          (first == queues.size() ||
           queues[lane].front().number < queues[first].front().number))
        first = lane;
    if (first == queues.size())
      return;
    runFront(first);
  }
}

void Timeline::clear() {
  for (size_t lane = 0; lane < queues.size(); ++lane) {
    done[lane] += queues[lane].size();
    queues[lane].clear();
  }
}
