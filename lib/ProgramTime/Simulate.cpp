//===- Simulate.cpp - runs a step's commands on clocks --------------------===//
//
// Problem: when does a training step end, if every rank executes its commands
// as `runtime/core` and its transports do?
//
// Idea: ranks of a stage have one program and equal commands, so one rank
// stands for all of them, exactly: it meets others of its stage at the same
// time. A rank is a few clocks. As its order is fixed, every time is the
// largest of the times that it waits for, plus a duration; stages are simulated
// in turn, each as far as what it waits for is known (as in Cost/Timeline.cpp).
//
//   kernel       begins when the one before is done and the host has launched
//                it; a GPU's host runs ahead, `launch` seconds per command
//   collective   begins after the kernels so far, in a stream of its own; the
//                next kernel waits for it, unless it is started: then its wait
//                does, or the next exchange of any kind (one is under way)
//   over stages  begins when all stages have come to it
//   send         copies the message into one of the channel's buffers and goes
//                on; waits where all of them are under way
//   receive      begins when the message is copied, on a GPU beside kernels
//   from
//                the channel's receive before on (unless the host waits between
//                them: runtime/core/Ahead.cpp); what is under way when it is
//                wanted kernels wait for
//
// Cost: some 20 ns per command that runs, whatever the number of ranks.
//
// Example: an all-reduce of 3 ms is started, a kernel of 2 ms follows, then the
// wait: the rank waits 1 ms, which is what is exposed of the all-reduce.
//
//===----------------------------------------------------------------------===//

#include "CommandTimes.h"
#include "Cursor.h"

#include "kerf/Artifact/Check.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <map>
#include <tuple>

using namespace kerf;

namespace {
/// A channel between the ranks of two stages.
struct Channel {
  size_t holds = 1, to = 0;  ///< the stage that receives
  std::vector<double> made;  ///< by message: its copy is done, the link free
  std::vector<double> taken; ///< its receiver has it
  double expectedSec = -1;   ///< there is room for the next; < 0: not yet
};

/// An exchange of all stages.
struct Meeting {
  size_t posted = 0;   ///< stages that have come
  double startSec = 0; ///< the last of them
};

/// A collective that runs beside kernels.
struct Started {
  uint32_t command = KERF_NONE; ///< KERF_NONE: there is none
  double endSec = 0;
  const Meeting *meeting = nullptr; ///< over stages, else null
  double postSec = 0;               ///< when this stage came to it
};

struct Rank {
  Rank(const ArtifactData &data, const kerf_program &program)
      : cursor(data, program) {}

  Cursor cursor;
  double clock = 0;    ///< kernels so far are done
  double host = 0;     ///< launches so far are done
  double linkFree = 0; ///< messages so far have left
  Started started;
  bool isPosted = false; ///< has come to the meeting that it stands before
  std::map<uint32_t, size_t> meetings; ///< by axes: how many it has left
  std::vector<Channel *> channels;     ///< by number in its program
  std::vector<size_t> passed;          ///< messages, by channel
  StageTime time;
  std::map<uint32_t, CollectiveTime> byCommand;
  std::map<uint32_t, int64_t> runs; ///< of kernels, by command
  std::map<uint32_t, MessageTime> byChannel;
  const kerf_call *call = nullptr; ///< that it is in
  Event drawn;                     ///< of that call
  bool isDrawn = false;
  bool isDone = false;
};

class Simulator {
public:
  Simulator(const ArtifactData &data, const Machine &machine,
            const Profile &profile, bool keepEvents);
  std::optional<ProgramTime> run(std::string &error);

private:
  bool advance(size_t stage);
  bool step(size_t stage, const kerf_command &command);
  void compute(Rank &rank, uint32_t index);
  bool collective(size_t stage, uint32_t index);
  bool meet(Rank &rank, uint32_t axes, Meeting *&meeting);
  bool settle(size_t stage);
  bool send(size_t stage, const kerf_command &command);
  bool receive(size_t stage, const kerf_command &command);
  double leave(size_t stage, int64_t channel, double bytes);
  double messageSec(size_t stage, int64_t channel, double bytes) const;
  void copy(Rank &rank, double bytes);
  void stop(size_t stage);
  void expose(Rank &rank, uint32_t index, double sec);
  void launch(Rank &rank);
  void waitUntil(Rank &rank, double sec);
  ProgramTime collect();

