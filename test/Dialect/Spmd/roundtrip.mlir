// RUN: kerf-opt %s | kerf-opt | FileCheck %s
// RUN: kerf-opt %s --mlir-print-op-generic | kerf-opt | FileCheck %s

// Declarations, functions and schedules print as they are written.
// CHECK-LABEL: spmd.program @all over <dp = 2, tp = 2> micro_batches 2 slots 1
spmd.program @all over <dp = 2, tp = 2> micro_batches 2 slots 1 {
  // CHECK-NEXT: spmd.input @tokens role "tokens" global tensor<8x16xi32> sharded {{\[\[}}dp, micro], []] vocabulary 256 : tensor<2x16xi32>
  spmd.input @tokens role "tokens" global tensor<8x16xi32> sharded [[dp, micro], []] vocabulary 256 : tensor<2x16xi32>
  // CHECK-NEXT: spmd.input @plain global tensor<4xf32> sharded {{\[\[}}]] : tensor<4xf32>
  spmd.input @plain global tensor<4xf32> sharded [[]] : tensor<4xf32>
  // CHECK-NEXT: spmd.param "h.{i}.w"[0 to 4] global tensor<32x96xbf16> sharded {{\[\[}}], [tp]] rule #kerf.adamw<> init <normal, 0.02> master f32 : tensor<32x48xbf16>
  spmd.param "h.{i}.w" [0 to 4] global tensor<32x96xbf16> sharded [[], [tp]] rule #kerf.adamw<> init <normal, 0.02> master f32 : tensor<32x48xbf16>
  // CHECK-NEXT: spmd.param "f" global tensor<4xf32> sharded {{\[\[}}]] init <ones> frozen : tensor<4xf32>
  spmd.param "f" global tensor<4xf32> sharded [[]] init <ones> frozen : tensor<4xf32>
  // CHECK-NEXT: spmd.buffer @saved slot : tensor<4xf32>
  spmd.buffer @saved slot : tensor<4xf32>
  // CHECK-NEXT: spmd.buffer @gradient step : tensor<4xf32>
  spmd.buffer @gradient step : tensor<4xf32>
  // CHECK-NEXT: spmd.output @loss sum : tensor<f32>
  spmd.output @loss sum : tensor<f32>
  // CHECK-NEXT: spmd.output @grad_norm last label "grad norm" : tensor<f32>
  spmd.output @grad_norm last label "grad norm" : tensor<f32>
  // CHECK-NEXT: spmd.func @forward()
  spmd.func @forward() {
    // CHECK-NEXT: spmd.read @plain : tensor<4xf32>
    %x = spmd.read @plain : tensor<4xf32>
    // CHECK-NEXT: spmd.read @tokens : tensor<2x16xi32>
    %t = spmd.read @tokens : tensor<2x16xi32>
    // The whole step: both micro-batches.
    // CHECK-NEXT: spmd.read @tokens : tensor<4x16xi32>
    %all = spmd.read @tokens : tensor<4x16xi32>
    // CHECK-NEXT: spmd.all_reduce sum %{{.*}} over [dp, tp] : tensor<4xf32>
    %r = spmd.all_reduce sum %x over [dp, tp] : tensor<4xf32>
    // CHECK-NEXT: spmd.all_reduce max %{{.*}} over [tp] : tensor<4xf32>
    %m = spmd.all_reduce max %x over [tp] : tensor<4xf32>
    // CHECK-NEXT: spmd.all_gather %{{.*}} dim 0 over [tp] : tensor<4xf32> -> tensor<8xf32>
    %g = spmd.all_gather %x dim 0 over [tp] : tensor<4xf32> -> tensor<8xf32>
    // CHECK-NEXT: spmd.reduce_scatter sum %{{.*}} dim 0 over [tp] : tensor<8xf32> -> tensor<4xf32>
    %s = spmd.reduce_scatter sum %g dim 0 over [tp] : tensor<8xf32> -> tensor<4xf32>
    // CHECK-NEXT: spmd.all_to_all %{{.*}} split 1 concat 0 over [dp] : tensor<2x16xi32> -> tensor<4x8xi32>
    %a = spmd.all_to_all %t split 1 concat 0 over [dp] : tensor<2x16xi32> -> tensor<4x8xi32>
    // CHECK-NEXT: spmd.slice_own %{{.*}} dim 0 over [dp, micro] : tensor<8xf32> -> tensor<2xf32>
    %o = spmd.slice_own %g dim 0 over [dp, micro] : tensor<8xf32> -> tensor<2xf32>
    // CHECK-NEXT: %[[ZERO:.*]] = kerf.constant
    %z = kerf.constant dense<0.0> : tensor<f32>
    // CHECK-NEXT: spmd.stop_if %[[ZERO]] "it needs" : tensor<f32>
    spmd.stop_if %z "it needs" : tensor<f32>
    // CHECK-NEXT: spmd.offset [dp * 4, micro * 2]
    %i = spmd.offset [dp * 4, micro * 2]
    // CHECK-NEXT: spmd.offset [dp * 4] start 4 modulo 8
    %ring = spmd.offset [dp * 4] start 4 modulo 8
    // CHECK-NEXT: spmd.fused (%[[A:.*]] = %{{.*}} : tensor<4xf32>) -> (tensor<4xf32>)
    %f = spmd.fused (%b = %x : tensor<4xf32>) -> (tensor<4xf32>) {
      // CHECK-NEXT: kerf.exp %[[A]]
      %e = kerf.exp %b : tensor<4xf32>
      // CHECK-NEXT: spmd.yield %{{.*}} : tensor<4xf32>
      spmd.yield %e : tensor<4xf32>
    }
    // CHECK: spmd.fused_matmul (%[[L:.*]] = %{{.*}} : tensor<1x4xf32>, %[[R:.*]] = %{{.*}} : tensor<1x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) attributes {spmd.kind = "einsum+reduce"} {
    %row = kerf.reshape %x : tensor<4xf32> -> tensor<1x4xf32>
    %matmul:2 = spmd.fused_matmul (%left = %row : tensor<1x4xf32>, %right = %row : tensor<1x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) attributes {spmd.kind = "einsum+reduce"} {
      // CHECK-NEXT: kerf.einsum "sn,sk->nk" %[[L]], %[[R]]
      %both = kerf.einsum "sn,sk->nk" %left, %right : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<4x4xf32>
      %sum = kerf.reduce sum %left dims [0] : tensor<1x4xf32>
      // CHECK: spmd.yield %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<4xf32>
      spmd.yield %both, %sum : tensor<4x4xf32>, tensor<4xf32>
    }
    // A matmul of 8-bit floats by the units of both.
    // CHECK: spmd.fused_matmul (%[[A:.*]] = %{{.*}} : tensor<1x4xf8E5M2>, %[[B:.*]] = %{{.*}} : tensor<1x4xf8E4M3FN>, %[[U:.*]] = %{{.*}} : tensor<f32>, %[[V:.*]] = %{{.*}} : tensor<f32>) -> (tensor<1x1xbf16>) {
    %x8 = kerf.cast %row : tensor<1x4xf32> -> tensor<1x4xf8E5M2>
    %w8 = kerf.cast %row : tensor<1x4xf32> -> tensor<1x4xf8E4M3FN>
    %unit = kerf.unit %row of f8E4M3FN : tensor<1x4xf32>
    %scaled = spmd.fused_matmul (%left = %x8 : tensor<1x4xf8E5M2>, %right = %w8 : tensor<1x4xf8E4M3FN>, %u = %unit : tensor<f32>, %v = %unit : tensor<f32>) -> (tensor<1x1xbf16>) {
      // CHECK-NEXT: %[[P:.*]] = kerf.einsum "mk,nk->mn" %[[A]], %[[B]]
      %both = kerf.einsum "mk,nk->mn" %left, %right : tensor<1x4xf8E5M2>, tensor<1x4xf8E4M3FN> -> tensor<1x1xbf16>
      // CHECK-NEXT: %[[UV:.*]] = kerf.mul %[[U]], %[[V]]
      %uv = kerf.mul %u, %v : tensor<f32>
      %narrow = kerf.cast %uv : tensor<f32> -> tensor<bf16>
      %wide = kerf.broadcast %narrow dims [] : tensor<bf16> -> tensor<1x1xbf16>
      %y = kerf.mul %both, %wide : tensor<1x1xbf16>
      // CHECK: spmd.yield %{{.*}} : tensor<1x1xbf16>
      spmd.yield %y : tensor<1x1xbf16>
    }
    // CHECK: spmd.write %{{.*}} to @saved : tensor<4xf32>
    spmd.write %f to @saved : tensor<4xf32>
    // CHECK-NEXT: spmd.accumulate %{{.*}} into @gradient : tensor<4xf32>
    spmd.accumulate %f into @gradient : tensor<4xf32>
    // CHECK-NEXT: spmd.return
    spmd.return
  }
  // CHECK: spmd.schedule "train"
  spmd.schedule "train" {
    // CHECK-NEXT: spmd.call @forward micro 0
    spmd.call @forward micro 0
    // CHECK-NEXT: spmd.call @forward micro 1
    spmd.call @forward micro 1
  }
}

// One rank is a mesh without axes.
// CHECK-LABEL: spmd.program @one over <> micro_batches 1 slots 1
spmd.program @one over <> micro_batches 1 slots 1 {
}
