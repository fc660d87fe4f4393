#include "Rope.h"

#include "kerf/Dialect/Kerf/Kerf.h"

#include <cmath>

using namespace kerf;
using namespace mlir;

static constexpr RealRange kPositive{0.0, RealRange().end, true};

/// The object with the parameters, or null when there is none; `name` becomes
/// its field.
static const json::Value *findParameters(ConfigReader &config,
                                         llvm::StringRef &name) {
  const json::Value *found = nullptr;
  for (llvm::StringRef field : {"rope_scaling", "rope_parameters"}) {
    const json::Value *value = config.findNonNull(field);
    if (!value)
      continue;
    if (value->kind != json::Kind::Object) {
      config.error(field) << "field '" << field
                          << "': expected an object or null, found "
                          << ConfigReader::describe(*value);
      continue;
    }
    if (value->object.empty())
      continue;
    if (found && json::print(*found) != json::print(*value)) {
      InFlightDiagnostic diagnostic = config.error(field);
      diagnostic << "field '" << field << "' contradicts field '" << name
                 << "'";
      diagnostic.attachNote(config.locationOf(name)) << "given here";
    }
    if (!found)
      name = field;
    found = found ? found : value;
  }
  return found;
}

/// `rope_type`, or `type` as earlier versions spell it.
static std::string readType(ConfigReader &rope) {
  std::string type = rope.string("rope_type", rope.string("type", "default"));
  const json::Value *older = rope.find("type");
  if (older && older->kind == json::Kind::String && older->string != type) {
    InFlightDiagnostic diagnostic = rope.error("type");
    diagnostic << "rope type " << json::quote(older->string)
               << " in 'type' contradicts " << json::quote(type)
               << " in 'rope_type'";
  }
  return type;
}

/// A field without which this type of scaling has no meaning.
static double required(ConfigReader &rope, llvm::StringRef type,
                       llvm::StringRef field, RealRange range) {
  if (!rope.find(field))
    rope.error(field) << "missing field '" << field << "' of rope type '"
                      << type << "'";
  return rope.real(field, 1.0, range);
}

static Attribute readLlama3(ConfigReader &rope, int64_t maxPositions) {
  double factor = required(rope, "llama3", "factor", {1.0});
  double low = required(rope, "llama3", "low_freq_factor", kPositive);
  double high = required(rope, "llama3", "high_freq_factor", kPositive);
  int64_t original =
      rope.integer("original_max_position_embeddings", maxPositions);
  if (rope.failed())
    return {};
  if (high <= low) {
    rope.error("high_freq_factor")
        << "expected 'high_freq_factor' above 'low_freq_factor' "
        << ConfigReader::describe(low) << ", found "
        << ConfigReader::describe(high);
    return {};
  }
  return RopeLlama3Attr::get(rope.getContext(), factor, low, high,
                             static_cast<double>(original));
}

/// A field that may be absent or null.
static std::optional<double>
optionalReal(ConfigReader &rope, llvm::StringRef field, RealRange range = {}) {
  if (!rope.findNonNull(field))
    return std::nullopt;
  return rope.real(field, 1.0, range);
}

/// What YaRN multiplies cosines and sines by, unless the config says: attention
/// gets sharper as contexts get longer (Peng et al. 2023, equation 22).
static double yarnMagnitude(ConfigReader &rope, double factor) {
  std::optional<double> magnitude =
      optionalReal(rope, "attention_factor", kPositive);
  double over = optionalReal(rope, "mscale").value_or(0);
  double under = optionalReal(rope, "mscale_all_dim").value_or(0);
  auto grown = [&](double scale) { return 0.1 * scale * std::log(factor) + 1; };
  if (magnitude)
    return *magnitude;
  return over != 0 && under != 0 ? grown(over) / grown(under) : grown(1);
}

/// The square of the length that queries and keys get by `mscale_all_dim`, the
/// library's `yarn_apply_mscale`.
static double readScoreScale(ConfigReader &rope) {
  if (readType(rope) == "default")
    return 1.0;
  double factor = optionalReal(rope, "factor").value_or(1);
  double scale = optionalReal(rope, "mscale_all_dim").value_or(0);
  double length = factor > 1 ? 0.1 * scale * std::log(factor) + 1 : 1;
  return length * length;
}

