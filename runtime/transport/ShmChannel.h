//===- ShmChannel.h - channels in shared memory ---------------------------===//
//
// A channel is a ring of `holds` messages in memory of its own, which is made
// by the end that opens first and given back when both are closed. The ends
// find each other in the segment's table: the n-th time that the sender opens a
// key meets the n-th time of the receiver.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_SHMCHANNEL_H
#define KERF_RUNTIME_TRANSPORT_SHMCHANNEL_H

#include "ShmSegment.h"

namespace kerf::runtime::shm {

/// The end of this rank. The segment must outlive it.
Status openChannel(Segment &segment, const ChannelSpec &spec,
                   std::unique_ptr<Channel> &channel);

/// Shared memory of a channel.
uint64_t channelBytes(const ChannelSpec &spec);

} // namespace kerf::runtime::shm

#endif // KERF_RUNTIME_TRANSPORT_SHMCHANNEL_H
