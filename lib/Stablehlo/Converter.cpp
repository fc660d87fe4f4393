#include "Converter.h"

#include "mlir/IR/Location.h"
#include "llvm/Support/Path.h"

using namespace kerf;
using namespace mlir;

/// Ops of a graph with its loops written out, at most.
static constexpr int64_t kMostOps = 1 << 20;

RankedTensorType kerf::modelType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return {};
  MLIRContext *context = type.getContext();
  Type element = tensor.getElementType();
  if (isa<FloatType>(element))
    return tensor.clone(Float32Type::get(context));
  if (!isa<IntegerType>(element))
    return {};
  return element.isInteger(1) ? tensor
                              : tensor.clone(IntegerType::get(context, 32));
}

static std::string str(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// Frames of libraries are not the user's.
static bool isLibrary(llvm::StringRef file) {
  return file.contains("site-packages") || file.contains("dist-packages") ||
         file.starts_with("<");
}

/// The innermost place in a Python file of the user's.
static FileLineColLoc userPlace(Location loc) {
  FileLineColLoc found;
  loc->walk([&](Location part) {
    auto place = dyn_cast<FileLineColLoc>(part);
    if (!place || !place.getFilename().getValue().ends_with(".py") ||
        isLibrary(place.getFilename().getValue()))
      return WalkResult::advance();
    found = place;
    return WalkResult::interrupt();
  });
  return found;
}

Location kerf::placeOf(Operation *op) {
  FileLineColLoc place = userPlace(op->getLoc());
  if (!place) {
    Operation *outer = op;
    while (Operation *parent = outer->getParentOp())
      outer = parent;
    return outer->getLoc();
  }
  llvm::StringRef file = llvm::sys::path::filename(place.getFilename());
  return FileLineColLoc::get(op->getContext(), file, place.getLine(), 1);
}

llvm::ArrayRef<int64_t> Source::shape(size_t result) const {
  return cast<RankedTensorType>(op->getResult(result).getType()).getShape();
}

Type Source::element(size_t result) const {
  return modelType(op->getResult(result).getType()).getElementType();
}

Converted Source::refuse(const llvm::Twine &what) const {
  Location place = placeOf(op);
  emitError(place) << what << " ('" << op->getName().getStringRef() << "')";
  return failure();
}

Converter::Converter(OpBuilder &builder, Location loc) : b(builder, loc) {
  addElements(table);
  addShapes(table);
  addMatmuls(table);
  addRows(table);
  addScatters(table);
  addSorts(table);
  addConvolutions(table);
  addWindows(table);
  addControl(table);
}

/// Whether numbers of the model, which have 32 bits and a sign, are those of
/// the source.
static bool fits(Type type, IntRange range) {
  auto whole = dyn_cast<IntegerType>(cast<ShapedType>(type).getElementType());
  if (!whole || whole.isInteger(1))
    return true;
  if (whole.getWidth() >= 32)
    return !whole.isUnsigned() || range.low >= 0;
  int64_t values = int64_t(1) << whole.getWidth();
  int64_t low = whole.isUnsigned() ? 0 : -values / 2;
  return range.low >= low && range.high < low + values;
}

LogicalResult Converter::convert(Operation *op) {
  Source source{op, *this, b, {}};
  b.plain.loc = placeOf(op);
  if (++count > kMostOps)
    return source.refuse("the graph has more than a million ops");
  for (Value operand : op->getOperands())
    source.operands.push_back(lookup(operand));
  for (Type type : op->getResultTypes())
    if (!modelType(type))
      return source.refuse("no counterpart of " + llvm::Twine(str(type)) +
                           " in the kerf dialect");
  auto it = table.find(op->getName().getStringRef());
  if (it == table.end())
    return source.refuse("no counterpart in the kerf dialect");
  Converted results = it->second(source);
  if (failed(results))
    return failure();
  for (auto [from, to] : llvm::zip_equal(op->getResults(), *results)) {
    if (typeOf(to) != modelType(from.getType()))
      return source.refuse("gives " + llvm::Twine(str(from.getType())) +
                           ", written as " + str(to.getType()));
    if (!fits(from.getType(), b.rangeOf(to)))
      return source.refuse("whole numbers of " +
                           llvm::Twine(str(from.getType())) + " that may wrap");
    map(from, to);
  }
  return success();
}

Converted Converter::convert(Block &block) {
  for (Operation &op : llvm::drop_end(block))
    if (failed(convert(&op)))
      return failure();
  std::vector<Value> results;
  for (Value operand : block.back().getOperands())
    results.push_back(lookup(operand));
  return results;
}

Converted Converter::convert(Block &block, llvm::ArrayRef<Value> arguments) {
  for (auto [from, to] : llvm::zip_equal(block.getArguments(), arguments))
    map(from, to);
  return convert(block);
}
