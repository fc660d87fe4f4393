//===- CheckStages.cpp - what programs must agree on ----------------------===//

#include "CheckDetail.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>
#include <vector>

using namespace kerf::artifact;

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

static bool isSameChannel(const View &view, const kerf_channel &a,
                          const kerf_channel &b) {
  return a.from == b.from && a.to == b.to &&
         std::strcmp(view.string(a.name), view.string(b.name)) == 0;
}

bool Checker::checkChannel(uint32_t index) {
  const kerf_channel &channel = view.channels[index];
  if (!checkString(channel.name, "channel", index))
    return false;
  uint32_t own = program - view.programs.data, count = view.programs.count;
  if (channel.from >= count || channel.to >= count ||
      channel.from == channel.to || (channel.from != own && channel.to != own))
    return damaged("channel %u of program %u is from %u to %u of %u", index,
                   own, channel.from, channel.to, count);
  // Memory that ranks share is asked for by these numbers.
  constexpr uint64_t mostMessages = 1 << 16, mostBytes = UINT64_C(1) << 46;
  if (channel.holds == 0 || channel.holds > mostMessages ||
      channel.bytes > mostBytes / channel.holds)
    return damaged("channel '%s' holds %u messages of %llu bytes",
                   view.string(channel.name), channel.holds,
                   (unsigned long long)channel.bytes);
  return true;
}

