//===- EventFile.h - scalars for TensorBoard --------------------*- C++ -*-===//
//
// An event file is a row of records (TensorFlow's TFRecord):
//
//   u64  bytes of the event        u32  masked CRC-32C of the 8 bytes before
//   the event                      u32  masked CRC-32C of the event
//
// little-endian; masked(c) = (c >> 15 | c << 17) + 0xa282ead8, mod 2^32. An
// event is a message of protocol buffers (tensorflow/core/util/event.proto and
// framework/summary.proto), of which these fields are written:
//
//   Event      1 wall_time: double    2 step: int64    3 file_version: string
//              5 summary: Summary     7 session_log: SessionLog
//   Summary    1 value: Value, repeated
//   Value      1 tag: string          2 simple_value: float
//   SessionLog 1 status: 1 is START
//
// The first event has the version "brain.Event:2". The second is a START: it
// takes back what other files of the folder say about its step and later ones.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_TRAIN_EVENTFILE_H
#define KERF_TRAIN_EVENTFILE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

/// CRC-32C (Castagnoli; RFC 3720, B.4).
uint32_t crc32c(std::string_view bytes);

struct Scalar {
  const char *tag;
  double value; ///< written as a float
};

/// A new file of events. A record is handed to the system whole, with one
/// write: what a killed program has written can be read.
class EventFile {
public:
  EventFile() = default;
  EventFile(const EventFile &) = delete;
  ~EventFile();

  /// Makes a file in `folder` (which is made if needed) under a name that
  /// TensorBoard looks for and sorts behind older ones. It is to speak about
  /// steps from `firstStep` on.
  [[nodiscard]] bool open(const std::string &folder, int64_t firstStep,
                          std::string &error);
  /// Appends an event. On failure the file ends with the event before, and is
  /// closed: further events are dropped.
  [[nodiscard]] bool write(int64_t step, const std::vector<Scalar> &scalars,
                           std::string &error);

private:
  bool append(const std::string &event, std::string &error);

  int descriptor = -1;
  uint64_t size = 0;
  std::string path;
};

} // namespace kerf::runtime

#endif // KERF_TRAIN_EVENTFILE_H
