//===- Timeline.h - work of several streams and what orders it ------------===//
//
// Every stream is a lane of operations in order; an operation also knows how
// much of the other lanes must be done before it (a vector clock), as events
// say. Normally operations run when they are enqueued. "Late", they run when
// somebody waits for them, the last lanes first: work that lacks an event then
// runs before what it needs.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_TIMELINE_H
#define KERF_SIMULATOR_TIMELINE_H

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace kerf::sim {

using Work = std::function<void()>;
/// Number of operations by lane; lanes that it lacks count 0.
using Clock = std::vector<uint64_t>;

class Timeline {
public:
  size_t addLane();
  size_t lanes() const { return tips.size(); }
  /// Adds an operation behind all that `lane` has and waits for.
  void append(size_t lane, Work work);
  /// What an event recorded now in `lane` stands for.
  Clock tip(size_t lane) const { return tips[lane]; }
  /// All operations of all lanes.
  Clock all() const;
  /// What comes next in `lane` waits for `clock`.
  void join(size_t lane, const Clock &clock);

  /// Is everything of `clock` done?
  bool isDone(const Clock &clock) const;
  /// Runs what `clock` needs. An operation that throws ends it; it counts as
  /// done.
  void run(const Clock &clock);
  /// Runs everything, in the order of `append`.
  void runInOrder();
  /// Forgets what has not run.
  void clear();

private:
  struct Operation {
    Clock needs;
    Work work;
    uint64_t number;
  };
  void runLane(size_t lane, uint64_t count);
  void runFront(size_t lane);
  std::vector<std::deque<Operation>> queues;
  std::vector<Clock> tips;
  Clock done;
  uint64_t appended = 0;
};

} // namespace kerf::sim

#endif // KERF_SIMULATOR_TIMELINE_H
