//===- GradcheckTest.cpp - wrong gradients are seen -----------------------===//
//
// A comparison of gradients proves something only if it can fail. Here the ops
// of a backward pass are broken one at a time: each time the gradients of the
// step must move by more than the comparison with central differences allows.
//
//===----------------------------------------------------------------------===//

#include "kerf/Dialect/Kerf/Decompose.h"
#include "kerf/Differentiate/Passes.h"
#include "kerf/Interpreter/Interpreter.h"
#include "kerf/Pipeline/GradientCheck.h"
#include "kerf/Pipeline/Stages.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace kerf;

static ModelOp modelOf(ModuleOp module) {
  return *module.getOps<ModelOp>().begin();
}

namespace {
constexpr double kTolerance = 1e-6; // of `kerf-inspect gradcheck`

/// Breaks an op; false when there is no such mistake to make in it.
using Mistake = llvm::function_ref<bool(Operation *)>;
using Gradients = TrainingState::Tensors;

class GradcheckTest : public ::testing::Test {
protected:
  void SetUp() override {
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    model = parseSourceFile<ModuleOp>(
        KERF_SOURCE_DIR "/test/Differentiate/Inputs/decoder.mlir", &context);
    ASSERT_TRUE(model);
    step = model->clone();
    ASSERT_TRUE(succeeded(differentiate(modelOf(*step))));
  }

  DialectRegistry registry;
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> model, step;
};
} // namespace

static llvm::SmallVector<Operation *> backwardOps(ModelOp model) {
  llvm::SmallVector<Operation *> ops;
  model.getBody().walk([&](Operation *op) {
    PhaseAttr phase = getPhase(op);
    if (phase && phase.getKind() != PhaseKind::Forward &&
        phase.getKind() != PhaseKind::Update)
      ops.push_back(op);
  });
  return ops;
}

static Gradients gradientsOf(ModelOp model) {
  Interpreter interpreter(model, {/*f64=*/true, /*seed=*/0});
  TrainingState state;
  EXPECT_TRUE(succeeded(interpreter.run(makeInputs(model, 0, 1, 0.01), state)));
  return state.gradients;
}

/// Largest difference of a parameter's gradient, over its largest element.
static double distance(const Gradients &a, const Gradients &b) {
  double worst = 0;
  for (const auto &[name, expected] : a) {
    const HostTensor &found = b.at(name);
    double difference = 0, scale = 1e-3;
    for (int64_t i = 0; i < expected.size(); ++i) {
      double d = std::abs(expected.data[i] - found.data[i]);
      difference = std::isnan(d) ? INFINITY : std::max(difference, d);
      scale = std::max(scale, std::abs(expected.data[i]));
    }
    worst = std::max(worst, difference / scale);
  }
  return worst;
}

/// Makes the mistake in each backward op of `step` that allows it; every one
/// must be seen. Returns how many were made.
static int countSeen(ModuleOp step, Mistake mistake) {
  Gradients right = gradientsOf(modelOf(step));
  int made = 0;
  for (size_t n = 0, end = backwardOps(modelOf(step)).size(); n < end; ++n) {
    OwningOpRef<ModuleOp> copy = step.clone();
    Operation *op = backwardOps(modelOf(*copy))[n];
    std::string name = op->getName().getStringRef().str();
    if (!mistake(op))
      continue;
    ++made;
    EXPECT_TRUE(succeeded(verify(*copy)));
    EXPECT_GT(distance(right, gradientsOf(modelOf(*copy))), kTolerance)
        << "not seen in op " << n << ", " << name;
  }
  return made;
}

/// Replaces a value by twice itself.
static bool doubleValue(Value value) {
  if (!isa<FloatType>(typeOf(value).getElementType()))
    return false;
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  auto twice = AddOp::create(builder, value.getLoc(), value, value);
  value.replaceAllUsesExcept(twice, twice);
  return true;
}

TEST_F(GradcheckTest, TheModelItselfIsRight) {
  auto errors = checkGradients(modelOf(*model), 0, 64);
  ASSERT_TRUE(succeeded(errors));
  EXPECT_EQ(errors->size(), 16u);
  for (const auto &[name, error] : *errors)
    EXPECT_LE(error, kTolerance) << name;
}

TEST_F(GradcheckTest, UnchangedIsTheSame) {
  OwningOpRef<ModuleOp> copy = step->clone();
  EXPECT_EQ(distance(gradientsOf(modelOf(*step)), gradientsOf(modelOf(*copy))),
            0);
}

TEST_F(GradcheckTest, EveryResultMatters) {
  for (unsigned number = 0; number < 3; ++number) {
    int made = countSeen(*step, [&](Operation *op) {
      return !isa<RepeatOp, ParamOp, ConstantOp>(op) &&
             number < op->getNumResults() && doubleValue(op->getResult(number));
    });
    EXPECT_GE(made, number == 0 ? 20 : 1);
  }
}

TEST_F(GradcheckTest, SwappedDifference) {
  decomposeAll(*step);
  int made = countSeen(*step, [](Operation *op) {
    auto sub = dyn_cast<SubOp>(op);
    if (!sub)
      return false;
    Value lhs = sub.getLhs(), rhs = sub.getRhs();
    sub.getLhsMutable().assign(rhs);
    sub.getRhsMutable().assign(lhs);
    return true;
  });
  EXPECT_GE(made, 5);
}

TEST_F(GradcheckTest, MissingTerm) {
  decomposeAll(*step);
  int made = countSeen(*step, [](Operation *op) {
    auto add = dyn_cast<AddOp>(op);
    if (!add || !isa<FloatType>(typeOf(add.getResult()).getElementType()))
      return false;
    add.replaceAllUsesWith(add.getRhs());
    add.erase();
    return true;
  });
  EXPECT_GE(made, 10);
}

TEST_F(GradcheckTest, TransposedWeight) {
  int made = countSeen(*step, [](Operation *op) {
    auto einsum = dyn_cast<EinsumOp>(op);
    if (!einsum)
      return false;
    llvm::ArrayRef<int64_t> shape = typeOf(einsum.getRhs()).getShape();
    if (shape.size() != 2 || shape[0] != shape[1])
      return false;
    std::string equation = einsum.getEquation().str();
    size_t comma = equation.find(',');
    std::swap(equation[comma + 1], equation[comma + 2]);
    einsum.setEquation(equation);
    return true;
  });
  EXPECT_GE(made, 1);
}

TEST_F(GradcheckTest, RotatedTheWrongWay) {
  int made = countSeen(*step, [](Operation *op) {
    auto rope = dyn_cast<RopeOp>(op);
    if (rope)
      rope.setInverse(!rope.getInverse());
    return bool(rope);
  });
  EXPECT_EQ(made, 2);
}
