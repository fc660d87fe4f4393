//===- Sources.cpp - where the sequences of a run come from ---------------===//

#include "kerf/Train/Sources.h"

#include "kerf/Artifact/Format.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace kerf::runtime;

/// Tokens of all files that are looked at before the first step; others are
/// when used.
static constexpr int64_t scannedTokens = 16'000'000;

//===----------------------------------------------------------------------===//
// Names and weights
//===----------------------------------------------------------------------===//

bool kerf::runtime::parseSource(const std::string &text, SourceOption &source) {
  source = {text, 0};
  size_t colon = text.find(':');
  double weight = 0;
  if (colon != std::string::npos &&
      parseReal(std::string_view(text).substr(0, colon), weight)) {
    if (weight < 1e-6 || weight > 1e6)
      return false;
    source = {text.substr(colon + 1), std::llround(1e6 * weight)};
  }
  return !source.path.empty();
}

int64_t Mixture::samples() const {
  return std::accumulate(ranges.begin(), ranges.end(), INT64_C(0),
                         [](int64_t sum, const SampleRange &range) {
                           return sum + range.samples();
                         });
}

double Mixture::share(size_t i) const {
  double sum = 0;
  for (int64_t weight : weights)
    sum += static_cast<double>(weight);
  return static_cast<double>(weights[i]) / sum;
}

uint64_t Sources::fingerprint() const {
  auto of = [&](size_t i) {
    return files[i].fingerprint(training.ranges[i].isByIndex());
  };
  uint64_t hash = of(0);
  for (size_t i = 0; files.size() > 1 && i < files.size(); ++i)
    hash = kerf_mix(
        hash ^ kerf_mix(of(i) + static_cast<uint64_t>(training.weights[i])));
  return hash;
}

int64_t kerf::runtime::countWithoutRepeat(const Mixture &mixture, int64_t seed,
                                          int64_t wanted) {
  wanted = std::min(wanted, mixture.samples());
  Interleave order(mixture.weights, seed);
  for (int64_t number = 0; number < wanted; ++number) {
    SourcePlace place = order.at(number);
    if (place.index >= mixture.ranges[place.source].samples())
      return number;
  }
  return wanted;
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

static bool openFiles(const SourceOptions &options,
                      const std::vector<SourceOption> &named,
                      std::vector<TokenFile> &files, std::string &error) {
  files.resize(named.size());
  for (size_t i = 0; i < named.size(); ++i)
    if (!files[i].open(named[i].path, options.format, options.vocabulary,
                       error))
      return false;
  return true;
}

static bool chooseDocumentEnd(const SourceOptions &options,
                              const std::vector<TokenFile> &files,
                              int64_t &documentEnd, std::string &error) {
  bool isBytes =
      std::all_of(files.begin(), files.end(), [](const TokenFile &file) {
        return file.format() == DataFormat::Bytes || file.documents() >= 0;
      });
  documentEnd = options.documentEnd.value_or(isBytes ? 0 : -1);
  if (options.vocabulary > 0 && documentEnd >= options.vocabulary) {
    error = "'--document-end' " + std::to_string(documentEnd) +
            " is beyond the model's vocabulary of " +
            withCommas(options.vocabulary);
    return false;
  }
  return true;
}

/// Adds tokens [begin, end) of a file to a mixture.
static bool addRange(const TokenFile &file, int64_t begin, int64_t end,
                     const SourceOptions &options, int64_t documentEnd,
                     int64_t weight, const char *what, Mixture &mixture,
                     std::string &error) {
  if (end - begin <= options.sequence) {
    error = quote(file.path()) + ": " + what + " has " +
            withCommas(end - begin) + " tokens, shorter than one sample of " +
            withCommas(options.sequence + 1) +
            " (the model's sequence and one target)";
    return false;
  }
  bool byIndex = !options.documentEnd && file.documents() >= 0;
  mixture.ranges.emplace_back(file, begin, end, options.sequence, documentEnd,
                              byIndex);
  mixture.weights.push_back(
      weight > 0 ? weight
                 : std::min(mixture.ranges.back().samples(), maxSourceWeight));
  return true;
}

bool kerf::runtime::openSources(const SourceOptions &options, Sources &sources,
                                int64_t &documentEnd, std::string &error) {
  if (!openFiles(options, options.training, sources.files, error) ||
      !openFiles(options, options.heldout, sources.heldoutFiles, error) ||
      !chooseDocumentEnd(options, sources.files, documentEnd, error))
    return false;
  if (!options.heldout.empty() || options.heldoutPart)
    sources.heldout.emplace();
  for (size_t i = 0; i < sources.heldoutFiles.size(); ++i) {
    const TokenFile &file = sources.heldoutFiles[i];
    if (!addRange(file, 0, file.size(), options, documentEnd,
                  options.heldout[i].weight, "the held-out data",
                  *sources.heldout, error))
      return false;
  }
  for (size_t i = 0; i < sources.files.size(); ++i) {
    const TokenFile &file = sources.files[i];
    int64_t weight = options.training[i].weight, end = file.size();
    if (options.heldout.empty() && options.heldoutPart) {
      auto kept = static_cast<int64_t>(
          std::llround(static_cast<double>(end) * *options.heldoutPart));
      if (!addRange(file, end - kept, end, options, documentEnd, weight,
                    "the held-out part", *sources.heldout, error))
        return false;
      end -= kept;
    }
    if (!addRange(file, 0, end, options, documentEnd, weight,
                  "the training data", sources.training, error))
      return false;
  }
  return true;
}

bool kerf::runtime::scanSources(const Sources &sources, double &entropy,
                                std::string &error) {
  std::vector<double> shares;
  int64_t each = scannedTokens / static_cast<int64_t>(sources.files.size());
  for (size_t i = 0; i < sources.files.size(); ++i) {
    const TokenFile &file = sources.files[i];
    std::vector<int64_t> counts;
    int64_t looked = std::min(file.size(), each);
    if (!file.scan(0, looked, &counts, error))
      return false;
    shares.resize(std::max(shares.size(), counts.size()));
    double scale = sources.training.share(i) / static_cast<double>(looked);
    for (size_t id = 0; id < counts.size(); ++id)
      shares[id] += scale * static_cast<double>(counts[id]);
  }
  entropy = unigramEntropy(shares);
  for (const TokenFile &file : sources.heldoutFiles)
    if (!file.scan(0, std::min(file.size(), each), nullptr, error))
      return false;
  return true;
}
