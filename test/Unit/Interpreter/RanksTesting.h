//===- RanksTesting.h - running programs from text ------------------------===//

#ifndef KERF_TEST_UNIT_INTERPRETER_RANKSTESTING_H
#define KERF_TEST_UNIT_INTERPRETER_RANKSTESTING_H

#include "kerf/Interpreter/SpmdInterpreter.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

namespace kerf {

/// Values by name: of inputs, outputs, parameters.
using Values = std::map<std::string, std::vector<double>>;

/// Runs the programs of a module and keeps what the interpreter says.
struct RanksTest : ::testing::Test {
  RanksTest() { context.loadDialect<KerfDialect, spmd::SpmdDialect>(); }

  /// Runs one step of the programs in `text`: its inputs by name, its state in
  /// `state`. Returns the outputs that were written; nothing after a failure,
  /// whose messages are then in `messages`.
  std::optional<Values> run(const std::string &text, const Values &inputs = {},
                            llvm::StringRef schedule = "train");
  /// The message of a run that must fail, with its notes, one per line.
  std::string failureOf(const std::string &text, const Values &inputs = {});

  /// Sets a parameter before the first step.
  void setParam(const std::string &name, llvm::ArrayRef<int64_t> shape,
                std::vector<double> values);

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  InterpreterOptions options{/*f64=*/true, /*seed=*/0};
  TrainingState state;
  std::string messages;
};

/// The text with one place replaced; the place must be there once.
std::string replaced(std::string text, llvm::StringRef from,
                     llvm::StringRef to);

/// The numbers of each tensor.
Values valuesOf(const TrainingState::Tensors &tensors);

} // namespace kerf

#endif // KERF_TEST_UNIT_INTERPRETER_RANKSTESTING_H
