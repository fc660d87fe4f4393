//===- Trace.cpp - where the time of a run goes ---------------------------===//
//
// While a run is recorded, the executor notes the times of each command and
// call in memory that was allocated before; names are looked up afterwards.
// Meetings of all ranks outside of runs are here, too: their time is waiting.
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include <algorithm>
#include <cstdio>

using namespace kerf::artifact;
using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Clocks
//===----------------------------------------------------------------------===//

uint64_t kerf::runtime::machineNumber() {
  char text[64] = "";
  std::FILE *file = std::fopen("/proc/sys/kernel/random/boot_id", "re");
  if (!file)
    return 0;
  bool isRead = std::fgets(text, sizeof text, file);
  std::fclose(file);
  return isRead ? kerf_hash_name(text) | 1 : 0;
}

namespace {
/// What member 0 answers.
struct ClockReading {
  double seconds;
  uint64_t machine;
};
} // namespace

/// Exchanges with each member; the soonest one counts.
static constexpr int clockRounds = 8;

static Status answerClock(Communicator &group, uint32_t member,
                          uint64_t machine, double (*clock)()) {
  for (int round = 0; round < clockRounds; ++round) {
    char question;
    Status status = group.receive(member, &question, sizeof question);
    if (status.failed())
      return status;
    ClockReading reading = {clock(), machine};
    status = group.send(member, &reading, sizeof reading);
    if (status.failed())
      return status;
  }
  return {};
}

static Status askClock(Communicator &group, uint64_t machine, double (*clock)(),
                       double &offsetSec, double &errorSec) {
  errorSec = 1e300;
  ClockReading reading = {};
  for (int round = 0; round < clockRounds; ++round) {
    char question = 0;
    double before = clock();
    Status status = group.send(0, &question, sizeof question);
    if (!status.failed())
      status = group.receive(0, &reading, sizeof reading);
    if (status.failed())
      return status;
    double after = clock();
    if ((after - before) / 2 >= errorSec)
      continue;
    errorSec = (after - before) / 2;
    offsetSec = reading.seconds - (before + after) / 2;
  }
  if (machine != 0 && reading.machine == machine)
    offsetSec = errorSec = 0;
  return {};
}

