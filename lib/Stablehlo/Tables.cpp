#include "Tables.h"

#include "FoldingBuilder.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace mlir;

/// Elements of a constant that follows no rule, at most.
static constexpr int64_t kMostElements = 1 << 14;

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

std::optional<Series> kerf::seriesOf(llvm::ArrayRef<double> numbers,
                                     llvm::ArrayRef<int64_t> shape) {
  int64_t stride = 1;
  for (int64_t dim = shape.size(); dim-- > 0; stride *= shape[dim]) {
    if (shape[dim] < 2)
      continue;
    double start = numbers[0], step = numbers[stride] - numbers[0];
    if (step == 0)
      continue;
    if (start != std::round(start) || step != std::round(step) ||
        std::abs(start) > 1e9 || std::abs(step) > 1e6)
      return std::nullopt;
    for (auto [i, number] : llvm::enumerate(numbers))
      if (number != start + step * ((i / stride) % shape[dim]))
        return std::nullopt;
    return Series{dim, static_cast<int64_t>(start), static_cast<int64_t>(step)};
  }
  return std::nullopt;
}

std::optional<Triangle> kerf::triangleOf(llvm::ArrayRef<double> numbers,
                                         llvm::ArrayRef<int64_t> shape) {
  if (shape.size() < 2)
    return std::nullopt;
  int64_t columns = shape.back(), rows = shape[shape.size() - 2];
  auto follows = [&](Triangle triangle) {
    for (auto [i, number] : llvm::enumerate(numbers)) {
      int64_t distance = static_cast<int64_t>(i % columns) -
                         static_cast<int64_t>(i / columns % rows);
      bool isInside = triangle.isUpper ? distance >= triangle.edge
                                       : distance <= triangle.edge;
      if ((number != 0) != isInside)
        return false;
    }
    return true;
  };
  llvm::ArrayRef<double> first = numbers.take_front(columns);
  auto count = static_cast<int64_t>(llvm::count(first, 1.0));
  Triangle lower = {count - 1, false}, upper = {columns - count, true};
  if (follows(lower))
    return lower;
  return follows(upper) ? std::optional(upper) : std::nullopt;
}

/// Angles by their cosine or sine, from the row that says most of each: the
/// largest p with p f < 1.5.
static std::vector<double> frequenciesOf(llvm::ArrayRef<double> numbers,
                                         int64_t rows, int64_t columns,
                                         bool isSine) {
  std::vector<double> found;
  auto angle = [&](int64_t row, int64_t column) {
    double x = std::clamp(numbers[row * columns + column], -1.0, 1.0);
    return (isSine ? std::asin(x) : std::acos(x)) / static_cast<double>(row);
  };
  for (int64_t column = 0; column < columns; ++column) {
    double f = angle(1, column);
    for (int64_t row = 2; row < rows; row *= 2)
      if (static_cast<double>(row) * f < 1.5)
        f = angle(row, column);
    found.push_back(f);
  }
  return found;
}

static bool follows(llvm::ArrayRef<double> numbers, const Rotation &rotation) {
  int64_t columns = rotation.frequencies.size();
  for (auto [i, number] : llvm::enumerate(numbers)) {
    double angle =
        static_cast<double>(i / columns) * rotation.frequencies[i % columns];
    double expected = rotation.isSine ? std::sin(angle) : std::cos(angle);
    if (!(std::abs(number - expected) <= 2e-4))
      return false;
  }
  return true;
}

/// True for angles that go round: numbers near 0 or 1 are no rotation.
static bool turns(const Rotation &rotation, int64_t rows) {
  double largest = *std::max_element(rotation.frequencies.begin(),
                                     rotation.frequencies.end());
  return largest * static_cast<double>(rows - 1) >= 1;
}

