// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s

// CHECK-LABEL: @gates
// CHECK-DAG: kerf.swiglu
// CHECK-DAG: kerf.silu
// CHECK-COUNT-2: kerf.squared_relu
// CHECK-NOT: kerf.{{logistic|max}}
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
  %turned = kerf.max %zero, %square : tensor<4x6xf32>
  %fourth = kerf.mul %turned, %turned : tensor<4x6xf32>
  %loss = kerf.reduce sum %fourth dims [0, 1] : tensor<4x6xf32>
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

// The form of GPT-J and BLOOM: sqrt(2/pi) x (1 + 0.044715 x x).
// CHECK-LABEL: @fast_gelu
// CHECK: %[[X:.*]] = kerf.param "x"
// CHECK-NEXT: kerf.gelu tanh %[[X]]
// CHECK-NOT: kerf.tanh
kerf.model @fast_gelu() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4xf32>
  %half = kerf.constant dense<0.5> : tensor<4xf32>
  %one = kerf.constant dense<1.0> : tensor<4xf32>
  %a = kerf.constant dense<0.044715> : tensor<4xf32>
  %c = kerf.constant dense<0.79788456> : tensor<4xf32>
  %ax = kerf.mul %x, %a : tensor<4xf32>
  %axx = kerf.mul %ax, %x : tensor<4xf32>
  %sum = kerf.add %axx, %one : tensor<4xf32>
  %cx = kerf.mul %x, %c : tensor<4xf32>
  %inner = kerf.mul %cx, %sum : tensor<4xf32>
  %curve = kerf.tanh %inner : tensor<4xf32>
  %gate = kerf.add %curve, %one : tensor<4xf32>
  %hx = kerf.mul %x, %half : tensor<4xf32>
  %y = kerf.mul %hx, %gate : tensor<4xf32>
  %loss = kerf.reduce sum %y dims [0] : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// With the square beside another value it is another function.
// CHECK-LABEL: @no_fast_gelu
// CHECK: kerf.tanh
// CHECK-NOT: kerf.gelu
kerf.model @no_fast_gelu() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4xf32>
  %z = kerf.param "z" init<normal, 1.0> : tensor<4xf32>
  %half = kerf.constant dense<0.5> : tensor<4xf32>
  %one = kerf.constant dense<1.0> : tensor<4xf32>
  %a = kerf.constant dense<0.044715> : tensor<4xf32>
  %c = kerf.constant dense<0.79788456> : tensor<4xf32>
  %ax = kerf.mul %x, %a : tensor<4xf32>
  %axz = kerf.mul %ax, %z : tensor<4xf32>
  %sum = kerf.add %axz, %one : tensor<4xf32>
  %cx = kerf.mul %x, %c : tensor<4xf32>
  %inner = kerf.mul %cx, %sum : tensor<4xf32>
  %curve = kerf.tanh %inner : tensor<4xf32>
  %gate = kerf.add %curve, %one : tensor<4xf32>
  %hx = kerf.mul %x, %half : tensor<4xf32>
  %y = kerf.mul %hx, %gate : tensor<4xf32>
  %loss = kerf.reduce sum %y dims [0] : tensor<4xf32>
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

// -----

// A softmax, with the largest of a row taken off and without.
// CHECK-LABEL: @softmaxes(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<4x6xf32>
// CHECK-NEXT: %[[SOFTMAX:.*]] = kerf.softmax %[[X]] : tensor<4x6xf32>
// CHECK-NEXT: %[[SOFTMAX2:.*]] = kerf.softmax %[[SOFTMAX]] : tensor<4x6xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<4x6xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[SOFTMAX2]], %[[PLACE]] : tensor<4x6xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1] : tensor<4x6xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @softmaxes() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4x6xf32>
  %m = kerf.reduce max %x dims [1] : tensor<4x6xf32>
  %mm = kerf.broadcast %m dims [0] : tensor<4xf32> -> tensor<4x6xf32>
  %d = kerf.sub %x, %mm : tensor<4x6xf32>
  %e = kerf.exp %d : tensor<4x6xf32>
  %s = kerf.reduce sum %e dims [1] : tensor<4x6xf32>
  %ss = kerf.broadcast %s dims [0] : tensor<4xf32> -> tensor<4x6xf32>
  %p = kerf.div %e, %ss : tensor<4x6xf32>
  %e2 = kerf.exp %p : tensor<4x6xf32>
  %s2 = kerf.reduce sum %e2 dims [1] : tensor<4x6xf32>
  %c2 = kerf.reshape %s2 : tensor<4xf32> -> tensor<4x1xf32>
  %r2 = kerf.reshape %c2 : tensor<4x1xf32> -> tensor<4xf32>
  %ss2 = kerf.broadcast %r2 dims [0] : tensor<4xf32> -> tensor<4x6xf32>
  %y = kerf.div %e2, %ss2 : tensor<4x6xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<4x6xf32>
  %placed = kerf.mul %y, %place : tensor<4x6xf32>
  %loss = kerf.reduce sum %placed dims [0, 1] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A sum over columns, or rows whose sums stand elsewhere, is no softmax.
