// RUN: kerf-opt %s --kerf-overlap-collectives -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// Again, nothing changes.
// RUN: kerf-opt %t.mlir --kerf-overlap-collectives | diff %t.mlir -

// A collective is under way while something is computed that neither makes its operand nor reads its result.

// The weight of the second matmul is gathered while the first one is computed, and waited for at its reader.
// CHECK-LABEL: spmd.func @prefetch
// CHECK-SAME: {
spmd.program @p over <dp = 2> micro_batches 2 slots 1 {
  spmd.input @x global tensor<8x16xf32> sharded [[dp, micro], []] : tensor<2x16xf32>
  spmd.param "w.{i}" [0 to 3] global tensor<16x16xf32> sharded [[dp], []] init <zeros> : tensor<8x16xf32>
  spmd.param "v.{i}" [0 to 3] global tensor<16x16xf32> sharded [[dp], []] init <zeros> : tensor<8x16xf32>
  spmd.buffer @g step : tensor<16x16xf32>
  spmd.buffer @s step : tensor<16x16xf32>
  spmd.output @norm last : tensor<f32>
  spmd.func @prefetch() {
    %x = spmd.read @x : tensor<2x16xf32>
    // CHECK: kerf.repeat
    // CHECK: %[[W:.*]] = spmd.all_gather {{.*}} dim 0
    // CHECK-NEXT: %[[V:.*]] = kerf.param "v.{i}"
    // CHECK-NEXT: %[[S:.*]] = spmd.all_gather %[[V]] dim 0
    // CHECK-NEXT: kerf.linear %{{.*}}, %[[W]]
    // CHECK-NEXT: %[[D:.*]] = spmd.wait %[[S]] keeps %[[V]]
    // CHECK-NEXT: kerf.linear %{{.*}}, %[[D]]
    %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x16xf32>) {
      %w = kerf.param "w.{i}" init<zeros> : tensor<8x16xf32>
      %wg = spmd.all_gather %w dim 0 over [dp] : tensor<8x16xf32> -> tensor<16x16xf32>
      %a = kerf.linear %h, %wg : tensor<2x16xf32>, tensor<16x16xf32>
      %v = kerf.param "v.{i}" init<zeros> : tensor<8x16xf32>
      %vg = spmd.all_gather %v dim 0 over [dp] : tensor<8x16xf32> -> tensor<16x16xf32>
      %b = kerf.linear %a, %vg : tensor<2x16xf32>, tensor<16x16xf32>
      kerf.yield %b : tensor<2x16xf32>
    }
    spmd.return
  }

  // A sum that only a buffer reads is waited for when the next one starts; the store follows, beside that.
  // CHECK-LABEL: spmd.func @sums
  // CHECK: %[[X:.*]] = kerf.constant
  // CHECK-NEXT: %[[S:.*]] = spmd.all_reduce sum %[[X]]
  // CHECK-NEXT: %[[A:.*]] = kerf.mul
  // CHECK-NEXT: %[[D:.*]] = spmd.wait %[[S]] keeps %[[X]]
  // CHECK-NEXT: %[[T:.*]] = spmd.all_reduce sum %[[A]]
  // CHECK-NEXT: spmd.accumulate %[[D]] into @g
  // CHECK-NEXT: %[[E:.*]] = spmd.wait %[[T]] keeps %[[A]]
  // CHECK-NEXT: spmd.accumulate %[[E]] into @s
  // CHECK-NEXT: spmd.return
  spmd.func @sums() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    %s = spmd.all_reduce sum %x over [dp] : tensor<16x16xf32>
    spmd.accumulate %s into @g : tensor<16x16xf32>
    %a = kerf.mul %x, %x : tensor<16x16xf32>
    %t = spmd.all_reduce sum %a over [dp] : tensor<16x16xf32>
    spmd.accumulate %t into @s : tensor<16x16xf32>
    spmd.return
  }

  // What reads the buffer again keeps the store, and so the wait, before it.
  // CHECK-LABEL: spmd.func @read_again
  // CHECK: %[[S:.*]] = spmd.all_reduce
  // CHECK-NEXT: %[[A:.*]] = kerf.mul
  // CHECK-NEXT: %[[D:.*]] = spmd.wait %[[S]]
  // CHECK-NEXT: spmd.write %[[D]] to @g
  // CHECK-NEXT: spmd.read @g
  spmd.func @read_again() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    %s = spmd.all_reduce sum %x over [dp] : tensor<16x16xf32>
    spmd.write %s to @g : tensor<16x16xf32>
    %a = kerf.mul %x, %x : tensor<16x16xf32>
    %g = spmd.read @g : tensor<16x16xf32>
    %b = kerf.mul %g, %a : tensor<16x16xf32>
    spmd.write %b to @s : tensor<16x16xf32>
    spmd.return
  }

  // A message to another stage, or a repeat, ends it.
  // CHECK-LABEL: spmd.func @ends
  // CHECK: spmd.all_reduce
  // CHECK-NEXT: kerf.neg
  // CHECK-NEXT: spmd.wait
  // CHECK-NEXT: kerf.repeat
  spmd.func @ends() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    %s = spmd.all_reduce sum %x over [dp] : tensor<16x16xf32>
    %z = kerf.neg %x : tensor<16x16xf32>
    %r = kerf.repeat %i = 0 to 2 (%h = %z : tensor<16x16xf32>) {
      %n = kerf.neg %h : tensor<16x16xf32>
      kerf.yield %n : tensor<16x16xf32>
    }
    %m = kerf.mul %r, %s : tensor<16x16xf32>
    spmd.write %m to @g : tensor<16x16xf32>
    spmd.return
  }

  // What a collective reads stays as it is until it is done.
  // CHECK-LABEL: spmd.func @overwritten
  // CHECK: %[[R:.*]] = spmd.read @g
  // CHECK-NEXT: %[[S:.*]] = spmd.all_reduce sum %[[R]]
  // CHECK-NEXT: %[[A:.*]] = kerf.neg
  // CHECK-NEXT: %[[D:.*]] = spmd.wait %[[S]]
  // CHECK-NEXT: spmd.write %[[A]] to @g
  spmd.func @overwritten() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    %r = spmd.read @g : tensor<16x16xf32>
    %s = spmd.all_reduce sum %r over [dp] : tensor<16x16xf32>
    %a = kerf.neg %x : tensor<16x16xf32>
    spmd.write %a to @g : tensor<16x16xf32>
    %b = kerf.mul %s, %x : tensor<16x16xf32>
    spmd.write %b to @s : tensor<16x16xf32>
    spmd.return
  }

  // A result that is read at once needs no wait.
  // CHECK-LABEL: spmd.func @at_once
  // CHECK: spmd.all_reduce
  // CHECK-NOT: spmd.wait
  // CHECK: spmd.return
  spmd.func @at_once() {
    %x = kerf.constant dense<1.0> : tensor<f32>
    %s = spmd.all_reduce sum %x over [dp] : tensor<f32>
    %m = kerf.mul %s, %x : tensor<f32>
    spmd.write %m to @norm : tensor<f32>
    spmd.return
  }
}

