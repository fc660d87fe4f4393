#include "Attributes.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringExtras.h"

using namespace kerf;
using namespace mlir;

Sizes kerf::sizesOf(Operation *op, llvm::StringRef name) {
  Attribute attribute = op->getAttr(name);
  if (auto array = dyn_cast_or_null<DenseI64ArrayAttr>(attribute))
    return Sizes(array.asArrayRef());
  Sizes sizes;
  auto dense = dyn_cast_or_null<DenseIntElementsAttr>(attribute);
  if (dense)
    for (const llvm::APInt &value : dense.getValues<llvm::APInt>())
      sizes.push_back(value.getSExtValue());
  return sizes;
}

std::optional<int64_t> kerf::integerOf(Operation *op, llvm::StringRef name) {
  auto integer = op->getAttrOfType<IntegerAttr>(name);
  return integer ? std::optional(integer.getInt()) : std::nullopt;
}

static llvm::StringRef textOf(Operation *op, llvm::StringRef name) {
  auto opaque = op->getAttrOfType<OpaqueAttr>(name);
  return opaque ? opaque.getAttrData() : llvm::StringRef();
}

/// What stands behind `field =`; empty where there is none.
static llvm::StringRef behindField(llvm::StringRef text,
                                   llvm::StringRef field) {
  for (size_t at = 0; (at = text.find(field, at)) != llvm::StringRef::npos;
       ++at) {
    bool isStart =
        at == 0 || !(llvm::isAlnum(text[at - 1]) || text[at - 1] == '_');
    llvm::StringRef rest = text.drop_front(at + field.size()).ltrim();
    if (isStart && rest.consume_front("="))
      return rest.ltrim();
  }
  return {};
}

Sizes kerf::listIn(Operation *op, llvm::StringRef name, llvm::StringRef field) {
  llvm::StringRef list = behindField(textOf(op, name), field);
  Sizes sizes;
  if (!list.consume_front("["))
    return sizes;
  llvm::SmallVector<llvm::StringRef> parts;
  list.take_until([](char c) { return c == ']'; }).split(parts, ',', -1, false);
  for (llvm::StringRef part : parts) {
    int64_t value = 0;
    if (!part.trim().getAsInteger(10, value))
      sizes.push_back(value);
  }
  return sizes;
}

std::optional<int64_t> kerf::numberIn(Operation *op, llvm::StringRef name,
                                      llvm::StringRef field) {
  llvm::StringRef digits =
      behindField(textOf(op, name), field).take_while(llvm::isDigit);
  int64_t value = 0;
  if (digits.empty() || digits.getAsInteger(10, value))
    return std::nullopt;
  return value;
}

std::vector<std::vector<std::string>> kerf::dimLabelsIn(Operation *op,
                                                        llvm::StringRef name) {
  std::vector<std::vector<std::string>> lists;
  llvm::StringRef rest = textOf(op, name);
  for (rest = rest.split('[').second; !rest.empty();
       rest = rest.split('[').second) {
    llvm::SmallVector<llvm::StringRef> parts;
    rest.split(']').first.split(parts, ',', -1, false);
    std::vector<std::string> &labels = lists.emplace_back();
    for (llvm::StringRef part : parts)
      labels.push_back(part.trim().str());
  }
  return lists;
}

llvm::StringRef kerf::wordOf(Operation *op, llvm::StringRef name) {
  llvm::StringRef text = textOf(op, name).rtrim(" >");
  return text.substr(text.find_last_of(" <") + 1);
}

llvm::StringRef kerf::combiner(Operation *op) {
  if (op->getNumRegions() != 1 || !op->getRegion(0).hasOneBlock())
    return {};
  Block &body = op->getRegion(0).front();
  if (body.getNumArguments() != 2 || body.getOperations().size() != 2)
    return {};
  Operation &first = body.front();
  return first.getOperands() == body.getArguments() ||
                 llvm::equal(first.getOperands(), body.getArguments())
             ? first.getName().stripDialect()
             : llvm::StringRef();
}

bool kerf::isNeutral(llvm::StringRef kind, Type element, double number) {
  if (element.isInteger(1))
    return number == (kind == "and" || kind == "minimum" || kind == "multiply");
  if (kind == "add" || kind == "multiply")
    return number == (kind == "multiply");
  double most = INT32_MAX;
  if (element.isF32())
    most = std::numeric_limits<float>::max();
  return kind == "maximum" ? number <= -most : number >= most;
}
