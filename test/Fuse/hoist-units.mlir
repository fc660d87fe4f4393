// RUN: kerf-opt %s --kerf-hoist-units --split-input-file | FileCheck %s

// The prologue finds the units of a weight of all layers; both functions read them, and what the forward one kept of
// them is kept no more. Units of what a layer computes stay, and are kept.
// CHECK-LABEL: spmd.program @both
// CHECK-NOT: @saved0
// CHECK: spmd.buffer @saved1 slot : tensor<2xf32>
// CHECK: spmd.buffer @units0 step {spmd.units} : tensor<2x4xf32>
// CHECK: spmd.func @prologue
// CHECK: %[[S:.*]] = kerf.repeat %{{.*}} = 0 to 2 ()
// CHECK: %[[W:.*]] = kerf.param "h.{i}.w"
// CHECK: %[[U:.*]] = kerf.unit %[[W]] of f8E4M3FN
// CHECK: %[[L:.*]] = kerf.broadcast %[[U]] dims [] {{.*}} -> tensor<4xf32>
// CHECK: kerf.yield stack(%[[L]])
// CHECK: spmd.write %[[S]] to @units0
// CHECK: spmd.func @forward
// CHECK: %[[B:.*]] = spmd.read @units0
// CHECK: kerf.repeat {{.*}} slices(%[[A:.*]] = %[[B]] : tensor<2x4xf32>)
// CHECK: %[[X:.*]] = kerf.unit %{{.*}} : tensor<8x16xbf16>
// CHECK: %[[F:.*]] = kerf.slice %[[A]] offsets [0] sizes [1]
// CHECK: %[[R:.*]] = kerf.reshape %[[F]] {{.*}} -> tensor<f32>
// CHECK: kerf.mul %[[X]], %[[R]]
// CHECK: kerf.yield %{{.*}} stack(%[[X]])
// CHECK: spmd.write %{{.*}} to @saved1
// CHECK-NOT: spmd.write %{{.*}}: tensor<2xf32>
// CHECK: spmd.func @backward
// CHECK-DAG: %[[C:.*]] = spmd.read @units0
// CHECK-DAG: %[[K:.*]] = spmd.read @saved1
// CHECK: kerf.repeat reverse {{.*}} slices(%[[P:.*]] = %[[K]] : tensor<2xf32>, %[[Q:.*]] = %[[C]] : tensor<2x4xf32>)
// CHECK: %[[G:.*]] = kerf.slice %[[Q]] offsets [0] sizes [1]
// CHECK: kerf.reshape %[[G]]
// CHECK: kerf.power_of_two %[[P]]
// CHECK-NOT: kerf.power_of_two
spmd.program @both over <> micro_batches 2 slots 1 {
  spmd.param "h.{i}.w" [0 to 2] global tensor<32x16xbf16> sharded [[], []] init <ones> : tensor<32x16xbf16>
  spmd.input @x global tensor<16x16xbf16> sharded [[micro], []] : tensor<8x16xbf16>
  spmd.buffer @saved0 slot : tensor<2xf32>
  spmd.buffer @saved1 slot : tensor<2xf32>
  spmd.output @y last : tensor<8x16xbf16>
  spmd.output @z last : tensor<f32>
  spmd.func @prologue() {
    spmd.return
  }
  spmd.func @forward() {
    %x = spmd.read @x : tensor<8x16xbf16>
    %y, %us, %vs = kerf.repeat %i = 0 to 2 (%h = %x : tensor<8x16xbf16>) {
      %w = kerf.param "h.{i}.w" init<ones> : tensor<32x16xbf16>
      %v = kerf.unit %h of f8E4M3FN : tensor<8x16xbf16>
      %u = kerf.unit %w of f8E4M3FN : tensor<32x16xbf16>
      %p = kerf.mul %v, %u : tensor<f32>
      %c = kerf.cast %p : tensor<f32> -> tensor<bf16>
      %b = kerf.broadcast %c dims [] : tensor<bf16> -> tensor<8x16xbf16>
      %n = kerf.mul %h, %b : tensor<8x16xbf16>
      kerf.yield %n stack(%u, %v) : tensor<8x16xbf16>, tensor<f32>, tensor<f32>
    }
    spmd.write %y to @y : tensor<8x16xbf16>
    spmd.write %us to @saved0 : tensor<2xf32>
    spmd.write %vs to @saved1 : tensor<2xf32>
    spmd.return
  }
  spmd.func @backward() {
    %us = spmd.read @saved0 : tensor<2xf32>
    %vs = spmd.read @saved1 : tensor<2xf32>
    %o = kerf.constant dense<1.0> : tensor<f32>
    %z = kerf.repeat reverse %i = 0 to 2 (%h = %o : tensor<f32>) slices(%u = %us : tensor<2xf32>, %v = %vs : tensor<2xf32>) {
      %a = kerf.power_of_two %u : tensor<f32>
      %b = kerf.power_of_two %v : tensor<f32>
      %p = kerf.mul %a, %b : tensor<f32>
      %n = kerf.mul %h, %p : tensor<f32>
      kerf.yield %n : tensor<f32>
    }
    spmd.write %z to @z : tensor<f32>
    spmd.return
  }
}
