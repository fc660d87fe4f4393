//===- ReadAssumptions.cpp - figures that nobody prints on a datasheet ----===//
//
// What kernels reach, what computing hides and what is left free. A figure is a
// number, or a map that tells where it comes from:
//
//   matmul: 0.803
//   matmul: {value: 0.803, source: "our own run of May", depth: 32}
//
//===----------------------------------------------------------------------===//

#include "ReadAssumptions.h"

#include "llvm/ADT/STLExtras.h"

using namespace kerf;
using namespace kerf::cluster;
using llvm::StringRef;

static constexpr NumberRule kPart = {Quantity::Number, "0.8", 0, false, 1};
static constexpr NumberRule kRatio = {Quantity::Number, "0.85", 0, false, 2};
static constexpr NumberRule kDepth = {Quantity::Number, "64", 0, true, 1e6};
static constexpr NumberRule kShare = {Quantity::Number, "0.5", 0, true, 1};
static constexpr NumberRule kHeadroom = {Quantity::Number, "0.03", 0, true,
                                         0.5};

using RowsCurve = std::vector<std::pair<int64_t, double>>;
using Sources = std::map<std::string, std::string>;

//===----------------------------------------------------------------------===//
// One figure
//===----------------------------------------------------------------------===//

static void noteSource(MapReader &figure, StringRef field, Sources &sources) {
  std::string source = figure.text("source");
  if (source.empty())
    sources.erase(field.str());
  else
    sources[field.str()] = source;
}

/// A number, or a map with `value` and `source` and what `readMore` takes. With
/// `readMore` the value may be left out.
static double
readFigure(MapReader &map, StringRef field, const NumberRule &rule,
           double absent, Sources &sources, Problems &problems,
           llvm::function_ref<void(MapReader &)> readMore = nullptr) {
  const YamlMember *member =
      map.take(field, Need::Optional, "a number, or a map with its source");
  if (!member)
    return absent;
  if (member->value.kind != YamlKind::Map) {
    sources.erase(field.str());
    return map.number(field, Need::Optional, rule, absent);
  }
  MapReader figure(member->value, "'" + field.str() + "'", problems);
  bool isStated = member->value.get("value");
  double value = figure.number(
      "value", readMore ? Need::Optional : Need::Required, rule, absent);
  if (isStated || figure.has("source"))
    noteSource(figure, field, sources);
  if (readMore)
    readMore(figure);
  figure.finish();
  return value;
}

//===----------------------------------------------------------------------===//
// Efficiency
//===----------------------------------------------------------------------===//

/// What is wrong with a part after others of fewer rows; "" if nothing is.
static std::string problemOfRows(llvm::ArrayRef<std::pair<int64_t, double>> all,
                                 int64_t rows, double part, bool isLast) {
  if (all.empty())
    return "";
  const auto &[fewer, before] = all.back();
  if (rows <= fewer)
    return "expected more rows than " + std::to_string(fewer);
  // Files have four digits.
  constexpr double kRounding = 1e-3;
  if (double(rows) * before < double(fewer) * part * (1 - kRounding))
    return "a matmul of " + std::to_string(rows) +
           " rows would take less time than one of " + std::to_string(fewer);
  bool isLargest = llvm::all_of(all, [&](auto &p) { return p.second <= part; });
  return isLast && !isLargest ? "expected the largest part at the most rows"
                              : "";
}

/// Parts of the best rate: {32: 0.6, 128: 0.8, 512: 1}.
static void readRows(MapReader &fields, RowsCurve &result, Problems &problems) {
  const YamlMember *member = fields.takeMap("rows", Need::Optional);
  if (!member)
    return;
  const std::vector<YamlMember> &points = member->value.members;
  if (points.size() > kMaxPoints) {
    problems.error(member->value.place, "field 'rows': found " +
                                            std::to_string(points.size()) +
                                            " points, expected at most " +
                                            std::to_string(kMaxPoints));
    return;
  }
  MapReader map(member->value, "'rows'", problems);
  result.clear();
  for (const YamlMember &point : points) {
    YamlValue key;
    key.kind = YamlKind::Scalar;
    key.place = point.keyPlace;
    key.text = point.key;
    int64_t rows = readCount(key, "rows", problems);
    double part = map.number(point.key, Need::Required, kPart);
    if (rows == 0 || part == 0)
      continue;
    std::string wrong =
        problemOfRows(result, rows, part, &point == &points.back());
    if (!wrong.empty())
      problems.error(point.keyPlace, "field 'rows': " + wrong);
    result.emplace_back(rows, part);
  }
}

