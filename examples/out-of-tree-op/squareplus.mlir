// The op alone: syntax, types, factors, value, and its gradient against central
// differences.
// RUN: split-file %s %t
// RUN: kerf-opt --load-dialect-plugin=%plugin %t/gradient.mlir | kerf-opt --load-dialect-plugin=%plugin | FileCheck %s
// RUN: not kerf-opt --load-dialect-plugin=%plugin %t/integers.mlir 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: kerf-opt --load-dialect-plugin=%plugin --kerf-dump-factors %t/gradient.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=FACTORS
// RUN: kerf-inspect --load-dialect-plugin=%plugin interpret %t/value.mlir | FileCheck %s --check-prefix=VALUE
// RUN: kerf-inspect --load-dialect-plugin=%plugin gradcheck %t/gradient.mlir | FileCheck %s --check-prefix=GRADIENT
// RUN: kerf-opt --load-dialect-plugin=%plugin --kerf-differentiate %t/gradient.mlir | FileCheck %s --check-prefix=BACKWARD

// CHECK: smooth.squareplus %{{.*}} : tensor<4x8xf32>
// TYPE: integers.mlir:3:8: error: 'smooth.squareplus' op operand #0 must be
// FACTORS: gradient.mlir:3:8: remark: b=4 s=8 : [b, s] -> [b, s]{{$}}
// 0.5 + 1 + 2
// VALUE: step 1 loss 3.5{{$}}
// GRADIENT: ok {{.*}} x
// BACKWARD: smooth.squareplus_backward

//--- gradient.mlir
kerf.model @gradient() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4x8xf32>
  %y = smooth.squareplus %x : tensor<4x8xf32>
  %z = kerf.mul %y, %y : tensor<4x8xf32>
  %loss = kerf.reduce sum %z dims [0, 1] : tensor<4x8xf32>
  kerf.return %loss : tensor<f32>
}

//--- value.mlir
kerf.model @value() {
  %x = kerf.constant dense<[-1.5, 0.0, 1.5]> : tensor<3xf32>
  %y = smooth.squareplus %x : tensor<3xf32>
  %loss = kerf.reduce sum %y dims [0] : tensor<3xf32>
  kerf.return %loss : tensor<f32>
}

//--- integers.mlir
kerf.model @integers() {
  %x = kerf.constant dense<[-1, 0, 1]> : tensor<3xi32>
  %y = smooth.squareplus %x : tensor<3xi32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
