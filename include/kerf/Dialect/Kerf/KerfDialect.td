//===- KerfDialect.td - the model language --------------------------------===//

#ifndef KERF_DIALECT_TD
#define KERF_DIALECT_TD

include "mlir/IR/OpBase.td"

def Kerf_Dialect : Dialect {
  let name = "kerf";
  let cppNamespace = "::kerf";
  let summary = "What the user means: one optimizer step over the global batch";
  let description = [{
    A `kerf.model` states the loss of a Transformer over the **global batch**;
    after `kerf-differentiate` it states the whole training step (loss,
    gradients, optimizer update). Values are global tensors of static shape.
    Nothing says where anything runs: that is the plan's business.

    True of IR in this dialect:

    - Compute ops are pure functions of tensors. What depends on a global index
      (causal mask, rope, dropout, split vocabulary) takes offsets or positions
      as operands, absent meaning zero, so that an op on a shard means the same.
    - Parameters are named, shaped and oriented as in Hugging Face checkpoints.
      Two `kerf.param` of one name are the same parameter.
    - Repeated layers are one `kerf.repeat`; nothing grows with depth.
    - After differentiation every op has a `kerf.phase`; ops of the backward
      pass name the forward op they belong to.

    Neighbours: made by `kerf-import` or by hand; differentiated and given
    number types in place; partition turns it into `spmd` programs, in which the
    compute ops live on with local shapes.

    ```mlir
    kerf.model @tiny(tokens %tokens: tensor<2x8xi32>, targets %targets: tensor<2x8xi32>)
        attributes {optimizer = #kerf.adamw<weight_decay = 0.1>, clip_norm = 1.0} {
      %wte = kerf.param "wte.weight" init<normal, 0.02> : tensor<32x16xf32>
      %x0 = kerf.embedding %tokens, %wte : tensor<2x8xi32>, tensor<32x16xf32>
      %x = kerf.repeat %i = 0 to 4 (%h = %x0 : tensor<2x8x16xf32>) {
        %g = kerf.param "h.{i}.norm.weight" init<ones> : tensor<16xf32>
        %w = kerf.param "h.{i}.proj.weight" init<normal, 0.02> : tensor<16x16xf32>
        %n = kerf.rms_norm %h, %g : tensor<2x8x16xf32>, tensor<16xf32>
        %u = kerf.linear %n, %w : tensor<2x8x16xf32>, tensor<16x16xf32>
        %a = kerf.gelu tanh %u : tensor<2x8x16xf32>
        %y = kerf.add %h, %a : tensor<2x8x16xf32>
        kerf.yield %y : tensor<2x8x16xf32>
      }
      %logits = kerf.linear %x, %wte : tensor<2x8x16xf32>, tensor<32x16xf32>
      %n = kerf.count_valid %targets : tensor<2x8xi32>
      %loss = kerf.cross_entropy %logits, %targets normalizer %n
          : tensor<2x8x32xf32>, tensor<2x8xi32>
      kerf.return %loss : tensor<f32>
    }
    ```
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// Of an op that the dialect does not have an error that names a near one.
    std::optional<ParseOpHook>
    getParseOperationHook(llvm::StringRef name) const override;
  }];
}

#endif // KERF_DIALECT_TD