// Of a sum over two groups the second part is smaller, and reads the first one: it comes before the next collective, and the first one has
// the computing before it. What is read at once stays.
// CHECK-LABEL: spmd.program @nested
spmd.program @nested over <dp = 2, cp = 2> micro_batches 2 slots 1 {
  spmd.buffer @g step : tensor<8x16xf32>
  spmd.buffer @s step : tensor<8x16xf32>
  // CHECK-LABEL: spmd.func @sums
  // CHECK: %[[X:.*]] = kerf.constant
  // CHECK-NEXT: %[[S:.*]] = spmd.reduce_scatter sum %[[X]] dim 0 over [cp]
  // CHECK-NEXT: %[[A:.*]] = kerf.mul
  // CHECK-NEXT: %[[D:.*]] = spmd.wait %[[S]] keeps %[[X]]
  // CHECK-NEXT: %[[T:.*]] = spmd.all_reduce sum %[[D]] over [dp]
  // CHECK-NEXT: %[[U:.*]] = spmd.reduce_scatter sum %[[A]] dim 0 over [cp]
  // CHECK-NEXT: spmd.accumulate %[[T]] into @g
  // CHECK-NEXT: %[[W:.*]] = spmd.wait %[[U]] keeps %[[A]]
  // CHECK-NEXT: %[[V:.*]] = spmd.all_reduce sum %[[W]] over [dp]
  // CHECK-NEXT: kerf.neg %[[V]]
  spmd.func @sums() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    %s = spmd.reduce_scatter sum %x dim 0 over [cp] : tensor<16x16xf32> -> tensor<8x16xf32>
    %t = spmd.all_reduce sum %s over [dp] : tensor<8x16xf32>
    spmd.accumulate %t into @g : tensor<8x16xf32>
    %a = kerf.mul %x, %x : tensor<16x16xf32>
    %u = spmd.reduce_scatter sum %a dim 0 over [cp] : tensor<16x16xf32> -> tensor<8x16xf32>
    %v = spmd.all_reduce sum %u over [dp] : tensor<8x16xf32>
    %b = kerf.neg %v : tensor<8x16xf32>
    spmd.write %b to @s : tensor<8x16xf32>
    spmd.return
  }
}

