//===- Mail.h - transfers over a wire -------------------------------------===//
//
// All that waits on a wire waits here: it looks after the transfers, after the
// control lane, on which ranks say that they stop or leave, and after the whole
// job, in case it stands still.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_MAIL_H
#define KERF_RUNTIME_TRANSPORT_MAIL_H

#include "Transport.h"
#include "Watch.h"

#include "kerf/Runtime/Wire.h"

namespace kerf::runtime {

/// What is sent and received under the order lane; its number is the tag.
enum class MailKind : uint32_t {
  AllReduce,
  AllReduceSums,
  AllGather,
  ReduceScatter,
  AllToAll,
  Rotate,
  Send,
  Barrier
};

/// One rank's connection.
class Mail {
public:
  static Status connect(const kerf_wire_api &api, const Rendezvous &rendezvous,
                        std::unique_ptr<Mail> &mail);
  /// Says that this rank leaves, and waits for the others to.
  ~Mail();

  const uint32_t rank, size;
  Watch watch;
  /// For whoever is at work: collectives keep what they pack and add here.
  std::vector<char> scratch;

  // Starting transfers. `finish` waits for all that were started since.
  Status send(uint32_t to, MailKind kind, const void *data, uint64_t bytes);
  Status receive(uint32_t from, MailKind kind, void *data, uint64_t bytes);
  Status finish();
  /// Returns when `isDone()`, or fails as `finish`.
  Status waitFor(const std::function<bool()> &isDone);

  // The same with a tag of its own; these are waited for with `finish`, too.
  Status receiveTagged(uint32_t from, uint32_t tag, void *data, uint64_t bytes);
  /// A message that nobody waits for: keeps a copy until it is sent.
  Status sendCopy(uint32_t to, uint32_t tag, const void *data, uint64_t bytes);
  /// An empty message that nobody waits for, to be received at some time.
  Status expect(uint32_t from, uint32_t tag);
  uint32_t maxTag() const { return api.max_tag; }

  /// Moves along what nobody waits for.
  void poll();
  /// Tells all other ranks. Only the first one counts.
  bool abort(const std::string &message);
  /// This rank fails as another one does, and should end after it.
  void follow(const Status &status) { aborted = status; }

private:
  struct Transfer {
    kerf_transfer *handle;
    kerf_lane lane;
    bool isReceive;
    uint32_t peer, tag;
    uint64_t bytes;
    std::shared_ptr<std::vector<char>> copy; ///< of `sendCopy`
  };

  Mail(const kerf_wire_api &api, const Rendezvous &rendezvous);
  Status start(std::vector<Transfer> &list, kerf_lane lane, bool isReceive,
               uint32_t peer, uint32_t tag, void *data, uint64_t bytes);
  Status startCopy(kerf_lane lane, uint32_t to, uint32_t tag, const void *data,
                   uint64_t bytes);
  Status test(Transfer &transfer, bool &isDone);
  Status testAll(std::vector<Transfer> &list);
  Status wireFailure(kerf_wire_status code, const char *error);
  Status disagree(const Transfer &transfer, const kerf_message &message);
  void giveUp(std::vector<Transfer> &list);

  Status waitWhile(const std::function<Status(bool &)> &look);
  Status listen();
  void hear(const kerf_message &message);
  Status checkPeers(double now);
  Status checkStall(double now);
  void idle(uint32_t round);
  void tell(char what, const std::string &text);
  bool haveAllLeft() const;

  const kerf_wire_api &api;
  kerf_wire *wire = nullptr;
  std::vector<RankNote> ownNote; ///< where nothing is shared
  std::vector<Transfer> pending, background;

  static constexpr uint64_t kControlBytes = 1024;
  kerf_transfer *control = nullptr;
  char controlText[kControlBytes];
  std::vector<double> leftAt; ///< by rank; 0: it is there
  Status aborted;             ///< what another rank told
  bool hasAborted = false;    ///< this one told
  double stalledAt = 0;
};

} // namespace kerf::runtime

#endif // KERF_RUNTIME_TRANSPORT_MAIL_H
