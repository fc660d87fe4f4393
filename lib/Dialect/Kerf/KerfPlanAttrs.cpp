#include "kerf/Dialect/Kerf/Kerf.h"
#include "kerf/Support/ControlBytes.h"
#include "kerf/Support/Json.h"
#include "kerf/Support/Schedules.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace kerf;

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

LogicalResult MeshAttr::verify(EmitError emitError,
                               llvm::ArrayRef<StringAttr> names,
                               llvm::ArrayRef<int64_t> sizes) {
  constexpr size_t maxAxes = 8;
  constexpr int64_t maxRanks = 1 << 20;
  if (names.size() != sizes.size() || names.size() > maxAxes)
    return emitError() << "expected at most " << maxAxes
                       << " axes in a mesh, found " << names.size();
  llvm::StringSet<> seen;
  int64_t ranks = 1;
  for (auto [name, size] : llvm::zip(names, sizes)) {
    llvm::StringRef text = name.getValue();
    if (text == kMicroAxis || text == "pending" || text.empty() ||
        hasControl(text))
      return emitError() << json::quote(text)
                         << " is no name for an axis of a mesh";
    if (!seen.insert(text).second)
      return emitError() << "axis '" << text << "' is in the mesh twice";
    if (size < 1 || size > maxRanks || (ranks *= size) > maxRanks)
      return emitError() << "expected 1 to " << maxRanks
                         << " ranks in a mesh, found axis '" << text
                         << "' of size " << size;
  }
  return success();
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  llvm::SmallVector<StringAttr> names;
  llvm::SmallVector<int64_t> sizes;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
        parser.parseInteger(sizes.emplace_back()))
      return failure();
    names.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  };
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseAxis))
    return {};
  auto emitError = [&] { return parser.emitError(loc); };
  return MeshAttr::getChecked(EmitError(emitError), parser.getContext(),
                              llvm::ArrayRef<StringAttr>(names),
                              llvm::ArrayRef<int64_t>(sizes));
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::interleaveComma(llvm::zip(getNames(), getSizes()), printer,
                        [&](auto axis) {
                          printer.printKeywordOrString(std::get<0>(axis));
                          printer << " = " << std::get<1>(axis);
                        });
  printer << '>';
}

int64_t MeshAttr::getRankCount() const {
  int64_t count = 1;
  for (int64_t size : getSizes())
    count *= size;
  return count;
}

int64_t MeshAttr::find(llvm::StringRef name) const {
  for (auto [index, axis] : llvm::enumerate(getNames()))
    if (axis.getValue() == name)
      return index;
  return -1;
}

llvm::SmallVector<int64_t> MeshAttr::getCoordinates(int64_t rank) const {
  llvm::SmallVector<int64_t> coordinates(getSizes().size());
  for (size_t a = coordinates.size(); a-- > 0;) {
    coordinates[a] = rank % getSizes()[a];
    rank /= getSizes()[a];
  }
  return coordinates;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

LogicalResult LayersAttr::verify(EmitError emitError, llvm::StringRef kind,
                                 int64_t count, DenseI64ArrayAttr recompute) {
  constexpr int64_t maxLayers = 1 << 20;
  if (kind.empty())
    return emitError() << "expected the name of a kind of layers";
  if (count < 1 || count > maxLayers)
    return emitError() << "expected 1 to " << maxLayers << " layers of '"
                       << kind << "', found " << count;
  for (int64_t op :
       recompute ? recompute.asArrayRef() : llvm::ArrayRef<int64_t>())
    if (op < 0)
      return emitError() << "expected numbers of forward ops to recompute, "
                            "found "
                         << op;
  return success();
}

static ParseResult parseNumbers(AsmParser &parser,
                                llvm::SmallVectorImpl<int64_t> &numbers) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(numbers.emplace_back());
  });
}

static void printNumbers(AsmPrinter &printer, llvm::ArrayRef<int64_t> numbers) {
  printer << '[';
  llvm::interleaveComma(numbers, printer);
  printer << ']';
}

