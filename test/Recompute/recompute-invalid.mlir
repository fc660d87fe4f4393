// RUN: kerf-opt --kerf-differentiate %S/Inputs/mlp.mlir -o %t.mlir
// RUN: not kerf-opt --kerf-recompute=values=99 %t.mlir 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not kerf-opt --kerf-recompute=values=-1 %t.mlir 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not kerf-opt --kerf-recompute=values=most %t.mlir 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not kerf-opt --kerf-recompute=values=3,full %t.mlir 2>&1 | FileCheck %s --check-prefix=MIXED
// RUN: not kerf-opt --kerf-recompute=values=full %S/Inputs/mlp.mlir 2>&1 | FileCheck %s --check-prefix=FORWARD
// RUN: not kerf-opt --kerf-split-weight-gradient --kerf-recompute=values=full %t.mlir 2>&1 | FileCheck %s --check-prefix=SPLIT
// RUN: kerf-opt --kerf-recompute=values=0,1 %t.mlir -o %t.same.mlir 2>&1 | FileCheck %s --check-prefix=OUTSIDE
// RUN: diff %t.mlir %t.same.mlir

// Nothing is asked for, so nothing is missing.
// RUN: kerf-opt --kerf-recompute %S/Inputs/mlp.mlir -o %t.none.mlir
// RUN: kerf-opt --kerf-recompute-views %S/Inputs/mlp.mlir | diff %t.none.mlir -
// RUN: kerf-opt %S/Inputs/mlp.mlir | diff %t.none.mlir -

// NUMBER: error: 'kerf.model' op has no forward op 99 to recompute
// NUMBER: note: the number of an op is that in its 'kerf.phase<forward ...>'
// NEGATIVE: error: 'kerf.model' op has no forward op -1 to recompute
// WORD: error: 'kerf.model' op cannot recompute 'most', expected none, full, selective or numbers of forward ops
// MIXED: error: 'kerf.model' op cannot recompute 'full' and more, expected one word or numbers of forward ops
// FORWARD: error: 'kerf.model' op has no backward pass to recompute in
// FORWARD: note: run 'kerf-differentiate' before
// SPLIT: error: 'kerf.repeat' op is split from its input gradients: both would compute again
// SPLIT: note: run 'kerf-split-weight-gradient' after 'kerf-recompute'
// OUTSIDE: remark: forward op 0 is outside of repeats with a backward pass: naming it has no effect
// OUTSIDE: remark: forward op 1 is outside of repeats with a backward pass: naming it has no effect
