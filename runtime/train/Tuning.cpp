//===- Tuning.cpp - files of tuned algorithms -----------------------------===//

#include "kerf/Train/Tuning.h"

#include "kerf/Train/Files.h"
#include "kerf/Train/Json.h"
#include "kerf/Train/Launcher.h"
#include "kerf/Train/Log.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

using namespace kerf::runtime;

static constexpr std::string_view formatName = "kerf tuning 1";
/// More matmuls than any model has.
static constexpr size_t mostMatmuls = 1 << 16;

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static std::string hexOf(const uint8_t (&data)[KERF_TUNED_DATA_BYTES]) {
  std::string text;
  for (uint8_t byte : data)
    text += format("%02x", byte);
  return text;
}

/// How many times as fast as the library's first; 0: that does not run.
static double speedupOf(const kerf_tuned &tuned) {
  return tuned.first_seconds / std::max(tuned.seconds, 1e-12);
}

static std::string printEntry(const kerf_tuned &tuned) {
  double speedup = speedupOf(tuned);
  return "{\"matmul\": " + jsonQuote(tuned.matmul) +
         ",\n   \"choice\": " + jsonQuote(tuned.choice) +
         format(", \"index\": %d, \"choices\": %d, \"seconds\": %.4g, "
                "\"first_seconds\": %.4g",
                tuned.index, tuned.choices, tuned.seconds,
                tuned.first_seconds) +
         (speedup > 0 ? format(", \"speedup\": %.3f", speedup) : "") +
         ",\n   \"data\": " + jsonQuote(hexOf(tuned.data)) + "}";
}

std::string TuningFile::print() const {
  std::string text = "{\"format\": " + jsonQuote(std::string(formatName)) +
                     ",\n \"tuned_on\": " + jsonQuote(tunedOn) +
                     ",\n \"driver\": " + jsonQuote(driver) +
                     ",\n \"date\": " + jsonQuote(date) + ",\n \"matmuls\": [";
  for (size_t n = 0; n < entries.size(); ++n)
    text += (n ? ",\n  " : "\n  ") + printEntry(entries[n]);
  return text + "\n ]}\n";
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
/// Takes members of one object until something is wrong.
class Reader {
public:
  Reader(const JsonValue &object, std::string where, std::string &error)
      : object(object), where(std::move(where)), error(error) {}

  bool fail(const std::string &expected) {
    error = where + ": expected " + expected;
    return false;
  }
  const JsonValue *find(const char *key, JsonValue::Kind kind,
                        const char *expected) {
    const JsonValue *value = object.find(key);
    if (value && value->kind == kind)
      return value;
    fail(std::string("\"") + key + "\", " + expected);
    return nullptr;
  }
  bool take(const char *key, std::string &text) {
    const JsonValue *value = find(key, JsonValue::String, "a text");
    if (value)
      text = value->string;
    return value;
  }
  /// Into an array of characters, with a NUL.
  template <size_t Bytes> bool take(const char *key, char (&text)[Bytes]) {
    const JsonValue *value = find(key, JsonValue::String, "a text");
    if (!value)
      return false;
    if (value->string.empty() || value->string.size() >= Bytes ||
        value->string.find('\0') != std::string::npos)
      return fail(format("a \"%s\" of 1 to %zu characters", key, Bytes - 1));
    std::memcpy(text, value->string.c_str(), value->string.size() + 1);
    return true;
  }
  bool take(const char *key, int32_t &number) {
    const JsonValue *value = find(key, JsonValue::Number, "a number");
    if (!value)
      return false;
    if (!value->isInteger || value->integer < 0 || value->integer > 1000)
      return fail(format("a \"%s\" from 0 to 1000", key));
    number = static_cast<int32_t>(value->integer);
    return true;
  }
  bool take(const char *key, double &seconds) {
    const JsonValue *value = find(key, JsonValue::Number, "a number");
    if (!value)
      return false;
    seconds = value->number;
    return (seconds >= 0 && seconds < 1e6) ||
           fail(format("seconds as \"%s\"", key));
  }
  bool take(const char *key, uint8_t (&data)[KERF_TUNED_DATA_BYTES]) {
    std::string text;
    if (!take(key, text))
      return false;
    bool isHex = text.size() == 2 * KERF_TUNED_DATA_BYTES &&
                 text.find_first_not_of("0123456789abcdef") == text.npos;
    if (!isHex)
      return fail(format("a \"%s\" of %u hexadecimal digits", key,
                         2 * KERF_TUNED_DATA_BYTES));
    auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    for (size_t n = 0; n < KERF_TUNED_DATA_BYTES; ++n)
      data[n] = static_cast<uint8_t>(16 * digit(text[2 * n]) +
                                     digit(text[2 * n + 1]));
    return true;
  }

private:
  const JsonValue &object;
  std::string where;
  std::string &error;
};
} // namespace

