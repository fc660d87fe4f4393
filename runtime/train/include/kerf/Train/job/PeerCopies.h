//===- PeerCopies.h - states in the memory of other machines ----*- C++ -*-===//
//
// A state between two saves that survives the loss of a machine. Each rank
// writes its file to a folder in its machine's memory, and sends it to a rank
// on another machine, which keeps it in the same folder there:
//   /dev/shm/kerf-copies-ID@MACHINE/step-12/rank-00000.safetensors
// When all have, manifest and index come into the folder of the states, as
// `step-12.copy/`: until then the copy does not exist. The one before it goes
// when the new one is there, so two of them take memory for a moment.
//
// A job goes on from a copy as from a state on disk, in any layout: files that
// ranks of a machine need and that are not in its memory are sent there first.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_JOB_PEERCOPIES_H
#define KERF_TRAIN_JOB_PEERCOPIES_H

#include "kerf/Runtime/Runtime.h"
#include "kerf/Train/StateReader.h"
#include "kerf/Train/job/Machines.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime {

/// Collective: sends files of a copy to the machines whose ranks need them.
/// Fails, with an `error` on the first rank or on one that cannot write, where
/// a file is on no machine of the job any more; then the copy is forgotten.
[[nodiscard]] bool fetchCopy(kerf_session *session,
                             const kerf_artifact *artifact,
                             const StateReader &copy, const std::string &path,
                             kerf_error &failure, std::string &error);

class PeerCopies {
public:
  /// `folder`: of the states. `every`: steps from one copy to the next.
  PeerCopies(kerf_session *session, uint32_t ranks, std::string folder,
             int64_t every);
  ~PeerCopies();
  PeerCopies(const PeerCopies &) = delete;

  /// Collective: finds the machines and makes the folders; this rank saves so
  /// many bytes. `resumed`: the copy that the run goes on from, which stays
  /// until there is another, or "". Fails where memory is too small.
  [[nodiscard]] bool open(uint64_t bytes, const std::string &resumed,
                          std::string &error);
  /// Whether there is another machine.
  bool hasPeers() const { return machines.count() > 1; }
  /// What is kept where, in words.
  std::string describe() const;

  /// The place of this rank's file of a step; "" with an error where there can
  /// be none.
  std::string place(int64_t step, std::string &error);
  /// Begins to send what all ranks have written: files of `bytes`.
  void start(int64_t step, const std::vector<uint64_t> &bytes);
  bool isBusy() const { return !sizes.empty(); }
  /// Collective: sends a part, or all that is left. `isDone`: all is there, and
  /// `complete` comes next. Without an error where another rank tells it.
  [[nodiscard]] bool send(bool all, bool &isDone, std::string &error);
  /// Collective: makes the copy known, by the first rank, and removes what was
  /// there before.
  [[nodiscard]] bool complete(const std::string &manifest,
                              const std::string &index, std::string &error);
  const std::string &id() const { return ownId; }
  /// Removes the copies of a run that ended well. Collective.
  void forget();
  /// Why a call failed: KERF_OK where it could not write.
  kerf_status failed() const { return failure.status; }

private:
  bool check(kerf_status code, std::string &error);
  bool agree(bool isWell, std::string &error);
  bool drawId(std::string &error);
  bool makeRoom(uint64_t bytes, const std::string &resumed, std::string &error);
  bool keepPart(uint32_t rank, uint64_t offset, uint64_t bytes,
                std::string &problem);
  bool sendPart(uint32_t rank, uint64_t offset, uint64_t bytes,
                std::string &problem);
  std::string fileOf(uint32_t rank) const;
  void closeFiles();

  kerf_session *session;
  kerf_error failure{};
  std::string folder, ownId, memory; ///< `memory`: the folder on this machine
  int64_t every;
  uint32_t rank, ranks;
  MachineMap machines;
  uint64_t machineBytes = 0; ///< of a copy, on the fullest machine

  int64_t step = 0;             ///< that is being sent
  std::vector<uint64_t> sizes;  ///< of the files that are being sent
  uint64_t sent = 0;            ///< of each
  std::vector<int> descriptors; ///< by rank: -1, own or kept
  std::vector<char> buffer;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_JOB_PEERCOPIES_H
