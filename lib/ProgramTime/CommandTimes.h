//===- CommandTimes.h - how long one command runs -------------------------===//

#ifndef KERF_LIB_PROGRAMTIME_COMMANDTIMES_H
#define KERF_LIB_PROGRAMTIME_COMMANDTIMES_H

#include "kerf/Cost/Collectives.h"
#include "kerf/ProgramTime/ProgramTime.h"

#include "llvm/ADT/StringSet.h"

#include <vector>

namespace kerf {

/// One command of a rank; the same in every call and iteration.
struct CommandTime {
  WorkPart part = WorkPart::Memory;
  double sec = 0;   ///< of a kernel or collective
  double bytes = 0; ///< of a collective: of the whole tensor
};

/// Which axes ranks exchange rows of experts over, and for how many even shares
/// of rows they have room; 0: for all.
struct MoeRoom {
  double shares = 0;
  llvm::StringSet<> axes;
};

/// The cost model asked for the commands of one file.
class CommandTimes {
public:
  /// `machine` has the file's number of ranks. All three outlive this.
  CommandTimes(const ArtifactData &data, const Machine &machine,
               const Profile &profile);

  /// A kernel, a copy or a collective of `program`; nothing for others.
  CommandTime of(const kerf_program &program,
                 const kerf_command &command) const;
  /// Seconds of a message between two stages.
  double messageSec(uint32_t from, uint32_t to, double bytes) const;
  /// Seconds of a copy of `bytes` in a rank's memory.
  double copySec(double bytes) const;
  /// The ranks of a group as sequences, inner ones first.
  std::vector<Group> sequencesOf(const kerf_group &group) const;
  /// True when the ranks of a group belong to several stages.
  bool isAcrossStages(const kerf_group &group) const;

private:
  double matmulSec(const kerf_command &command) const;
  bool isOwnAttention(const kerf_command &command) const;
  double attentionSec(const kerf_command &command) const;
  double groupedSec(const kerf_program &program,
                    const kerf_command &command) const;
  double launchSec(const kerf_program &program,
                   const kerf_command &command) const;
  double filledShare(const kerf_program &program) const;
  CommandTime collective(const kerf_command &command) const;
  double collectiveSec(const kerf_command &command, double bytes) const;
  double packSec(const kerf_command &command, double bytes) const;
  double usedShare(const kerf_program &program, const int64_t *attrs) const;
  double shareOf(const kerf_layout &layout) const;
  double movingSec(double bytes) const;
  std::vector<AlphaBeta> messagesOf() const;

  const int64_t *attrsOf(const kerf_command &command) const {
    return data.attrs.data() + command.first_attr;
  }
  const kerf_operand &operand(const kerf_command &command, uint32_t n) const {
    return data.operands[command.first_operand + n];
  }

  const ArtifactData &data;
  const Machine &machine;
  const Profile &profile;
  Device device; ///< what a rank has of it
  MoeRoom moe;
  std::vector<AlphaBeta> messages; ///< between stages, by border
};

} // namespace kerf

#endif // KERF_LIB_PROGRAMTIME_COMMANDTIMES_H
