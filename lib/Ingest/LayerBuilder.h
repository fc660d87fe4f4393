//===- LayerBuilder.h - Layers of a model by name ---------------*- C++ -*-===//
//
// Builds the layers that the families share, with their parameters named after
// the checkpoint. Ops of a part get its module name and the config field that
// shapes it as location.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_LIB_INGEST_LAYERBUILDER_H
#define KERF_LIB_INGEST_LAYERBUILDER_H

#include "ConfigReader.h"

#include "kerf/Dialect/Kerf/PlainBuilder.h"
#include "kerf/Ingest/Import.h"

#include <set>

namespace kerf {

enum class Activation { GeluTanh, GeluExact, Silu, SquaredRelu, Relu };

/// The activation that a config names in `field`; an error lists what there is.
Activation readActivation(ConfigReader &config, llvm::StringRef field,
                          llvm::StringRef absent);

/// A norm's kind, gain and bias.
enum class NormForm {
  Rms,
  RmsPlusOne, ///< the gain is 1 + weight
  Layer,
  LayerPlusOne,
  LayerWithoutBias,
};

/// A linear layer's weight and bias.
struct LinearForm {
  int64_t outputs;
  /// Standard deviation of the initial weight.
  double std;
  bool hasBias = false;
  /// The weight is stored [inputs, outputs].
  bool isTransposed = false;
};

/// What attention does besides the matmuls; dropout is named after the module.
struct AttentionForm {
  std::optional<int64_t> window;
  std::optional<double> scale, softcap;
  double dropout = 0.0;
  /// Tokens that attend to each other alone; absent: all.
  std::optional<int64_t> chunk;
  /// Of each head: the score of attending to nothing; may be null.
  mlir::Value sinks;
};

/// Which modules adapters were asked for, and got.
struct AdapterNames {
  /// Last components of the names of all linear layers, names that peft finds
  /// those with an adapter by, and the options' targets that were met.
  std::set<std::string> linears, adapted, targets;
  /// Weights of layers with an adapter are stored [inputs, outputs].
  bool isTransposed = false;
  /// Why the first weight that cannot be quantized cannot.
  std::string obstacle;
};

class LayerBuilder {
public:
  /// Builds at the end of the model's body.
  LayerBuilder(ModelOp model, const ConfigReader &config,
               const ImportOptions &options);

  /// Ops made from now on belong to `module`, shaped by `field`.
  void enter(const llvm::Twine &module, llvm::StringRef field);

  mlir::Value input(llvm::StringRef role) { return model.getInput(role); }
  /// f32 parameter, normal with standard deviation `std`.
  mlir::Value weight(const llvm::Twine &name, llvm::ArrayRef<int64_t> shape,
                     double std);
  /// `<module>.weight`, kept as the options say of base weights: in codes of 4
  /// bits, with scales `<module>.weight.absmax`, unless it is a router's or the
  /// output layer's.
  mlir::Value projection(const llvm::Twine &module,
                         llvm::ArrayRef<int64_t> shape, double std);
  mlir::Value ones(const llvm::Twine &name, int64_t size);
  mlir::Value zeros(const llvm::Twine &name, llvm::ArrayRef<int64_t> shape);

  /// `<module>.weight` and `<module>.bias` applied to x, with an adapter if the
  /// options name the module.
  mlir::Value linear(mlir::Value x, const llvm::Twine &module, LinearForm form);
  mlir::Value layerNorm(mlir::Value x, const llvm::Twine &module, double eps);
  mlir::Value rmsNorm(mlir::Value x, const llvm::Twine &module, double eps);
  mlir::Value norm(NormForm form, mlir::Value x, const llvm::Twine &module,
                   double eps);
  /// x itself when the rate is 0.
  mlir::Value dropout(mlir::Value x, llvm::StringRef name, double rate);
  mlir::Value activation(Activation kind, mlir::Value x);
  /// `activation(gate) up`.
  mlir::Value gated(Activation kind, mlir::Value gate, mlir::Value up);
  /// `<module>.gate_proj` and `up_proj` of form `wide`, gated, and `down_proj`
  /// back to x's channels.
  mlir::Value gatedMlp(mlir::Value x, const llvm::Twine &module,
                       Activation kind, LinearForm wide);

  /// Channels [start, start + size) of the last dimension.
  mlir::Value channels(mlir::Value x, int64_t start, int64_t size);
  /// `[B,S,H D]` as `[B,S,H,D]`, and back.
  mlir::Value splitHeads(mlir::Value x, int64_t heads);
  mlir::Value joinHeads(mlir::Value x);
  /// Causal attention, within documents if the input is packed.
  mlir::Value attention(mlir::Value q, mlir::Value k, mlir::Value v,
                        llvm::StringRef module, AttentionForm form);

  /// Repeats `body` with `{i}` = start to end-1. It gets the carried values and
  /// returns the next ones, then one value per type of `stackedTypes`.
  RepeatOp
  repeat(int64_t start, int64_t end, mlir::ValueRange inits,
         mlir::TypeRange stackedTypes,
         llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)>
             body);
  /// Iteration number of the repeat being built, or null outside.
  mlir::Value layerIndex() const { return layer; }

  /// Ends the model: cross entropy of the logits, plus `coefficient aux` unless
  /// `aux` is null.
  void finish(mlir::Value logits, mlir::Value aux, double coefficient);
  /// States what the adapters are. Fails, after a diagnostic, if the options
  /// ask for adapters or codes that this model cannot have.
  mlir::LogicalResult finishAdapters();

  PlainBuilder plain() { return {builder, loc}; }
  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return loc; }
  const ImportOptions &getOptions() const { return options; }
  mlir::Type f32() { return builder.getF32Type(); }

private:
  /// The inputs that random numbers depend on; made at the first use.
  mlir::Value seed();
  mlir::Value step();
  /// Frozen if the model has adapters; a `trainable` one is of an adapter.
  mlir::Value param(const llvm::Twine &name, llvm::ArrayRef<int64_t> shape,
                    mlir::Type element, InitKind kind, double value);
  mlir::Value trainable(const llvm::Twine &name, llvm::ArrayRef<int64_t> shape,
                        InitKind kind, double value);
  /// y = W x of a module, plus its adapter if it is to have one.
  mlir::Value adapt(mlir::Value y, mlir::Value x, llvm::StringRef module,
                    bool isTransposed);

  ModelOp model;
  const ConfigReader &config;
  const ImportOptions &options;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::Value layer;
  AdapterNames found;
};

} // namespace kerf

#endif // KERF_LIB_INGEST_LAYERBUILDER_H