/// `decoder x 8 recompute [3, 7]`, without the brackets of the attribute.
static LayersAttr parseRun(AsmParser &parser) {
  std::string kind;
  int64_t count;
  llvm::SmallVector<int64_t> ops;
  DenseI64ArrayAttr recompute;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeywordOrString(&kind) || parser.parseKeyword("x") ||
      parser.parseInteger(count))
    return {};
  if (succeeded(parser.parseOptionalKeyword("recompute"))) {
    if (parseNumbers(parser, ops))
      return {};
    recompute = DenseI64ArrayAttr::get(parser.getContext(), ops);
  }
  auto emitError = [&] { return parser.emitError(loc); };
  return LayersAttr::getChecked(EmitError(emitError), parser.getContext(),
                                llvm::StringRef(kind), count, recompute);
}

static void printRun(AsmPrinter &printer, LayersAttr run) {
  printer.printKeywordOrString(run.getKind());
  printer << " x " << run.getCount();
  if (!run.getRecompute())
    return;
  printer << " recompute ";
  printNumbers(printer, run.getRecompute().asArrayRef());
}

Attribute LayersAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  LayersAttr run = parseRun(parser);
  if (!run || parser.parseGreater())
    return {};
  return run;
}

void LayersAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printRun(printer, *this);
  printer << '>';
}

//===----------------------------------------------------------------------===//
// Zigzag
//===----------------------------------------------------------------------===//

LogicalResult ZigzagAttr::verify(EmitError emitError, int64_t ranks,
                                 int64_t chunk, llvm::ArrayRef<int64_t> dims) {
  constexpr int64_t most = 1 << 20;
  if (ranks < 1 || ranks > most || chunk < 1 || chunk > INT32_MAX / ranks / 2)
    return emitError() << "expected a zigzag of up to 2^31 rows over 1 to "
                       << most << " ranks, found " << ranks << " x " << chunk;
  bool ascend = llvm::is_sorted(dims, std::less_equal<int64_t>());
  if (dims.empty() || dims.front() < 0 || !ascend)
    return emitError() << "expected a zigzag along ascending dimensions";
  return success();
}

int64_t ZigzagAttr::positionOf(int64_t row) const {
  int64_t place = row / getChunk() / 2, second = row / getChunk() % 2;
  return (second ? 2 * getRanks() - 1 - place : place) * getChunk() +
         row % getChunk();
}

bool ZigzagAttr::orders(int64_t dim) const {
  return llvm::is_contained(getDims(), dim);
}