Status kerf::runtime::compareClocks(Communicator &group, uint64_t machine,
                                    double (*clock)(), double &offsetSec,
                                    double &errorSec) {
  offsetSec = errorSec = 0;
  if (group.rank() != 0)
    return askClock(group, machine, clock, offsetSec, errorSec);
  Status status;
  for (uint32_t m = 1; m < group.size() && !status.failed(); ++m)
    status = answerClock(group, m, machine, clock);
  return status;
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// Events of a run beyond which none is recorded: 2 GiB of them.
static constexpr int64_t mostEvents = INT64_C(1) << 26;

/// Most events of a command: what it starts may have to end before the next
/// one.
static int64_t eventsOf(const kerf_command &command) {
  return command.flags & KERF_STARTS ? 2 : 1;
}

/// Most events that calls [begin, end) make, at most `mostEvents` + 1.
static int64_t eventsOf(const View &view, uint32_t begin, uint32_t end) {
  int64_t count = 0;
  for (uint32_t c = begin; c < end; ++c) {
    const kerf_func &func = view.funcs[view.calls[c].func];
    uint32_t last = func.first_command + func.command_count;
    ++count;
    for (uint32_t n = func.first_command; n < last; ++n) {
      const kerf_command &command = view.commands[n];
      const int64_t *attrs = view.attrs.data + command.first_attr;
      bool isLoop = command.opcode == KERF_OP_LOOP;
      int64_t turns =
          isLoop ? attrs[KERF_LOOP_END] - attrs[KERF_LOOP_START] : 1;
      uint32_t bodyEnd = isLoop ? n + 1 + attrs[KERF_LOOP_BODY] : n + 1;
      int64_t body = isLoop ? 0 : eventsOf(command);
      for (uint32_t b = n + 1; b < bodyEnd; ++b)
        body += eventsOf(view.commands[b]);
      if (body > 0 && turns > (mostEvents - count) / body)
        return mostEvents + 1;
      count += turns * body;
      n = bodyEnd - 1;
    }
  }
  return count;
}

int64_t kerf::runtime::mostMarks(const View &view) {
  uint32_t train = view.program->train_calls;
  return std::max(eventsOf(view, 0, train),
                  eventsOf(view, train, view.calls.count));
}

/// Fills in what a command is about.
static void describe(const kerf_session &session, uint32_t index,
                     kerf_trace_event &event) {
  const View &view = session.view;
  const kerf_command &command = view.commands[index];
  const int64_t *attrs = view.attrs.data + command.first_attr;
  event.opcode = command.opcode;
  event.name = view.string(command.name);
  event.kind = opcodeName(command.opcode);
  event.location = view.string(command.location);
  if (isMessage(command.opcode)) {
    const kerf_channel &channel = view.channels[attrs[KERF_SEND_CHANNEL]];
    bool isSender = command.opcode == KERF_OP_SEND;
    event.channel = view.string(channel.name);
    event.peer =
        rankOfProgram(view, session.rank, isSender ? channel.to : channel.from);
    event.bytes = attrs[KERF_SEND_BYTES];
    return;
  }
  bool movesOnce = isExchange(command.opcode);
  if (isCollective(command.opcode))
    event.axes = view.groups[attrs[KERF_COLLECTIVE_GROUP]].axes;
  for (uint32_t n = 0; n < command.operand_count; ++n) {
    const kerf_operand &operand = view.operands[command.first_operand + n];
    uint64_t bytes = operand.kind == KERF_ARENA ? operand.bytes : 0;
    event.bytes =
        movesOnce ? std::max(event.bytes, bytes) : event.bytes + bytes;
  }
}

//===----------------------------------------------------------------------===//
// C border
//===----------------------------------------------------------------------===//

kerf_status kerf_session_trace(kerf_session *session, bool isOn,
                               kerf_error *error) {
  bool isTimed = isOn || session->profile;
  int64_t most = isTimed ? mostMarks(session->view) : 0;
  int64_t events = isOn ? most : 0;
  if (events > mostEvents)
    return failure(KERF_UNSUPPORTED,
                   "a run of more than %lld commands cannot be recorded",
                   (long long)mostEvents)
        .report(error);
  session->marked = 0;
  session->timed.clear();
  session->marks.resize(events);
  Status status = session->reserveTimes(most);
  session->isTracing = isOn && !status.failed();
  return status.report(error);
}

bool kerf_session_trace_event(const kerf_session *session, uint32_t index,
                              kerf_trace_event *event) {
  if (index >= session->marked)
    return false;
  const View &view = session->view;
  const kerf_session::Mark &mark = session->marks[index];
  const kerf_call &call = view.calls[mark.call];
  *event = {};
  event->function = view.string(view.funcs[call.func].name);
  event->name = event->function;
  event->opcode = KERF_OP_COUNT;
  event->kind = "call";
  event->location = event->channel = "";
  event->peer = KERF_NONE;
  event->micro_batch = call.micro_batch;
  event->iteration = mark.iteration;
  event->on_device = mark.stream != KERF_NONE;
  event->start = mark.start;
  event->end = mark.end;
  if (mark.command != KERF_NONE)
    describe(*session, mark.command, *event);
  return true;
}

kerf_waits kerf_session_waits(const kerf_session *session) {
  return session->waits;
}

/// Runs a meeting of all ranks outside of a run.
template <typename Meeting>
static kerf_status meet(kerf_session *session, kerf_error *error,
                        Meeting meeting) {
  double start = clockSeconds();
  Status status = meeting(*session->world);
  session->waits.barriers += clockSeconds() - start;
  return status.report(error);
}

kerf_status kerf_session_barrier(kerf_session *session, kerf_error *error) {
  return meet(session, error,
              [](Communicator &world) { return world.barrier(); });
}

kerf_status kerf_session_agree_max(kerf_session *session, int32_t *value,
                                   kerf_error *error) {
  return meet(session, error, [&](Communicator &world) {
    return world.allReduce(value, value, KERF_I32, KERF_MAX, 1);
  });
}

kerf_status kerf_session_gather(kerf_session *session, const double *values,
                                uint32_t count, double *all,
                                kerf_error *error) {
  return meet(session, error, [&](Communicator &world) {
    return world.allGather(values, all, KERF_F64, 1, count);
  });
}

kerf_status kerf_session_send(kerf_session *session, uint32_t rank,
                              const void *data, uint64_t bytes,
                              kerf_error *error) {
  return meet(session, error, [&](Communicator &world) {
    return world.send(rank, data, bytes);
  });
}

kerf_status kerf_session_receive(kerf_session *session, uint32_t rank,
                                 void *data, uint64_t bytes,
                                 kerf_error *error) {
  return meet(session, error, [&](Communicator &world) {
    return world.receive(rank, data, bytes);
  });
}

kerf_status kerf_session_clock_offset(kerf_session *session, double *offsetSec,
                                      double *errorSec, kerf_error *error) {
  return compareClocks(*session->world, machineNumber(), clockSeconds,
                       *offsetSec, *errorSec)
      .report(error);
}
