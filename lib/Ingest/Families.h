//===- Families.h - The families of models ----------------------*- C++ -*-===//
//
// One importer per family: reads and checks the config, then builds the body.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_INGEST_FAMILIES_H
#define KERF_LIB_INGEST_FAMILIES_H

#include "LayerBuilder.h"

namespace kerf {

/// A model that a config describes. The reader and the options outlive it.
class Importer {
public:
  virtual ~Importer() = default;
  /// Reads the fields. Problems are diagnostics and mark the reader failed.
  virtual void read(ConfigReader &config, const ImportOptions &options) = 0;
  /// Builds the body after a successful `read`.
  virtual void build(LayerBuilder &b) = 0;
  /// Patterns of the names of all parameters of rank 1.
  virtual llvm::SmallVector<llvm::StringRef> vectorNames() = 0;
  /// Groups of parameters with rules of their own.
  virtual llvm::SmallVector<GroupAttr> ruleGroups(mlir::MLIRContext *context) {
    return {};
  }
};

std::unique_ptr<Importer> makeGpt2Importer();
/// All others: of llama's line.
std::unique_ptr<Importer> makeDecoderImporter(llvm::StringRef family);

/// Checks that a tensor of these dimensions is one that could exist: a
/// parameter has at most 2^40 elements, an activation 2^44 (logits of 16
/// million tokens have 2^41), and indices fit in i32. Else an error at the
/// field, that calls the tensor `what`.
void checkParameterSize(ConfigReader &config, llvm::StringRef field,
                        llvm::StringRef what, llvm::ArrayRef<int64_t> shape);
void checkActivationSize(ConfigReader &config, llvm::StringRef field,
                         llvm::StringRef what, llvm::ArrayRef<int64_t> shape);

/// Layers of a model: at most 10^6.
inline constexpr IntegerRange kLayerRange{1, 1000000};
/// Rates of dropout: 1 would leave nothing.
inline constexpr RealRange kRateRange{0.0, 1.0};

} // namespace kerf

#endif // KERF_LIB_INGEST_FAMILIES_H