ZigzagAttr ZigzagAttr::along(llvm::ArrayRef<int64_t> dims) const {
  return get(getContext(), getRanks(), getChunk(), dims);
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

/// Ranks of an axis, or 1.
static int64_t ranksOf(MeshAttr mesh, llvm::StringRef axis) {
  int64_t index = mesh.find(axis);
  return index < 0 ? 1 : mesh.getSizes()[index];
}

int64_t PlanAttr::getStageCount() const {
  return ranksOf(getMesh(), kPipelineAxis);
}

llvm::SmallVector<LayersAttr> PlanAttr::getRuns(Attribute entry) {
  return llvm::map_to_vector(cast<ArrayAttr>(entry), [](Attribute run) {
    return cast<LayersAttr>(run);
  });
}

std::string PlanAttr::checkMicroBatches(int64_t count) {
  constexpr int64_t maxMicroBatches = 1 << 20;
  if (count >= 1 && count <= maxMicroBatches)
    return "";
  return "expected 1 to " + std::to_string(maxMicroBatches) +
         " micro-batches, found " + std::to_string(count);
}

std::string PlanAttr::checkSchedule(llvm::StringRef schedule) {
  if (findSchedule(schedule))
    return "";
  return ("unknown schedule '" + schedule + "', expected " + scheduleNames())
      .str();
}

std::string PlanAttr::checkChunks(int64_t chunks, llvm::StringRef schedule) {
  constexpr int64_t maxChunks = 1024;
  if (chunks < 1 || chunks > maxChunks)
    return "expected 1 to " + std::to_string(maxChunks) +
           " chunks per stage, found " + std::to_string(chunks);
  const ScheduleFacts *facts = findSchedule(schedule);
  if (chunks > 1 && !(facts && facts->takesChunks))
    return ("expected one chunk per stage with schedule '" + schedule +
            "', found " + llvm::Twine(chunks) +
            "; several need \"interleaved\"")
        .str();
  return "";
}

std::string PlanAttr::checkDefer(int64_t defer, llvm::StringRef schedule) {
  constexpr int64_t all = -1, most = 1 << 20;
  if (defer == all)
    return "";
  if (defer < 0 || defer > most)
    return "expected 0 to " + std::to_string(most) +
           " micro-batches to defer, found " + std::to_string(defer);
  const ScheduleFacts *facts = findSchedule(schedule);
  if (!facts || !facts->splitsWeightGradient)
    return ("expected no defer with schedule '" + schedule + "', found " +
            llvm::Twine(defer) + "; weight gradients wait in \"zb-h1\"")
        .str();
  return "";
}

std::string PlanAttr::checkZero(int64_t zero) {
  if (zero >= 0 && zero <= 3)
    return "";
  return "expected zero 0 (nothing sharded), 1 (optimizer state), 2 (gradients "
         "too) or 3 (weights too), found " +
         std::to_string(zero);
}

std::string PlanAttr::checkShardGroup(int64_t group, int64_t zero,
                                      MeshAttr mesh) {
  if (group == 0)
    return "";
  int64_t ranks = mesh.getRankCount();
  if (group < 0 || ranks % group != 0)
    return "expected a shard_group that divides the " + std::to_string(ranks) +
           " ranks, found " + std::to_string(group);
  if (zero == 0)
    return "a shard_group needs zero of 1 to 3";
  return "";
}

std::string PlanAttr::checkStages(ArrayAttr stages, int64_t chunks,
                                  MeshAttr mesh) {
  if (!stages)
    return "";
  int64_t expected = ranksOf(mesh, kPipelineAxis) * chunks;
  if (static_cast<int64_t>(stages.size()) != expected)
    return "expected " + std::to_string(expected) +
           " entries of stages, one per chunk of each rank of 'pp', found " +
           std::to_string(stages.size());
  for (auto [index, entry] : llvm::enumerate(stages)) {
    auto runs = dyn_cast<ArrayAttr>(entry);
    if (!runs || runs.empty() || !llvm::all_of(runs, llvm::IsaPred<LayersAttr>))
      return "expected layers in entry " + std::to_string(index) + " of stages";
  }
  return "";
}

std::string PlanAttr::checkMoeBuffer(double buffer) {
  constexpr double most = 1 << 20;
  if (buffer == 0 || (buffer >= 1 && buffer <= most))
    return "";
  return "expected a moe_buffer of 1 (an even share of rows) or more, found " +
         llvm::formatv("{0}", buffer).str();
}

LogicalResult PlanAttr::verify(EmitError emitError, MeshAttr mesh,
                               int64_t microBatches, llvm::StringRef schedule,
                               bool all, llvm::ArrayRef<int64_t> recompute,
                               int64_t chunks, int64_t defer, int64_t zero,
                               int64_t shardGroup, ArrayAttr stages,
                               Real moeBuffer, bool) {
  for (const std::string &wrong :
       {checkMicroBatches(microBatches), checkSchedule(schedule),
        checkChunks(chunks, schedule), checkDefer(defer, schedule),
        checkZero(zero), checkShardGroup(shardGroup, zero, mesh),
        checkStages(stages, chunks, mesh), checkMoeBuffer(moeBuffer)})
    if (!wrong.empty())
      return emitError() << wrong;
  if (all && !recompute.empty())
    return emitError() << "expected recompute of all values or of listed ones";
  for (int64_t op : recompute)
    if (op < 0)
      return emitError() << "expected numbers of forward ops to recompute, "
                            "found "
                         << op;
  return success();
}

/// `none`, `full` or `[3, 7]`.
static ParseResult parseRecompute(AsmParser &parser, bool &all,
                                  llvm::SmallVectorImpl<int64_t> &ops) {
  llvm::StringRef keyword;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword(&keyword))) {
    all = keyword == "full";
    if (all || keyword == "none")
      return success();
    return parser.emitError(loc)
           << "unknown recompute '" << keyword
           << "', expected none, full or a list of forward ops";
  }
  return parseNumbers(parser, ops);
}

/// Fields of a plan as they are read.
namespace {
struct PlanFields {
  int64_t microBatches = 1, chunks = 1, defer = -1, zero = 0, shardGroup = 0;
  std::string schedule;
  bool all = false, plainOrder = false;
  llvm::SmallVector<int64_t> ops;
  ArrayAttr stages;
  Real moeBuffer = 0;
};
} // namespace

