//===- Ahead.cpp - messages that come before they are wanted --------------===//
//
// Which message a channel brings next stands in the file. Told of it, a
// transport that works on the device lets the message come beside steps. Where
// the host waits for the device (KERF_OP_STOP_IF, the end of the run) nothing
// may be under way: what a neighbor sends behind that may depend on this rank.
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include <algorithm>

using namespace kerf::artifact;
using namespace kerf::runtime;

/// Finds `ahead` of calls [begin, end).
void kerf_session::lookAhead(uint32_t begin, uint32_t end) {
  received = 0;
  if (!transport->onDevice() || aheadOf == begin)
    return;
  aheadOf = begin;
  ahead.clear();
  constexpr size_t none = SIZE_MAX;
  std::vector<size_t> last(channels.size(), none); ///< receive, by channel
  for (uint32_t c = begin; c < end; ++c)
    (void)forCommands(view.calls[c], [&](uint32_t index, int64_t) {
      const kerf_command &command = view.commands[index];
      const int64_t *attrs = view.attrs.data + command.first_attr;
      if (command.opcode == KERF_OP_STOP_IF)
        std::fill(last.begin(), last.end(), none);
      if (command.opcode != KERF_OP_RECEIVE)
        return Status();
      if (size_t before = last[attrs[KERF_SEND_CHANNEL]]; before != none)
        ahead[before] = attrs[KERF_SEND_BYTES];
      last[attrs[KERF_SEND_CHANNEL]] = ahead.size();
      ahead.push_back(0);
      return Status();
    });
}

/// Tells the channel of a receive that is done what comes next.
Status kerf_session::expectNext(const kerf_command &command) {
  if (!transport->onDevice())
    return {};
  uint64_t bytes = ahead[received++];
  int64_t channel = view.attrs[command.first_attr + KERF_SEND_CHANNEL];
  return bytes == 0 ? Status() : channels[channel]->expect(bytes);
}
