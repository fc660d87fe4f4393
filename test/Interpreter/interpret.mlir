// RUN: kerf-opt --kerf-interpret=steps=3 --split-input-file --verify-diagnostics %s | FileCheck %s

// The pass and the command draw the same parameters and inputs from a seed, others from
// another one.
// RUN: kerf-opt --kerf-interpret=seed=7 %S/../Differentiate/Inputs/decoder.mlir -o %t 2> %t.remarks
// RUN: grep -o "loss [0-9.]*" %t.remarks > %t.loss
// RUN: kerf-inspect interpret --seed=7 %S/../Differentiate/Inputs/decoder.mlir > %t.seed7
// RUN: grep -o "loss [0-9.]*" %t.seed7 | diff %t.loss -
// RUN: kerf-inspect interpret --seed=8 %S/../Differentiate/Inputs/decoder.mlir > %t.seed8
// RUN: grep -o "loss [0-9.]*" %t.seed8 | not diff %t.loss -

// RUN: not kerf-opt --kerf-interpret=steps=0 %t 2>&1 | FileCheck %s --check-prefix=STEPS
// STEPS: error: expected steps >= 1

// Each step is a remark with its loss; updates carry over from step to step, and the IR is
// left as it is.

// CHECK-LABEL: kerf.model @steps
// CHECK: kerf.update
// expected-remark @below {{step 1 loss 1}}
// expected-remark @below {{step 2 loss 0.5}}
// expected-remark @below {{step 3 loss 0}}
kerf.model @steps(step %t: tensor<i32>) {
  %w = kerf.param "w" init<ones> : tensor<f32>
  %g = kerf.constant dense<1.0> : tensor<f32>
  %r = kerf.constant dense<0.5> : tensor<f32>
  kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<f32>
  kerf.return %w : tensor<f32>
}

// -----

// A check that holds says nothing.

// CHECK-LABEL: kerf.model @check
// CHECK: kerf.check_close
// expected-remark @below {{step 1 loss 2}}
// expected-remark @below {{step 2 loss 2}}
// expected-remark @below {{step 3 loss 2}}
kerf.model @check() {
  %a = kerf.constant dense<2.0> : tensor<f32>
  kerf.check_close %a, %a within 0.0 : tensor<f32>
  kerf.return %a : tensor<f32>
}

// -----

// One that does not hold fails the pass.

kerf.model @wrong() {
  %a = kerf.constant dense<2.0> : tensor<f32>
  %b = kerf.constant dense<3.0> : tensor<f32>
  // expected-error @below {{failed at element 0: found 2, expected 3 within 3e-06}}
  kerf.check_close %a, %b within 1.0e-6 : tensor<f32>
  kerf.return %a : tensor<f32>
}

// -----

// Nothing to run.

// CHECK: module
module {
}
