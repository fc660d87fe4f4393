//===- Transport.h - communication between the ranks of a job -------------===//
//
// One interface, several ways: `shm` between processes of one machine, and the
// trivial one of a single rank. All collectives are blocking, are called by all
// members of a group in one order, and give every rank the same bits on every
// run: sums go over the members in order of their number.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_TRANSPORT_H
#define KERF_RUNTIME_TRANSPORT_TRANSPORT_H

#include "Status.h"

#include "kerf/Artifact/Format.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace kerf::runtime {

/// A group of ranks as one of them sees it. Sizes are in elements of `dtype`;
/// source and destination may be the same address for `allReduce`, else they
/// do not overlap. Any size may be 0. Everything fails with KERF_PEER_LOST,
/// soon, when a member died, left or called `abort`.
class Communicator {
public:
  virtual ~Communicator() = default;

  virtual uint32_t rank() const = 0; ///< number of this member
  virtual uint32_t size() const = 0;

  /// destination[i] = sum or maximum (kerf_reduction) of the sources[i]. bf16
  /// and f16 are summed in f32 and rounded once. Maxima keep NaN.
  virtual Status allReduce(const void *source, void *destination,
                           uint32_t dtype, uint32_t reduction,
                           uint64_t count) = 0;
  /// [outer, inner] of each member to [outer, n, inner].
  virtual Status allGather(const void *source, void *destination,
                           uint32_t dtype, uint64_t outer, uint64_t inner) = 0;
  /// [outer, n, inner] reduced over members; member r keeps [outer, inner] r.
  virtual Status reduceScatter(const void *source, void *destination,
                               uint32_t dtype, uint32_t reduction,
                               uint64_t outer, uint64_t inner) = 0;
  /// [outer, n, middle, inner] to [outer, middle, n, inner]: part r of the
  /// source's dimension n goes to member r, and the destination's is by sender.
  /// With `back` from [outer, middle, n, inner] to [outer, n, middle, inner].
  virtual Status allToAll(const void *source, void *destination, uint32_t dtype,
                          bool back, uint64_t outer, uint64_t middle,
                          uint64_t inner) = 0;
  /// `bytes` must be the same on both sides.
  virtual Status send(uint32_t member, const void *data, uint64_t bytes) = 0;
  virtual Status receive(uint32_t member, void *data, uint64_t bytes) = 0;
  /// Returns once all members have called it.
  virtual Status barrier() = 0;
};

/// All ranks of a job. Communicators must be gone before their transport.
class Transport {
public:
  virtual ~Transport() = default;

  /// The group of the ranks `members`, this one among them, in this order.
  virtual Status split(const std::vector<uint32_t> &members,
                       std::unique_ptr<Communicator> &group) = 0;
  /// Makes the other ranks fail with `message`. Only the first one counts.
  virtual void abort(const char *message) = 0;
};

/// How ranks find each other.
struct Rendezvous {
  std::string name; ///< shared by the ranks of one job and by no other
  uint32_t rank = 0, size = 1;
  uint64_t programHash = 0; ///< ranks with another one are refused
  double timeoutSec = 60;
  /// Threads that each rank computes with: waits are passive when all ranks
  /// together have more than there are cores.
  uint32_t workers = 1;
};

/// Meets the other ranks in shared memory. Returns when all are there.
Status connectShm(const Rendezvous &rendezvous,
                  std::unique_ptr<Transport> &transport);

/// Removes what a job of this name that was killed while it started left.
void cleanupShm(const std::string &name);

/// The transport of a job of one rank.
std::unique_ptr<Transport> makeSoloTransport();

} // namespace kerf::runtime

#endif // KERF_RUNTIME_TRANSPORT_TRANSPORT_H
