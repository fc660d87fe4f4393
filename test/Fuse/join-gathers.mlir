// Rows of experts are combined in the kernel of what reads the sum, and a sum that is
// made for them alone is made where they are looked up; not without the option.
// RUN: kerf-opt %s --kerf-outline-kernels --kerf-fuse-groups=gathers --kerf-verify-fused --split-input-file | FileCheck %s
// RUN: kerf-opt %s --kerf-outline-kernels --kerf-fuse-groups --kerf-verify-fused --split-input-file | FileCheck %s --check-prefix=OFF

// CHECK-LABEL: spmd.program @residual
// CHECK: spmd.fused {{.*}}spmd.kind = "add+combine+add"
// CHECK: kerf.gather
// CHECK-NOT: spmd.fused
// OFF-LABEL: spmd.program @residual
// OFF-COUNT-3: spmd.fused
spmd.program @residual over <> micro_batches 1 slots 1 {
  spmd.input @a global tensor<1x16x8xf32> sharded [[], [], []] : tensor<1x16x8xf32>
  spmd.input @b global tensor<1x16x8xf32> sharded [[], [], []] : tensor<1x16x8xf32>
  spmd.input @x global tensor<2x4x8xf32> sharded [[], [], []] : tensor<2x4x8xf32>
  spmd.input @s global tensor<2x4x2xi32> sharded [[], [], []] : tensor<2x4x2xi32>
  spmd.output @y last : tensor<2x4x8xf32>
  spmd.func @forward() {
    %a = spmd.read @a : tensor<1x16x8xf32>
    %b = spmd.read @b : tensor<1x16x8xf32>
    %x = spmd.read @x : tensor<2x4x8xf32>
    %s = spmd.read @s : tensor<2x4x2xi32>
    %r = kerf.add %a, %b : tensor<1x16x8xf32>
    %c = kerf.combine %r, %s : tensor<1x16x8xf32>, tensor<2x4x2xi32>
    %y = kerf.add %x, %c : tensor<2x4x8xf32>
    spmd.write %y to @y : tensor<2x4x8xf32>
    spmd.return
  }
}

// -----

// A reader that wants whole rows would look them up again for each of its loops, and
// a sum that others read is made once: both stay kernels of their own.
// CHECK-LABEL: spmd.program @rows
// CHECK: spmd.kind = "add"
// CHECK: spmd.kind = "combine"
// CHECK: spmd.kind = "rms_norm"
spmd.program @rows over <> micro_batches 1 slots 1 {
  spmd.input @a global tensor<2x8x8xf32> sharded [[], [], []] : tensor<2x8x8xf32>
  spmd.input @b global tensor<2x8x8xf32> sharded [[], [], []] : tensor<2x8x8xf32>
  spmd.input @g global tensor<8xf32> sharded [[]] : tensor<8xf32>
  spmd.input @s global tensor<2x4x2xi32> sharded [[], [], []] : tensor<2x4x2xi32>
  spmd.output @r last : tensor<2x8x8xf32>
  spmd.output @y last : tensor<2x4x8xf32>
  spmd.func @forward() {
    %a = spmd.read @a : tensor<2x8x8xf32>
    %b = spmd.read @b : tensor<2x8x8xf32>
    %g = spmd.read @g : tensor<8xf32>
    %s = spmd.read @s : tensor<2x4x2xi32>
    %r = kerf.add %a, %b : tensor<2x8x8xf32>
    %c = kerf.combine %r, %s : tensor<2x8x8xf32>, tensor<2x4x2xi32>
    %y = kerf.rms_norm %c, %g eps 1.0e-5 : tensor<2x4x8xf32>, tensor<8xf32>
    spmd.write %r to @r : tensor<2x8x8xf32>
    spmd.write %y to @y : tensor<2x4x8xf32>
    spmd.return
  }
}
