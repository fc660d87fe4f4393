// What two stages would share after a split: sums of shared parameters and updates of
// parameters that two repeats read.

// RUN: kerf-opt %s --kerf-differentiate --kerf-precision=policy=bf16 --kerf-split-repeat=at=2 | FileCheck %s
// RUN: kerf-opt %s --kerf-differentiate --kerf-split-repeat="at=2 pair=0" | FileCheck %s --check-prefix=PAIR
// RUN: kerf-opt %s --kerf-differentiate | kerf-inspect interpret - --compute=f64 --steps=3 > %t.whole
// RUN: kerf-opt %s --kerf-differentiate --kerf-split-repeat=at=2,1,3 | kerf-inspect interpret - --compute=f64 --steps=3 | diff %t.whole -

// The accumulator of "shared" starts at zero in both halves and is added outside.

// CHECK-LABEL: kerf.model @sums
// CHECK: %[[Z1:.*]] = kerf.constant {{.*}} dense<0.000000e+00> : tensor<4x4xf32>
// CHECK: %[[HIGH:.*]]:3 = kerf.repeat reverse %i = 2 to 4 ({{.*}} = %[[Z1]] : tensor<4x4xf32>)
// CHECK: %[[Z2:.*]] = kerf.constant {{.*}} dense<0.000000e+00> : tensor<4x4xf32>
// CHECK: %[[LOW:.*]]:3 = kerf.repeat reverse %i = 0 to 2 (%{{.*}} = %[[HIGH]]#0 : {{.*}} = %[[Z2]] : tensor<4x4xf32>)
// CHECK: kerf.add %[[HIGH]]#1, %[[LOW]]#1

// "w.{i}" is read by two repeats; the update of their sum is split all the same.

// CHECK-DAG: kerf.update "w.{i}"[0 to 2]
// CHECK-DAG: kerf.update "w.{i}"[2 to 4]
// CHECK-DAG: kerf.update "shared"

// PAIR: kerf.repeat %i = 0 to 2
// PAIR: kerf.repeat %i = 2 to 4
// PAIR: kerf.repeat %i = 0 to 4
kerf.model @sums(%x: tensor<2x4xf32>) attributes {optimizer = #kerf.sgd<>, clip_norm = 1.0} {
  %y = kerf.repeat %i = 0 to 4 (%h = %x : tensor<2x4xf32>) {
    %w = kerf.param "w.{i}" init<normal, 0.5> : tensor<4x4xf32>
    %s = kerf.param "shared" init<normal, 0.5> : tensor<4x4xf32>
    %a = kerf.linear %h, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %b = kerf.linear %a, %s : tensor<2x4xf32>, tensor<4x4xf32>
    kerf.yield %b : tensor<2x4xf32>
  }
  %z = kerf.repeat %i = 0 to 4 (%h = %y : tensor<2x4xf32>) {
    %w = kerf.param "w.{i}" init<normal, 0.5> : tensor<4x4xf32>
    %a = kerf.linear %h, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %t = kerf.tanh %a : tensor<2x4xf32>
    kerf.yield %t : tensor<2x4xf32>
  }
  %loss = kerf.reduce sum %z dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}
