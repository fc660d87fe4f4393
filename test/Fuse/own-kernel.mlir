// An op that brings its own kernel is launched alone, with all operands in memory.
// RUN: split-file %s %t
// RUN: kerf-opt --load-dialect-plugin=%test_plugin %t/alone.mlir --kerf-outline-kernels --kerf-fuse-groups --kerf-verify-fused | FileCheck %s
// RUN: kerf-opt --load-dialect-plugin=%test_plugin %t/joined.mlir --kerf-verify-fused --verify-diagnostics

//--- alone.mlir
// Neither joined with the exponential before it nor with the one after, which are
// of the same space. The constant becomes a kernel.
// CHECK-LABEL: spmd.program @alone
spmd.program @alone over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @y last : tensor<4x8xf32>
  spmd.output @z last : tensor<4x8xf32>
  spmd.func @forward() {
    // CHECK: %[[X:.*]] = spmd.read @x
    %x = spmd.read @x : tensor<4x8xf32>
    // CHECK-DAG: %[[C:.*]] = spmd.fused () -> (tensor<4x8xf32>)
    %c = kerf.constant dense<3.0> : tensor<4x8xf32>
    // CHECK-DAG: %[[E:.*]] = spmd.fused (%{{.*}} = %[[X]] : tensor<4x8xf32>) -> (tensor<4x8xf32>) attributes {spmd.kind = "exp"} {
    %e = kerf.exp %x : tensor<4x8xf32>
    // CHECK: %[[R:.*]] = spmd.fused (%[[A:.*]] = %[[E]] : tensor<4x8xf32>) -> (tensor<4x8xf32>) attributes {kerf.phase = #kerf.phase<forward 3>, spmd.kind = "reverse_rows"} {
    // CHECK-NEXT: %[[I:.*]] = kerf_test.reverse_rows %[[A]] : tensor<4x8xf32>
    // CHECK-NEXT: spmd.yield %[[I]]
    %r = kerf_test.reverse_rows %e {kerf.phase = #kerf.phase<forward 3>} : tensor<4x8xf32>
    // CHECK: %[[Y:.*]] = spmd.fused (%{{.*}} = %[[R]] : tensor<4x8xf32>)
    // CHECK-NEXT: kerf.log
    %y = kerf.log %r : tensor<4x8xf32>
    spmd.write %y to @y : tensor<4x8xf32>
    // Each operand is an argument, also of one value read twice.
    // CHECK: spmd.fused (%[[A0:.*]] = %[[C]] : tensor<4x8xf32>, %[[A1:.*]] = %[[X]] : tensor<4x8xf32>, %[[A2:.*]] = %[[X]] : tensor<4x8xf32>)
    // CHECK-NEXT: kerf_test.code %[[A0]], %[[A1]], %[[A2]] "any"
    %z = kerf_test.code %c, %x, %x "any" : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    spmd.write %z to @z : tensor<4x8xf32>
    spmd.return
  }
}

//--- joined.mlir
// Beside another op it would lose its kernel.
spmd.program @joined over <> micro_batches 1 slots 1 {
  spmd.func @forward() {
    %c = spmd.fused () -> (tensor<4xf32>) {
      %one = kerf.constant dense<1.0> : tensor<4xf32>
      // expected-error@+1 {{inside a kernel is not a plain op}}
      %d = kerf_test.code %one "any" : (tensor<4xf32>) -> tensor<4xf32>
      spmd.yield %d : tensor<4xf32>
    }
    spmd.return
  }
}
