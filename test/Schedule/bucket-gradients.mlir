// RUN: kerf-opt %s --split-input-file --kerf-order-micro-batches --kerf-bucket-gradients=message-bytes=256 --kerf-verify-scheduled | FileCheck %s
// RUN: kerf-opt %s --split-input-file --kerf-order-micro-batches --kerf-bucket-gradients | FileCheck %s --check-prefix=LARGE
// Again, nothing changes.
// RUN: kerf-opt %s --split-input-file --kerf-order-micro-batches --kerf-bucket-gradients=message-bytes=256 -o %t.mlir
// RUN: kerf-opt %t.mlir --split-input-file --kerf-bucket-gradients=message-bytes=256 | diff %t.mlir -

// Sums over ranks move from the update to where the last part of a gradient is made.

// One micro-batch: a layer of 256 bytes is summed in the body, smaller ones as one stack, all before the update. A
// buffer of pieces has their type.
// CHECK-LABEL: spmd.program @one
// CHECK:      spmd.buffer @whole step : tensor<2x64xf32>
// CHECK-NEXT: spmd.buffer @small step : tensor<2x8xf32>
// CHECK-NEXT: spmd.buffer @pieces step : tensor<2x33xf32>
// CHECK-NEXT: spmd.buffer @single step : tensor<4xf32>
// CHECK:      spmd.func @backward() {
// CHECK:        %[[R:.*]]:4 = kerf.repeat reverse
// CHECK-NEXT:     %[[C:.*]] = kerf.constant
// CHECK-NEXT:     %[[S:.*]] = spmd.all_reduce sum %[[C]] over [dp]
// CHECK-NEXT:     %[[T:.*]] = kerf.constant {{.*}} : tensor<8xf32>
// CHECK-NEXT:     %[[P:.*]] = kerf.constant {{.*}} : tensor<5x13xf32>
// CHECK-NEXT:     %[[F:.*]] = kerf.reshape %[[P]] : tensor<5x13xf32> -> tensor<65xf32>
// CHECK-NEXT:     %[[Q:.*]] = kerf.pad %[[F]] low [0] high [1] : tensor<65xf32>
// CHECK-NEXT:     %[[U:.*]] = spmd.reduce_scatter sum %[[Q]] dim 0 over [dp]
// CHECK:          kerf.yield %{{.*}} stack(%[[S]], %[[T]], %[[U]])
// CHECK:        %[[V:.*]] = spmd.all_reduce sum %[[R]]#2 over [dp]
// CHECK:        %[[W:.*]] = spmd.all_reduce sum %{{.*}} over [dp] {{.*}}: tensor<4xf32>
// CHECK-NEXT:   spmd.write %[[R]]#1 to @whole
// CHECK-NEXT:   spmd.write %[[V]] to @small
// CHECK-NEXT:   spmd.write %[[R]]#3 to @pieces
// CHECK-NEXT:   spmd.write %[[W]] to @single
// CHECK-NEXT:   spmd.return
// CHECK:      spmd.func @update
// CHECK-NOT:    all_reduce
// CHECK-NOT:    reduce_scatter
// CHECK:        kerf.global_norm %0, %1, %2, %3
// CHECK:      spmd.call @backward micro 0
// Layers below a mebibyte are summed as one stack, too.
// LARGE-LABEL: spmd.program @one
// LARGE:       %[[R:.*]]:4 = kerf.repeat reverse
// LARGE-NOT:     spmd.
// LARGE:       spmd.all_reduce sum %[[R]]#1
// LARGE-NEXT:  spmd.all_reduce sum %[[R]]#2
// LARGE-NEXT:  kerf.reshape %[[R]]#3
spmd.program @one over <dp = 2> micro_batches 1 slots 1 {
  spmd.buffer @whole step : tensor<2x64xf32>
  spmd.buffer @small step : tensor<2x8xf32>
  spmd.buffer @pieces step : tensor<2x5x13xf32>
  spmd.buffer @single step : tensor<4xf32>
  spmd.output @norm last : tensor<f32>
  spmd.func @backward() {
    %h = kerf.constant dense<1.0> : tensor<4xf32>
    %r:4 = kerf.repeat reverse %i = 0 to 2 (%x = %h : tensor<4xf32>) {
      %a = kerf.constant dense<1.0> : tensor<64xf32>
      %b = kerf.constant dense<2.0> : tensor<8xf32>
      %c = kerf.constant dense<3.0> : tensor<5x13xf32>
      %y = kerf.add %x, %x : tensor<4xf32>
      kerf.yield %y stack(%a, %b, %c) : tensor<4xf32>, tensor<64xf32>, tensor<8xf32>, tensor<5x13xf32>
    }
    spmd.write %r#1 to @whole : tensor<2x64xf32>
    spmd.write %r#2 to @small : tensor<2x8xf32>
    spmd.write %r#3 to @pieces : tensor<2x5x13xf32>
    %s = kerf.mul %r#0, %h {kerf.phase = #kerf.phase<weight_gradient 1>} : tensor<4xf32>
    spmd.write %s to @single : tensor<4xf32>
    spmd.return
  }
  spmd.func @update() {
    %0 = spmd.read @whole : tensor<2x64xf32>
    %1 = spmd.read @small : tensor<2x8xf32>
    %2 = spmd.read @pieces : tensor<2x5x13xf32>
    %3 = spmd.read @single : tensor<4xf32>
    %4 = spmd.all_reduce sum %0 over [dp] : tensor<2x64xf32>
    %5 = spmd.all_reduce sum %1 over [dp] : tensor<2x8xf32>
    %6 = kerf.reshape %2 : tensor<2x5x13xf32> -> tensor<2x65xf32>
    %7 = kerf.pad %6 low [0, 0] high [0, 1] : tensor<2x65xf32>
    %8 = spmd.reduce_scatter sum %7 dim 1 over [dp] : tensor<2x66xf32> -> tensor<2x33xf32>
    %9 = spmd.all_reduce sum %3 over [dp] : tensor<4xf32>
    %10 = kerf.global_norm %4, %5, %8, %9 : tensor<2x64xf32>, tensor<2x8xf32>, tensor<2x33xf32>, tensor<4xf32>
    spmd.write %10 to @norm : tensor<f32>
    spmd.return
  }
}

