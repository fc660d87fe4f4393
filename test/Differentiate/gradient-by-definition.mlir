// Where a gradient is a convention, or is meant to differ from the slope, the comparison
// with central differences must tell, and fail.
//
// RUN: split-file %s %t
// RUN: not kerf-inspect gradcheck %t/padding.mlir --samples=64 2>&1 | FileCheck %s --check-prefix=PADDING
// RUN: not kerf-inspect gradcheck %t/tie.mlir --samples=64 2>&1 | FileCheck %s --check-prefix=TIE
// RUN: not kerf-inspect gradcheck %t/nan.mlir --samples=64 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not kerf-inspect gradcheck %t/frozen.mlir 2>&1 | FileCheck %s --check-prefix=FROZEN

// The row of the padding id has gradient zero by definition.
// PADDING-DAG: WRONG {{.*}} table
// PADDING-DAG: ok {{.*}} w
// PADDING-DAG: error: 'kerf.model' op has gradients that differ from central differences

//--- padding.mlir
kerf.model @padding() {
  %t = kerf.constant dense<[0, 2, 1]> : tensor<3xi32>
  %table = kerf.param "table" init<normal, 0.5> : tensor<3x2xf32>
  %w = kerf.param "w" init<normal, 0.5> : tensor<3x2xf32>
  %x = kerf.embedding %t, %table padding 2 : tensor<3xi32>, tensor<3x2xf32>
  %y = kerf.mul %x, %w : tensor<3x2xf32>
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<3x2xf32>
  kerf.return %loss : tensor<f32>
}

// At a tie the whole gradient goes to the left operand; the slope is one half.
// TIE: WRONG {{.*}} a
// TIE: WRONG {{.*}} b

//--- tie.mlir
kerf.model @tie() {
  %a = kerf.param "a" init<ones> : tensor<f32>
  %b = kerf.param "b" init<ones> : tensor<f32>
  %loss = kerf.max %a, %b : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// A NaN is no agreement.
// NAN: WRONG {{.*}}nan {{.*}}w

//--- nan.mlir
kerf.model @nan() {
  %w = kerf.param "w" init<constant, -1.0> : tensor<f32>
  %loss = kerf.log %w : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Nothing compared is nothing proven.
// FROZEN: error: 'kerf.model' op has

//--- frozen.mlir
kerf.model @frozen() {
  %w = kerf.param "w" init<ones> frozen : tensor<f32>
  kerf.return %w : tensor<f32>
}
