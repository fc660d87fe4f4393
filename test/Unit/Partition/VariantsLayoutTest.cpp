//===- VariantsLayoutTest.cpp - parts that are no equal ranges ------------===//
//
// Cuts in blocks and rows that lie with their owners: what ops make of them,
// how large parts are, and how they become other parts.
//
//===----------------------------------------------------------------------===//

#include "kerf/Pipeline/Stages.h"
#include "kerf/Sharding/Layout.h"

#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;

namespace {
class VariantsLayoutTest : public ::testing::Test {
protected:
  void SetUp() override {
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    auto name = [&](llvm::StringRef text) {
      return StringAttr::get(&context, text);
    };
    auto mesh = kerf::MeshAttr::get(&context, {name("tp"), name("ep")}, {2, 4});
    axes.emplace(PlanAttr::get(&context, mesh, 1, "1f1b", false, {}));
  }

  RankedTensorType tensor(llvm::ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, Float32Type::get(&context));
  }
  /// `[24]` cut over `tp` in blocks.
  Layout inBlocks(int64_t blocks) {
    Layout layout = Layout::whole(1);
    layout.dims[0] = {tp};
    layout.setBlocks(0, blocks);
    return layout;
  }
  /// The steps between two layouts, as text.
  std::string steps(const Layout &from, const Layout &to);

  const unsigned tp = 0, ep = 1;
  DialectRegistry registry;
  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::optional<PlanAxes> axes;
};
} // namespace

std::string VariantsLayoutTest::steps(const Layout &from, const Layout &to) {
  std::string error, text;
  auto found = planConversion(from, to, *axes, error);
  if (failed(found))
    return error;
  constexpr llvm::StringLiteral names[] = {
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "slice_own"};
  Layout at = from;
  for (const ConversionStep &step : *found) {
    text += (text.empty() ? "" : ", ") + names[step.kind].str();
    if (step.blocks > 1)
      text += " of " + std::to_string(step.blocks);
    at = applyStep(at, step);
  }
  EXPECT_EQ(printLayout(at, *axes), printLayout(to, *axes));
  return text;
}

/// Parts of blocks are gathered and cut as such; a range of the whole is no
/// part of blocks, and the other way round.
TEST_F(VariantsLayoutTest, BlocksAreConverted) {
  Layout whole = Layout::whole(1), sum = whole;
  sum.sums = {tp};
  EXPECT_EQ(steps(inBlocks(3), inBlocks(3)), "");
  EXPECT_EQ(steps(inBlocks(3), whole), "all_gather of 3");
  EXPECT_EQ(steps(whole, inBlocks(3)), "slice_own of 3");
  EXPECT_EQ(steps(sum, inBlocks(3)), "reduce_scatter of 3");
  EXPECT_EQ(steps(inBlocks(1), inBlocks(3)), "all_gather, slice_own of 3");
  EXPECT_EQ(steps(inBlocks(3), inBlocks(1)), "all_gather of 3, slice_own");
  EXPECT_EQ(localType(tensor({24}), inBlocks(3), *axes), tensor({12}));
}

/// The thirds of a fused matmul: its output is made of three blocks, a slice
/// of a third of none.
TEST_F(VariantsLayoutTest, BlocksFollowFactors) {
  Factors slice(Positions::Ignored);
  unsigned b = slice.add("b", 2), x = slice.add("x", 3, FactorKind::Whole),
           c = slice.add("c", 8);
  slice.operands = {{{b}, {x, c}}};
  slice.results = {{{b}, {c}}};
  Assignment assignment;
  assignment.factors = {{}, {}, {tp}};
  assignment.blocks = 3;
  std::string error;
  auto layouts = layoutsOf(slice, assignment, {Layout::whole(2)}, *axes, error);
  ASSERT_TRUE(succeeded(layouts)) << error;
  EXPECT_EQ(printLayout(layouts->operands[0], *axes), "[[], [tp] of 3 blocks]");
  EXPECT_EQ(printLayout(layouts->results[0], *axes), "[[], [tp]]");

  Factors linear(Positions::Ignored);
  unsigned k = linear.add("k", 4, FactorKind::Sum), n = linear.add("n", 24);
  linear.operands = {{{k}}, {{n}, {k}}};
  linear.results = {{{n}}};
  assignment.factors = {{ep}, {tp}};
  layouts = layoutsOf(linear, assignment, {Layout::whole(1), Layout::whole(2)},
                      *axes, error);
  ASSERT_TRUE(succeeded(layouts)) << error;
  EXPECT_EQ(printLayout(layouts->operands[1], *axes),
            "[[tp] of 3 blocks, [ep]]");
  EXPECT_EQ(printLayout(layouts->results[0], *axes),
            "[[tp] of 3 blocks] sum [ep]");

  linear.positions = Positions::Read;
  EXPECT_TRUE(failed(layoutsOf(
      linear, assignment, {Layout::whole(1), Layout::whole(2)}, *axes, error)));
  EXPECT_EQ(error,
            "the op reads global indices, which parts of blocks do not have");
  linear.factors[n].size = 10;
  EXPECT_TRUE(failed(layoutsOf(
      linear, assignment, {Layout::whole(1), Layout::whole(2)}, *axes, error)));
  EXPECT_EQ(error, "factor 'n' of size 10 does not divide into parts of 3 "
                   "blocks over [tp]");
}

/// Ops that pass rows on leave them with their owners; sums over them and other
/// places do not exist, and a part has room for all.
TEST_F(VariantsLayoutTest, RaggedRowsStay) {
  Layout rows = Layout::whole(2);
  rows.dims[0] = {ep};
  rows.ragged = 0;
  EXPECT_EQ(localType(tensor({8, 2}), rows, *axes), tensor({8, 2}));
  Factors facts(Positions::Ignored);
  unsigned r = facts.add("r", 8), d = facts.add("d", 2);
  facts.operands = {{{r}, {d}}};
  facts.results = {{{r}, {d}}};
  Assignment assignment;
  assignment.factors = {{ep}, {tp}};
  std::string error;
  auto layouts = layoutsOf(facts, assignment, {rows}, *axes, error);
  ASSERT_TRUE(succeeded(layouts)) << error;
  EXPECT_EQ(printLayout(layouts->results[0], *axes), "[[ep] ragged, [tp]]");
  EXPECT_EQ(steps(rows, layouts->operands[0]), "slice_own");

  Layout range = rows;
  range.ragged = -1;
  for (const Layout &other : {range, Layout::whole(2)})
    EXPECT_EQ(steps(rows, other), "rows that lie with their experts are needed "
                                  "elsewhere, or others with experts");
  facts.factors[r].kind = FactorKind::Sum;
  facts.results = {{{d}}};
  EXPECT_TRUE(failed(layoutsOf(facts, assignment, {rows}, *axes, error)));
  EXPECT_EQ(error,
            "factor 'r' is split by experts, whose rows have no place of "
            "their own");
}
