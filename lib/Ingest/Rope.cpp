#include "Rope.h"

#include "kerf/Dialect/Kerf/Kerf.h"

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

static Attribute readScaling(ConfigReader &rope, int64_t maxPositions) {
  std::string type = readType(rope);
  if (type == "llama3")
    return readLlama3(rope, maxPositions);
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
    diagnostic.attachNote() << "expected one of default, linear, llama3";
  }
  return {};
}

Rope kerf::readRope(ConfigReader &config, double theta, int64_t maxPositions) {
  theta = config.real("rope_theta", theta, kPositive);
  llvm::StringRef name;
  const json::Value *parameters = findParameters(config, name);
  if (!parameters)
    return {theta, {}};
  std::string prefix = (name + ".").str();
  ConfigReader rope(*parameters, config.getFileName(), config.getContext(),
                    ropeFields(), "config", prefix);
  rope.checkFields();
  theta = rope.real("rope_theta", theta, kPositive);
  Attribute scaling = readScaling(rope, maxPositions);
  if (rope.failed())
    config.markFailed();
  return {theta, scaling};
}
