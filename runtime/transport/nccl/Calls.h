//===- Calls.h - what the ranks of a job ask of NCCL ----------------------===//
//
// A dry run writes down, per rank, every call of NCCL and what orders streams.
// `checkCalls` runs these lists against each other, as GPUs would.
//
// Problem: do all calls of all ranks find their partners, with the same sizes,
// and does the job come to its end?
//
// Steps: the host of a rank puts its calls on streams until it waits for one.
// The first call of a stream begins; a collective ends when all members of its
// communicator have begun theirs, number by number; a send ends when its
// receive, the same number between the two members, has begun. What has begun
// stays begun, so the order in which ranks are looked at does not matter. When
// nothing can go on and a list is not at its end, the job hangs.
//
// Cost: linear in the calls of all ranks. Ranks whose lists are equal share
// one, so that thousands of ranks need the memory of a few.
//
// Example: A sends to B, then to C, on one stream; B receives from A after it
// received from C; C receives from A, then sends to B. A and B and C hang:
// B waits for C, C for A's second send, A's second send for its first.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_NCCL_CALLS_H
#define KERF_RUNTIME_TRANSPORT_NCCL_CALLS_H

#include "Nccl.h"

#include <functional>
#include <string>
#include <vector>

namespace kerf::runtime::nccl {

enum class CallKind : uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  Send,
  Receive,
  Record, ///< event `count` on the stream
  Wait,   ///< for event `count`
  Drain,  ///< the host waits for the stream
};

/// "ncclAllReduce"; "" for what is no call of NCCL.
const char *functionName(CallKind kind);

/// One entry of a rank's list. Equal on ranks that do the same, so that they
/// share the list: streams and communicators are numbered by the rank, and a
/// peer is told by its distance.
struct Call {
  CallKind kind;
  uint8_t type = 0;      ///< DataType
  uint8_t reduction = 0; ///< Reduction
  uint32_t stream = 0;
  uint32_t comm = 0;     ///< number among those of the rank
  uint32_t distance = 0; ///< (place of the peer - own place) modulo the size
  uint32_t group = 0;    ///< calls of one number are one: ncclGroupStart .. End
  uint32_t command = UINT32_MAX; ///< of the file
  uint64_t count = 0;            ///< elements; the number of an event
  bool operator==(const Call &) const = default;
};

/// A communicator as one of its members has it.
struct Membership {
  uint32_t comm;  ///< number in the job
  uint32_t place; ///< of the rank
};

/// The lists of a whole job.
struct Job {
  std::vector<std::vector<Call>> lists;
  struct Rank {
    uint32_t list = 0; ///< what it calls
    std::vector<Membership> comms;
  };
  std::vector<Rank> ranks;
  std::vector<std::vector<uint32_t>> members; ///< ranks, by communicator
  /// A command of a rank in messages.
  std::function<std::string(uint32_t rank, uint32_t command)> nameCommand;

  /// Takes a rank's list, or finds an equal one.
  uint32_t add(std::vector<Call> list);
};

/// What a check saw.
struct Counts {
  uint64_t calls = 0; ///< of NCCL, over all ranks
  uint64_t collectives = 0, messages = 0;
};

/// Runs the lists against each other. Fails with the first calls that do not
/// fit, or with who waits for whom.
Status checkCalls(const Job &job, Counts &counts);

/// One line of a rank's list: "rank call command function communicator type
/// count stream [peer]". Not of a Record, Wait or Drain.
std::string lineOf(const Job &job, uint32_t rank, uint32_t number,
                   const Call &call);

} // namespace kerf::runtime::nccl

#endif // KERF_RUNTIME_TRANSPORT_NCCL_CALLS_H
