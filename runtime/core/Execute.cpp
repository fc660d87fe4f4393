//===- Execute.cpp - running commands -------------------------------------===//
//
// A step is a list of calls, a call a list of commands. Nothing is decided
// here: what runs, in which order and where it works stands in the file.
//
// A device whose memory the host cannot address enqueues its steps. Then the
// host waits for it where it needs a result: before an exchange through buffers
// of the host, at KERF_OP_STOP_IF and at the end of the run; with `check_nans`
// after each command, and so with `profile` or a trace where the device has no
// clock of its own (Times.cpp).
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

using namespace kerf::artifact;
using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

int32_t kerf_session::scalarAt(const kerf_scalar &scalar,
                               const Place &place) const {
  int64_t value = scalar.constant +
                  scalar.iteration * std::max<int64_t>(place.iteration, 0) +
                  int64_t(scalar.micro) * place.call.micro_batch;
  for (uint32_t a = 0; a < view.axes.count; ++a)
    value += int64_t(scalar.axis[a]) * coordinates[a];
  if (int64_t modulus = scalar.modulus; modulus > 0)
    value = (value % modulus + modulus) % modulus;
  return static_cast<int32_t>(value);
}

/// What does not change from call to call of a command's operands.
std::vector<int64_t>
kerf_session::fixedScalars(const kerf_command &command) const {
  std::vector<int64_t> fixed(command.operand_count, KERF_NOT_FIXED);
  const kerf_call any = {};
  for (uint32_t n = 0; n < command.operand_count; ++n) {
    const kerf_operand &operand = view.operands[command.first_operand + n];
    if (operand.kind != KERF_SCALAR)
      continue;
    const kerf_scalar &scalar = view.scalars[operand.offset];
    if (scalar.iteration == 0 && scalar.micro == 0)
      fixed[n] = scalarAt(scalar, {any, -1});
  }
  return fixed;
}