/// The other end has the channel, once, and says the same; this one has it
/// once.
bool Checker::checkChannelEnds(uint32_t number, uint32_t index) {
  const kerf_channel &channel = view.channels[index];
  uint32_t other = channel.from == number ? channel.to : channel.from;
  for (uint32_t p : {number, other}) {
    const kerf_program &end = view.programs[p];
    uint32_t found = 0;
    for (uint32_t c = 0; c < end.channel_count; ++c) {
      const kerf_channel &there = view.channels[end.first_channel + c];
      if (!isSameChannel(view, channel, there))
        continue;
      ++found;
      if (there.holds != channel.holds || there.bytes != channel.bytes)
        return damaged("channel '%s' from %u to %u holds %u messages of %llu "
                       "bytes at one end and %u of %llu at the other",
                       view.string(channel.name), channel.from, channel.to,
                       channel.holds, (unsigned long long)channel.bytes,
                       there.holds, (unsigned long long)there.bytes);
    }
    if (found != 1)
      return damaged("program %u has channel '%s' from %u to %u %u times, "
                     "expected once",
                     p, view.string(channel.name), channel.from, channel.to,
                     found);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Records by name
//===----------------------------------------------------------------------===//

namespace {
/// A parameter or an input of a program.
struct Entry {
  std::string_view name;
  int64_t start; ///< first iteration of the parameter
  uint32_t index, program;
};
} // namespace

static int64_t startOf(const kerf_param &param) { return param.start; }
static int64_t startOf(const kerf_input &) { return 0; }

/// The records that the programs have of a kind, by name and start.
template <typename Record>
static std::vector<Entry>
entriesOf(const View &view, const Table<Record> &records,
          uint32_t kerf_program::*first, uint32_t kerf_program::*count) {
  std::vector<Entry> entries;
  for (uint32_t p = 0; p < view.programs.count; ++p)
    for (uint32_t i = 0; i < view.programs[p].*count; ++i) {
      uint32_t index = view.programs[p].*first + i;
      const Record &record = records[index];
      entries.push_back({view.string(record.name), startOf(record), index, p});
    }
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    return std::tie(a.name, a.start, a.index) <
           std::tie(b.name, b.start, b.index);
  });
  return entries;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

static bool haveSameStates(const View &view, const kerf_param &a,
                           const kerf_param &b) {
  if (a.master_dtype != b.master_dtype || a.state_count != b.state_count)
    return false;
  for (uint32_t s = 0; s < a.state_count; ++s) {
    const kerf_state &own = view.states[a.first_state + s];
    const kerf_state &other = view.states[b.first_state + s];
    if (own.dtype != other.dtype || own.block != other.block ||
        own.without != other.without ||
        std::strcmp(view.string(own.name), view.string(other.name)) != 0)
      return false;
  }
  return true;
}

static bool haveSameShape(const kerf_layout &a, const kerf_layout &b) {
  return a.rank == b.rank && a.dtype == b.dtype &&
         std::equal(a.global, a.global + a.rank, b.global);
}

/// Two records of the same tensors: tied weights that two stages have.
bool Checker::checkCopies(uint32_t a, uint32_t b) {
  const kerf_param &one = view.params[a], &two = view.params[b];
  if (one.start == two.start && one.end == two.end &&
      haveSameShape(one.layout, two.layout) && one.init == two.init &&
      one.init_value == two.init_value &&
      (isBare(one) || isBare(two) || haveSameStates(view, one, two)))
    return true;
  return damaged("parameters %u and %u are both '%s' and differ", a, b,
                 view.string(one.name));
}

bool Checker::checkCommonParams() {
  std::vector<Entry> entries =
      entriesOf(view, view.params, &kerf_program::first_param,
                &kerf_program::param_count);
  uint32_t full = 0; // of the copies of a parameter one that is not bare
  for (size_t e = 0; e < entries.size(); ++e) {
    uint32_t here = entries[e].index;
    bool meets = e > 0 && entries[e].name == entries[e - 1].name &&
                 entries[e].start < view.params[entries[e - 1].index].end;
    if (!meets) {
      full = here;
      continue;
    }
    if (entries[e].program == entries[e - 1].program)
      return damaged("program %u has '%s' twice", entries[e].program,
                     view.string(view.params[here].name));
    if (!checkCopies(full, here))
      return false;
    if (isBare(view.params[full]))
      full = here;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Inputs and outputs
//===----------------------------------------------------------------------===//

bool Checker::checkCommonInputs() {
  std::vector<Entry> entries =
      entriesOf(view, view.inputs, &kerf_program::first_input,
                &kerf_program::input_count);
  for (size_t e = 1; e < entries.size(); ++e) {
    const Entry &here = entries[e], &before = entries[e - 1];
    if (here.name != before.name)
      continue;
    const kerf_input &one = view.inputs[before.index];
    const kerf_input &two = view.inputs[here.index];
    if (here.program == before.program || one.role != two.role ||
        !haveSameShape(one.layout, two.layout))
      return damaged("inputs %u and %u are both '%s' and differ", before.index,
                     here.index, view.string(one.name));
  }
  return true;
}

/// Every rank holds every output.
bool Checker::checkCommonOutputs(uint32_t number) {
  const kerf_program &first = view.programs[0], &own = view.programs[number];
  if (own.output_count != first.output_count)
    return damaged("program %u has %u outputs, program 0 has %u", number,
                   own.output_count, first.output_count);
  for (uint32_t o = 0; o < own.output_count; ++o) {
    const kerf_output &here = view.outputs[own.first_output + o];
    const kerf_output &there = view.outputs[first.first_output + o];
    auto agrees = [&](uint32_t kerf_output::*text) {
      return std::strcmp(view.string(here.*text), view.string(there.*text)) ==
             0;
    };
    if (here.elements != there.elements || here.start != there.start ||
        here.end != there.end || !agrees(&kerf_output::layers))
      return damaged("output %u of program %u is not of the layers that it is "
                     "of in program 0",
                     o, number);
    if (here.dtype != there.dtype || !agrees(&kerf_output::name))
      return damaged("output %u of program %u is '%s', of program 0 '%s'", o,
                     number, view.string(here.name), view.string(there.name));
  }
  return true;
}

bool Checker::checkStages() {
  // Bounded, so that comparing each with each takes time linear in the file.
  constexpr uint32_t mostChannels = 256;
  for (const kerf_program &own : view.programs) {
    program = &own;
    if (own.channel_count > mostChannels)
      return damaged("a program has %u channels, at most %u", own.channel_count,
                     mostChannels);
    for (uint32_t c = 0; c < own.channel_count; ++c)
      if (!checkChannel(own.first_channel + c))
        return false;
  }
  for (uint32_t p = 0; p < view.programs.count; ++p) {
    const kerf_program &own = view.programs[p];
    for (uint32_t c = 0; c < own.channel_count; ++c)
      if (!checkChannelEnds(p, own.first_channel + c))
        return false;
    if (!checkCommonOutputs(p))
      return false;
  }
  return checkCommonParams() && checkCommonInputs();
}
