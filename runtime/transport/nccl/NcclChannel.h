//===- NcclChannel.h - messages between GPUs ------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_NCCL_NCCLCHANNEL_H
#define KERF_RUNTIME_TRANSPORT_NCCL_NCCLCHANNEL_H

#include "State.h"

namespace kerf::runtime::nccl {

/// A message is sent from a copy, of which there are as many as the channel
/// holds: the steps that follow may overwrite the original at once, and wait
/// only when all copies are still under way.
///
/// A message that is expected comes beside steps, into memory of the channel,
/// and is copied from there when a step wants it. One that is not is received
/// where it belongs, and steps wait.
class NcclChannel : public Channel {
public:
  /// Is in `all` as long as it lives.
  NcclChannel(State &state, std::list<NcclChannel *> &all,
              const ChannelSpec &spec)
      : state(state), all(all), spec(spec) {
    all.push_back(this);
  }
  ~NcclChannel() override;

  /// Its stream, events and copies.
  Status prepare();
  Status send(const void *data, uint64_t bytes) override;
  Status receive(void *data, uint64_t bytes) override;
  Status expect(uint64_t bytes) override;
  /// Orders steps after what was sent since the last join.
  Status join();
  /// Exchanges a byte, once: NCCL makes a connection when it is used first, and
  /// that waits for the other side.
  Status greet();
  Status awaitGreeting();
  uint32_t split() const { return live->split; }
  bool isNew() const { return !hasGreeted; }

private:
  /// A message under way: of the sender, who made it, or of the receiver, for
  /// whom there is room since `isMade`.
  struct Copy {
    void *memory = nullptr;
    Event isMade = nullptr, isSent = nullptr;
    bool isUsed = false;
  };
  bool isSender() const { return state.rank == spec.from; }
  Status makeCopy(Copy &copy);
  Status take(void *data, uint64_t bytes);
  Status fits(bool asSender, uint64_t bytes) const;

  State &state;
  std::list<NcclChannel *> &all;
  const ChannelSpec spec;
  Live *live = nullptr;
  Word word;
  Stream stream = nullptr;
  Event isJoined = nullptr;
  std::vector<Copy> copies;
  void *greeting = nullptr; ///< a byte
  uint64_t sent = 0;
  uint64_t expected = 0;  ///< bytes of the message that comes; 0: none does
  bool isPending = false; ///< something was sent since `join`
  bool hasGreeted = false;
};

} // namespace kerf::runtime::nccl

#endif // KERF_RUNTIME_TRANSPORT_NCCL_NCCLCHANNEL_H
