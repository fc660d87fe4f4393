//===- ExecDialect.td - what the runtime executes -------------------------===//

#ifndef EXEC_DIALECT_TD
#define EXEC_DIALECT_TD

include "mlir/IR/OpBase.td"

def Exec_Dialect : Dialect {
  let name = "exec";
  let cppNamespace = "::kerf::exec";
  let dependentDialects = ["::kerf::KerfDialect"];
  let summary = "Fused kernels, and programs of commands on one arena";
  let useDefaultAttributePrinterParser = 1;
  let description = [{
    The last dialect before the artifact. A kernel is a pure function of tensors
    that becomes one machine-code function; a program mirrors the artifact: it
    places every buffer and lists the commands of each function.

    True of IR in this dialect:

    - A kernel reads its arguments, writes its results, and nothing else. What
      one launch of it computes does not depend on how its units are divided
      among threads.
    - Shapes are those of one rank; nothing is symbolic.

    Neighbours: kernels are made by fusion from plain `kerf` ops, which live on
    in their bodies; code generation turns them into one shared object.

    ```mlir
    exec.kernel @scale(%x: tensor<4x16xf32>, %a: tensor<f32>) -> tensor<4x16xf32> {
      %b = kerf.broadcast %a dims [] : tensor<f32> -> tensor<4x16xf32>
      %y = kerf.mul %x, %b : tensor<4x16xf32>
      exec.yield %y : tensor<4x16xf32>
    }
    ```
  }];
}

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<Exec_Dialect, mnemonic, traits>;

#endif // EXEC_DIALECT_TD