// -----

// Several micro-batches: the last one has a copy of the function. Layers are added to what the calls before left; a
// small stack is added in its buffer, and then summed there. Sums that the copy leaves alone go on. What is added and
// summed keeps the phase of what makes the gradient.
// CHECK-LABEL: spmd.program @several
// CHECK:      spmd.buffer @whole step : tensor<2x64xf32>
// CHECK-NEXT: spmd.buffer @small step : tensor<2x8xf32>
// CHECK-NEXT: spmd.buffer @pieces step : tensor<2x64xf32>
// CHECK-NEXT: spmd.buffer @pieces.sum step : tensor<2x32xf32>
// CHECK:      spmd.func @backward() {
// CHECK-NOT:    all_reduce
// CHECK:        spmd.accumulate %{{.*}}#1 into @whole
// CHECK:        spmd.accumulate %{{.*}}#2 into @small
// CHECK:        spmd.accumulate %{{.*}}#3 into @pieces
// CHECK:        spmd.accumulate %{{.*}}#0 into @loss
// CHECK:      spmd.func @backward_last() continues @backward {
// CHECK:        %[[W:.*]] = spmd.read @whole
// CHECK:        %[[P:.*]] = spmd.read @pieces
// CHECK:        %[[R:.*]]:4 = kerf.repeat reverse %{{.*}} = 0 to 2 ({{.*}}) slices(%[[A:.*]] = %[[W]] : tensor<2x64xf32>, %[[B:.*]] = %[[P]] : tensor<2x64xf32>)
// CHECK:          %[[S:.*]] = kerf.add %[[A]], %{{.*}} {kerf.phase = #kerf.phase<weight_gradient 5>} : tensor<64xf32>
// CHECK-NEXT:     %[[T:.*]] = spmd.all_reduce sum %[[S]] over [dp] {kerf.phase = #kerf.phase<weight_gradient 5>}
// CHECK:          %[[U:.*]] = kerf.add %[[B]], %{{.*}} : tensor<64xf32>
// CHECK-NEXT:     %[[V:.*]] = spmd.reduce_scatter sum %[[U]] dim 0 over [dp]
// CHECK:          kerf.yield %{{.*}} stack(%[[T]], %{{.*}}, %[[V]])
// CHECK:        spmd.accumulate %[[R]]#2 into @small
// CHECK-NEXT:   %[[X:.*]] = spmd.read @small
// CHECK-NEXT:   %[[Y:.*]] = spmd.all_reduce sum %[[X]] over [dp] {kerf.phase = #kerf.phase<weight_gradient 7>}
// CHECK-NEXT:   spmd.accumulate %[[R]]#0 into @loss
// CHECK-DAG:    spmd.write %[[R]]#1 to @whole
// CHECK-DAG:    spmd.write %[[Y]] to @small
// CHECK-DAG:    spmd.write %[[R]]#3 to @pieces.sum
// CHECK:      spmd.func @update
// CHECK-DAG:    spmd.read @whole : tensor<2x64xf32>
// CHECK-DAG:    spmd.read @small : tensor<2x8xf32>
// CHECK-DAG:    spmd.read @pieces.sum : tensor<2x32xf32>
// CHECK-NOT:    all_reduce
// CHECK-NOT:    reduce_scatter
// CHECK:      spmd.schedule "train"
// CHECK-NEXT:   spmd.call @backward micro 0
// CHECK-NEXT:   spmd.call @backward micro 1
// CHECK-NEXT:   spmd.call @backward_last micro 2
// CHECK-NEXT:   spmd.call @update
spmd.program @several over <dp = 2> micro_batches 3 slots 1 {
  spmd.buffer @whole step : tensor<2x64xf32>
  spmd.buffer @small step : tensor<2x8xf32>
  spmd.buffer @pieces step : tensor<2x64xf32>
  spmd.output @norm last : tensor<f32>
  spmd.output @loss sum : tensor<4xf32>
  spmd.func @backward() {
    %h = kerf.constant dense<1.0> : tensor<4xf32>
    %r:4 = kerf.repeat reverse %i = 0 to 2 (%x = %h : tensor<4xf32>) attributes {kerf.phase = #kerf.phase<weight_gradient 7>} {
      %a = kerf.constant {kerf.phase = #kerf.phase<weight_gradient 5>} dense<1.0> : tensor<64xf32>
      %b = kerf.constant dense<2.0> : tensor<8xf32>
      %c = kerf.constant dense<3.0> : tensor<64xf32>
      %y = kerf.add %x, %x : tensor<4xf32>
      kerf.yield %y stack(%a, %b, %c) : tensor<4xf32>, tensor<64xf32>, tensor<8xf32>, tensor<64xf32>
    }
    spmd.accumulate %r#1 into @whole : tensor<2x64xf32>
    spmd.accumulate %r#2 into @small : tensor<2x8xf32>
    spmd.accumulate %r#3 into @pieces : tensor<2x64xf32>
    spmd.accumulate %r#0 into @loss : tensor<4xf32>
    spmd.return
  }
  spmd.func @update() {
    %0 = spmd.read @whole : tensor<2x64xf32>
    %1 = spmd.read @small : tensor<2x8xf32>
    %2 = spmd.read @pieces : tensor<2x64xf32>
    %3 = spmd.all_reduce sum %0 over [dp] : tensor<2x64xf32>
    %4 = spmd.all_reduce sum %1 over [dp] : tensor<2x8xf32>
    %5 = spmd.reduce_scatter sum %2 dim 1 over [dp] : tensor<2x64xf32> -> tensor<2x32xf32>
    %6 = kerf.global_norm %3, %4, %5 : tensor<2x64xf32>, tensor<2x8xf32>, tensor<2x32xf32>
    spmd.write %6 to @norm : tensor<f32>
    spmd.return
  }
}

// -----

// What stays: a maximum; a sum of a sum of two buffers; a buffer that is read twice, or that the prologue fills.
// CHECK-LABEL: spmd.program @stays
// CHECK:      spmd.func @update
// CHECK-COUNT-5: spmd.all_reduce
// CHECK-NOT:  all_reduce
spmd.program @stays over <dp = 2> micro_batches 1 slots 1 {
  spmd.buffer @maximum step : tensor<4xf32>
  spmd.buffer @first step : tensor<4xf32>
  spmd.buffer @second step : tensor<4xf32>
  spmd.buffer @twice step : tensor<4xf32>
  spmd.buffer @early step : tensor<4xf32>
  spmd.output @norm last : tensor<f32>
  spmd.func @prologue() {
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    spmd.write %x to @early : tensor<4xf32>
    spmd.return
  }
  spmd.func @backward() {
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    spmd.write %x to @maximum : tensor<4xf32>
    spmd.write %x to @first : tensor<4xf32>
    spmd.write %x to @second : tensor<4xf32>
    spmd.write %x to @twice : tensor<4xf32>
    spmd.return
  }
  spmd.func @update() {
    %0 = spmd.read @maximum : tensor<4xf32>
    %1 = spmd.read @first : tensor<4xf32>
    %2 = spmd.read @second : tensor<4xf32>
    %3 = spmd.read @twice : tensor<4xf32>
    %4 = spmd.read @twice : tensor<4xf32>
    %5 = spmd.read @early : tensor<4xf32>
    %6 = spmd.all_reduce max %0 over [dp] : tensor<4xf32>
    %7 = kerf.add %1, %2 : tensor<4xf32>
    %8 = spmd.all_reduce sum %7 over [dp] : tensor<4xf32>
    %9 = spmd.all_reduce sum %3 over [dp] : tensor<4xf32>
    %10 = spmd.all_reduce sum %4 over [dp] : tensor<4xf32>
    %11 = spmd.all_reduce sum %5 over [dp] : tensor<4xf32>
    %12 = kerf.global_norm %6, %8, %9, %10, %11 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    spmd.write %12 to @norm : tensor<f32>
    spmd.return
  }
}

// -----

// A sum over the stages of a pipeline waits for all of them, and stays at the end of the step.
// CHECK-LABEL: spmd.program @stages
// CHECK:      spmd.func @update
// CHECK:        spmd.all_reduce sum %{{.*}} over [pp]
spmd.program @stages over <pp = 2> micro_batches 1 slots 1 {
  spmd.buffer @b step : tensor<4xf32>
  spmd.output @norm last : tensor<4xf32>
  spmd.func @backward() {
    %x = kerf.constant dense<1.0> : tensor<4xf32>
    spmd.write %x to @b : tensor<4xf32>
    spmd.return
  }
  spmd.func @update() {
    %0 = spmd.read @b : tensor<4xf32>
    %1 = spmd.all_reduce sum %0 over [pp] : tensor<4xf32>
    spmd.write %1 to @norm : tensor<4xf32>
    spmd.return
  }
}
spmd.program @stages1 over <pp = 2> stage 1 micro_batches 1 slots 1 {
  spmd.output @norm last : tensor<4xf32>
  spmd.func @update() {
    %0 = kerf.constant dense<0.0> : tensor<4xf32>
    %1 = spmd.all_reduce sum %0 over [pp] : tensor<4xf32>
    spmd.write %1 to @norm : tensor<4xf32>
    spmd.return
  }
}
