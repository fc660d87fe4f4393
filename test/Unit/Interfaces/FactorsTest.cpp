//===- FactorsTest.cpp - Factors that do not fit their op are refused -----===//

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

using namespace kerf;

namespace {

/// A linear op with its true factors, to be broken by a test.
struct FactorsTest : ::testing::Test {
  FactorsTest() {
    context.loadDialect<KerfDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(R"(
      kerf.model @m(%x: tensor<8x16x64xf32>, %w: tensor<256x64xf32>, %loss: tensor<f32>) {
        %y = kerf.linear %x, %w : tensor<8x16x64xf32>, tensor<256x64xf32>
        kerf.return %loss : tensor<f32>
      })",
                                                     &context);
    module->walk([&](LinearOp linear) { op = linear; });
    facts = op.getFactors();
  }

  /// The error of the present factors, empty when there is none.
  std::string error() {
    std::string message;
    mlir::ScopedDiagnosticHandler handler(&context,
                                          [&](mlir::Diagnostic &diagnostic) {
                                            message = diagnostic.str();
                                            return mlir::success();
                                          });
    EXPECT_EQ(mlir::failed(verifyFactors(op, facts)), !message.empty());
    return message;
  }

  std::string print() const {
    std::string text;
    llvm::raw_string_ostream os(text);
    printFactors(os, facts);
    return text;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  LinearOp op;
  Factors facts{Positions::Ignored};
};

TEST_F(FactorsTest, saysWhetherItReadsPositions) {
  facts.positions = {};
  EXPECT_EQ(error(),
            "'kerf.linear' op does not say whether it reads positions");
}

TEST_F(FactorsTest, namesPositionsThatItReads) {
  facts.placed = {0};
  EXPECT_EQ(error(), "'kerf.linear' op names positions that it does not read");
  facts.positions = Positions::Read;
  EXPECT_EQ(error(), "");
  EXPECT_TRUE(facts.readsPositions(0));
  EXPECT_FALSE(facts.readsPositions(1));
  facts.placed = {7};
  EXPECT_EQ(error(), "'kerf.linear' op names positions that it does not read");
  facts.placed = {};
  EXPECT_TRUE(facts.readsPositions(1));
}

TEST_F(FactorsTest, trueFactors) {
  EXPECT_EQ(error(), "");
  EXPECT_EQ(print(), "b=8 s=16 k=64(sum) n=256 : [b, s, k], [n, k] -> "
                     "[b, s, n] linear in 0,1");
}

TEST_F(FactorsTest, missingOperand) {
  facts.operands.pop_back();
  EXPECT_EQ(error(), "'kerf.linear' op has factors for another number of "
                     "operands or results");
}

TEST_F(FactorsTest, missingResult) {
  facts.results.clear();
  EXPECT_EQ(error(), "'kerf.linear' op has factors for another number of "
                     "operands or results");
}

TEST_F(FactorsTest, missingDimension) {
  facts.operands[1].pop_back();
  EXPECT_EQ(error(), "'kerf.linear' op has factors for 1 dimensions of operand "
                     "1, which is 'tensor<256x64xf32>'");
}

TEST_F(FactorsTest, wrongSize) {
  facts.factors[1].size = 15;
  EXPECT_EQ(error(), "'kerf.linear' op has factors of size 15 for dimension 1 "
                     "of operand 0, which has size 16");
}

TEST_F(FactorsTest, wrongResult) {
  std::swap(facts.results[0][0], facts.results[0][1]);
  EXPECT_EQ(error(), "'kerf.linear' op has factors of size 16 for dimension 0 "
                     "of result 0, which has size 8");
}

/// A dimension may be a product of factors.
TEST_F(FactorsTest, product) {
  facts.factors[0].size = 2;
  unsigned minor = facts.add("c", 4);
  facts.operands[0][0].push_back(minor);
  facts.results[0][0].push_back(minor);
  EXPECT_EQ(error(), "");
  EXPECT_EQ(print(), "b=2 s=16 k=64(sum) n=256 c=4 : [b*c, s, k], [n, k] -> "
                     "[b*c, s, n] linear in 0,1");
}

TEST_F(FactorsTest, printsEverything) {
  facts.factors[0].kind = FactorKind::Whole;
  facts.factors[1].kind = FactorKind::Max;
  facts.jointly = true;
  facts.variants.push_back({"ring", {0, 2}});
  facts.maps.push_back({1, {0, 1}, {3}});
  EXPECT_EQ(print(), "b=8(whole) s=16(max) k=64(sum) n=256 : [b, s, k], [n, k] "
                     "-> [b, s, n] jointly linear in 0,1 variant ring(b,k) map "
                     "b,s->n by operand 1");
}

} // namespace
