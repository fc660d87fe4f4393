//===- Transport.h - communication between the ranks of a job -------------===//
//
// One interface, several ways: `shm` between processes of one machine, messages
// of a library like MPI, and the trivial one of a single rank. All collectives
// are called by all members of a group in one order, and give every rank the
// same bits on every run: sums go over the members in order of their number.
//
// A collective has two halves. `start` gives the others what they need of this
// rank first; whoever is late then delays nobody who has something to compute
// meanwhile. `finish` takes what the others gave, and gives the rest.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_TRANSPORT_H
#define KERF_RUNTIME_TRANSPORT_TRANSPORT_H

#include "Status.h"

#include "kerf/Runtime/Device.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace kerf::runtime {

/// A collective, and what a rank brings to it. Sizes are in elements of `dtype`
/// and may be 0. Source and destination may be the same address for all_reduce,
/// else they do not overlap.
///
/// - all_reduce: destination[i] = sum or maximum of the sources[i], i < inner.
///   bf16 and f16 are summed in f32 and rounded once. Maxima keep NaN.
/// - all_gather: [outer, inner] of each of n members to [outer, n, inner].
/// - reduce_scatter: [outer, n, inner] reduced over members; member r keeps
///   [outer, inner] r.
/// - all_to_all: [outer, n, middle, inner] to [outer, middle, n, inner]: part r
/// of
///   the source's dimension n goes to member r, and the destination's is by
///   sender. With `back` from [outer, middle, n, inner] to [outer, n, middle,
///   inner].
/// - rotate: the source [inner] of the member after this one, the first one's
/// for
///   the last.
struct Exchange {
  uint32_t opcode = KERF_OP_COUNT; ///< of the command that it is
  const void *source = nullptr;
  void *destination = nullptr;
  uint32_t dtype = KERF_F32;
  uint32_t reduction = KERF_SUM;
  bool back = false;
  uint64_t outer = 1, middle = 1, inner = 0;
};

/// The exchange of a command with these attributes (Format.h).
Exchange exchangeOf(uint32_t opcode, const int64_t *attrs, const void *source,
                    void *destination);

/// A group of ranks as one of them sees it. Everything fails with
/// KERF_PEER_LOST, soon, when a member died, left or called `abort`.
class Communicator {
public:
  virtual ~Communicator() = default;

  virtual uint32_t rank() const = 0; ///< number of this member
  virtual uint32_t size() const = 0;
  /// Stream of the device on which exchanges run, of transports that are
  /// `onDevice`.
  virtual uint32_t stream() const { return 0; }

  /// Takes the memory that exchanges like this one need besides their ends, so
  /// that running one takes none: a device that records could give none. Before
  /// any exchange; what was not reserved is taken when it is needed.
  virtual Status reserve(const Exchange &) { return {}; }

  /// Begins an exchange, without waiting for members that are not there yet
  /// (unless they are two exchanges behind). Until `finish` the source stays as
  /// it is, nobody reads the destination, and nothing else of the transport but
  /// `enter` and `abort` is called.
  virtual Status start(const Exchange &exchange) = 0;
  /// Ends the exchange that was started.
  virtual Status finish() = 0;
  Status run(const Exchange &exchange) {
    Status status = start(exchange);
    return status.failed() ? status : finish();
  }

  Status allReduce(const void *source, void *destination, uint32_t dtype,
                   uint32_t reduction, uint64_t count) {
    return run({KERF_OP_ALL_REDUCE, source, destination, dtype, reduction,
                false, 1, 1, count});
  }
  Status allGather(const void *source, void *destination, uint32_t dtype,
                   uint64_t outer, uint64_t inner) {
    return run({KERF_OP_ALL_GATHER, source, destination, dtype, KERF_SUM, false,
                outer, 1, inner});
  }
  /// `bytes` must be the same on both sides.
  virtual Status send(uint32_t member, const void *data, uint64_t bytes) = 0;
  virtual Status receive(uint32_t member, void *data, uint64_t bytes) = 0;
  /// Returns once all members have called it.
  virtual Status barrier() = 0;
};

/// Messages from one rank to another, in order. A channel keeps some of them,
/// so that the sender goes on at once; when it is full the sender waits. Fails
/// like a `Communicator`.
class Channel {
public:
  virtual ~Channel() = default;
  /// The data may be overwritten when this returns.
  virtual Status send(const void *data, uint64_t bytes) = 0;
  /// `bytes` must be what was sent.
  virtual Status receive(void *data, uint64_t bytes) = 0;
  /// The rank will receive a message of so many bytes next, and it waits for
  /// its device or joins the transport only after that: the message may come
  /// beside steps from now on, after those so far.
  virtual Status expect(uint64_t) { return {}; }
};

