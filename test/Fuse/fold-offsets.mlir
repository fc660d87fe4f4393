// RUN: kerf-opt %s --kerf-fold-offsets | FileCheck %s

// A dimension that is not cut begins at 0; a multiple of a place; the place of
// keys that went one and two steps around a ring of four ranks.
// CHECK-LABEL: spmd.program @ring
spmd.program @ring over <tp = 2, cp = 4> micro_batches 2 slots 1 {
  spmd.buffer @q step : tensor<1x4x2x8xbf16>
  spmd.buffer @y step : tensor<1x4x2x8xbf16>
  spmd.func @forward() {
    // CHECK-DAG: %[[NONE:.*]] = spmd.offset []{{$}}
    // CHECK-DAG: %[[HEADS:.*]] = spmd.offset [tp * 2]{{$}}
    // CHECK-DAG: %[[OWN:.*]] = spmd.offset [cp * 4]{{$}}
    // CHECK-DAG: %[[NEXT:.*]] = spmd.offset [cp * 4] start 4 modulo 16{{$}}
    // CHECK-DAG: %[[THIRD:.*]] = spmd.offset [cp * 4] start 8 modulo 16{{$}}
    // CHECK-NOT: kerf.add
    // CHECK-NOT: kerf.mul
    // CHECK-NOT: kerf.select
    // CHECK: kerf.attention {{.*}} offsets(%[[NONE]], %[[HEADS]], %[[OWN]], %[[NEXT]])
    // CHECK: kerf.attention {{.*}} offsets(%[[NONE]], %[[HEADS]], %[[OWN]], %[[THIRD]])
    %q = spmd.read @q : tensor<1x4x2x8xbf16>
    %zero = kerf.constant dense<0> : tensor<i32>
    %two = kerf.constant dense<2> : tensor<i32>
    %four = kerf.constant dense<4> : tensor<i32>
    %back = kerf.constant dense<-4> : tensor<i32>
    %one = kerf.constant dense<1> : tensor<i32>
    %tp = spmd.offset [tp * 1]
    %cp = spmd.offset [cp * 1]
    %own = spmd.offset [cp * 4]
    %heads = kerf.mul %tp, %two : tensor<i32>
    %n1 = kerf.add %cp, %one : tensor<i32>
    %g1 = kerf.compare ge %n1, %four : tensor<i32>
    %b1 = kerf.add %n1, %back : tensor<i32>
    %p1 = kerf.select %g1, %b1, %n1 : tensor<i32>
    %k1 = kerf.mul %p1, %four : tensor<i32>
    %n2 = kerf.add %cp, %two : tensor<i32>
    %g2 = kerf.compare ge %n2, %four : tensor<i32>
    %b2 = kerf.add %n2, %back : tensor<i32>
    %p2 = kerf.select %g2, %b2, %n2 : tensor<i32>
    %k2 = kerf.mul %p2, %four : tensor<i32>
    %y1 = kerf.attention %q, %q, %q causal offsets(%zero, %heads, %own, %k1) global [1, 4, 16, 16] : tensor<1x4x2x8xbf16>, tensor<1x4x2x8xbf16>, tensor<1x4x2x8xbf16>
    %y2 = kerf.attention %y1, %q, %q causal offsets(%zero, %heads, %own, %k2) global [1, 4, 16, 16] : tensor<1x4x2x8xbf16>, tensor<1x4x2x8xbf16>, tensor<1x4x2x8xbf16>
    spmd.write %y2 to @y : tensor<1x4x2x8xbf16>
    spmd.return
  }
}

// What is no sum of multiples stays: another constant comes off, the place may
// be two rounds behind, and a product of two places.
// CHECK-LABEL: spmd.program @others
spmd.program @others over <cp = 4> micro_batches 2 slots 1 {
  spmd.buffer @q step : tensor<1x4x2x8xbf16>
  spmd.buffer @y step : tensor<1x4x2x8xbf16>
  spmd.func @forward() {
    // CHECK: %[[LESS:.*]] = kerf.select
    // CHECK: %[[FAR:.*]] = kerf.select
    // CHECK: %[[SQUARE:.*]] = kerf.mul
    // CHECK: kerf.attention {{.*}} offsets(%[[LESS]], %[[FAR]], %[[SQUARE]], %{{.*}})
    %q = spmd.read @q : tensor<1x4x2x8xbf16>
    %three = kerf.constant dense<3> : tensor<i32>
    %four = kerf.constant dense<4> : tensor<i32>
    %back = kerf.constant dense<-4> : tensor<i32>
    %six = kerf.constant dense<6> : tensor<i32>
    %cp = spmd.offset [cp * 1]
    %ge = kerf.compare ge %cp, %three : tensor<i32>
    %b1 = kerf.add %cp, %back : tensor<i32>
    %less = kerf.select %ge, %b1, %cp : tensor<i32>
    %n = kerf.add %cp, %six : tensor<i32>
    %g = kerf.compare ge %n, %four : tensor<i32>
    %b = kerf.add %n, %back : tensor<i32>
    %far = kerf.select %g, %b, %n : tensor<i32>
    %square = kerf.mul %cp, %cp : tensor<i32>
    %y = kerf.attention %q, %q, %q causal offsets(%less, %far, %square, %cp) global [1, 2, 16, 16] : tensor<1x4x2x8xbf16>, tensor<1x4x2x8xbf16>, tensor<1x4x2x8xbf16>
    spmd.write %y to @y : tensor<1x4x2x8xbf16>
    spmd.return
  }
}
