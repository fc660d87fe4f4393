//===- SpmdDialect.td - what every rank does ------------------------------===//

#ifndef SPMD_DIALECT_TD
#define SPMD_DIALECT_TD

include "mlir/IR/OpBase.td"

def Spmd_Dialect : Dialect {
  let name = "spmd";
  let cppNamespace = "::kerf::spmd";
  let dependentDialects = ["::kerf::KerfDialect"];
  let summary = "What every rank does: one program for all ranks of a stage";
  let description = [{
    A `spmd.program` is what each rank of a mesh runs; ranks differ by their
    coordinates alone. Compute ops are those of the `kerf` dialect on local
    shapes; this dialect adds what only a rank needs: shards of inputs and state,
    buffers between functions, collectives, and the order of calls.

    True of IR in this dialect:

    - Every tensor has the local shape: a global dimension divided by the sizes
      of the axes that split it, the first axis slowest.
    - A value is in one of three states over an axis: equal on all its ranks, split,
      or a sum (or maximum) that is still to be made. Which one, only the ops that
      made it say; partition keeps account.
    - Functions have no arguments and no results. They run for one micro-batch
      at a time and hand values over in buffers: `slot` buffers have a copy
      for each micro-batch in flight, `step` buffers one for the whole step.
    - All ranks call the same functions in the same order.

    Neighbours: made by `kerf-partition` from a planned step; ordered by
    `kerf-order-micro-batches`; fused; placed in memory, where it becomes `exec`.

    ```mlir
    spmd.program @mean over <dp = 2> micro_batches 2 slots 1 {
      spmd.input @x global tensor<8x4xf32> sharded [[dp, micro], []] : tensor<2x4xf32>
      spmd.param "w" global tensor<4xf32> sharded [[]] init <ones> frozen : tensor<4xf32>
      spmd.output @loss sum : tensor<f32>
      spmd.func @forward() {
        %x = spmd.read @x : tensor<2x4xf32>
        %w = kerf.param "w" init<ones> frozen : tensor<4xf32>
        %y = kerf.einsum "bd,d->b" %x, %w : tensor<2x4xf32>, tensor<4xf32> -> tensor<2xf32>
        %s = kerf.reduce sum %y dims [0] : tensor<2xf32>
        %r = spmd.all_reduce sum %s over [dp] : tensor<f32>
        spmd.accumulate %r into @loss : tensor<f32>
        spmd.return
      }
      spmd.schedule "train" {
        spmd.call @forward micro 0
        spmd.call @forward micro 1
      }
    }
    ```
  }];
  let useDefaultAttributePrinterParser = 1;
}

#endif // SPMD_DIALECT_TD
