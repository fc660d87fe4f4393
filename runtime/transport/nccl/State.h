//===- State.h - what groups and channels of a rank share -----------------===//

#ifndef KERF_RUNTIME_TRANSPORT_NCCL_STATE_H
#define KERF_RUNTIME_TRANSPORT_NCCL_STATE_H

#include "NcclTransport.h"

namespace kerf::runtime::nccl {

/// A communicator from its naming to its end.
struct Live {
  Named name;
  Comm comm = nullptr; ///< null until `meet`, and after it was aborted
  uint32_t split = 0;  ///< by which one of the job it was made
};

/// A word that tells the host which command is under way on a stream: 1 + its
/// index, 0 when none is.
struct Word {
  uint32_t *address = nullptr;
};

/// One rank's connection to NCCL.
class State {
public:
  explicit State(Parts parts);
  ~State();

  const uint32_t rank, size;
  const std::unique_ptr<Nccl> nccl;
  const std::unique_ptr<Gpu> gpu;
  const std::unique_ptr<Transport> host;
  const kerf_device_api *const api;
  kerf_device *const device;
  uint32_t command = UINT32_MAX; ///< that the rank is in

  Stream stream(uint32_t number) const {
    return static_cast<Stream>(api->stream(device, number));
  }
  Status order(uint32_t before, uint32_t after);
  Status alloc(uint64_t bytes, void *&memory);

  /// A communicator of this name, to be made by `meet`. Released by whoever
  /// named it.
  Live *name(const Named &name);
  void release(Live *live);
  Status meet();
  /// Ends what is under way on all communicators: nothing works any more. What
  /// is behind it on the streams is done when this returns, or soon.
  void abortAll();
  /// A stream of a channel, which `abortAll` waits for.
  void addStream(Stream stream) { channelStreams.push_back(stream); }
  void dropStream(Stream stream) { std::erase(channelStreams, stream); }
  /// Remembers the first failure, which is that of all later calls.
  Status fail(Status status);

  /// After a call of NCCL that returned `result`: waits until it was taken,
  /// and tells what went wrong in `function`.
  Status check(Result result, Live &live, const char *function);
  /// Makes `count` calls as one.
  template <typename Body>
  Status together(Live &live, const char *function, uint64_t count, Body call);

  /// Memory in which exchanges are put into order; as large as the largest so
  /// far. What is enqueued in it is ordered by kExchangeStream. Smaller ones of
  /// before are kept: recorded steps use them.
  Status scratch(uint64_t bytes, char *&memory);
  /// Takes that memory before it is needed: one that nobody used is replaced by
  /// a larger one.
  Status reserveScratch(uint64_t bytes);

  /// Waits until the stream is done. Fails with what went wrong on the device,
  /// in NCCL, or on other ranks.
  Status drain(Stream stream);

  /// Brackets what `enqueue` puts on a stream, for `underWay`.
  template <typename Enqueue>
  Status mark(Word word, Stream stream, Enqueue enqueue);
  Word takeWord();
  void giveWord(Word word) { freeWords.push_back(word); }

private:
  Status makeWorld();
  Status makeParts(const std::vector<Split> &splits);
  Status explain(Result result, const Live &live, const char *function);
  Status asyncError();
  std::string underWay() const;
  void noteProgress();
  void letStreamsEnd();

  const std::unique_ptr<Meeting> meeting;
  const std::function<std::string(uint32_t)> nameCommand;
  const std::function<void()> dropRecordings;
  Live worldLive; ///< all ranks; made to be split
  uint32_t splitCount = 0;
  std::list<Live> lives;
  std::vector<Stream> channelStreams;
  std::vector<Live *> unmet; ///< named since the last `meet`
  bool isAborted = false;
  Status broken; ///< why nothing works any more
  struct Block {
    void *memory;
    uint64_t bytes;
    bool isUsed = false;
  };
  std::vector<Block> scratches; ///< each larger than the one before
  uint32_t *words = nullptr;
  std::vector<uint32_t> seen; ///< of the words, when they were looked at last
  std::vector<Word> freeWords;
};

template <typename Body>
Status State::together(Live &live, const char *function, uint64_t count,
                       Body call) {
  if (count == 0)
    return {};
  if (broken.failed())
    return broken;
  if (!live.comm)
    return failure(KERF_INVALID, "%s: the ranks have not met", function);
  if (count == 1)
    return check(call(0), live, function);
  Result result = nccl->groupStart();
  for (uint64_t n = 0; n < count && result == kSuccess; ++n)
    result = call(n);
  Result ended = nccl->groupEnd();
  return check(result == kSuccess ? ended : result, live, function);
}

template <typename Enqueue>
Status State::mark(Word word, Stream stream, Enqueue enqueue) {
  Status status;
  if (word.address)
    status = gpu->write(word.address, command + 1, stream);
  if (!status.failed())
    status = enqueue();
  if (!status.failed() && word.address)
    status = gpu->write(word.address, 0, stream);
  return status;
}

} // namespace kerf::runtime::nccl

#endif // KERF_RUNTIME_TRANSPORT_NCCL_STATE_H
