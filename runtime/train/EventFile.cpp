//===- EventFile.cpp - scalars for TensorBoard ----------------------------===//

#include "kerf/Train/EventFile.h"

#include "kerf/Train/Files.h"
#include "kerf/Train/Text.h"

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

using namespace kerf::runtime;

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

static constexpr std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit)
      sum = sum >> 1 ^ (sum & 1 ? UINT32_C(0x82f63b78) : 0);
    table[byte] = sum;
  }
  return table;
}

uint32_t kerf::runtime::crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> table = makeTable();
  uint32_t sum = UINT32_MAX;
  for (unsigned char byte : bytes)
    sum = sum >> 8 ^ table[(sum ^ byte) & 0xff];
  return ~sum;
}

/// The `bytes` low bytes of a number, the lowest first.
static std::string littleEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i)
    text += static_cast<char>(value >> 8 * i);
  return text;
}

static std::string checksumOf(std::string_view bytes) {
  uint32_t sum = crc32c(bytes);
  return littleEndian(std::rotr(sum, 15) + UINT32_C(0xa282ead8), 4);
}

static std::string recordOf(const std::string &event) {
  std::string length = littleEndian(event.size(), 8);
  return length + checksumOf(length) + event + checksumOf(event);
}

//===----------------------------------------------------------------------===//
// Protocol buffers
//===----------------------------------------------------------------------===//

/// Seven bits per byte, the lowest first; the top bit says that more follow.
static std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7)
    text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}

enum WireType { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

static std::string key(uint64_t field, WireType type) {
  return varint(field << 3 | type);
}

static std::string bytesField(uint64_t field, std::string_view bytes) {
  return key(field, Bytes) + varint(bytes.size()) + std::string(bytes);
}

/// The fields that every event has.
static std::string eventAt(int64_t step) {
  using namespace std::chrono;
  double wallTime =
      duration<double>(system_clock::now().time_since_epoch()).count();
  return key(1, Fixed64) + littleEndian(std::bit_cast<uint64_t>(wallTime), 8) +
         key(2, Varint) + varint(static_cast<uint64_t>(step));
}

static std::string summaryOf(const std::vector<Scalar> &scalars) {
  std::string summary;
  for (const Scalar &scalar : scalars) {
    auto bits = std::bit_cast<uint32_t>(static_cast<float>(scalar.value));
    summary += bytesField(1, bytesField(1, scalar.tag) + key(2, Fixed32) +
                                 littleEndian(bits, 4));
  }
  return summary;
}

//===----------------------------------------------------------------------===//
// File
//===----------------------------------------------------------------------===//

EventFile::~EventFile() {
  if (descriptor >= 0)
    close(descriptor);
}

/// A name that sorts by time; `attempt` makes it another one.
static std::string fileName(int attempt) {
  char host[256] = "host";
  if (gethostname(host, sizeof host - 1) != 0)
    std::strcpy(host, "host");
  for (char &c : host)
    if (c == '/')
      c = '-';
  using namespace std::chrono;
  auto seconds = duration_cast<std::chrono::seconds>(
      system_clock::now().time_since_epoch());
  return format("events.out.tfevents.%010lld.%s.%d.%d",
                static_cast<long long>(seconds.count()), host,
                static_cast<int>(getpid()), attempt);
}

bool EventFile::open(const std::string &folder, int64_t firstStep,
                     std::string &error) {
  if (!makeFolder(folder, error))
    return false;
  for (int attempt = 0; descriptor < 0; ++attempt) {
    path = joinPath(folder, fileName(attempt));
    descriptor = ::open(
        path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno != EEXIST) {
      error = "cannot write " + quote(path) + ": " + std::strerror(errno);
      return false;
    }
  }
  return append(eventAt(0) + bytesField(3, "brain.Event:2"), error) &&
         append(eventAt(firstStep) + bytesField(7, key(1, Varint) + varint(1)),
                error);
}

bool EventFile::append(const std::string &event, std::string &error) {
  std::string record = recordOf(event);
  ssize_t written = ::write(descriptor, record.data(), record.size());
  if (written == static_cast<ssize_t>(record.size())) {
    size += record.size();
    return true;
  }
  error = "cannot write " + quote(path) + ": " +
          std::strerror(written < 0 ? errno : ENOSPC);
  // Readers bear a half record, as long as it is the last one.
  [[maybe_unused]] int ignored =
      ftruncate(descriptor, static_cast<off_t>(size));
  close(descriptor);
  descriptor = -1;
  return false;
}

bool EventFile::write(int64_t step, const std::vector<Scalar> &scalars,
                      std::string &error) {
  return descriptor < 0 ||
         append(eventAt(step) + bytesField(5, summaryOf(scalars)), error);
}