  void enterCall(size_t stage);
  void endCall(Rank &rank);
  void noteExchange(size_t stage, uint32_t index, double start, double end);
  bool isOfData(const Rank &rank, uint32_t group) const;

  const ArtifactData &data;
  CommandTimes prices;
  double launchSec;
  bool hasOwnHost; ///< launches run ahead of kernels
  bool keepEvents;
  std::vector<CommandTime> times; ///< by command
  std::vector<bool> acrossStages; ///< by group
  std::vector<Rank> ranks;        ///< one per stage
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Channel> channels;
  std::map<std::pair<uint32_t, size_t>, Meeting> meetings; ///< by axes, number
  std::vector<Event> events;
};
} // namespace

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

Simulator::Simulator(const ArtifactData &data, const Machine &machine,
                     const Profile &profile, bool keepEvents)
    : data(data), prices(data, machine, profile),
      launchSec(machine.device.launchSec),
      hasOwnHost(machine.device.target != BackendTarget::Cpu),
      keepEvents(keepEvents), times(data.commands.size()) {
  for (const kerf_group &group : data.groups)
    acrossStages.push_back(prices.isAcrossStages(group));
  for (const kerf_program &program : data.programs) {
    Rank &rank = ranks.emplace_back(data, program);
    for (uint32_t c = 0; c < program.channel_count; ++c) {
      const kerf_channel &own = data.channels[program.first_channel + c];
      Channel &channel = channels[{own.name, own.from, own.to}];
      channel.holds = own.holds;
      channel.to = own.to;
      rank.channels.push_back(&channel);
    }
    rank.passed.resize(program.channel_count);
    for (uint32_t f = 0; f < program.func_count; ++f) {
      const kerf_func &func = data.funcs[program.first_func + f];
      bool isUpdate = data.strings.get(func.name) == "update";
      for (uint32_t c = 0; c < func.command_count; ++c) {
        uint32_t index = func.first_command + c;
        times[index] = prices.of(program, data.commands[index]);
        if (isUpdate)
          times[index].part = WorkPart::Update;
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Clocks
//===----------------------------------------------------------------------===//

void Simulator::waitUntil(Rank &rank, double sec) {
  double waited = std::max(0.0, sec - rank.clock);
  rank.time.idleSec += waited;
  rank.clock += waited;
}

/// The host has launched one more command.
void Simulator::launch(Rank &rank) {
  if (!hasOwnHost)
    return;
  rank.host += launchSec;
  double late = std::max(0.0, rank.host - rank.clock);
  rank.time.launchSec += late;
  rank.clock += late;
}

void Simulator::compute(Rank &rank, uint32_t index) {
  const CommandTime &time = times[index];
  launch(rank);
  double sec = hasOwnHost ? time.sec : std::max(time.sec, launchSec);
  rank.time.workSec[size_t(time.part)] += time.sec;
  rank.time.launchSec += sec - time.sec;
  rank.time.kernels += 1;
  rank.runs[index] += 1;
  rank.clock += sec;
}

/// Books time that kernels wait for a collective.
void Simulator::expose(Rank &rank, uint32_t index, double sec) {
  rank.byCommand[index].exposedSec += sec;
  rank.clock += sec;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// The meeting before which a stage stands; true when all have come.
bool Simulator::meet(Rank &rank, uint32_t axes, Meeting *&meeting) {
  meeting = &meetings[{axes, rank.meetings[axes]}];
  if (!rank.isPosted) {
    rank.isPosted = true;
    meeting->posted += 1;
    meeting->startSec = std::max(meeting->startSec, rank.clock);
  }
  return meeting->posted == ranks.size();
}

/// Ends what was started; false when other stages have not come to it yet.
bool Simulator::settle(size_t stage) {
  Rank &rank = ranks[stage];
  Started &started = rank.started;
  if (started.command == KERF_NONE)
    return true;
  double sec = times[started.command].sec;
  if (started.meeting) {
    if (started.meeting->posted != ranks.size())
      return false;
    waitUntil(rank, started.meeting->startSec);
    started.endSec = started.meeting->startSec + sec;
  }
  expose(rank, started.command, std::max(0.0, started.endSec - rank.clock));
  noteExchange(stage, started.command, started.endSec - sec, started.endSec);
  started = Started();
  return true;
}

bool Simulator::collective(size_t stage, uint32_t index) {
  Rank &rank = ranks[stage];
  const kerf_command &command = data.commands[index];
  uint32_t group =
      uint32_t(data.attrs[command.first_attr + KERF_COLLECTIVE_GROUP]);
  if (!rank.isPosted) {
    if (!settle(stage))
      return false;
    launch(rank);
  }
  bool starts = command.flags & KERF_STARTS;
  double sec = times[index].sec;
  Started own{index, rank.clock + sec};
  if (acrossStages[group]) {
    Meeting *meeting;
    bool isMet = meet(rank, data.groups[group].axes, meeting);
    if (!isMet && !starts)
      return false;
    rank.isPosted = false;
    rank.meetings[data.groups[group].axes] += 1;
    own.meeting = meeting;
  }
  CollectiveTime &row = rank.byCommand[index];
  row.calls += 1;
  row.bytes += times[index].bytes;
  row.sec += sec;
  rank.started = own;
  return starts || settle(stage);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

bool Simulator::send(size_t stage, const kerf_command &command) {
  Rank &rank = ranks[stage];
  const int64_t *attrs = data.attrs.data() + command.first_attr;
  Channel &channel = *rank.channels[attrs[KERF_SEND_CHANNEL]];
  size_t number = rank.passed[attrs[KERF_SEND_CHANNEL]];
  bool mustWait = number >= channel.holds;
  if (!settle(stage) ||
      (mustWait && channel.taken.size() <= number - channel.holds))
    return false;
  if (mustWait)
    waitUntil(rank, channel.taken[number - channel.holds]);
  launch(rank);
  double bytes(attrs[KERF_SEND_BYTES]);
  copy(rank, bytes);
  channel.made.push_back(leave(stage, attrs[KERF_SEND_CHANNEL], bytes));
  rank.passed[attrs[KERF_SEND_CHANNEL]] += 1;
  return true;
}

/// When a message that is ready may leave: a rank sends one at a time,
/// whichever way. The receiver of CPU ranks fetches it itself.
double Simulator::leave(size_t stage, int64_t channel, double bytes) {
  Rank &rank = ranks[stage];
  if (!hasOwnHost)
    return rank.clock;
  double start = std::max(rank.linkFree, rank.clock);
  rank.linkFree = start + messageSec(stage, channel, bytes);
  return start;
}

double Simulator::messageSec(size_t stage, int64_t channel,
                             double bytes) const {
  const kerf_channel &own =
      data.channels[data.programs[stage].first_channel + size_t(channel)];
  return prices.messageSec(own.from, own.to, bytes);
}

bool Simulator::receive(size_t stage, const kerf_command &command) {
  Rank &rank = ranks[stage];
  const int64_t *attrs = data.attrs.data() + command.first_attr;
  Channel &channel = *rank.channels[attrs[KERF_SEND_CHANNEL]];
  size_t number = rank.passed[attrs[KERF_SEND_CHANNEL]];
  if (!settle(stage) || channel.made.size() <= number)
    return false;
  bool isExpected = channel.expectedSec >= 0;
  const kerf_channel &own = data.channels[data.programs[stage].first_channel +
                                          attrs[KERF_SEND_CHANNEL]];
  double bytes(attrs[KERF_SEND_BYTES]);
  double sec = messageSec(stage, attrs[KERF_SEND_CHANNEL], bytes);
  double start = std::max(channel.made[number], channel.expectedSec);
  if (isExpected) {
    launch(rank);
    waitUntil(rank, start);
  } else {
    waitUntil(rank, start);
    launch(rank);
    start = rank.clock;
  }
  double end = start + sec, exposedSec = std::max(0.0, end - rank.clock);
  MessageTime &row = rank.byChannel[own.name];
  row.calls += 1;
  row.bytes += bytes;
  row.sec += sec;
  row.exposedSec += exposedSec;
  if (keepEvents)
    events.push_back({EventKind::Send, Engine::PipeLink, int(own.from), 0,
                      rank.cursor.call().micro_batch, start, end});
  rank.clock += exposedSec;
  channel.taken.push_back(end);
  if (isExpected)
    copy(rank, bytes);
  if (hasOwnHost)
    channel.expectedSec = rank.clock;
  rank.passed[attrs[KERF_SEND_CHANNEL]] += 1;
  return true;
}

/// A copy between the arena and a channel's buffer.
void Simulator::copy(Rank &rank, double bytes) {
  double sec = prices.copySec(bytes);
  rank.time.sendSec += sec;
  rank.clock += sec;
}

/// The host reads a number: nothing is expected behind it.
void Simulator::stop(size_t stage) {
  Rank &rank = ranks[stage];
  rank.host = std::max(rank.host, rank.clock);
  for (Channel *channel : rank.channels)
    if (channel->to == stage)
      channel->expectedSec = -1;
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// What a function's calls are called in a timeline (runtime/train/Trace.cpp
/// has the same rule): "backward_1_last" is the backward of chunk 1. Nothing
/// for functions that a timeline does not have.
static std::optional<EventKind> kindOf(llvm::StringRef function, int &chunk) {
  function.consume_back("_last");
  auto [base, number] = function.rsplit('_');
  if (number.empty() || number.getAsInteger(10, chunk)) {
    chunk = 0;
    base = function;
  }
  return llvm::StringSwitch<std::optional<EventKind>>(base)
      .Case("forward", EventKind::Forward)
      .Case("backward", EventKind::Backward)
      .Case("weights", EventKind::WeightGradient)
      .Case("update", EventKind::Update)
      .Default(std::nullopt);
}

/// Draws the call that a rank has left, if it is drawn.
void Simulator::endCall(Rank &rank) {
  rank.drawn.endSec = rank.clock;
  if (keepEvents && rank.isDrawn)
    events.push_back(rank.drawn);
}

/// Notes that a rank comes to another call.
void Simulator::enterCall(size_t stage) {
  Rank &rank = ranks[stage];
  if (rank.call)
    endCall(rank);
  rank.call = &rank.cursor.call();
  Event &drawn = rank.drawn;
  auto kind = kindOf(data.strings.get(rank.cursor.func().name), drawn.chunk);
  rank.isDrawn = kind.has_value();
  drawn.kind = kind.value_or(EventKind::Update);
  drawn.stage = int(stage);
  drawn.microBatch =
      drawn.kind == EventKind::Update ? -1 : int64_t(rank.call->micro_batch);
  drawn.startSec = rank.clock;
}

/// True for collectives over data ranks, and outside of layers.
bool Simulator::isOfData(const Rank &rank, uint32_t group) const {
  if (rank.drawn.kind == EventKind::Update)
    return true;
  for (size_t a = 0; a < data.axes.size(); ++a)
    if ((data.groups[group].axes >> a & 1) &&
        data.strings.get(data.axes[a].name).starts_with("dp"))
      return true;
  return false;
}

void Simulator::noteExchange(size_t stage, uint32_t index, double start,
                             double end) {
  const Rank &rank = ranks[stage];
  const kerf_command &command = data.commands[index];
  if (!keepEvents || end <= start ||
      !isOfData(
          rank,
          uint32_t(data.attrs[command.first_attr + KERF_COLLECTIVE_GROUP])))
    return;
  EventKind kind =
      command.opcode != KERF_OP_ALL_GATHER   ? EventKind::GradientSync
      : rank.drawn.kind == EventKind::Update ? EventKind::WeightGather
                                             : EventKind::Gather;
  events.push_back({kind, Engine::DataLink, int(stage), rank.drawn.chunk,
                    rank.drawn.microBatch, start, end});
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// Runs one command; false when something that it waits for is not known yet.
bool Simulator::step(size_t stage, const kerf_command &command) {
  Rank &rank = ranks[stage];
  uint32_t index = rank.cursor.command();
  switch (command.opcode) {
  case KERF_OP_SEND:
    return send(stage, command);
  case KERF_OP_RECEIVE:
    return receive(stage, command);
  case KERF_OP_WAIT: {
    bool isOwn =
        rank.started.command ==
        index - uint32_t(data.attrs[command.first_attr + KERF_WAIT_BACK]);
    return !isOwn || settle(stage);
  }
  case KERF_OP_STOP_IF: // The host reads a number.
    if (!settle(stage))
      return false;
    stop(stage);
    return true;
  default:
    if (artifact::isCollective(command.opcode))
      return collective(stage, index);
    compute(rank, index);
    return true;
  }
}

/// Runs a stage as far as it goes; false if that is nowhere.
bool Simulator::advance(size_t stage) {
  Rank &rank = ranks[stage];
  bool moved = false;
  while (!rank.cursor.isDone()) {
    if (rank.call != &rank.cursor.call())
      enterCall(stage);
    uint32_t index = rank.cursor.command();
    if (!step(stage, data.commands[index]))
      return moved;
    moved = true;
    // A call begins where its first message is there.
    if (index == rank.cursor.func().first_command &&
        data.commands[index].opcode == KERF_OP_RECEIVE)
      rank.drawn.startSec = rank.clock;
    rank.cursor.next();
  }
  if (rank.isDone || !settle(stage))
    return moved;
  endCall(rank);
  return rank.isDone = true;
}

/// "pp dp", in the order of the mesh.
static std::string axesText(const ArtifactData &data, uint32_t axes) {
  llvm::SmallVector<llvm::StringRef, 4> names;
  for (size_t a = 0; a < data.axes.size(); ++a)
    if (axes >> a & 1)
      names.push_back(data.strings.get(data.axes[a].name));
  return llvm::join(names, " ");
}

/// The function that a command is in.
static const kerf_func &funcOf(const ArtifactData &data, uint32_t index) {
  auto after = llvm::upper_bound(data.funcs, index,
                                 [](uint32_t command, const kerf_func &func) {
                                   return command < func.first_command;
                                 });
  return *std::prev(after);
}

/// Runs of commands by function and name. A function for the last micro-batch
/// counts with the one that it stands for.
static std::vector<KernelTime>
kernelsOf(const ArtifactData &data, llvm::ArrayRef<CommandTime> times,
          const std::map<uint32_t, int64_t> &runs) {
  std::map<std::tuple<llvm::StringRef, uint32_t, WorkPart>, KernelTime> rows;
  for (auto [index, calls] : runs) {
    llvm::StringRef name = data.strings.get(funcOf(data, index).name);
    name.consume_back("_last");
    uint32_t own = data.commands[index].name;
    KernelTime &row = rows[{name, own, times[index].part}];
    row.func = name.str();
    row.name = data.strings.get(own).str();
    row.part = times[index].part;
    row.calls += calls;
    row.sec += double(calls) * times[index].sec;
  }
  std::vector<KernelTime> all;
  for (auto &[key, row] : rows)
    all.push_back(std::move(row));
  llvm::sort(all, [](const KernelTime &a, const KernelTime &b) {
    return std::tie(b.sec, a.func, a.name) < std::tie(a.sec, b.func, b.name);
  });
  return all;
}

/// "forward", "weight gradient", ... of a function; its own name for others.
static std::string callOf(llvm::StringRef function) {
  int chunk = 0;
  auto kind = kindOf(function, chunk);
  return kind ? nameOf(*kind).str() : function.str();
}

/// Adds up the commands of one op in one kind of call.
static std::vector<OpTime>
opsOf(const ArtifactData &data, llvm::ArrayRef<CommandTime> times,
      const std::map<uint32_t, int64_t> &runs,
      const std::map<uint32_t, CollectiveTime> &exchanges) {
  std::map<std::tuple<std::string, uint32_t, uint32_t>, OpTime> rows;
  auto add = [&](uint32_t index, int64_t calls, double sec, bool isExchange) {
    const kerf_command &command = data.commands[index];
    std::string call = callOf(data.strings.get(funcOf(data, index).name));
    OpTime &row = rows[{call, command.name, command.location}];
    row.call = call;
    row.name = data.strings.get(command.name).str();
    row.op = data.strings.get(command.location).str();
    row.isExchange = isExchange;
    row.calls += calls;
    row.sec += sec;
  };
  for (auto [index, calls] : runs)
    add(index, calls, double(calls) * times[index].sec, false);
  for (const auto &[index, own] : exchanges)
    add(index, own.calls, own.sec, true);
  auto values = llvm::make_second_range(rows);
  return {values.begin(), values.end()};
}

/// Adds up the commands of one kind and group.
static std::vector<CollectiveTime>
rowsOf(const ArtifactData &data,
       const std::map<uint32_t, CollectiveTime> &byCommand) {
  std::map<std::pair<uint32_t, uint32_t>, CollectiveTime> rows;
  for (const auto &[index, own] : byCommand) {
    const kerf_command &command = data.commands[index];
    uint32_t axes =
        data.groups[data.attrs[command.first_attr + KERF_COLLECTIVE_GROUP]]
            .axes;
    CollectiveTime &row = rows[{command.opcode, axes}];
    row.kind = artifact::opcodeName(command.opcode);
    row.axes = axesText(data, axes);
    row.calls += own.calls;
    row.bytes += own.bytes;
    row.sec += own.sec;
    row.exposedSec += own.exposedSec;
  }
  auto values = llvm::make_second_range(rows);
  return {values.begin(), values.end()};
}

ProgramTime Simulator::collect() {
  ProgramTime result;
  for (const Rank &rank : ranks)
    result.stepSec = std::max(result.stepSec, rank.clock);
  for (Rank &rank : ranks) {
    rank.time.idleSec += result.stepSec - rank.clock;
    rank.time.collectives = rowsOf(data, rank.byCommand);
    rank.time.kernelTimes = kernelsOf(data, times, rank.runs);
    rank.time.opTimes = opsOf(data, times, rank.runs, rank.byCommand);
    for (auto &[name, row] : rank.byChannel) {
      row.channel = data.strings.get(name).str();
      rank.time.messages.push_back(row);
    }
    result.stages.push_back(rank.time);
  }
  for (size_t s = 0; s < result.stages.size(); ++s)
    if (result.stages[s].idleSec < result.stages[result.critical].idleSec)
      result.critical = s;
  llvm::sort(events, [](const Event &a, const Event &b) {
    return std::tie(a.startSec, a.stage, a.engine, a.endSec, a.kind) <
           std::tie(b.startSec, b.stage, b.engine, b.endSec, b.kind);
  });
  result.timeline.totalSec = result.stepSec;
  for (const StageTime &stage : result.stages)
    result.timeline.busySec.push_back(stage.computeSec());
  result.timeline.events = std::move(events);
  return result;
}

std::optional<ProgramTime> Simulator::run(std::string &error) {
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < ranks.size(); ++s)
      moved |= advance(s);
  }
  for (size_t s = 0; s < ranks.size(); ++s)
    if (!ranks[s].isDone) {
      const kerf_command &command = data.commands[ranks[s].cursor.command()];
      error = "stage " + std::to_string(s) + " waits for ever in '" +
              data.strings.get(command.name).str() + "' (" +
              artifact::opcodeName(command.opcode) + ")";
      return std::nullopt;
    }
  return collect();
}

std::optional<ProgramTime>
kerf::timeProgram(const ArtifactData &data, const Machine &machine,
                  const Profile &profile, bool keepEvents, std::string &error) {
  Machine own = machineOf(data, machine);
  return Simulator(data, own, profile, keepEvents).run(error);
}
