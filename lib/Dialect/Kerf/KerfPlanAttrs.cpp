#include "kerf/Dialect/Kerf/Kerf.h"

#include "llvm/ADT/StringSet.h"

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
    if (text == kMicroAxis || text == "pending" || text.empty())
      return emitError() << "'" << text << "' is no name for an axis of a mesh";
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
// Plan
//===----------------------------------------------------------------------===//

LogicalResult PlanAttr::verify(EmitError emitError, MeshAttr,
                               int64_t microBatches, llvm::StringRef schedule,
                               bool all, llvm::ArrayRef<int64_t> recompute) {
  constexpr int64_t maxMicroBatches = 1 << 20;
  if (microBatches < 1 || microBatches > maxMicroBatches)
    return emitError() << "expected 1 to " << maxMicroBatches
                       << " micro-batches, found " << microBatches;
  if (schedule != "1f1b" && schedule != "gpipe")
    return emitError() << "unknown schedule '" << schedule
                       << "', expected 1f1b or gpipe";
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
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(ops.emplace_back());
  });
}

Attribute PlanAttr::parse(AsmParser &parser, Type) {
  int64_t microBatches;
  std::string schedule;
  bool all = false;
  llvm::SmallVector<int64_t> ops;
  llvm::SMLoc loc = parser.getCurrentLocation();
  auto field = [&](llvm::StringRef name) -> ParseResult {
    return failure(parser.parseKeyword(name) || parser.parseEqual());
  };
  if (parser.parseLess() || field("mesh"))
    return {};
  auto mesh = dyn_cast_or_null<MeshAttr>(MeshAttr::parse(parser, {}));
  if (!mesh || parser.parseComma() || field("micro_batches") ||
      parser.parseInteger(microBatches) || parser.parseComma() ||
      field("schedule") || parser.parseString(&schedule) ||
      parser.parseComma() || field("recompute") ||
      parseRecompute(parser, all, ops) || parser.parseGreater())
    return {};
  auto emitError = [&] { return parser.emitError(loc); };
  return PlanAttr::getChecked(EmitError(emitError), parser.getContext(), mesh,
                              microBatches, llvm::StringRef(schedule), all,
                              llvm::ArrayRef<int64_t>(ops));
}

void PlanAttr::print(AsmPrinter &printer) const {
  printer << "<mesh = ";
  getMesh().print(printer);
  printer << ", micro_batches = " << getMicroBatches() << ", schedule = ";
  printer.printString(getSchedule());
  printer << ", recompute = ";
  if (getRecompute().empty()) {
    printer << (getRecomputeAll() ? "full" : "none") << '>';
    return;
  }
  printer << '[';
  llvm::interleaveComma(getRecompute(), printer);
  printer << "]>";
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
  llvm::SmallVector<StringAttr> pending;
  auto parseFactor = [&]() -> ParseResult {
    std::string name;
    llvm::SMLoc loc = parser.getCurrentLocation();
    llvm::SmallVector<StringAttr> axes;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
        parseAxes(parser, axes))
      return failure();
    if (name == "pending") {
      pending = axes;
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
                         llvm::ArrayRef<StringAttr>(pending));
}

void AssignAttr::print(AsmPrinter &printer) const {
  printer << '<';
  llvm::interleaveComma(getFactors(), printer, [&](NamedAttribute factor) {
    auto axes = llvm::map_to_vector(
        cast<ArrayAttr>(factor.getValue()),
        [](Attribute axis) { return cast<StringAttr>(axis); });
    printAxes(printer, factor.getName(), axes);
  });
  if (!getPending().empty()) {
    printer << (getFactors().empty() ? "" : ", ");
    printAxes(printer, "pending", getPending());
  }
  printer << '>';
}