static bool readEntry(const JsonValue &value, size_t number, kerf_tuned &tuned,
                      std::string &error) {
  tuned = {};
  Reader reader(value, "matmul " + std::to_string(number + 1), error);
  return reader.take("matmul", tuned.matmul) &&
         reader.take("choice", tuned.choice) &&
         reader.take("index", tuned.index) &&
         reader.take("choices", tuned.choices) &&
         reader.take("seconds", tuned.seconds) &&
         reader.take("first_seconds", tuned.first_seconds) &&
         reader.take("data", tuned.data);
}

bool TuningFile::parse(std::string_view text, std::string &error) {
  JsonValue root;
  if (!parseJson(text, root, error))
    return false;
  Reader reader(root, "the file", error);
  std::string found;
  if (!reader.take("format", found))
    return false;
  if (found != formatName)
    return reader.fail("the format '" + std::string(formatName) + "', found " +
                       quote(found));
  const JsonValue *matmuls = nullptr;
  if (!reader.take("tuned_on", tunedOn) || !reader.take("driver", driver) ||
      !reader.take("date", date) ||
      !(matmuls = reader.find("matmuls", JsonValue::Array, "a list")))
    return false;
  if (matmuls->array.size() > mostMatmuls)
    return reader.fail("at most " + std::to_string(mostMatmuls) + " matmuls");
  std::set<std::string> names;
  entries.resize(matmuls->array.size());
  for (size_t n = 0; n < entries.size(); ++n) {
    if (!readEntry(matmuls->array[n], n, entries[n], error))
      return false;
    if (!names.insert(entries[n].matmul).second) {
      error = "matmul " + std::to_string(n + 1) + " is there twice";
      return false;
    }
  }
  return true;
}

bool TuningFile::read(const std::string &path, std::string &error) {
  MappedFile file;
  if (!file.open(path, error))
    return false;
  std::string what;
  std::string_view text(reinterpret_cast<const char *>(file.data()),
                        file.size());
  if (parse(text, what))
    return true;
  error = quote(path) + " is no file of tuned algorithms: " + what +
          "; write it again: kerf-run MODEL.kerf --tune=FILE";
  return false;
}

kerf_tuning TuningFile::view() const {
  return {tunedOn.c_str(), entries.data(),
          static_cast<uint32_t>(entries.size())};
}

//===----------------------------------------------------------------------===//
// Tuning
//===----------------------------------------------------------------------===//

static void tellEntry(const kerf_tuned &tuned) {
  std::string matmul = tuned.matmul;
  double gain = speedupOf(tuned);
  std::printf("  %-34s %10.1f us, number %d of %d%s\n",
              matmul.substr(0, matmul.find(';')).c_str(), tuned.seconds * 1e6,
              tuned.index + 1, tuned.choices,
              tuned.index && gain > 0
                  ? format(", %.2f x as fast as the first", gain).c_str()
                  : "");
  std::fflush(stdout);
}

namespace {
/// Matmuls as they are tuned, and how many no time was left for.
struct Taken {
  TuningFile file;
  size_t left = 0;

  static void take(void *user, const kerf_tuned *tuned) {
    auto *taken = static_cast<Taken *>(user);
    if (tuned->choices == 0) {
      ++taken->left;
      return;
    }
    taken->file.entries.push_back(*tuned);
    tellEntry(*tuned);
  }
};
} // namespace

int kerf::runtime::tuneModel(const RunOptions &options,
                             const kerf_artifact *artifact,
                             std::string &error) {
  if (isRankProcess()) {
    error = "'--tune' measures in one process for all ranks: run it once, "
            "without RANK and without mpirun";
    return 1;
  }
  if (!tryFile(behindLinks(options.tune), error)) // before minutes of measuring
    return 1;
  kerf_session_options how;
  kerf_session_options_init(&how);
  how.device = options.device.empty() ? nullptr : options.device.c_str();
  how.plugin_path =
      options.pluginPath.empty() ? nullptr : options.pluginPath.c_str();
  Taken taken;
  TuningFile &file = taken.file;
  kerf_device_facts facts;
  kerf_error failure;
  double start = now();
  if (kerf_tune(artifact, &how, static_cast<double>(options.measureMs) / 1e3,
                static_cast<double>(options.tuneSeconds), Taken::take, &taken,
                &facts, &failure)) {
    error = failure.message;
    return kerf_exit_code(failure.status);
  }
  if (taken.left)
    std::printf("%zu matmuls are left to the library's first algorithm: "
                "%lld s are over (--tune-seconds)\n",
                taken.left, static_cast<long long>(options.tuneSeconds));
  file.tunedOn = facts.tuned_on;
  file.driver = facts.driver;
  file.date = today();
  if (!writeFile(behindLinks(options.tune), file.print(), error))
    return 1;
  auto isOther = [](const kerf_tuned &tuned) { return tuned.index > 0; };
  std::printf("%s\ntimed %zu matmuls in %.0f s, %lld of them are faster by "
              "another algorithm than the library's first\nwrote %s\n",
              facts.tuned_on, file.entries.size(), now() - start,
              static_cast<long long>(std::count_if(
                  file.entries.begin(), file.entries.end(), isOther)),
              quote(options.tune).c_str());
  return 0;
}
