// RUN: kerf-opt --kerf-fold-constants --split-input-file %s | FileCheck %s

// One number stays one, wherever it is put and whatever is made of it; what is
// not read any more is gone.

// CHECK-LABEL: kerf.model @numbers
// CHECK-NEXT: %[[CAP:.*]] = kerf.constant dense<-3.000000e+00> : tensor<2x8xbf16>
// CHECK-NEXT: %[[NONE:.*]] = kerf.constant dense<false> : tensor<4xi1>
// CHECK-NEXT: %[[LEFT:.*]] = kerf.constant dense<7> : tensor<2xi32>
// CHECK-NEXT: kerf.return %{{.*}}, %[[CAP]], %[[NONE]], %[[LEFT]]
kerf.model @numbers(%x: tensor<f32>) {
  %c = kerf.constant dense<1.5> : tensor<f32>
  %n = kerf.neg %c : tensor<f32>
  %d = kerf.add %n, %n : tensor<f32>
  %b = kerf.broadcast %d dims [] : tensor<f32> -> tensor<8x2xf32>
  %t = kerf.transpose %b perm [1, 0] : tensor<8x2xf32>
  %cap = kerf.cast %t : tensor<2x8xf32> -> tensor<2x8xbf16>
  %one = kerf.constant dense<1> : tensor<4xi32>
  %seven = kerf.constant dense<7> : tensor<4xi32>
  %none = kerf.compare gt %one, %seven : tensor<4xi32>
  %wide = kerf.reshape %seven : tensor<4xi32> -> tensor<2x2xi32>
  %box = kerf.slice %wide offsets [1, 0] sizes [1, 2] : tensor<2x2xi32>
  %left = kerf.reshape %box : tensor<1x2xi32> -> tensor<2xi32>
  kerf.return %x, %cap, %none, %left
      : tensor<f32>, tensor<2x8xbf16>, tensor<4xi1>, tensor<2xi32>
}

// -----

// A number of f32 is rounded as it would be, one of f64 stays as it is.

// CHECK-LABEL: kerf.model @rounded
// CHECK-DAG: %[[F32:.*]] = kerf.constant dense<1.000980e-01> : tensor<bf16>
// CHECK-DAG: %[[F64:.*]] = kerf.constant dense<1.000000e-01> : tensor<f64>
// CHECK-DAG: %[[CAST:.*]] = kerf.cast %[[F64]] : tensor<f64> -> tensor<f32>
// CHECK: kerf.return %{{.*}}, %[[F32]], %[[CAST]]
kerf.model @rounded(%x: tensor<f32>) {
  %c = kerf.constant dense<0.1> : tensor<f32>
  %a = kerf.cast %c : tensor<f32> -> tensor<bf16>
  %d = kerf.constant dense<0.1> : tensor<f64>
  %b = kerf.cast %d : tensor<f64> -> tensor<f32>
  kerf.return %x, %a, %b : tensor<f32>, tensor<bf16>, tensor<f32>
}

// -----

// Several numbers, an index and inputs stay what they are.

// CHECK-LABEL: kerf.model @several
// CHECK: kerf.constant dense<[1.000000e+00, 2.000000e+00]>
// CHECK: kerf.broadcast
// CHECK: kerf.iota
// CHECK: kerf.cast
// CHECK: kerf.mul
kerf.model @several(%x: tensor<f32>) {
  %c = kerf.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = kerf.broadcast %c dims [1] : tensor<2xf32> -> tensor<3x2xf32>
  %i = kerf.iota dim 0 : tensor<4xi32>
  %f = kerf.cast %i : tensor<4xi32> -> tensor<4xf32>
  %two = kerf.constant dense<2.0> : tensor<f32>
  %y = kerf.mul %x, %two : tensor<f32>
  kerf.return %y, %b, %f : tensor<f32>, tensor<3x2xf32>, tensor<4xf32>
}
