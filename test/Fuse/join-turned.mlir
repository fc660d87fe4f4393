// A copy of a tensor and its transposed copy are one kernel, which reads squares of it; not without the option, and not
// where one of them reads another tensor, too.
// RUN: kerf-opt %s --kerf-outline-kernels --kerf-fuse-groups=turned --kerf-verify-fused --split-input-file | FileCheck %s
// RUN: kerf-opt %s --kerf-outline-kernels --kerf-fuse-groups --kerf-verify-fused --split-input-file | FileCheck %s --check-prefix=OFF

// CHECK-LABEL: spmd.program @copies
// CHECK: spmd.fused {{.*}}spmd.kind = "mul+cast+transpose"
// CHECK-NOT: spmd.fused
// OFF-LABEL: spmd.program @copies
// OFF-COUNT-2: spmd.fused
spmd.program @copies over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x16x32xbf16> sharded [[], [], []] : tensor<2x16x32xbf16>
  spmd.output @a last : tensor<2x16x32xf8E4M3FN>
  spmd.output @b last : tensor<32x2x16xf8E4M3FN>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x16x32xbf16>
    %s = kerf.mul %x, %x : tensor<2x16x32xbf16>
    %a = kerf.cast %s : tensor<2x16x32xbf16> -> tensor<2x16x32xf8E4M3FN>
    %t = kerf.transpose %x perm [2, 0, 1] : tensor<2x16x32xbf16>
    %b = kerf.cast %t : tensor<32x2x16xbf16> -> tensor<32x2x16xf8E4M3FN>
    spmd.write %a to @a : tensor<2x16x32xf8E4M3FN>
    spmd.write %b to @b : tensor<32x2x16xf8E4M3FN>
    spmd.return
  }
}

// -----

// CHECK-LABEL: spmd.program @other
// CHECK-COUNT-2: spmd.fused
// OFF-LABEL: spmd.program @other
spmd.program @other over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x16x32xbf16> sharded [[], [], []] : tensor<2x16x32xbf16>
  spmd.input @y global tensor<2x16x32xbf16> sharded [[], [], []] : tensor<2x16x32xbf16>
  spmd.output @a last : tensor<2x16x32xf8E4M3FN>
  spmd.output @b last : tensor<32x2x16xf8E4M3FN>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x16x32xbf16>
    %y = spmd.read @y : tensor<2x16x32xbf16>
    %s = kerf.mul %x, %y : tensor<2x16x32xbf16>
    %a = kerf.cast %s : tensor<2x16x32xbf16> -> tensor<2x16x32xf8E4M3FN>
    %t = kerf.transpose %x perm [2, 0, 1] : tensor<2x16x32xbf16>
    %b = kerf.cast %t : tensor<32x2x16xbf16> -> tensor<32x2x16xf8E4M3FN>
    spmd.write %a to @a : tensor<2x16x32xf8E4M3FN>
    spmd.write %b to @b : tensor<32x2x16xf8E4M3FN>
    spmd.return
  }
}

// -----

// The largest element of what a kernel makes is found by it, row by row.
// CHECK-LABEL: spmd.program @largest
// CHECK: spmd.fused {{.*}}spmd.kind = "rms_norm+unit"
// CHECK-NOT: spmd.fused
// OFF-LABEL: spmd.program @largest
// OFF: spmd.fused {{.*}}spmd.kind = "rms_norm+unit"
spmd.program @largest over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x16x512xbf16> sharded [[], [], []] : tensor<2x16x512xbf16>
  spmd.input @g global tensor<512xbf16> sharded [[]] : tensor<512xbf16>
  spmd.output @y last : tensor<2x16x512xbf16>
  spmd.output @u last : tensor<f32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x16x512xbf16>
    %g = spmd.read @g : tensor<512xbf16>
    %y = kerf.rms_norm %x, %g eps 1.0e-5 : tensor<2x16x512xbf16>, tensor<512xbf16>
    %u = kerf.unit %y of f8E4M3FN : tensor<2x16x512xbf16>
    spmd.write %y to @y : tensor<2x16x512xbf16>
    spmd.write %u to @u : tensor<f32>
    spmd.return
  }
}

// -----

// A row is the last dimension, however long.
// CHECK-LABEL: spmd.program @long
// CHECK: spmd.fused {{.*}}spmd.kind = "silu+unit"
// CHECK-NOT: spmd.fused
spmd.program @long over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<16x53248xbf16> sharded [[], []] : tensor<16x53248xbf16>
  spmd.output @y last : tensor<16x53248xbf16>
  spmd.output @u last : tensor<f32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<16x53248xbf16>
    %y = kerf.silu %x : tensor<16x53248xbf16>
    %u = kerf.unit %y of f8E4M3FN : tensor<16x53248xbf16>
    spmd.write %y to @y : tensor<16x53248xbf16>
    spmd.write %u to @u : tensor<f32>
    spmd.return
  }
}