/// What both ends of a channel say alike.
struct ChannelSpec {
  uint32_t from = 0, to = 0; ///< ranks of the job
  uint64_t key = 0;          ///< tells channels of the same two ranks apart
  uint32_t holds = 1;        ///< messages that are kept
  uint64_t bytes = 0;        ///< of the largest message
};

/// All ranks of a job. Communicators and channels must be gone before their
/// transport.
class Transport {
public:
  virtual ~Transport() = default;

  /// The group of the ranks `members`, this one among them, in this order.
  virtual Status split(const std::vector<uint32_t> &members,
                       std::unique_ptr<Communicator> &group) = 0;
  /// One end of a channel; this rank is `from` or `to`. Does not wait for the
  /// other end.
  virtual Status open(const ChannelSpec &spec,
                      std::unique_ptr<Channel> &channel) = 0;
  /// This rank begins a command of the file (its index), or is outside of a run
  /// (UINT32_MAX): for messages about ranks that hang. Moves messages along
  /// that are under way, so it should be called between commands. Cheap.
  virtual void enter(uint32_t command) = 0;
  /// Makes the other ranks fail with `message`. Only the first one counts: true
  /// if this is it, as far as this rank knows.
  virtual bool abort(const char *message) = 0;

  /// Do groups and channels work on memory of the device? Then what they do is
  /// enqueued: an exchange starts after the steps before `start`, and the steps
  /// after `finish` come after it. Else they work on memory of the host, and
  /// are done on return.
  virtual bool onDevice() const { return false; }
  /// May the device record what groups and channels enqueue?
  virtual bool recordable() const { return false; }
  /// The transport of the same ranks for memory of the host. This one's, unless
  /// it is `onDevice`.
  virtual Transport &host() { return *this; }

  /// Collective, once all ranks have split and opened what they need and before
  /// any of it is used. May be called again after further ones were made.
  virtual Status meet() { return {}; }
  /// Waits until the steps so far and what is ordered before them are done, and
  /// meanwhile watches the job as other waits do. Nothing where it is not
  /// `onDevice`.
  virtual Status drain() { return {}; }
  /// Orders later steps after all that was enqueued, also after messages that
  /// are still on their way.
  virtual Status join() { return {}; }
  /// Returns when `isDone()`, which this rank finds out alone, or fails as
  /// other waits do. Of transports for memory of the host.
  virtual Status waitFor(const std::function<bool()> &isDone) = 0;
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
  /// When nothing moved in the whole job for so long while this rank waits, the
  /// wait fails with KERF_FAILED on one rank, and on the others as if that one
  /// had called `abort`. The message names the group and the late ranks. 0:
  /// never.
  double stallSec = 60;
  /// A command of the file in such messages; may be empty.
  std::function<std::string(uint32_t)> nameCommand;
  /// Gives up what the device recorded of this transport's exchanges, also what
  /// is being recorded; may be empty. Called by a transport that is
  /// `recordable` before it ends in a failure.
  std::function<void()> dropRecordings;
  /// The device whose memory is exchanged, for transports that are `onDevice`.
  const kerf_device_api *api = nullptr;
  kerf_device *device = nullptr;
};

/// Meets the other ranks through the transport `name`: "shm", or that of a
/// library (kerf/Runtime/Wire.h), which is searched as devices are (Plugin.h).
/// Empty: what `defaultTransport` tells.
Status connectTransport(const std::string &name, const char *pluginPath,
                        const Rendezvous &rendezvous,
                        std::unique_ptr<Transport> &transport);

/// Between hosts: "mpi" for a process that mpirun started, else "shm".
const char *defaultTransport();

/// The transport that is asked for: `given`, else KERF_TRANSPORT; where neither
/// is set "nccl" for the device `cuda`, else `defaultTransport`.
std::string chooseTransport(const char *given, const char *device);

/// Meets the other ranks in shared memory. Returns when all are there.
Status connectShm(const Rendezvous &rendezvous,
                  std::unique_ptr<Transport> &transport);

/// Removes what a job of this name that was killed while it started left.
void cleanupShm(const std::string &name);

/// The transport of a job of one rank.
std::unique_ptr<Transport> makeSoloTransport();

} // namespace kerf::runtime

#endif // KERF_RUNTIME_TRANSPORT_TRANSPORT_H
