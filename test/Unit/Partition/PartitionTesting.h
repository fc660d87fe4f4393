//===- PartitionTesting.h - steps of tiny models, and their programs ------===//

#ifndef KERF_TEST_UNIT_PARTITION_PARTITIONTESTING_H
#define KERF_TEST_UNIT_PARTITION_PARTITIONTESTING_H

#include "kerf/Ingest/Import.h"
#include "kerf/Interpreter/CompareTraining.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "gtest/gtest.h"

namespace kerf {

/// Rounding: a mistake makes an error that is larger by far.
inline constexpr double kTolerance = 1e-12;

/// Partitions the training steps of tiny models and compares them with the
/// step on global tensors, in f64.
class PartitionTest : public ::testing::Test {
protected:
  PartitionTest();

  /// The training step of a tiny model, by `options`.
  mlir::OwningOpRef<mlir::ModuleOp> stepOf(llvm::StringRef family);
  /// Its programs by a plan in JSON; null after an error.
  mlir::OwningOpRef<mlir::ModuleOp> programOf(mlir::ModuleOp step,
                                              llvm::StringRef plan);
  /// The largest error of a partition, of whatever is compared, after the
  /// training of `data`; infinite after an error.
  double compare(llvm::StringRef family, const std::string &plan);

  ImportOptions options;
  TrainingData data;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> last; ///< the programs that were compared
};

/// The text of a file of the repository.
std::string readSource(const llvm::Twine &path);

ModelOp modelIn(mlir::ModuleOp module);
/// Trains the programs of a module.
TrainingRun trainModule(mlir::ModuleOp programs, const TrainingData &data);
double errorOf(const TrainingRun &actual, const TrainingRun &expected);

/// Makes a mistake in an op; false when there is no such mistake to make.
using Mistake = llvm::function_ref<bool(mlir::Operation *)>;

/// Makes the mistake in each op of the training functions, one module each, and
/// expects that the first step is seen to be wrong. Returns how many there
/// were.
int64_t breakEach(mlir::ModuleOp programs, const TrainingRun &expected,
                  Mistake mistake);

} // namespace kerf

#endif // KERF_TEST_UNIT_PARTITION_PARTITIONTESTING_H
