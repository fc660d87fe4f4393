// A check that does not hold stops the run with its place, the first differing element
// and both values.
//
// RUN: split-file --leading-lines %s %t
// RUN: not kerf-inspect interpret %t/value.mlir 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not kerf-opt --kerf-interpret %t/value.mlir 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not kerf-inspect interpret %t/nan.mlir 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not kerf-inspect interpret %t/integer.mlir 2>&1 | FileCheck %s --check-prefix=INTEGER
// RUN: not kerf-inspect interpret %t/iteration.mlir 2>&1 | FileCheck %s --check-prefix=ITERATION

//--- value.mlir
// VALUE: value.mlir:[[#@LINE+5]]:3: error: 'kerf.check_close' op failed at element 1: found 2.5, expected 2.25 within 0.225
kerf.model @value() {
  %a = kerf.constant dense<[1.0, 2.5, 9.0]> : tensor<3xf32>
  %b = kerf.constant dense<[1.125, 2.25, 1.0]> : tensor<3xf32>
  // Within 0.1 of the largest expected value.
  kerf.check_close %a, %b within 0.1 : tensor<3xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

//--- nan.mlir
// NAN: error: 'kerf.check_close' op failed at element 0: found {{-?}}nan, expected 1 within 100
kerf.model @nan() {
  %a = kerf.constant dense<0x7FC00000> : tensor<f32>
  %b = kerf.constant dense<1.0> : tensor<f32>
  kerf.check_close %a, %b within 100.0 : tensor<f32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

//--- integer.mlir
// INTEGER: error: 'kerf.check_close' op failed at element 1: found 16777217, expected 16777216 within 0
kerf.model @integer() {
  %a = kerf.constant dense<[1, 16777217]> : tensor<2xi32>
  %b = kerf.constant dense<[1, 16777216]> : tensor<2xi32>
  kerf.check_close %a, %b within 0.0 : tensor<2xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

//--- iteration.mlir
// ITERATION: error: 'kerf.check_close' op failed at element 0: found 2, expected 1 within 1e-06
kerf.model @iteration() {
  %one = kerf.constant dense<1> : tensor<i32>
  kerf.repeat %i = 0 to 4 () {
    %big = kerf.max %i, %one : tensor<i32>
    kerf.check_close %big, %one within 1.0e-6 : tensor<i32>
    kerf.yield
  }
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