static ParseResult parseMoeBuffer(AsmParser &parser, Real &buffer) {
  FailureOr<Real> read = parseReal(parser);
  if (succeeded(read))
    buffer = *read;
  return failure(failed(read));
}

/// A number, which is none of the plans that do not say it.
static ParseResult parseDefer(AsmParser &parser, int64_t &defer) {
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseInteger(defer))
    return failure();
  if (defer >= 0)
    return success();
  return parser.emitError(loc)
         << "expected 0 or more micro-batches to defer, found " << defer;
}

/// `[[embedding x 1, decoder x 8], [decoder x 8, head x 1]]`.
static ParseResult parseStages(AsmParser &parser, ArrayAttr &stages) {
  llvm::SmallVector<Attribute> entries;
  auto parseEntry = [&]() -> ParseResult {
    llvm::SmallVector<Attribute> runs;
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                       [&]() -> ParseResult {
                                         LayersAttr run = parseRun(parser);
                                         runs.push_back(run);
                                         return success(run != nullptr);
                                       }))
      return failure();
    entries.push_back(ArrayAttr::get(parser.getContext(), runs));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseEntry))
    return failure();
  stages = ArrayAttr::get(parser.getContext(), entries);
  return success();
}

/// `"plain"`.
static ParseResult parseOrder(AsmParser &parser, bool &plain) {
  std::string order;
  llvm::SMLoc loc = parser.getCurrentLocation();
  if (parser.parseString(&order))
    return failure();
  plain = order == "plain";
  if (plain)
    return success();
  return parser.emitError(loc)
         << "unknown cp_order \"" << order << "\", expected \"plain\"";
}

/// `, chunks = 2`, and so on, in this order.
static ParseResult parseOptionalFields(AsmParser &parser, PlanFields &fields) {
  while (succeeded(parser.parseOptionalComma())) {
    llvm::StringRef name;
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    ParseResult parsed = success();
    if (name == "chunks")
      parsed = parser.parseInteger(fields.chunks);
    else if (name == "defer")
      parsed = parseDefer(parser, fields.defer);
    else if (name == "zero")
      parsed = parser.parseInteger(fields.zero);
    else if (name == "shard_group")
      parsed = parser.parseInteger(fields.shardGroup);
    else if (name == "stages")
      parsed = parseStages(parser, fields.stages);
    else if (name == "cp_order")
      parsed = parseOrder(parser, fields.plainOrder);
    else if (name == "moe_buffer")
      parsed = parseMoeBuffer(parser, fields.moeBuffer);
    else
      return parser.emitError(loc)
             << "unknown field '" << name
             << "' of a plan, expected chunks, defer, zero, "
                "shard_group, stages, cp_order or moe_buffer";
    if (parsed)
      return failure();
  }
  return success();
}

Attribute PlanAttr::parse(AsmParser &parser, Type) {
  PlanFields fields;
  llvm::SMLoc loc = parser.getCurrentLocation();
  auto field = [&](llvm::StringRef name) -> ParseResult {
    return failure(parser.parseKeyword(name) || parser.parseEqual());
  };
  if (parser.parseLess() || field("mesh"))
    return {};
  auto mesh = dyn_cast_or_null<MeshAttr>(MeshAttr::parse(parser, {}));
  if (!mesh || parser.parseComma() || field("micro_batches") ||
      parser.parseInteger(fields.microBatches) || parser.parseComma() ||
      field("schedule") || parser.parseString(&fields.schedule) ||
      parser.parseComma() || field("recompute") ||
      parseRecompute(parser, fields.all, fields.ops) ||
      parseOptionalFields(parser, fields) || parser.parseGreater())
    return {};
  auto emitError = [&] { return parser.emitError(loc); };
  return PlanAttr::getChecked(
      EmitError(emitError), parser.getContext(), mesh, fields.microBatches,
      llvm::StringRef(fields.schedule), fields.all,
      llvm::ArrayRef<int64_t>(fields.ops), fields.chunks, fields.defer,
      fields.zero, fields.shardGroup, fields.stages, fields.moeBuffer,
      fields.plainOrder);
}