static void readTypes(MapReader &efficiency, Efficiency &result,
                      Problems &problems) {
  const YamlMember *member = efficiency.takeMap("by_type", Need::Optional);
  if (!member)
    return;
  MapReader map(member->value, "'by_type'", problems);
  for (StringRef name : kTypes) {
    const YamlMember *type = map.takeMap(name, Need::Optional);
    if (!type)
      continue;
    MapReader fields(type->value, "'" + name.str() + "'", problems);
    TypeEfficiency &own = result.types[name.str()];
    own.attention =
        fields.number("attention", Need::Optional, kPart, own.attention);
    own.attentionBackward = fields.number("attention_backward", Need::Optional,
                                          kRatio, own.attentionBackward);
    own.attentionKeys = fields.number("attention_keys", Need::Optional, kDepth,
                                      own.attentionKeys);
    own.depth = fields.number("depth", Need::Optional, kDepth, own.depth);
    readRows(fields, own.rows, problems);
    std::string source = fields.text("source");
    if (!source.empty())
      result.sources["by_type." + name.str()] = source;
    fields.finish();
  }
  map.finish();
}

void cluster::readEfficiency(MapReader &device, Efficiency &efficiency,
                             Problems &problems) {
  const YamlMember *member = device.takeMap("efficiency", Need::Optional);
  if (!member)
    return;
  MapReader map(member->value, "'efficiency'", problems);
  auto part = [&](StringRef field, const NumberRule &rule, double &value) {
    value = readFigure(map, field, rule, value, efficiency.sources, problems);
  };
  auto readShapes = [&](MapReader &figure) {
    if (figure.has("depth"))
      efficiency.depth = figure.number("depth", Need::Optional, kDepth);
    else
      figure.number("depth", Need::Optional, kDepth); // A known field.
    readRows(figure, efficiency.rows, problems);
  };
  efficiency.matmul = readFigure(map, "matmul", kPart, efficiency.matmul,
                                 efficiency.sources, problems, readShapes);
  part("grouped_matmul", kPart, efficiency.groupedMatmul);
  part("attention", kPart, efficiency.attention);
  part("attention_backward", kRatio, efficiency.attentionBackward);
  part("attention_keys", kDepth, efficiency.attentionKeys);
  part("memory", kPart, efficiency.memory);
  part("network", kPart, efficiency.network);
  readTypes(map, efficiency, problems);
  map.finish();
}

//===----------------------------------------------------------------------===//
// What computing hides, and what is left free
//===----------------------------------------------------------------------===//

void cluster::readHidden(MapReader &device, HiddenTraffic &hidden,
                         Problems &problems) {
  const YamlMember *member = device.takeMap("hidden", Need::Optional);
  if (!member)
    return;
  MapReader map(member->value, "'hidden'", problems);
  auto share = [&](StringRef field, std::optional<double> &value) {
    double read = readFigure(map, field, kShare, -1, hidden.sources, problems);
    if (read >= 0)
      value = read;
  };
  share("layers", hidden.layers);
  share("gradients", hidden.gradients);
  share("weights", hidden.weights);
  map.finish();
}

void cluster::readHeadroom(MapReader &map, Device &device, Problems &problems) {
  Sources sources = {{"headroom", "assumed"}};
  device.headroom = readFigure(map, "headroom", kHeadroom, kDefaultHeadroom,
                               sources, problems);
  device.headroomSource = sources["headroom"];
}
