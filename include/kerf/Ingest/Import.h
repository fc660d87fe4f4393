//===- Import.h - Models from Hugging Face configs --------------*- C++ -*-===//
//
// Builds a `kerf.model` from a Hugging Face `config.json`, so that the loss,
// its gradients and the parameters' names, shapes and orientation are those of
// the transformers library 5.23 in training mode. Families: listFamilies().
//
//===----------------------------------------------------------------------===//

#ifndef KERF_INGEST_IMPORT_H
#define KERF_INGEST_IMPORT_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kerf {

/// Low-rank adapters (Hu et al. 2021, "LoRA") as the peft library adds them: a
/// linear layer y = W x gets y = W x + alpha / rank B (A dropout(x)), A of
/// `rank` rows, B of zeros; all other parameters are frozen.
struct LoraOptions {
  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  /// Last components of the modules' names; "all-linear": all but routers and
  /// the output layer.
  std::vector<std::string> targets = {"all-linear"};
};

/// What a config does not say: the step's inputs, the loss and the optimizer.
struct ImportOptions {
  /// Sequences in the global batch, and tokens in each.
  int64_t batch = 0;
  int64_t seq = 0;
  /// "adafactor", "adamw", "adamw_8bit", "lion", "muon" or "sgd". Parameters of
  /// rank 1 get no weight decay. Muon is of matrices inside the model and of
  /// those of experts; AdamW of vectors, embeddings and the output layer.
  std::string optimizer = "adamw";
  double weightDecay = 0.1;
  double beta1 = 0.9;
  std::optional<double> beta2; ///< none: 0.99 of lion, else 0.95
  double eps = 1e-8;
  std::optional<double> momentum; ///< none: 0.95 of muon, else 0.9
  /// Of muon: "match_rms_adamw" or "original".
  std::string muonRate = "match_rms_adamw";
  /// Elements of a block of 8-bit state.
  int64_t stateBlock = 256;
  /// Largest global norm of the gradient; 0 does not clip.
  double clipNorm = 1.0;
  /// `PATTERN:lr=FACTOR,weight-decay=NUMBER,optimizer=NAME`, some of them:
  /// parameters with a rate of their own, times the schedule's, their own decay
  /// (default: `weightDecay`) or optimizer (default: what they have without the
  /// group). The first pattern that a name matches counts.
  std::vector<std::string> groups;
  /// Factor on the squared logarithm of the softmax's denominator.
  double zLoss = 0.0;
  /// Load-balance loss of mixtures of experts, times `router_aux_loss_coef`:
  /// "config" (as "global" if the config's `output_router_logits` is true, else
  /// none), "none", "layer" (per layer and sequence, averaged) or "global"
  /// (over all layers and the whole batch, as the library does).
  std::string auxLoss = "config";
  /// Rows of an expert per sequence are ceil(factor tokens k / experts), and
  /// choices beyond them are dropped. Without it no token is ever dropped.
  std::optional<double> capacityFactor;
  /// What a step adds to or takes from the bias of an expert with less or more
  /// than the mean load, in families that choose experts by a bias; 0 leaves
  /// biases as they are, as the library does.
  double routerBiasRate = 0.001;
  /// Sequences hold several documents: adds the inputs `segments` and
  /// `positions`.
  bool packed = false;
  /// Adapters; none: all parameters are trained.
  std::optional<LoraOptions> lora;
  /// How frozen weights of linear layers and experts are kept: "none" (as they
  /// are computed with) or "nf4" (4-bit codes, `kerf.dequantize`); routers and
  /// the output layer are kept as they are.
  std::string quantizeBase = "none";
  /// Symbol of the model; empty for the name of the family.
  std::string modelName;
};

/// Builds a verified module that holds one `kerf.model` of the config `json`.
/// It returns the loss first; with an auxiliary loss also the cross entropy and
/// the auxiliary loss without its coefficient. On failure returns null, after
/// diagnostics at `fileName`, line and column of the field (or at no location
/// for an option). Loads the dialect into `context`.
mlir::OwningOpRef<mlir::ModuleOp> importConfig(llvm::StringRef json,
                                               llvm::StringRef fileName,
                                               const ImportOptions &options,
                                               mlir::MLIRContext *context);

/// Sets optimizer, bound of the norm and groups of a model that came as a
/// graph: vectors get no weight decay. Fails with an error, at no location, for
/// a wrong option.
[[nodiscard]] mlir::LogicalResult
setGraphOptimizer(ModelOp model, const ImportOptions &options);

/// Gives AdamW to what Muon does not update in a graph whose optimizer is Muon,
/// as `ImportOptions::optimizer` says, unless a group has a rule for it.
void completeMuon(ModelOp model);

/// Prints the fields of `family`'s configs: what is used, what has no effect on
/// training and why, and what must have a certain value. Returns false, and
/// prints nothing, when there is no such family.
[[nodiscard]] bool printFields(llvm::StringRef family, llvm::raw_ostream &os);

/// The families by name, in order: "arcee, cohere, ...".
std::string listFamilies();

} // namespace kerf

#endif // KERF_INGEST_IMPORT_H