void PlanAttr::print(AsmPrinter &printer) const {
  printer << "<mesh = ";
  getMesh().print(printer);
  printer << ", micro_batches = " << getMicroBatches() << ", schedule = ";
  printer.printString(getSchedule());
  printer << ", recompute = ";
  if (getRecompute().empty())
    printer << (getRecomputeAll() ? "full" : "none");
  else
    printNumbers(printer, getRecompute());
  if (getChunks() != 1)
    printer << ", chunks = " << getChunks();
  if (getDefer() >= 0)
    printer << ", defer = " << getDefer();
  if (getZero() != 0)
    printer << ", zero = " << getZero();
  if (getShardGroup() != 0)
    printer << ", shard_group = " << getShardGroup();
  if (getStages()) {
    printer << ", stages = [";
    llvm::interleaveComma(getStages(), printer, [&](Attribute entry) {
      printer << '[';
      llvm::interleaveComma(getRuns(entry), printer,
                            [&](LayersAttr run) { printRun(printer, run); });
      printer << ']';
    });
    printer << ']';
  }
  if (getPlainOrder())
    printer << ", cp_order = \"plain\"";
  if (getMoeBuffer() != 0) {
    printer << ", moe_buffer = ";
    printReal(printer, getMoeBuffer());
  }
  printer << '>';
}

//===----------------------------------------------------------------------===//
// Assign
//===----------------------------------------------------------------------===//

static ParseResult parseAxes(AsmParser &parser,
                             llvm::SmallVectorImpl<StringAttr> &axes) {
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Square, [&]() -> ParseResult {
        std::string name;
        if (parser.parseKeywordOrString(&name))
          return failure();
        axes.push_back(StringAttr::get(parser.getContext(), name));
        return success();
      });
}

static void printAxes(AsmPrinter &printer, llvm::StringRef name,
                      llvm::ArrayRef<StringAttr> axes) {
  printer.printKeywordOrString(name);
  printer << " = [";
  llvm::interleaveComma(axes, printer, [&](StringAttr axis) {
    printer.printKeywordOrString(axis);
  });
  printer << ']';
}

Attribute AssignAttr::parse(AsmParser &parser, Type) {
  NamedAttrList factors;
  llvm::SmallVector<StringAttr> pending, variants;
  int64_t blocks = 1;
  bool routed = false;
  auto parseFactor = [&]() -> ParseResult {
    std::string name;
    llvm::SMLoc loc = parser.getCurrentLocation();
    llvm::SmallVector<StringAttr> axes;
    if (parser.parseKeywordOrString(&name))
      return failure();
    if (name == "routed") {
      routed = true;
      return success();
    }
    if (parser.parseEqual())
      return failure();
    if (name == "blocks") {
      if (parser.parseInteger(blocks))
        return failure();
      if (blocks < 1)
        return parser.emitError(loc)
               << "expected at least one block, found " << blocks;
      return success();
    }
    if (parseAxes(parser, axes))
      return failure();
    if (name == "pending" || name == "variant") {
      (name == "pending" ? pending : variants) = axes;
      return success();
    }
    if (name.empty() || factors.get(name))
      return parser.emitError(loc) << "factor '" << name << "' is given twice";
    llvm::SmallVector<Attribute> list(axes.begin(), axes.end());
    factors.append(name, ArrayAttr::get(parser.getContext(), list));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseFactor))
    return {};
  return AssignAttr::get(parser.getContext(),
                         factors.getDictionary(parser.getContext()),
                         llvm::ArrayRef<StringAttr>(pending),
                         llvm::ArrayRef<StringAttr>(variants), blocks, routed);
}

void AssignAttr::print(AsmPrinter &printer) const {
  printer << '<';
  bool first = true;
  auto next = [&] {
    printer << (first ? "" : ", ");
    first = false;
  };
  auto print = [&](llvm::StringRef name, llvm::ArrayRef<StringAttr> list) {
    next();
    printAxes(printer, name, list);
  };
  for (NamedAttribute factor : getFactors()) {
    auto axes = llvm::map_to_vector(
        cast<ArrayAttr>(factor.getValue()),
        [](Attribute axis) { return cast<StringAttr>(axis); });
    print(factor.getName(), axes);
  }
  if (!getPending().empty())
    print("pending", getPending());
  if (!getVariants().empty())
    print("variant", getVariants());
  if (getBlocks() != 1) {
    next();
    printer << "blocks = " << getBlocks();
  }
  if (getRouted()) {
    next();
    printer << "routed";
  }
  printer << '>';
}