// CHECK-LABEL: @not_softmax(
// CHECK-NOT: kerf.softmax
// CHECK: kerf.return
kerf.model @not_softmax() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4x4xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<4xf32>
  %e = kerf.exp %x : tensor<4x4xf32>
  %s = kerf.reduce sum %e dims [0] : tensor<4x4xf32>
  %ss = kerf.broadcast %s dims [1] : tensor<4xf32> -> tensor<4x4xf32>
  %a = kerf.div %e, %ss : tensor<4x4xf32>
  %r = kerf.reduce sum %e dims [1] : tensor<4x4xf32>
  %rr = kerf.broadcast %r dims [1] : tensor<4xf32> -> tensor<4x4xf32>
  %b = kerf.div %e, %rr : tensor<4x4xf32>
  %place0 = kerf.param "place0" init<normal, 1.0> : tensor<4x4xf32>
  %placed0 = kerf.mul %a, %place0 : tensor<4x4xf32>
  %loss0 = kerf.reduce sum %placed0 dims [0, 1] : tensor<4x4xf32>
  %place1 = kerf.param "place1" init<normal, 1.0> : tensor<4x4xf32>
  %placed1 = kerf.mul %b, %place1 : tensor<4x4xf32>
  %loss1 = kerf.reduce sum %placed1 dims [0, 1] : tensor<4x4xf32>
  kerf.return %loss0, %loss1 : tensor<f32>, tensor<f32>
}

// -----

// What is not the same for a row is not taken off.
// CHECK-LABEL: @shifted_columns(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<4x6xf32>
// CHECK-NEXT: %[[V:.*]] = kerf.param "v" init<normal, 1.0> : tensor<6xf32>
// CHECK-NEXT: %[[BROADCAST:.*]] = kerf.broadcast %[[V]] dims [1] : tensor<6xf32> -> tensor<4x6xf32>
// CHECK-NEXT: %[[SUB:.*]] = kerf.sub %[[X]], %[[BROADCAST]] : tensor<4x6xf32>
// CHECK-NEXT: %[[SOFTMAX:.*]] = kerf.softmax %[[SUB]] : tensor<4x6xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<4x6xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[SOFTMAX]], %[[PLACE]] : tensor<4x6xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0, 1] : tensor<4x6xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @shifted_columns() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4x6xf32>
  %v = kerf.param "v" init<normal, 1.0> : tensor<6xf32>
  %vv = kerf.broadcast %v dims [1] : tensor<6xf32> -> tensor<4x6xf32>
  %d = kerf.sub %x, %vv : tensor<4x6xf32>
  %e = kerf.exp %d : tensor<4x6xf32>
  %s = kerf.reduce sum %e dims [1] : tensor<4x6xf32>
  %ss = kerf.broadcast %s dims [0] : tensor<4xf32> -> tensor<4x6xf32>
  %y = kerf.div %e, %ss : tensor<4x6xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<4x6xf32>
  %placed = kerf.mul %y, %place : tensor<4x6xf32>
  %loss = kerf.reduce sum %placed dims [0, 1] : tensor<4x6xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// 1 / (1 + exp(-x)).
// CHECK-LABEL: @logistic(
// CHECK: %[[X:.*]] = kerf.param "x" init<normal, 1.0> : tensor<4xf32>
// CHECK-NEXT: %[[LOGISTIC:.*]] = kerf.logistic %[[X]] : tensor<4xf32>
// CHECK-NEXT: %[[PLACE:.*]] = kerf.param "place" init<normal, 1.0> : tensor<4xf32>
// CHECK-NEXT: %[[MUL:.*]] = kerf.mul %[[LOGISTIC]], %[[PLACE]] : tensor<4xf32>
// CHECK-NEXT: %[[SUM:.*]] = kerf.reduce sum %[[MUL]] dims [0] : tensor<4xf32>
// CHECK-NEXT: kerf.return %[[SUM]] : tensor<f32>
kerf.model @logistic() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4xf32>
  %one = kerf.constant dense<1.0> : tensor<4xf32>
  %n = kerf.neg %x : tensor<4xf32>
  %e = kerf.exp %n : tensor<4xf32>
  %s = kerf.add %e, %one : tensor<4xf32>
  %y = kerf.div %one, %s : tensor<4xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<4xf32>
  %placed = kerf.mul %y, %place : tensor<4xf32>
  %loss = kerf.reduce sum %placed dims [0] : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// With another number, or of x itself, it is none.
// CHECK-LABEL: @not_logistic(
// CHECK-NOT: kerf.logistic
// CHECK: kerf.return
kerf.model @not_logistic() {
  %x = kerf.param "x" init<normal, 1.0> : tensor<4xf32>
  %one = kerf.constant dense<1.0> : tensor<4xf32>
  %two = kerf.constant dense<2.0> : tensor<4xf32>
  %n = kerf.neg %x : tensor<4xf32>
  %e = kerf.exp %n : tensor<4xf32>
  %s = kerf.add %e, %two : tensor<4xf32>
  %a = kerf.div %one, %s : tensor<4xf32>
  %g = kerf.exp %x : tensor<4xf32>
  %t = kerf.add %g, %one : tensor<4xf32>
  %b = kerf.div %a, %t : tensor<4xf32>
  %place = kerf.param "place" init<normal, 1.0> : tensor<4xf32>
  %placed = kerf.mul %b, %place : tensor<4xf32>
  %loss = kerf.reduce sum %placed dims [0] : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}
