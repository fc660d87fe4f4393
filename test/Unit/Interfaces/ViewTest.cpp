//===- ViewTest.cpp - views are what they say -----------------------------===//

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <map>
#include <numeric>

using namespace kerf;

using Indices = std::vector<int64_t>;

namespace {

Indices indicesOf(int64_t element, llvm::ArrayRef<int64_t> shape) {
  Indices at(shape.size());
  for (size_t d = shape.size(); d-- > 0; element /= shape[d])
    at[d] = element % shape[d];
  return at;
}

int64_t elementOf(const Indices &at, llvm::ArrayRef<int64_t> shape) {
  int64_t element = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    element = element * shape[d] + at[d];
  return element;
}

/// What the facts say an element is: one of an operand, or 0.
double elementBy(const View &view, int64_t element,
                 llvm::ArrayRef<const HostTensor *> operands,
                 llvm::ArrayRef<int64_t> to) {
  llvm::ArrayRef<int64_t> from = operands[0]->type.getShape();
  Indices at = indicesOf(element, to), source(from.size());
  switch (view.kind) {
  case ViewKind::Rename:
    return operands[0]->data[element];
  case ViewKind::Part:
    for (size_t d = 0; d < at.size(); ++d)
      source[d] = at[d] + view.offsets[d];
    break;
  case ViewKind::Pad:
    for (size_t d = 0; d < at.size(); ++d) {
      source[d] = at[d] - view.offsets[d];
      if (source[d] < 0 || source[d] >= from[d])
        return 0;
    }
    break;
  case ViewKind::Join:
    for (const HostTensor *operand : operands) {
      int64_t size = operand->type.getDimSize(view.dims[0]);
      if (at[view.dims[0]] < size)
        return operand->data[elementOf(at, operand->type.getShape())];
      at[view.dims[0]] -= size;
    }
    return NAN;
  case ViewKind::Turn:
    for (size_t d = 0; d < at.size(); ++d)
      source[view.dims[d]] = at[d];
    break;
  case ViewKind::Repeat:
    for (size_t d = 0; d < source.size(); ++d)
      source[d] = at[view.dims[d]];
    break;
  }
  return operands[0]->data[elementOf(source, from)];
}

struct ViewTest : ::testing::Test {
  ViewTest() {
    context.loadDialect<KerfDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(R"(
      kerf.model @m(%x: tensor<4x6x3xf32>, %y: tensor<4x2x3xf32>, %q: tensor<2x8x4x16xf32>, %w: tensor<16x3xf32>, %loss: tensor<f32>) {
        %0 = kerf.reshape %x : tensor<4x6x3xf32> -> tensor<4x2x9xf32>
        %1 = kerf.reshape %0 : tensor<4x2x9xf32> -> tensor<72xf32>
        %2 = kerf.slice %x offsets [1, 2, 0] sizes [2, 3, 3] : tensor<4x6x3xf32>
        %3 = kerf.slice %x offsets [0, 0, 0] sizes [2, 3, 3] : tensor<4x6x3xf32>
        %4 = kerf.pad %x low [0, 1, 2] high [3, 0, 1] : tensor<4x6x3xf32>
        %5 = kerf.concat dim 1 %x, %y, %x : tensor<4x6x3xf32>, tensor<4x2x3xf32>, tensor<4x6x3xf32>
        %6 = kerf.transpose %x perm [2, 0, 1] : tensor<4x6x3xf32>
        %7 = kerf.broadcast %y dims [0, 2, 3] : tensor<4x2x3xf32> -> tensor<4x5x2x3xf32>
        %8 = kerf.cast %x : tensor<4x6x3xf32> -> tensor<4x6x3xbf16>
        %9 = kerf.constant dense<1.0> : tensor<4xf32>
        %10 = kerf.linear %x, %w : tensor<4x6x3xf32>, tensor<16x3xf32>
        %11 = kerf.attention %q, %q, %q causal window 3 : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>
        %12 = kerf.add %x, %x : tensor<4x6x3xf32>
        kerf.return %loss : tensor<f32>
      })",
                                                     &context);
    module->walk([&](mlir::Operation *op) {
      if (op->getNumResults() == 1 && isPure(op))
        ops.push_back(op);
    });
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<mlir::Operation *> ops;
};

// The facts of a view tell each element that its meaning makes.
TEST_F(ViewTest, tellsEachElement) {
  std::map<ViewKind, int> seen;
  for (mlir::Operation *op : ops) {
    std::optional<View> view = viewOf(op);
    if (!view)
      continue;
    ++seen[view->kind];
    std::vector<HostTensor> inputs;
    double next = 1;
    for (mlir::Value operand : op->getOperands()) {
      inputs.emplace_back(typeOf(operand));
      for (double &x : inputs.back().data)
        x = next++;
    }
    std::vector<const HostTensor *> operands;
    for (const HostTensor &input : inputs)
      operands.push_back(&input);
    HostTensor result(typeOf(op->getResult(0)));
    llvm::cast<EvaluateOpInterface>(op).evaluate(operands, result);
    for (int64_t i = 0; i < result.size(); ++i)
      ASSERT_EQ(result.data[i],
                elementBy(*view, i, operands, result.type.getShape()))
          << op->getName().getStringRef().str() << " element " << i;
  }
  EXPECT_EQ(seen.size(), 6u);
}

TEST_F(ViewTest, kinds) {
  EXPECT_TRUE(isView(ops[0], ViewKind::Rename));
  EXPECT_TRUE(isView(ops[0]->getResult(0), ViewKind::Part, ViewKind::Rename));
  EXPECT_FALSE(isView(ops[0], ViewKind::Part, ViewKind::Join));
  EXPECT_FALSE(isView(nullptr, ViewKind::Rename));
  EXPECT_FALSE(isView(ops[12], ViewKind::Rename, ViewKind::Repeat));
  EXPECT_FALSE(viewOf(ops[2])->isAtStart());
  EXPECT_TRUE(viewOf(ops[3])->isAtStart());
  EXPECT_EQ(withoutRenames(ops[1]->getResult(0)), ops[0]->getOperand(0));
  EXPECT_EQ(withoutRenames(ops[2]->getResult(0)), ops[2]->getResult(0));
}

TEST_F(ViewTest, otherFacts) {
  EXPECT_TRUE(isConversion(ops[8]));
  EXPECT_FALSE(isConversion(ops[12]));
  EXPECT_FALSE(isConversion(nullptr));
  EXPECT_TRUE(isConstant(ops[9]));
  EXPECT_FALSE(isConstant(nullptr));
  EXPECT_EQ(libraryCallOf(ops[10]), LibraryCall::Matmul);
  EXPECT_TRUE(isCall(ops[11], LibraryCall::Matmul, LibraryCall::Attention));
  EXPECT_FALSE(isCall(ops[12], LibraryCall::Matmul));
  EXPECT_FALSE(isCall(nullptr, LibraryCall::Matmul));
  auto scores = llvm::cast<AttentionOpInterface>(ops[11]).getAttentionFacts();
  EXPECT_TRUE(scores.causal);
  EXPECT_EQ(scores.window, 3);
  EXPECT_FALSE(scores.drops || scores.capsScores || scores.isPacked);
  EXPECT_EQ(SizeName::last(ops[2]->getResult(0)).index, 2u);
}

} // namespace
