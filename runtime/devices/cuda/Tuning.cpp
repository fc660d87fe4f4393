//===- Tuning.cpp - algorithms that are chosen by measuring ---------------===//
//
// cuBLASLt lists algorithms for a matmul by what it expects of them. Which one
// is fastest on these operands is found out by timing them (TuningTimes.cpp)
// and kept in a file; here it is looked up. Only what cuBLASLt lists again for
// the same matmul is ever run: bytes of a file never reach the library.
//
//===----------------------------------------------------------------------===//

#include "Tuning.h"

#include "../common/MatmulAttrs.h"
#include "Matmul.h"
#include "Step.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

using namespace kerf::cuda;
namespace matmul = kerf::device::matmul;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// "13.1.0" of 130100.
static std::string versionText(size_t version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::string kerf::cuda::tunedOn(kerf_device &device) {
  char name[128] = "";
  device.driver.deviceGetName(name, sizeof name, device.ordinal);
  return std::string(name) +
         (device.blas.library.failure.empty()
              ? ", cuBLASLt " + versionText(device.blas.getVersion())
              : ", no cuBLASLt");
}

/// All that the list of algorithms depends on: attributes, alignments, room.
/// Attributes that are added later are in it without a change here.
static std::string matmulOf(const Request &r, int epilogue,
                            size_t workspaceBytes) {
  char text[128];
  std::snprintf(text, sizeof text,
                "%s %" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64,
                dtypeText(r.attr(matmul::ADtype)), r.attr(matmul::Batch),
                r.attr(matmul::M), r.attr(matmul::N), r.attr(matmul::K));
  std::string words = std::string(text) + "; attributes";
  for (uint32_t n = 0; n < r.info.command->attr_count; ++n)
    words += " " + std::to_string(r.info.attrs[n]);
  words += "; aligned";
  for (uint32_t n = 0; n < r.info.command->operand_count; ++n)
    words += " " + std::to_string(alignmentOf(r.info.operands[n]));
  return words + "; epilogue " + std::to_string(epilogue) + "; workspace " +
         std::to_string(workspaceBytes) + (r.device.tf32 ? "; tf32" : "");
}

namespace {
struct ConfigName {
  int attribute; ///< CUBLASLT_ALGO_CONFIG_
  const char *name;
};
} // namespace

std::string
kerf::cuda::choiceOf(const CublasLt &blas,
                     const cublasLtMatmulHeuristicResult_t &result) {
  static constexpr ConfigName names[] = {
      {0, "algorithm"}, {1, "tile"},      {6, "stages"},
      {2, "split"},     {3, "reduction"}, {4, "swizzle"},
      {5, "option"},    {7, "inner"},     {8, "cluster"}};
  std::string text;
  for (auto [attribute, name] : names) {
    int32_t value = 0;
    size_t written = 0;
    bool isKnown =
        blas.algorithmGet(
            &result.algo,
            static_cast<cublasLtMatmulAlgoConfigAttributes_t>(attribute),
            &value, sizeof value, &written) == CUBLAS_STATUS_SUCCESS;
    if (isKnown)
      text += (text.empty() ? "" : ", ") + std::string(name) + " " +
              std::to_string(value);
  }
  return text.substr(0, KERF_TUNED_CHOICE_BYTES - 1);
}

//===----------------------------------------------------------------------===//
// Taking
//===----------------------------------------------------------------------===//

bool kerf::cuda::takeTuning(kerf_device &device,
                            const kerf_device_options &options, char *error,
                            size_t errorBytes) {
  device.tuning.tunes = options.tunes;
  const kerf_tuning *given = options.tuning;
  if (!given)
    return true;
  std::string here = tunedOn(device);
  if (here != given->tuned_on) {
    say(error, errorBytes,
        "the algorithms were tuned on '%s', this is '%s': tune again here "
        "(kerf-run MODEL.kerf --tune=FILE), or run without --tuning",
        given->tuned_on, here.c_str());
    return false;
  }
  for (uint32_t n = 0; n < given->count; ++n)
    device.tuning.entries[given->entries[n].matmul] = given->entries[n];
  return true;
}

/// Index of the algorithm that was tuned among `count` results; `count` where
/// it is not: by its bytes, else by what is known of it.
static int findTuned(const CublasLt &blas, const kerf_tuned &tuned,
                     const cublasLtMatmulHeuristicResult_t *results,
                     int count) {
  static_assert(sizeof results->algo == KERF_TUNED_DATA_BYTES);
  for (int n = 0; n < count; ++n)
    if (std::memcmp(&results[n].algo, tuned.data, sizeof tuned.data) == 0)
      return n;
  std::string choice = tuned.choice;
  if (choice.starts_with(leavingWords))
    choice.erase(0, std::strlen(leavingWords));
  for (int n = 0; n < count; ++n)
    if (choiceOf(blas, results[n]) == choice)
      return n;
  return count;
}

static bool fits(const cublasLtMatmulHeuristicResult_t &result,
                 size_t workspaceBytes) {
  return result.state == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= workspaceBytes;
}

/// Keeps what `tune` needs later.
static void keep(const Request &r, const std::string &words,
                 size_t workspaceBytes,
                 const cublasLtMatmulHeuristicResult_t *results, int count,
                 Tunable &tunable) {
  tunable.matmul = words;
  tunable.candidates.clear();
  tunable.operandBytes.clear();
  for (int n = 0; n < count; ++n)
    if (fits(results[n], workspaceBytes))
      tunable.candidates.push_back(results[n]);
  for (uint32_t n = 0; n < r.info.command->operand_count; ++n)
    tunable.operandBytes.push_back(
        r.info.operands[n].kind == KERF_ARENA ? r.info.operands[n].bytes : 0);
}

const kerf_tuned *kerf::cuda::findLeaving(const Request &r, int epilogue,
                                          size_t workspaceBytes) {
  const auto &entries = r.device.tuning.entries;
  auto entry = entries.find(matmulOf(r, epilogue, workspaceBytes));
  bool isLeft = entry != entries.end() &&
                std::string(entry->second.choice).starts_with(leavingWords);
  return isLeft ? &entry->second : nullptr;
}

bool kerf::cuda::chooseTuned(Request &r, size_t workspaceBytes,
                             cublasLtMatmulHeuristicResult_t *results,
                             int count, Tunable &tunable) {
  const Tuning &tuning = r.device.tuning;
  if (!tuning.tunes && tuning.entries.empty())
    return true;
  // Whoever asks again for less does not get round it.
  if (!tunable.lost.empty())
    return r.fail("%s", tunable.lost.c_str());
  std::string words = matmulOf(r, tunable.epilogue, workspaceBytes);
  if (tuning.tunes && words.size() < KERF_TUNED_MATMUL_BYTES)
    keep(r, words, workspaceBytes, results, count, tunable);
  auto entry = tuning.entries.find(words);
  // Without any algorithm the matmul is computed in another way, and asked
  // for again.
  if ((entry == tuning.entries.end() && !tunable.left) || count == 0)
    return true;
  const kerf_tuned &tuned = tunable.left ? *tunable.left : entry->second;
  int found = findTuned(r.device.blas, tuned, results, count);
  if (found == count || !fits(results[found], workspaceBytes)) {
    tunable.lost = "the tuned algorithm (" + std::string(tuned.choice) +
                   ") is not among the " + std::to_string(count) +
                   " that cuBLASLt offers: tune again (kerf-run MODEL.kerf "
                   "--tune=FILE); the matmul is '" +
                   words + "'";
    return r.fail("%s", tunable.lost.c_str());
  }
  std::swap(results[0], results[found]);
  if (r.device.log)
    std::fprintf(stderr, "kerf: cuda: '%s': number %d of %d, as tuned\n",
                 r.name(), found + 1, count);
  return true;
}