// A gather of what is there from the start, which comes at once after a sum, would end it: it is sent before the sum's operand is made.
// CHECK-LABEL: spmd.program @kept
spmd.program @kept over <tp = 2> micro_batches 2 slots 1 {
  spmd.param "w.{i}" [0 to 2] global tensor<16x16xf32> sharded [[], []] init <zeros> : tensor<16x16xf32>
  spmd.param "v" global tensor<16x16xf32> sharded [[], []] init <zeros> : tensor<16x16xf32>
  spmd.buffer @stack step : tensor<2x16x16xf32>
  spmd.buffer @saved step : tensor<2x8x16xf32>
  spmd.buffer @g step : tensor<16x16xf32>
  // CHECK-LABEL: spmd.func @backward
  // CHECK: kerf.repeat
  // CHECK-NEXT: %[[G:.*]] = spmd.all_gather %[[K:.*]] dim 0 over [tp]
  // CHECK-NEXT: %[[D:.*]] = kerf.mul
  // CHECK-NEXT: %[[X:.*]] = spmd.wait %[[G]] keeps %[[K]]
  // CHECK-NEXT: %[[S:.*]] = spmd.all_reduce sum %[[D]] over [tp]
  // CHECK-NEXT: %[[W:.*]] = kerf.mul %[[X]]
  // CHECK-NEXT: %[[E:.*]] = spmd.wait %[[S]] keeps %[[D]]
  // CHECK-NEXT: kerf.add %[[E]]
  spmd.func @backward() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    %saved = spmd.read @saved : tensor<2x8x16xf32>
    %y = kerf.repeat reverse %i = 0 to 2 (%d = %x : tensor<16x16xf32>) slices(%k = %saved : tensor<2x8x16xf32>) {
      %a = kerf.mul %d, %d : tensor<16x16xf32>
      %s = spmd.all_reduce sum %a over [tp] : tensor<16x16xf32>
      %g = spmd.all_gather %k dim 0 over [tp] : tensor<8x16xf32> -> tensor<16x16xf32>
      %w = kerf.mul %g, %d : tensor<16x16xf32>
      %e = kerf.add %s, %w : tensor<16x16xf32>
      kerf.yield %e : tensor<16x16xf32>
    }
    spmd.write %y to @g : tensor<16x16xf32>
    spmd.return
  }

  // Where something is computed in between, the sum has that beside it, and the gather stays.
  // CHECK-LABEL: spmd.func @between
  // CHECK: kerf.repeat
  // CHECK-NEXT: kerf.mul
  // CHECK-NEXT: spmd.all_reduce
  spmd.func @between() {
    %x = kerf.constant dense<1.0> : tensor<16x16xf32>
    %saved = spmd.read @saved : tensor<2x8x16xf32>
    %y = kerf.repeat reverse %i = 0 to 2 (%d = %x : tensor<16x16xf32>) slices(%k = %saved : tensor<2x8x16xf32>) {
      %a = kerf.mul %d, %d : tensor<16x16xf32>
      %s = spmd.all_reduce sum %a over [tp] : tensor<16x16xf32>
      %n = kerf.neg %d : tensor<16x16xf32>
      %g = spmd.all_gather %k dim 0 over [tp] : tensor<8x16xf32> -> tensor<16x16xf32>
      %w = kerf.mul %g, %n : tensor<16x16xf32>
      %e = kerf.add %s, %w : tensor<16x16xf32>
      kerf.yield %e : tensor<16x16xf32>
    }
    spmd.write %y to @g : tensor<16x16xf32>
    spmd.return
  }

  // An update by layers becomes a loop: what starts before it is waited for before it.
  // CHECK-LABEL: spmd.func @updates
  // CHECK: %[[S:.*]] = spmd.all_reduce sum %[[G:.*]] over [tp]
  // CHECK-NEXT: kerf.neg
  // CHECK-NEXT: spmd.write
  // CHECK-NEXT: %[[W:.*]] = spmd.wait %[[S]] keeps %[[G]]
  // CHECK-NEXT: kerf.update "w.{i}"[0 to 2] rule #kerf.muon
  // CHECK: kerf.update "v" {{.*}} by %[[W]]
  spmd.func @updates() {
    %rate = kerf.constant dense<1.0> : tensor<f32>
    %step = kerf.constant dense<1> : tensor<i32>
    %stack = spmd.read @stack : tensor<2x16x16xf32>
    %g = kerf.constant dense<1.0> : tensor<16x16xf32>
    %s = spmd.all_reduce sum %g over [tp] : tensor<16x16xf32>
    %n = kerf.neg %g : tensor<16x16xf32>
    spmd.write %n to @g : tensor<16x16xf32>
    kerf.update "w.{i}"[0 to 2] rule #kerf.muon<> by %stack rate %rate step %step : tensor<2x16x16xf32>
    kerf.update "v" rule #kerf.sgd<> by %s rate %rate step %step : tensor<16x16xf32>
    spmd.return
  }
}