/// Pairs that turn more than `beta_fast` times within the trained context keep
/// their frequency, those that turn less than `beta_slow` times are stretched;
/// the attribute holds the numbers of these two pairs.
static Attribute readYarn(ConfigReader &rope, double theta,
                          int64_t maxPositions, int64_t headDim) {
  double original =
      rope.integer("original_max_position_embeddings", maxPositions);
  double factor = maxPositions / original;
  const json::Value *given = rope.find("factor");
  if (!given || given->kind != json::Kind::Null)
    factor = required(rope, "yarn", "factor", {1.0});
  double magnitude = yarnMagnitude(rope, factor);
  // The library takes 0 for absent.
  double fast = optionalReal(rope, "beta_fast").value_or(0);
  double slow = optionalReal(rope, "beta_slow").value_or(0);
  auto pairOf = [&](double turns) {
    return headDim * std::log(original / (turns * 2 * M_PI)) /
           (2 * std::log(theta));
  };
  double low = pairOf(fast == 0 ? 32 : fast);
  double high = pairOf(slow == 0 ? 1 : slow);
  if (rope.boolean("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, headDim - 1.0);
  if (low == high) // as in the library, which would divide by zero
    high += 0.001;
  if (rope.failed())
    return {};
  if (!std::isfinite(magnitude)) {
    rope.error("mscale") << "the factor of rope type 'yarn' for attention is "
                            "no number";
    return {};
  }
  if (factor < 1 || !(high > low)) {
    rope.error(factor < 1 ? "factor" : "beta_fast")
        << "rope type 'yarn' stretches no frequency: factor "
        << ConfigReader::describe(factor) << ", from pair "
        << ConfigReader::describe(low) << " to "
        << ConfigReader::describe(high);
    return {};
  }
  return RopeYarnAttr::get(rope.getContext(), factor, low, high, magnitude);
}

/// A factor for each pair of channels.
static std::vector<double> readFactors(ConfigReader &rope,
                                       llvm::StringRef field, int64_t pairs) {
  std::vector<double> factors;
  llvm::ArrayRef<json::Value> list = rope.list(field);
  if (!rope.find(field))
    rope.error(field) << "missing field '" << field
                      << "' of rope type 'longrope'";
  if (!rope.failed() && static_cast<int64_t>(list.size()) != pairs)
    rope.error(field) << "field '" << field << "': expected " << pairs
                      << " factors, one for each pair of channels that turns, "
                         "found "
                      << list.size();
  for (const json::Value &entry : list) {
    factors.push_back(entry.number);
    if (entry.kind != json::Kind::Number || !(factors.back() > 0))
      rope.errorAt(entry, field, "a number above 0");
  }
  return factors;
}

/// Pairs are slowed down by factors of their own: the short ones within the
/// length that the model was first trained for, the long ones beyond it (Ding
/// et al. 2024, arXiv 2402.13753). `original` is that length where it stands
/// beside the object.
static Attribute readLongrope(ConfigReader &rope, double theta,
                              RopeLengths lengths, int64_t rotated,
                              std::optional<int64_t> original) {
  int64_t trained = original.value_or(
      rope.integer("original_max_position_embeddings", lengths.longest));
  bool isLong = lengths.seq > trained;
  std::vector<double> shorter = readFactors(rope, "short_factor", rotated / 2);
  std::vector<double> longer = readFactors(rope, "long_factor", rotated / 2);
  double factor = optionalReal(rope, "factor", kPositive)
                      .value_or(double(lengths.longest) / double(trained));
  double magnitude =
      factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(trained));
  magnitude =
      optionalReal(rope, "attention_factor", kPositive).value_or(magnitude);
  if (rope.failed())
    return {};
  std::vector<double> frequencies;
  for (auto [j, stretch] : llvm::enumerate(isLong ? longer : shorter))
    frequencies.push_back(
        1 / (stretch * std::pow(theta, 2.0 * double(j) / double(rotated))));
  return RopeTableAttr::get(
      rope.getContext(), DenseF64ArrayAttr::get(rope.getContext(), frequencies),
      magnitude);
}

/// The base for sequences beyond the longest of the config, by the library's
/// dynamic scaling; within it the base stays.
static double dynamicTheta(ConfigReader &rope, double theta,
                           RopeLengths lengths, int64_t rotated) {
  double factor = required(rope, "dynamic", "factor", {1.0});
  double over = std::max(1.0, double(lengths.seq) / double(lengths.longest));
  double power = double(rotated) / double(rotated - 2);
  return theta * std::pow(factor * over - (factor - 1), power);
}

/// The base that a fixed `alpha` stretches, whatever the sequence's length.
static double stretchedTheta(ConfigReader &rope, double theta,
                             int64_t rotated) {
  double alpha = rope.real("alpha", 1.0, kPositive);
  return theta * std::pow(alpha, double(rotated) / double(rotated - 2));
}

/// Reads the scaling; its type may change the base.
static Attribute readScaling(ConfigReader &rope, double &theta,
                             RopeLengths lengths, int64_t headDim,
                             std::optional<int64_t> original = std::nullopt) {
  std::string type = readType(rope);
  if (type == "llama3")
    return readLlama3(rope, lengths.longest);
  if (type == "yarn")
    return readYarn(rope, theta, lengths.longest, headDim);
  if (type == "longrope")
    return readLongrope(rope, theta, lengths, headDim, original);
  if (type == "dynamic") {
    theta = rope.knows("alpha") && rope.findNonNull("alpha")
                ? stretchedTheta(rope, theta, headDim)
                : dynamicTheta(rope, theta, lengths, headDim);
    return {};
  }
  if (type == "linear") {
    double factor = required(rope, "linear", "factor", {1.0});
    if (rope.failed())
      return {};
    return RopeLinearAttr::get(rope.getContext(), factor);
  }
  if (type != "default") {
    InFlightDiagnostic diagnostic =
        rope.error(rope.find("rope_type") ? "rope_type" : "type");
    diagnostic << "unsupported rope type " << json::quote(type);
    diagnostic.attachNote() << "expected one of default, dynamic, "
                               "linear, llama3, longrope, yarn";
  }
  return {};
}

/// One of the objects in `rope_parameters`, or `rope_scaling`; null: none.
static Rope readOne(ConfigReader &config, llvm::StringRef family,
                    const json::Value *parameters, const llvm::Twine &prefix,
                    double theta, RopeLengths lengths, int64_t headDim) {
  Rope found;
  found.theta = theta;
  found.rotated = headDim;
  if (!parameters || parameters->kind == json::Kind::Null)
    return found;
  std::string name = prefix.str();
  llvm::SmallVector<Field> fields = ropeFields(*findFamily(family));
  ConfigReader rope(*parameters, config.getFileName(), config.getContext(),
                    fields, "config", name);
  rope.checkFields();
  found.theta = rope.real("rope_theta", theta, kPositive);
  found.scaling = readScaling(rope, found.theta, lengths, headDim);
  if (rope.failed())
    config.markFailed();
  return found;
}

Ropes kerf::readRopes(ConfigReader &config, const DecoderForm &form,
                      RopeLengths lengths, int64_t headDim) {
  static constexpr Field kTypes[] = {
      {"full_attention", FieldUse::Used, "of layers that see all tokens"},
      {"sliding_attention", FieldUse::Used, "of layers with a window"}};
  double theta = config.real("rope_theta", form.theta, kPositive);
  double windowTheta = *form.windowTheta;
  if (config.knows("rope_local_base_freq"))
    windowTheta = config.real("rope_local_base_freq", windowTheta, kPositive);
  constexpr llvm::StringLiteral kNew = "rope_parameters";
  constexpr llvm::StringLiteral kOld = "rope_scaling";
  const json::Value *full = config.findNonNull(kOld), *window = nullptr;
  std::string prefix = (kOld + ".").str();
  for (llvm::StringRef field : {kNew, kOld})
    if (const json::Value *value = config.findNonNull(field);
        value && value->kind != json::Kind::Object) {
      config.error(field) << "field '" << field
                          << "': expected an object or null, found "
                          << ConfigReader::describe(*value);
      return {};
    }
  if (const json::Value *types = config.findNonNull(kNew)) {
    if (full)
      config.error(kOld) << "field '" << kOld << "' contradicts field '" << kNew
                         << "'";
    std::string own = (kNew + ".").str();
    ConfigReader byType(*types, config.getFileName(), config.getContext(),
                        kTypes, "config", own);
    byType.checkFields();
    full = byType.findNonNull("full_attention");
    window = byType.findNonNull("sliding_attention");
    prefix = own + "full_attention.";
    if (byType.failed())
      config.markFailed();
  }
  if (config.failed())
    return {};
  return {readOne(config, form.family, full, prefix, theta, lengths, headDim),
          readOne(config, form.family, window, kNew + ".sliding_attention.",
                  windowTheta, lengths, headDim)};
}

/// Channels that turn, of a part of all.
static int64_t rotatedOf(ConfigReader &config, llvm::StringRef field,
                         double part, int64_t headDim) {
  // Truncated as in the library.
  auto rotated = static_cast<int64_t>(static_cast<double>(headDim) * part);
  if (rotated % 2 != 0 || rotated == 0)
    config.error(field) << "expected '" << field
                        << "' to rotate an even number of channels, as rotary "
                           "positions turn pairs, found "
                        << rotated << " of " << headDim;
  return rotated;
}

Rope kerf::readRope(ConfigReader &config, const DecoderForm &form,
                    RopeLengths lengths, int64_t headDim) {
  constexpr RealRange kPart = {0.0, 1.0 + 1e-9, true};
  constexpr llvm::StringLiteral kPartField = "partial_rotary_factor";
  Rope found;
  found.theta = config.real(form.thetaField, form.theta, kPositive);
  constexpr llvm::StringLiteral kChannels = "rotary_dim";
  double part = 1.0;
  if (config.knows(kChannels) && config.findNonNull(kChannels) &&
      !config.findNonNull(form.rotatedPartField))
    part =
        static_cast<double>(config.integer(kChannels, headDim, {1, headDim})) /
        static_cast<double>(headDim);
  else if (form.rotatedPart)
    part = config.real(form.rotatedPartField, *form.rotatedPart, kPart);
  llvm::StringRef name;
  const json::Value *parameters = findParameters(config, name);
  if (!parameters && !form.ropeDefault.empty()) {
    static const json::Value known =
        *json::parse(form.ropeDefault, [](auto...) {});
    parameters = &known;
  }
  if (!parameters) {
    found.rotated = form.rotatedPart ? rotatedOf(config, form.rotatedPartField,
                                                 part, headDim)
                                     : headDim;
    return found;
  }
  std::string prefix = (name + ".").str();
  llvm::SmallVector<Field> fields = ropeFields(*findFamily(form.family));
  ConfigReader rope(*parameters, config.getFileName(), config.getContext(),
                    fields, "config", prefix);
  rope.checkFields();
  found.theta = rope.real("rope_theta", found.theta, kPositive);
  if (form.rotatedPart)
    part = rope.real(kPartField, part, kPart);
  found.rotated =
      form.rotatedPart ? rotatedOf(rope, kPartField, part, headDim) : headDim;
  std::optional<int64_t> original;
  constexpr llvm::StringLiteral kOriginal = "original_max_position_embeddings";
  if (config.knows(kOriginal) && config.findNonNull(kOriginal))
    original = config.optionalInteger(kOriginal, std::nullopt);
  found.scaling =
      readScaling(rope, found.theta, lengths, found.rotated, original);
  if (!rope.failed())
    found.scoreScale = readScoreScale(rope);
  if (rope.failed())
    config.markFailed();
  return found;
}
