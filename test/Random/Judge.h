//===- Judge.h - programs of ranks beside the step they are of ------------===//

#ifndef KERF_TEST_RANDOM_JUDGE_H
#define KERF_TEST_RANDOM_JUDGE_H

#include "kerf/Interpreter/CompareTraining.h"
#include "kerf/Pipeline/Stages.h"

#include <string>

namespace kerf::test {

/// Runs the stages from one to another.
llvm::LogicalResult runStages(mlir::ModuleOp module, Stage first, Stage last,
                              const StageOptions &options = {});

/// Options under which programs of every other plan sum gradients over ranks in
/// the last backward pass: of layers of at least 64 bytes one by one. The
/// passes must be registered.
StageOptions optionsFor(llvm::StringRef plan);

ModelOp modelIn(mlir::ModuleOp module);

TrainingRun trainModule(mlir::ModuleOp programs, const TrainingData &data);

/// What becomes of a case.
struct Outcome {
  enum { Same, Noisy, Refused, Wrong } verdict = Wrong;
  std::string message;
};

/// Trains both for two steps and compares. Some random models are
/// ill-conditioned: then rounding shows as much.
Outcome judge(mlir::ModuleOp programs, ModelOp step);

/// Runs cases until enough have programs; those that are refused count apart.
class Counter {
public:
  explicit Counter(int64_t wanted) : wanted(wanted) {}
  /// True while more cases are needed and there is hope of some.
  bool needsMore() const {
    return same + noisy + wrong < wanted && refused <= 20 * wanted + 20;
  }
  void add(const Outcome &outcome);
  /// Prints the counts, the last as "... more `how`"; returns the exit status.
  int report(llvm::StringRef how) const;

private:
  int64_t wanted, same = 0, noisy = 0, refused = 0, wrong = 0;
};

void writeText(const std::string &path, const std::string &text);

} // namespace kerf::test

#endif // KERF_TEST_RANDOM_JUDGE_H