/// Finds the addresses of a command's operands.
Status kerf_session::resolve(uint32_t index, const Place &place) {
  const kerf_command &command = view.commands[index];
  const kerf_operand *operands = view.operands.data + command.first_operand;
  // Which part is taken, the host tells.
  bool scalarsOnHost = hasHostMemory() || command.opcode == KERF_OP_TAKE;
  int64_t iteration = std::max<int64_t>(place.iteration, 0);
  for (uint32_t n = 0; n < command.operand_count; ++n) {
    const kerf_operand &operand = operands[n];
    if (operand.kind == KERF_ARENA) {
      int64_t slot = place.call.micro_batch % operand.copies;
      pointers[n] = arena + operand.offset + iteration * operand.iter_stride +
                    slot * operand.slot_stride;
    } else if (operand.kind == KERF_SCALAR) {
      scalars[n] = scalarAt(view.scalars[operand.offset], place);
      pointers[n] = &scalars[n];
      const void *address = nullptr;
      char error[512] = "";
      if (scalarsOnHost)
        continue;
      if (api->scalar(device, scalars[n], &address, error, sizeof error))
        return failure(KERF_FAILED, "%s", error);
      pointers[n] = const_cast<void *>(address);
    } else {
      pointers[n] = nullptr;
    }
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

Status kerf_session::synchronize() const {
  if (hasHostMemory())
    return {};
  Status status = transport->drain();
  return status.failed() ? status : waitForDevice();
}

Status kerf_session::waitForDevice() const {
  if (hasHostMemory())
    return {};
  char error[512] = "";
  if (api->synchronize(device, error, sizeof error))
    return failure(KERF_FAILED, "%s", error);
  return {};
}

Status kerf_session::fetch(void *host, const void *memory,
                           uint64_t bytes) const {
  api->copy_out(device, host, memory, bytes);
  // A device tells of a failed copy when it is waited for.
  return waitForDevice();
}

/// Ends the collective that was started and is not done, if there is one.
Status kerf_session::settle() {
  if (started == KERF_NONE)
    return {};
  uint32_t index = std::exchange(started, KERF_NONE);
  const kerf_command &command = view.commands[index];
  return groups[view.attrs[command.first_attr + KERF_COLLECTIVE_GROUP]]
      ->finish();
}

Status kerf_session::collective(uint32_t index) {
  const kerf_command &command = view.commands[index];
  const int64_t *attrs = view.attrs.data + command.first_attr;
  if (command.opcode == KERF_OP_WAIT)
    return started == index - attrs[KERF_WAIT_BACK] ? settle() : Status();
  Communicator &group = *groups[attrs[KERF_COLLECTIVE_GROUP]];
  Exchange exchange =
      exchangeOf(command.opcode, attrs, pointers[0], pointers[1]);
  if (!(command.flags & KERF_STARTS))
    return group.run(exchange);
  started = index;
  return group.start(exchange);
}

Status kerf_session::message(const kerf_command &command) {
  const int64_t *attrs = view.attrs.data + command.first_attr;
  Channel &channel = *channels[attrs[KERF_SEND_CHANNEL]];
  if (command.opcode == KERF_OP_SEND)
    return channel.send(pointers[0], attrs[KERF_SEND_BYTES]);
  Status status = channel.receive(pointers[0], attrs[KERF_SEND_BYTES]);
  return status.failed() ? status : expectNext(command);
}

/// Which part KERF_OP_TAKE takes is known at run time only.
static Status checkTaken(const int64_t *attrs, void *const *pointers) {
  int32_t part = *static_cast<const int32_t *>(pointers[KERF_TAKE_PART]);
  if (part >= 0 && part < attrs[KERF_TAKE_PARTS])
    return {};
  return failure(KERF_INVALID, "takes part %d of %lld", part,
                 (long long)attrs[KERF_TAKE_PARTS]);
}

/// One part of [outer, parts, inner] of memory of the host.
static void take(const int64_t *attrs, void *const *pointers) {
  int64_t part = *static_cast<const int32_t *>(pointers[KERF_TAKE_PART]);
  int64_t parts = attrs[KERF_TAKE_PARTS], bytes = attrs[KERF_TAKE_BYTES];
  auto *source =
      static_cast<const char *>(pointers[KERF_TAKE_SOURCE]) + part * bytes;
  auto *destination = static_cast<char *>(pointers[KERF_TAKE_DESTINATION]);
  // A file may let them overlap.
  for (int64_t o = 0; o < attrs[KERF_TAKE_OUTER] && bytes != 0; ++o)
    std::memmove(destination + o * bytes, source + o * parts * bytes, bytes);
}

/// Ends the step where the number at `address` is above zero.
Status kerf_session::stopIf(uint32_t index, const void *address) const {
  if (Status status = synchronize(); status.failed())
    return status;
  float number;
  Status status = fetch(&number, address, sizeof number);
  if (status.failed())
    return status;
  if (!(number > 0))
    return {};
  // Two digits that are enough.
  return failure(KERF_INVALID, "%s %.2f",
                 view.string(view.commands[index].name),
                 std::ceil(number * 100.0) / 100);
}

Status kerf_session::dispatch(uint32_t index) {
  const kerf_command &command = view.commands[index];
  const int64_t *attrs = view.attrs.data + command.first_attr;
  if (command.opcode == KERF_OP_TAKE) {
    Status status = checkTaken(attrs, pointers.data());
    if (status.failed())
      return status;
    if (hasHostMemory()) {
      take(attrs, pointers.data());
      return {};
    }
  }
  if (command.opcode == KERF_OP_STOP_IF)
    return isRecording ? endPart(index, pointers[0])
                       : stopIf(index, pointers[0]);
  if (isMessage(command.opcode))
    return message(command);
  if (!steps[index])
    return collective(index);
  char error[512] = "";
  if (api->execute(steps[index], pointers.data(), error, sizeof error))
    return failure(KERF_FAILED, "%s", error);
  return {};
}

/// Names the command in a message.
Status kerf_session::describeFailure(uint32_t index, Status status) const {
  const kerf_command &command = view.commands[index];
  if (command.opcode == KERF_OP_STOP_IF)
    return status; // It says what it means.
  std::string text = std::string("'") + view.string(command.name) + "' (" +
                     opcodeName(command.opcode);
  if (command.location != KERF_NONE)
    text += std::string(", ") + view.string(command.location);
  status.message = text + "): " + status.message;
  return status;
}

/// Notes an event; there is room for all of a run. `time`: the device knows
/// better, and is asked when the run is over.
void kerf_session::mark(uint32_t command, const Place &place, double start,
                        double end, size_t time) {
  auto call = static_cast<uint32_t>(&place.call - view.calls.data);
  if (time != SIZE_MAX)
    timed[time].command = command;
  if (!isTracing)
    return;
  if (time != SIZE_MAX)
    timed[time].mark = marked;
  marks[marked++] = {start, end, call, command, place.iteration};
}

/// Books time of a command.
void kerf_session::account(uint32_t index, const Place &place, double start,
                           double end, size_t time) {
  if (profile && time == SIZE_MAX)
    timings[index].seconds += end - start;
  uint32_t opcode = view.commands[index].opcode;
  if (isExchange(opcode))
    (isMessage(opcode) ? waits.messages : waits.collectives) += end - start;
  mark(index, place, start, end, time);
}

/// One exchange at a time is under way: the next one, unless it waits for this
/// one, ends what was started. That time is not its own.
Status kerf_session::makeWay(uint32_t index, const Place &place) {
  const kerf_command &command = view.commands[index];
  if (started == KERF_NONE || !isExchange(command.opcode) ||
      command.opcode == KERF_OP_WAIT)
    return {};
  uint32_t own = started;
  progress.store(own, std::memory_order_relaxed);
  transport->enter(own);
  double start = clockSeconds();
  Status status = settle();
  // On the device it ended with its own stream.
  if (!isTimedByDevice() || !isEnqueued(own))
    account(own, place, start, clockSeconds());
  return status.failed() ? describeFailure(own, std::move(status)) : status;
}

Status kerf_session::runCommand(uint32_t index, const Place &place) {
  const kerf_command &command = view.commands[index];
  if (Status status = makeWay(index, place); status.failed())
    return status;
  progress.store(index, std::memory_order_relaxed);
  transport->enter(index);
  bool isWatched = profile || isTracing;
  bool isTimed = isWatched || isExchange(command.opcode);
  bool byDevice = isTimedByDevice() && isEnqueued(index);
  size_t time = SIZE_MAX;
  // What a command, or an exchange through the host, waits for is no part of
  // it.
  Status status = awaitSnapshot(index);
  if (!status.failed() && bounceBuffers && isExchange(command.opcode))
    status = synchronize();
  double start = isTimed ? clockSeconds() : 0;
  if (!status.failed())
    status = resolve(index, place);
  if (!status.failed() && byDevice)
    status = beginTime(streamOf(index), time);
  if (!status.failed())
    status = dispatch(index);
  if (!status.failed() && byDevice)
    status = endTime(time);
  else if (!status.failed() && isWatched)
    status = synchronize();
  if (profile)
    ++timings[index].calls;
  if (isTimed)
    account(index, place, start, clockSeconds(), time);
  bool isDone = !(command.flags & KERF_STARTS);
  if (!status.failed() && checkNans && isDone)
    status = findNan(index, place);
  return status.failed() ? describeFailure(index, std::move(status)) : status;
}

Status kerf_session::runCommands(const kerf_call &call) {
  return forCommands(call, [&](uint32_t index, int64_t iteration) {
    return runCommand(index, {call, iteration});
  });
}

Status kerf_session::runCall(const kerf_call &call) {
  if (!isTracing)
    return runCommands(call);
  size_t time = SIZE_MAX;
  double start = clockSeconds();
  Status status;
  if (isTimedByDevice())
    status = beginTime(0, time);
  if (!status.failed())
    status = runCommands(call);
  if (!status.failed() && time != SIZE_MAX)
    status = endTime(time);
  mark(KERF_NONE, {call, -1}, start, clockSeconds(), time);
  return status;
}

/// Waits for what is still under way, and tells the others of a failure.
Status kerf_session::finishRun(Status status) {
  if (!status.failed())
    status = transport->join();
  if (!status.failed() && !hasHostMemory())
    status = transport->drain();
  if (!status.failed()) {
    status = waitForDevice();
    if (status.code == KERF_FAILED)
      status.message = "the device failed in this run: " + status.message +
                       (api->note_time ? "; run with --check-nans"
                                       : "; run with --profile") +
                       " to learn in which command";
  }
  if (!status.failed())
    status = readTimes();
  progress.store(UINT32_MAX, std::memory_order_relaxed);
  transport->enter(UINT32_MAX);
  if (status.failed()) {
    broken = status.message;
    bool isFirst = transport->abort(status.message.c_str());
    // Ranks come to the same value at the same time: one of them tells.
    if (!isFirst && status.code == KERF_NOT_FINITE)
      status = failure(KERF_PEER_LOST, "another rank found it, too");
  }
  return status;
}

Status kerf_session::runAll(uint32_t begin, uint32_t end) {
  lookAhead(begin, end);
  Status status;
  for (uint32_t c = begin; c < end && !status.failed(); ++c)
    status = runCall(view.calls[c]);
  return status;
}

Status kerf_session::runCalls(uint32_t begin, uint32_t end) {
  marked = 0;
  if (!broken.empty())
    return failure(KERF_INVALID, "the session failed before: %s",
                   broken.c_str());
  Status status = startTimes();
  return finishRun(status.failed() ? status : runAll(begin, end));
}

//===----------------------------------------------------------------------===//
// C border
//===----------------------------------------------------------------------===//

kerf_status kerf_session_run_step(kerf_session *session, kerf_error *error) {
  return session->runStep().report(error);
}

kerf_status kerf_session_run_evaluation(kerf_session *session,
                                        kerf_error *error) {
  return session
      ->runCalls(session->view.program->train_calls, session->view.calls.count)
      .report(error);
}

bool kerf_session_profile(kerf_session *session, uint32_t index,
                          kerf_profile_entry *entry) {
  const auto &view = session->view;
  auto &entries = session->profileEntries;
  if (index == 0) {
    entries.clear();
    // Few names: a search per command is cheap.
    for (uint32_t c = 0; c < session->timings.size(); ++c) {
      const kerf_session::Timing &timing = session->timings[c];
      uint32_t opcode = view.commands[c].opcode;
      const char *name = view.string(view.commands[c].name);
      auto same = std::find_if(
          entries.begin(), entries.end(), [&](const kerf_profile_entry &e) {
            return e.opcode == opcode && std::strcmp(e.name, name) == 0;
          });
      if (timing.calls == 0)
        continue;
      if (same == entries.end())
        same = entries.insert(same, {name, opcode, 0, 0});
      same->calls += timing.calls;
      same->seconds += timing.seconds;
    }
    std::sort(entries.begin(), entries.end(),
              [](const kerf_profile_entry &a, const kerf_profile_entry &b) {
                if (a.seconds != b.seconds)
                  return a.seconds > b.seconds;
                return std::strcmp(a.name, b.name) < 0;
              });
  }
  if (index >= entries.size())
    return false;
  *entry = entries[index];
  return true;
}

void kerf_session_profile_reset(kerf_session *session) {
  session->timings.assign(session->timings.size(), {});
}
