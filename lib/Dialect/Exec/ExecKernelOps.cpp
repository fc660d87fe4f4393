#include "kerf/Dialect/Exec/Exec.h"

#include "kerf/Interfaces/KernelInterface.h"

#include "mlir/Interfaces/FunctionImplementation.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::exec;

#define GET_OP_CLASSES
#include "kerf/Dialect/Exec/ExecKernelOps.cpp.inc"

//===----------------------------------------------------------------------===//
// kernel
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &builder, OperationState &state,
                     llvm::StringRef name, FunctionType type) {
  state.addAttribute(SymbolTable::getSymbolAttrName(),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  Block &body = state.addRegion()->emplaceBlock();
  for (Type input : type.getInputs())
    body.addArgument(input, state.location);
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, llvm::ArrayRef<Type> inputs,
                      llvm::ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(inputs, results);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      getFunctionTypeAttrName(result.name), buildType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &p) {
  function_interface_impl::printFunctionOp(
      p, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}

exec::YieldOp KernelOp::getYield() {
  return cast<exec::YieldOp>(getBody().front().getTerminator());
}

/// The two numbers of an entry of `inplace`, or none.
static std::optional<std::pair<int64_t, int64_t>> readPair(Attribute entry) {
  auto pair = dyn_cast<ArrayAttr>(entry);
  if (!pair || pair.size() != 2 || !isa<IntegerAttr>(pair[0]) ||
      !isa<IntegerAttr>(pair[1]))
    return std::nullopt;
  return std::make_pair(cast<IntegerAttr>(pair[0]).getInt(),
                        cast<IntegerAttr>(pair[1]).getInt());
}

int64_t KernelOp::getInplaceArgument(unsigned result) {
  if (!getInplace())
    return -1;
  for (Attribute entry : getInplaceAttr())
    if (auto pair = readPair(entry); pair && pair->first == result)
      return pair->second;
  return -1;
}

static LogicalResult verifyInplace(KernelOp op) {
  llvm::SmallDenseSet<int64_t> results, arguments;
  for (Attribute entry : op.getInplaceAttr()) {
    auto pair = readPair(entry);
    int64_t resultCount = op.getResultTypes().size();
    int64_t argumentCount = op.getArgumentTypes().size();
    if (!pair || pair->first < 0 || pair->first >= resultCount ||
        pair->second < 0 || pair->second >= argumentCount ||
        !results.insert(pair->first).second ||
        !arguments.insert(pair->second).second ||
        op.getResultTypes()[pair->first] !=
            op.getArgumentTypes()[pair->second]) // kernel_c4
      return op.emitOpError() << "expected 'inplace' to pair results with "
                                 "arguments of one type, found "
                              << entry;
  }
  return success();
}

LogicalResult KernelOp::verify() {
  auto isPlain = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape() && !tensor.getEncoding();
  };
  for (Type type :
       llvm::concat<const Type>(getArgumentTypes(), getResultTypes()))
    if (!isPlain(type)) // kernel_c1
      return emitOpError() << "expected plain tensors, found " << type;
  return getInplace() ? verifyInplace(*this) : success();
}

LogicalResult KernelOp::verifyRegions() {
  if (getOwnKernelOp(getBody().front()))
    return success();
  for (Operation &op : getBody().front())
    if (!isa<EvaluateOpInterface, exec::YieldOp>(op)) // kernel_c2
      return op.emitOpError("in a kernel, expected a plain op, one that "
                            "evaluates, or a single op that brings its own "
                            "kernel");
  return success();
}

LogicalResult exec::YieldOp::verify() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  if (getOperandTypes() !=
      TypeRange(kernel.getResultTypes())) // kernel_c3, yield_c1
    return emitOpError() << "expected values of the kernel's result types "
                         << TypeRange(kernel.getResultTypes()) << ", found "
                         << getOperandTypes();
  return success();
}

//===----------------------------------------------------------------------===//
// partial_reduce
//===----------------------------------------------------------------------===//

LogicalResult PartialReduceOp::verify() {
  auto x = typeOf(getX()), y = typeOf(getResult());
  if (y.getRank() != 2 || y.getDimSize(1) < 1) // partial_reduce_c1
    return emitOpError() << "expected a result of chunks x columns, found "
                         << y;
  int64_t rows = getRowCount(), by = getChunkRows();
  if (rows * y.getDimSize(1) != x.getNumElements() || by < 1 ||
      y.getDimSize(0) != (rows + by - 1) / by) // partial_reduce_c2
    return emitOpError() << "expected chunks of " << by
                         << " rows whose columns divide the elements of " << x
                         << ", found " << y;
  if (x.getElementType() != y.getElementType()) // partial_reduce_c3
    return emitOpError() << "expected one element type, found " << x << " and "
                         << y;
  return success();
}

int64_t PartialReduceOp::getRowCount() {
  return typeOf(getX()).getNumElements() / typeOf(getResult()).getDimSize(1);
}

void PartialReduceOp::evaluate(llvm::ArrayRef<const HostTensor *> operands,
                               llvm::MutableArrayRef<HostTensor> results) {
  bool isMax = getKind() == ReduceKind::Max;
  auto &out = results[0].data;
  if (isMax)
    std::fill(out.begin(), out.end(), -INFINITY);
  int64_t columns = results[0].shape()[1], chunkRows = getChunkRows();
  for (int64_t i = 0; i < operands[0]->size(); ++i) {
    double x = operands[0]->data[i];
    double &to = out[i / columns / chunkRows * columns + i % columns];
    if (!isMax)
      to += x;
    else if (std::isnan(x) || x > to)
      to = x;
  }
}
