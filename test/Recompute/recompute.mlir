// RUN: kerf-opt --kerf-differentiate %s -o %t.mlir
// RUN: FileCheck %s --check-prefix=NONE < %t.mlir
// RUN: kerf-opt --kerf-recompute %t.mlir | diff %t.mlir -
// RUN: kerf-opt --kerf-recompute=values=none %t.mlir | diff %t.mlir -
// RUN: kerf-opt --kerf-recompute=values=full --kerf-verify-differentiated %t.mlir -o %t.full.mlir
// RUN: FileCheck %s --check-prefix=FULL < %t.full.mlir
// RUN: kerf-opt --kerf-recompute=values=selective --kerf-verify-differentiated %t.mlir | FileCheck %s --check-prefix=SEL
// RUN: kerf-opt --kerf-recompute=values=12 --kerf-verify-differentiated %t.mlir | FileCheck %s --check-prefix=ONE
// RUN: kerf-opt --kerf-recompute=values=9,10 --kerf-verify-differentiated %t.mlir | FileCheck %s --check-prefix=TWO
// RUN: kerf-opt --kerf-recompute=values=10 --kerf-verify-differentiated %t.mlir | FileCheck %s --check-prefix=READ

// The choice depends on what the gradient reads, not on earlier choices.
// RUN: kerf-opt --kerf-recompute=values=full %t.full.mlir | diff %t.full.mlir -
// RUN: kerf-opt --kerf-recompute=values=selective --kerf-recompute=values=full %t.mlir | diff %t.full.mlir -
// RUN: kerf-opt --kerf-recompute-views --kerf-recompute=values=full %t.mlir | diff %t.full.mlir -

// Views are chosen before or after; they leave the choice as it is.
// RUN: kerf-opt --kerf-recompute=values=full --kerf-recompute-views %t.mlir | diff %t.full.mlir -
// RUN: kerf-opt --kerf-recompute=values=9,10 %t.mlir -o %t.two.mlir
// RUN: kerf-opt --kerf-recompute=values=9,10 --kerf-recompute-views %t.mlir | diff %t.two.mlir -
// RUN: kerf-opt --kerf-recompute-views --kerf-recompute=values=9,10 %t.mlir | diff %t.two.mlir -

// The model's plan says what to recompute; the option overrides it.
// RUN: sed 's/optimizer = /plan = #kerf.plan<mesh = <>, micro_batches = 1, schedule = "1f1b", recompute = full>, optimizer = /' %t.mlir > %t.plan.mlir
// RUN: kerf-opt --kerf-recompute %t.plan.mlir | FileCheck %s --check-prefix=FULL
// RUN: kerf-opt --kerf-recompute=values=none %t.plan.mlir | FileCheck %s --check-prefix=NONE
// RUN: sed 's/recompute = full/recompute = [9, 10]/' %t.plan.mlir | kerf-opt --kerf-recompute | FileCheck %s --check-prefix=TWO

// Without recomputation each value that a gradient reads has a stack, 576 bytes a layer.
// NONE-LABEL: kerf.model @block
// NONE: kerf.yield %{{.*}} stack(%{{.*}}) {{.*}} : tensor<2x4xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x4xf32>, tensor<2x4xf32>
// NONE-NOT: kerf.recomputed

// Only the carried value is saved, 32 bytes a layer. Copies read the reverse repeat's iteration, its slice
// of a tensor that the forward repeat slices too, and values from outside; parameters are
// read once. What only weight gradients read belongs to these.
// FULL-LABEL: kerf.model @block
// FULL: kerf.yield %{{.*}} stack(%{{.*}}) {{.*}} : tensor<2x4xf32>, tensor<2x4xf32>
// FULL: kerf.repeat reverse %[[I:.*]] = 0 to 3 {{.*}} slices(%[[R:.*]] = %{{.*}} : tensor<3x16xf32>, %[[H:.*]] = %{{.*}} : tensor<3x2x4xf32>)
// FULL-DAG: %[[V:.*]] = kerf.param "h.{i}.v"
// FULL-DAG: %[[W:.*]] = kerf.param "h.{i}.w"
// FULL: %[[N:.*]] = kerf.rms_norm %[[H]], %{{.*}} {kerf.phase = #kerf.phase<input_gradient 6>, kerf.recomputed}
// FULL: %[[U:.*]] = kerf.linear %[[N]], %[[W]] {kerf.phase = #kerf.phase<input_gradient 8>, kerf.recomputed}
// FULL: %[[G:.*]] = kerf.gelu tanh %[[U]] {kerf.phase = #kerf.phase<input_gradient 9>, kerf.recomputed}
// FULL: %[[D:.*]] = kerf.dropout %[[G]] rate 2.500000e-01 "drop" seed %{{.*}} step %{{.*}} layer %[[I]] {kerf.phase = #kerf.phase<input_gradient 10>, kerf.recomputed}
// FULL: %[[O:.*]] = kerf.mul %{{.*}}, %[[R]] {{.*}}kerf.recomputed
// FULL: %[[B:.*]] = kerf.broadcast %[[O]] {{.*}}kerf.recomputed
// FULL: kerf.mul %[[D]], %[[B]] {kerf.phase = #kerf.phase<weight_gradient 13>, kerf.recomputed}
// FULL-NOT: kerf.param
// FULL: kerf.yield

