// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s

// CHECK-LABEL: @gates
// CHECK-DAG: kerf.swiglu
// CHECK-DAG: kerf.silu
// CHECK-DAG: kerf.squared_relu
// CHECK-NOT: kerf.logistic
kerf.model @gates() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4x6xf32>
  %u = kerf.param "u" init<normal, 1.0> : tensor<4x6xf32>
  %l = kerf.logistic %x : tensor<4x6xf32>
  %silu = kerf.mul %l, %x : tensor<4x6xf32>
  %gated = kerf.mul %u, %silu : tensor<4x6xf32>
  %m = kerf.logistic %gated : tensor<4x6xf32>
  %plain = kerf.mul %gated, %m : tensor<4x6xf32>
  %more = kerf.add %plain, %u : tensor<4x6xf32>
  %zero = kerf.constant dense<0.0> : tensor<4x6xf32>
  %relu = kerf.max %more, %zero : tensor<4x6xf32>
  %square = kerf.mul %relu, %relu : tensor<4x6xf32>
  %loss = kerf.reduce sum %square dims [0, 1] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: @gelus
// CHECK-DAG: kerf.gelu tanh
// CHECK-DAG: kerf.gelu exact
// CHECK-NOT: kerf.tanh
kerf.model @gelus() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4xf32>
  %half = kerf.constant dense<0.5> : tensor<4xf32>
  %one = kerf.constant dense<1.0> : tensor<4xf32>
  %three = kerf.constant dense<3.0> : tensor<4xf32>
  %a = kerf.constant dense<0.044715> : tensor<4xf32>
  %c = kerf.constant dense<0.7978845608> : tensor<4xf32>
  %cube = kerf.pow %x, %three : tensor<4xf32>
  %term = kerf.mul %cube, %a : tensor<4xf32>
  %sum = kerf.add %x, %term : tensor<4xf32>
  %inner = kerf.mul %sum, %c : tensor<4xf32>
  %curve = kerf.tanh %inner : tensor<4xf32>
  %gate = kerf.add %curve, %one : tensor<4xf32>
  %hx = kerf.mul %x, %half : tensor<4xf32>
  %y = kerf.mul %hx, %gate : tensor<4xf32>
  %root = kerf.constant dense<1.41421356> : tensor<4xf32>
  %scaled = kerf.div %y, %root : tensor<4xf32>
  %erf = kerf.erf %scaled : tensor<4xf32>
  %gate2 = kerf.add %one, %erf : tensor<4xf32>
  %product = kerf.mul %y, %gate2 : tensor<4xf32>
  %z = kerf.mul %product, %half : tensor<4xf32>
  %loss = kerf.reduce sum %z dims [0] : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Another factor is another function.
// CHECK-LABEL: @no_gelu
// CHECK: kerf.tanh
// CHECK-NOT: kerf.gelu
kerf.model @no_gelu() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4xf32>
  %half = kerf.constant dense<0.5> : tensor<4xf32>
  %one = kerf.constant dense<1.0> : tensor<4xf32>
  %three = kerf.constant dense<3.0> : tensor<4xf32>
  %a = kerf.constant dense<0.0447> : tensor<4xf32>
  %c = kerf.constant dense<0.7978845608> : tensor<4xf32>
  %cube = kerf.pow %x, %three : tensor<4xf32>
  %term = kerf.mul %cube, %a : tensor<4xf32>
  %sum = kerf.add %x, %term : tensor<4xf32>
  %inner = kerf.mul %sum, %c : tensor<4xf32>
  %curve = kerf.tanh %inner : tensor<4xf32>
  %gate = kerf.add %curve, %one : tensor<4xf32>
  %hx = kerf.mul %x, %half : tensor<4xf32>
  %y = kerf.mul %hx, %gate : tensor<4xf32>
  %loss = kerf.reduce sum %y dims [0] : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}
