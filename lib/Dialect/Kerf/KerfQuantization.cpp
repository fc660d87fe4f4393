//===- KerfQuantization.cpp - weights in 4-bit codes ----------------------===//

#include "kerf/Artifact/Nf4.h"
#include "kerf/Dialect/Kerf/PlainBuilder.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

static_assert(DequantizeOp::kBlock == KERF_NF4_BLOCK, "one size of blocks");

/// Bytes of the codes of a block.
static constexpr int64_t kBytes = KERF_NF4_BYTES;

double DequantizeOp::getSpread() {
  double sum = 0;
  for (double number : kerf_nf4_table)
    sum += number * number;
  return std::sqrt(sum / std::size(kerf_nf4_table));
}

LogicalResult DequantizeOp::verify() {
  llvm::ArrayRef<int64_t> codes = typeOf(getCodes()).getShape();
  llvm::ArrayRef<int64_t> scales = typeOf(getScales()).getShape();
  llvm::ArrayRef<int64_t> result = typeOf(getResult()).getShape();
  if (result.empty() || codes.size() != result.size() ||
      scales.size() != result.size() ||
      codes.drop_back() != result.drop_back() ||
      scales.drop_back() != result.drop_back()) // dequantize_c1
    return emitOpError()
           << "expected codes, scales and result of one rank >= 1 "
              "and with equal leading dimensions, found "
           << getCodes().getType() << ", " << getScales().getType() << " and "
           << getResult().getType();
  int64_t blocks = scales.back();
  if (codes.back() != blocks * kBytes ||
      result.back() != blocks * kBlock) // dequantize_c2
    return emitOpError() << "expected " << kBytes << " bytes of codes and "
                         << kBlock << " numbers per scale, found "
                         << codes.back() << " bytes, " << blocks
                         << " scales and " << result.back() << " numbers";
  return success();
}

/// Rows and blocks may be split; a block may not.
Factors DequantizeOp::getFactors() {
  Factors facts(Positions::Ignored);
  llvm::ArrayRef<int64_t> scales = typeOf(getScales()).getShape();
  TensorFactors rows;
  for (auto [letter, size] :
       llvm::zip(leadingLabels(scales.size() - 1), scales.drop_back()))
    rows.push_back({facts.add(std::string(1, letter), size)});
  unsigned blocks = facts.add("k", scales.back());
  unsigned half = facts.add("h", 2, FactorKind::Whole);
  unsigned bytes = facts.add("c", kBytes, FactorKind::Whole);
  auto tensor = [&](DimFactors last) {
    TensorFactors dims = rows;
    dims.push_back(std::move(last));
    return dims;
  };
  facts.operands = {tensor({blocks, bytes}), tensor({blocks})};
  facts.results = {tensor({blocks, half, bytes})};
  return facts;
}

/// A look-up and a product per number.
OpCost DequantizeOp::getCost() {
  return costWithFlops(*this, 0, 2.0 * typeOf(getResult()).getNumElements());
}

bool DequantizeOp::keepsWide(OpOperand &operand) {
  return operand.get() == getScales();
}

/// The number of each code. A choice per bit of the code, so that vectors of
/// them are looked up at once.
static Value lookUp(PlainBuilder &p, Value code, Type type) {
  llvm::SmallVector<Value> numbers;
  for (double number : kerf_nf4_table)
    numbers.push_back(p.constant(type, number));
  // From the highest bit, which chooses between numbers that are far apart.
  for (int64_t half = numbers.size() / 2; half > 0; half /= 2) {
    Value isUpper = p.compare(CompareKind::GE, code, half);
    code = p.sub(code, p.mul(p.cast(isUpper, typeOf(code).getElementType()),
                             static_cast<double>(half)));
    for (int64_t i = 0; i < half; ++i)
      numbers[i] = p.select(isUpper, numbers[i + half], numbers[i]);
  }
  return numbers.front();
}

llvm::SmallVector<Value> DequantizeOp::decompose(OpBuilder &builder) {
  PlainBuilder p{builder, getLoc()};
  llvm::SmallVector<int64_t> shape(typeOf(getScales()).getShape());
  int64_t rank = shape.size();
  llvm::SmallVector<int64_t> bytes = shape, halves = shape;
  bytes.push_back(kBytes);
  halves.append({2, kBytes});
  Type integer = builder.getI32Type();
  // Dimensions of the bytes, and of a block's scale, among those of the halves.
  llvm::SmallVector<int64_t> perBlock = dimRange(0, rank), perByte = perBlock;
  perByte.push_back(rank + 1);

  Value byte = p.cast(p.reshape(getCodes(), bytes), integer);
  byte = p.broadcast(p.add(byte, 128), perByte, halves);
  Value upper = p.div(byte, p.constant(byte.getType(), 16));
  Value isUpper = p.compare(CompareKind::EQ, p.iota(halves, rank), 0.0);
  Value code = p.select(isUpper, upper, p.sub(byte, p.mul(upper, 16)));
  Value scales = p.broadcast(p.widen(getScales()), perBlock, halves);
  Value result = p.mul(lookUp(p, code, scales.getType()), scales);
  return {p.cast(p.reshape(result, typeOf(getResult()).getShape()),
                 typeOf(getResult()).getElementType())};
}