std::optional<Rotation> kerf::rotationOf(llvm::ArrayRef<double> numbers,
                                         int64_t rows, int64_t columns) {
  if (rows < 2 || numbers.size() < 8)
    return std::nullopt;
  for (bool isSine : {false, true}) {
    Rotation rotation = {isSine, frequenciesOf(numbers, rows, columns, isSine)};
    if (turns(rotation, rows) && follows(numbers, rotation))
      return rotation;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static std::vector<double> numbersOf(DenseElementsAttr elements) {
  std::vector<double> numbers;
  numbers.reserve(elements.getNumElements());
  if (isa<FloatType>(elements.getElementType())) {
    for (const llvm::APFloat &number : elements.getValues<llvm::APFloat>()) {
      llvm::APFloat wide = number;
      bool lost = false;
      wide.convert(llvm::APFloat::IEEEdouble(),
                   llvm::APFloat::rmNearestTiesToEven, &lost);
      numbers.push_back(wide.convertToDouble());
    }
    return numbers;
  }
  auto type = cast<IntegerType>(elements.getElementType());
  bool isUnsigned = type.isUnsigned() || type.isInteger(1);
  for (const llvm::APInt &number : elements.getValues<llvm::APInt>()) {
    // The extremes of 64 bits stand for those of 32.
    bool isWide = number.getBitWidth() > 32 && !isUnsigned;
    if (isWide && number.isMinSignedValue())
      numbers.push_back(INT32_MIN);
    else if (isWide && number.isMaxSignedValue())
      numbers.push_back(INT32_MAX);
    else
      numbers.push_back(isUnsigned
                            ? static_cast<double>(number.getZExtValue())
                            : static_cast<double>(number.getSExtValue()));
  }
  return numbers;
}

static DenseElementsAttr denseOf(RankedTensorType type,
                                 llvm::ArrayRef<double> numbers) {
  if (type.getElementType().isF64())
    return DenseElementsAttr::get(type, numbers);
  if (type.getElementType().isF32()) {
    std::vector<float> narrow(numbers.begin(), numbers.end());
    return DenseElementsAttr::get(type, llvm::ArrayRef(narrow));
  }
  if (type.getElementType().isInteger(1)) {
    llvm::SmallVector<bool> bits;
    for (double number : numbers)
      bits.push_back(number != 0);
    return DenseElementsAttr::get(type, llvm::ArrayRef<bool>(bits));
  }
  std::vector<int32_t> whole(numbers.begin(), numbers.end());
  return DenseElementsAttr::get(type, llvm::ArrayRef(whole));
}

/// The numbers as they are; null where they are too many.
static Value written(FoldingBuilder &b, std::vector<double> numbers,
                     llvm::ArrayRef<int64_t> shape, Type element) {
  if (static_cast<int64_t>(numbers.size()) > kMostElements)
    return {};
  bool isFloat = element.isF32();
  auto isExact = [](double number) {
    return static_cast<double>(static_cast<float>(number)) == number;
  };
  for (double &number : numbers)
    number = isFloat ? FoldingBuilder::inRange(number) : number;
  Type type = isFloat && !llvm::all_of(numbers, isExact)
                  ? b.plain.builder.getF64Type()
                  : element;
  Value made = ConstantOp::create(b.plain.builder, b.plain.loc,
                                  denseOf(b.type(shape, type), numbers));
  if (isFloat)
    return b.plain.cast(made, element);
  auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  b.setRange(made, {static_cast<int64_t>(*low), static_cast<int64_t>(*high)});
  return made;
}

/// cos(p f) or sin(p f) as ops; null for other tables.
static Value rotationTable(FoldingBuilder &b, llvm::ArrayRef<double> numbers,
                           llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> wide;
  for (int64_t size : shape)
    if (size != 1)
      wide.push_back(size);
  auto rotation =
      wide.size() == 2 ? rotationOf(numbers, wide[0], wide[1]) : std::nullopt;
  Value f =
      rotation ? written(b, rotation->frequencies, wide[1], b.f32()) : Value();
  if (!f)
    return {};
  Value positions = b.cast(b.iota(wide, 0), b.f32());
  Value angles = b.mul(positions, b.broadcast(f, {1}, wide));
  Value table = rotation->isSine ? b.plain.sin(angles) : b.plain.cos(angles);
  return b.reshape(table, shape);
}

Value FoldingBuilder::table(DenseElementsAttr elements) {
  Shape shape = elements.getType().getShape();
  Type from = elements.getElementType();
  Type element = from.isInteger(1)      ? i1()
                 : isa<FloatType>(from) ? f32()
                                        : i32();
  if (elements.isSplat())
    return splat(
        shape, element,
        numbersOf(elements.resizeSplat(elements.getType().clone(Shape{1})))[0]);
  std::vector<double> numbers = numbersOf(elements);
  if (auto series = seriesOf(numbers, shape); series && element != i1()) {
    Value index = iota(shape, series->dim);
    Value scaled = mul(index, splat(shape, i32(), series->step));
    return cast(add(scaled, splat(shape, i32(), series->start)), element);
  }
  auto triangle = element == i1() ? triangleOf(numbers, shape) : std::nullopt;
  if (triangle) {
    int64_t rank = shape.size();
    Value edge =
        add(iota(shape, rank - 2), splat(shape, i32(), triangle->edge));
    return compare(triangle->isUpper ? CompareKind::GE : CompareKind::LE,
                   iota(shape, rank - 1), edge);
  }
  if (element == f32())
    if (Value rotation = rotationTable(*this, numbers, shape))
      return rotation;
  return written(*this, numbers, shape, element);
}
