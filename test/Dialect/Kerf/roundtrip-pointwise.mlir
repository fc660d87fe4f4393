// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt --mlir-print-op-generic %s | kerf-opt | FileCheck %s

// Ops of one operand.
// CHECK-LABEL: kerf.model @unary(
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>) {
kerf.model @unary(%x: tensor<4xf32>) {
  // CHECK: %[[NEG:.*]] = kerf.neg %[[X]] : tensor<4xf32>
  %neg = kerf.neg %x : tensor<4xf32>
  // CHECK: kerf.stop_gradient %[[X]] : tensor<4xf32>
  %stop = kerf.stop_gradient %x : tensor<4xf32>
  // CHECK: %[[EXP:.*]] = kerf.exp %[[X]] : tensor<4xf32>
  %exp = kerf.exp %x : tensor<4xf32>
  // CHECK: %[[LOG:.*]] = kerf.log %[[X]] : tensor<4xf32>
  %log = kerf.log %x : tensor<4xf32>
  // CHECK: %[[SQRT:.*]] = kerf.sqrt %[[X]] : tensor<4xf32>
  %sqrt = kerf.sqrt %x : tensor<4xf32>
  // CHECK: kerf.power_of_two %[[X]] : tensor<4xf32>
  %power = kerf.power_of_two %x : tensor<4xf32>
  // CHECK: %[[RSQRT:.*]] = kerf.rsqrt %[[X]] : tensor<4xf32>
  %rsqrt = kerf.rsqrt %x : tensor<4xf32>
  // CHECK: %[[TANH:.*]] = kerf.tanh %[[X]] : tensor<4xf32>
  %tanh = kerf.tanh %x : tensor<4xf32>
  // CHECK: %[[ERF:.*]] = kerf.erf %[[X]] : tensor<4xf32>
  %erf = kerf.erf %x : tensor<4xf32>
  // CHECK: %[[SIN:.*]] = kerf.sin %[[X]] : tensor<4xf32>
  %sin = kerf.sin %x : tensor<4xf32>
  // CHECK: %[[COS:.*]] = kerf.cos %[[X]] : tensor<4xf32>
  %cos = kerf.cos %x : tensor<4xf32>
  // CHECK: %[[LOGISTIC:.*]] = kerf.logistic %[[X]] : tensor<4xf32>
  %logistic = kerf.logistic %x : tensor<4xf32>
  // CHECK: %[[LOSS:.*]] = kerf.reduce sum %[[X]] dims [0] : tensor<4xf32>
  %loss = kerf.reduce sum %x dims [0] : tensor<4xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// Ops of two operands keep their order, on floats of every width and on integers.
// CHECK-LABEL: kerf.model @binary(
// CHECK-SAME: %[[A:.*]]: tensor<4xf64>, %[[B:.*]]: tensor<4xf64>, %[[C:.*]]: tensor<bf16>, %[[D:.*]]: tensor<0x3xf16>, %[[N:.*]]: tensor<2xi32>) {
kerf.model @binary(%a: tensor<4xf64>, %b: tensor<4xf64>, %c: tensor<bf16>, %d: tensor<0x3xf16>, %n: tensor<2xi32>) {
  // CHECK: %[[ADD:.*]] = kerf.add %[[A]], %[[B]] : tensor<4xf64>
  %add = kerf.add %a, %b : tensor<4xf64>
  // CHECK: %[[SUB:.*]] = kerf.sub %[[A]], %[[B]] : tensor<4xf64>
  %sub = kerf.sub %a, %b : tensor<4xf64>
  // CHECK: %[[MUL:.*]] = kerf.mul %[[A]], %[[B]] : tensor<4xf64>
  %mul = kerf.mul %a, %b : tensor<4xf64>
  // CHECK: %[[DIV:.*]] = kerf.div %[[A]], %[[B]] : tensor<4xf64>
  %div = kerf.div %a, %b : tensor<4xf64>
  // CHECK: %[[MAX:.*]] = kerf.max %[[A]], %[[B]] : tensor<4xf64>
  %max = kerf.max %a, %b : tensor<4xf64>
  // CHECK: kerf.max %[[A]], %[[B]] {share_ties} : tensor<4xf64>
  %shared = kerf.max %a, %b {share_ties} : tensor<4xf64>
  // CHECK: %[[MIN:.*]] = kerf.min %[[A]], %[[B]] : tensor<4xf64>
  %min = kerf.min %a, %b : tensor<4xf64>
  // CHECK: %[[POW:.*]] = kerf.pow %[[A]], %[[B]] : tensor<4xf64>
  %pow = kerf.pow %a, %b : tensor<4xf64>
  // CHECK: %[[BF:.*]] = kerf.add %[[C]], %[[C]] : tensor<bf16>
  %bf = kerf.add %c, %c : tensor<bf16>
  // CHECK: %[[EMPTY:.*]] = kerf.add %[[D]], %[[D]] : tensor<0x3xf16>
  %empty = kerf.add %d, %d : tensor<0x3xf16>
  // CHECK: %[[INTS:.*]] = kerf.div %[[N]], %[[N]] : tensor<2xi32>
  %ints = kerf.div %n, %n : tensor<2xi32>
  // CHECK: kerf.return %[[C]] : tensor<bf16>
  kerf.return %c : tensor<bf16>
}

// Every relation, the choice, and casts.
// CHECK-LABEL: kerf.model @choices(
// CHECK-SAME: %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>) {
kerf.model @choices(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // CHECK: %[[EQ:.*]] = kerf.compare eq %[[A]], %[[B]] : tensor<4xf32>
  %eq = kerf.compare eq %a, %b : tensor<4xf32>
  // CHECK: %[[NE:.*]] = kerf.compare ne %[[A]], %[[B]] : tensor<4xf32>
  %ne = kerf.compare ne %a, %b : tensor<4xf32>
  // CHECK: %[[LT:.*]] = kerf.compare lt %[[A]], %[[B]] : tensor<4xf32>
  %lt = kerf.compare lt %a, %b : tensor<4xf32>
  // CHECK: %[[LE:.*]] = kerf.compare le %[[A]], %[[B]] : tensor<4xf32>
  %le = kerf.compare le %a, %b : tensor<4xf32>
  // CHECK: %[[GT:.*]] = kerf.compare gt %[[A]], %[[B]] : tensor<4xf32>
  %gt = kerf.compare gt %a, %b : tensor<4xf32>
  // CHECK: %[[GE:.*]] = kerf.compare ge %[[A]], %[[B]] : tensor<4xf32>
  %ge = kerf.compare ge %a, %b : tensor<4xf32>
  // CHECK: %[[CHOICE:.*]] = kerf.select %[[EQ]], %[[A]], %[[B]] : tensor<4xf32>
  %choice = kerf.select %eq, %a, %b : tensor<4xf32>
  // CHECK: %[[BOOLS:.*]] = kerf.select %[[NE]], %[[LT]], %[[LE]] {kerf.phase = #kerf.phase<forward 0>} : tensor<4xi1>
  %bools = kerf.select %ne, %lt, %le {kerf.phase = #kerf.phase<forward 0>} : tensor<4xi1>
  // CHECK: %[[NARROW:.*]] = kerf.cast %[[A]] : tensor<4xf32> -> tensor<4xbf16>
  %narrow = kerf.cast %a : tensor<4xf32> -> tensor<4xbf16>
  // CHECK: kerf.cast %[[A]] : tensor<4xf32> -> tensor<4xf8E4M3FN>
  %float8 = kerf.cast %a : tensor<4xf32> -> tensor<4xf8E4M3FN>
  // CHECK: %[[INTS:.*]] = kerf.cast %[[BOOLS]] : tensor<4xi1> -> tensor<4xi32>
  %ints = kerf.cast %bools : tensor<4xi1> -> tensor<4xi32>
  // CHECK: kerf.cast %[[INTS]] : tensor<4xi32> -> tensor<4xi8>
  %codes = kerf.cast %ints : tensor<4xi32> -> tensor<4xi8>
  // CHECK: %[[LOSS:.*]] = kerf.reduce sum %[[A]] dims [0] : tensor<4xf32>
  %loss = kerf.reduce sum %a dims [0] : tensor<4xf32>
  // CHECK: kerf.return %[[LOSS]] : tensor<f32>
  kerf.return %loss : tensor<f32>
}