// Fewest bytes without a matmul: 160 a layer.
// SEL-LABEL: kerf.model @block
// SEL: %[[U:.*]] = kerf.linear %{{.*}}, %{{.*}} {kerf.phase = #kerf.phase<forward 8>}
// SEL: kerf.yield %{{.*}} stack(%[[U]], %{{.*}}) {{.*}} : tensor<2x4xf32>, tensor<2x16xf32>, tensor<2x4xf32>
// SEL: kerf.repeat reverse
// SEL-NOT: kerf.linear
// SEL: kerf.update

// One listed op, from the saved operand of a view. The others stay saved.
// ONE-LABEL: kerf.model @block
// ONE: kerf.repeat reverse
// ONE-NOT: kerf.gelu tanh
// ONE: kerf.broadcast {{.*}}kerf.recomputed
// ONE-NOT: kerf.gelu tanh {{.*}}kerf.recomputed
// ONE: kerf.update

// Two listed ops: the copy of one reads the copy of the other.
// TWO-LABEL: kerf.model @block
// TWO: kerf.repeat reverse
// TWO: %[[G:.*]] = kerf.gelu tanh {{.*}}kerf.recomputed
// TWO: kerf.dropout %[[G]] {{.*}}kerf.recomputed
// TWO: kerf.update

// What a listed op reads is saved, though no gradient reads it: the op that makes it is not listed.
// READ-LABEL: kerf.model @block
// READ: %[[G:.*]] = kerf.gelu tanh
// READ: kerf.yield %{{.*}} stack({{.*}}%[[G]]{{.*}})
// READ: kerf.repeat reverse
// READ-NOT: kerf.gelu tanh
// READ: kerf.dropout {{.*}}kerf.recomputed
// READ: kerf.update
kerf.model @block(seed %seed: tensor<i32>, step %step: tensor<i32>) attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x4xf32>
  %rates = kerf.param "rates" init<normal, 0.5> : tensor<3x16xf32>
  %scale = kerf.param "scale" init<normal, 0.5> : tensor<16xf32>
  %outside = kerf.exp %scale : tensor<16xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x4xf32>) slices(%rate = %rates : tensor<3x16xf32>) {
    %g = kerf.param "h.{i}.g" init<ones> : tensor<4xf32>
    %n = kerf.rms_norm %h, %g : tensor<2x4xf32>, tensor<4xf32>
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<16x4xf32>
    %u = kerf.linear %n, %w : tensor<2x4xf32>, tensor<16x4xf32>
    %a = kerf.gelu tanh %u : tensor<2x16xf32>
    %d = kerf.dropout %a rate 0.25 "drop" seed %seed step %step layer %i : tensor<2x16xf32>
    %r = kerf.mul %outside, %rate : tensor<16xf32>
    %b = kerf.broadcast %r dims [1] : tensor<16xf32> -> tensor<2x16xf32>
    %m = kerf.mul %d, %b : tensor<2x16xf32>
    %v = kerf.param "h.{i}.v" init<normal, 0.5> : tensor<4x16xf32>
    %o = kerf.linear %m, %v : tensor<2x16xf32>, tensor<4x16xf32>
    %s = kerf.add %h, %o : tensor<2x4xf32>
    kerf.yield %s : tensor<2x4xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}
