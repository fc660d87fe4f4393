//===- Signals.h - end a run in good order ----------------------*- C++ -*-===//

#ifndef KERF_TRAIN_SIGNALS_H
#define KERF_TRAIN_SIGNALS_H

namespace kerf::runtime {

/// Signals within this time of the first one are the same request.
inline constexpr double kSameRequestSec = 0.25;

/// From now on the first SIGINT, SIGTERM, SIGHUP or SIGUSR1 is only remembered;
/// one that comes more than kSameRequestSec later kills. (mpirun passes on
/// SIGUSR1, and kills on SIGTERM.) A SIGHUP that is ignored (nohup) stays so.
/// Before all ranks have met there is nothing to end in good order, and a rank
/// that waits for others would go on waiting.
void catchSignals();

/// From now on writing to a closed pipe or beyond a file-size limit is an error
/// of the write.
void ignoreWriteSignals();

/// The signal that asked to stop, 0 if none did.
int stopSignal();

} // namespace kerf::runtime

#endif // KERF_TRAIN_SIGNALS_H
