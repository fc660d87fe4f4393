//===- ExecKernelOps.td - fused kernels -----------------------------------===//

#ifndef EXEC_KERNEL_OPS_TD
#define EXEC_KERNEL_OPS_TD

include "kerf/Dialect/Exec/ExecDialect.td"
include "kerf/Dialect/Kerf/KerfOpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"

def Exec_KernelOp : Exec_Op<"kernel", [IsolatedFromAbove, Symbol, SingleBlock,
    FunctionOpInterface]> {
  let summary = "Define a fused kernel";
  let description = [{
    A pure function of tensors, computed by one launch. The function that is
    generated for it takes pointers to dense row-major buffers, inputs first,
    then results; i1 takes a byte. Results never overlap one another. A result
    overlaps an input only if `inplace` pairs them, `[[result, input], ...]`:
    then both are one buffer.

    A body may need several launches (a sum over all elements, a table that many
    elements read): `splitKernel` splits it into kernels that need one each.

    Life: made by `kerf-fuse`; code generation makes machine code of it.

    Constraints:
    (C1) arguments and results are plain tensors.
    (C2) the body is plain ops: those that evaluate, and `exec.yield`; or one op
    that brings its own kernel, which reads all arguments and makes all results, in
    order.
    (C3) `exec.yield` hands over one value of each result type.
    (C4) `inplace` pairs a result with an argument of one type, none of them twice.

    ```mlir
    exec.kernel @add_bias(%x: tensor<4x16xf32>, %b: tensor<16xf32>) -> tensor<4x16xf32>
        attributes {inplace = [[0, 0]]} {
      %c = kerf.broadcast %b dims [1] : tensor<16xf32> -> tensor<4x16xf32>
      %y = kerf.add %x, %c : tensor<4x16xf32>
      exec.yield %y : tensor<4x16xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
    TypeAttrOf<FunctionType>:$function_type, OptionalAttr<ArrayAttr>:$inplace,
    OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let builders = [
    /// A kernel with an empty block that has the arguments.
    OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type)>,
  ];
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    ::kerf::exec::YieldOp getYield();
    /// The argument whose buffer this result overwrites, or -1.
    int64_t getInplaceArgument(unsigned result);
  }];
}

def Exec_YieldOp : Exec_Op<"yield", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "Hand over the results of a kernel";
  let description = [{
    Life: as `exec.kernel`.

    Constraints:
    (C1) one value of each result type of the kernel.

    ```mlir
    exec.kernel @copy(%x: tensor<4xf32>) -> tensor<4xf32> {
      exec.yield %x : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Kerf_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
  let hasVerifier = 1;
}

def Exec_PartialReduceOp : Exec_Op<"partial_reduce", [Pure, Kerf_Evaluate]> {
  let summary = "Reduce rows in chunks";
  let description = [{
    Looks at x as a matrix of n rows, the result's columns wide. With b rows in
    a chunk, row i of the result is the sum (or maximum) of rows
    `[i b, min((i + 1) b, n))` of x.

    Life: made by `splitKernel` from a `kerf.reduce` that is worth two launches.

    Constraints:
    (C1) the result has rank 2 and at least one column. // partial_reduce_c1
    (C2) the columns divide the elements of x; the result has a row for each
    chunk, of which there are `ceil(n / b)`. // partial_reduce_c2
    (C3) operand and result have one element type. // partial_reduce_c3

    ```mlir
    %x = kerf.constant dense<0.5> : tensor<4x6xf32>
    %y = exec.partial_reduce sum %x by 3 : tensor<4x6xf32> -> tensor<2x6xf32>
    ```
  }];
  let arguments = (ins Kerf_ReduceKindAttr:$kind, Kerf_Number:$x, Kerf_I64Attr:$chunk_rows);
  let results = (outs Kerf_Number:$result);
  let assemblyFormat = "$kind $x `by` $chunk_rows attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Rows of x as a matrix.
    int64_t getRowCount();
  }];
}

#endif // EXEC_KERNEL_OPS_TD
