// RUN: kerf-opt --kerf-split-repeat=at=2 --split-input-file %s | FileCheck %s
// RUN: kerf-opt --kerf-split-repeat=at=7 %S/Inputs/decoder.mlir | FileCheck %s --check-prefix=WHOLE
// RUN: kerf-opt --kerf-split-repeat %S/Inputs/decoder.mlir | FileCheck %s --check-prefix=WHOLE

// A training step computes the same wherever it is cut.
// RUN: kerf-opt --kerf-differentiate %S/Inputs/decoder.mlir -o %t.step.mlir
// RUN: kerf-inspect interpret %t.step.mlir --steps=4 --compute=f64 > %t.whole
// RUN: kerf-opt --kerf-split-repeat=at=1,3 --kerf-verify-differentiated %t.step.mlir -o %t.parts.mlir
// RUN: kerf-inspect interpret %t.parts.mlir --steps=4 --compute=f64 | diff %t.whole -
// RUN: FileCheck %s --check-prefix=PARTS < %t.parts.mlir
// RUN: kerf-opt --kerf-split-repeat=at=3,2,1 --kerf-verify-differentiated %t.step.mlir \
// RUN:   | kerf-inspect interpret - --steps=4 --compute=f64 | diff %t.whole -
// RUN: kerf-opt --kerf-split-repeat=at=1,3 --kerf-differentiate %S/Inputs/decoder.mlir \
// RUN:   | kerf-inspect interpret - --steps=4 --compute=f64 | diff %t.whole -

// Stacks go from half to half without being joined; the pairs stay pairs.
// PARTS: kerf.repeat %{{.*}} = 0 to 1 {{.*}} pair [[P0:[0-9]+]]
// PARTS: kerf.repeat %{{.*}} = 1 to 3 {{.*}} pair [[P1:[0-9]+]]
// PARTS: kerf.repeat %{{.*}} = 3 to 4 {{.*}} pair [[P2:[0-9]+]]
// PARTS: kerf.repeat reverse %{{.*}} = 3 to 4 {{.*}} pair [[P2]]
// PARTS: kerf.repeat reverse %{{.*}} = 1 to 3 {{.*}} pair [[P1]]
// PARTS: kerf.repeat reverse %{{.*}} = 0 to 1 {{.*}} pair [[P0]]
// PARTS: kerf.update "h.{i}.q"[0 to 1]
// PARTS: kerf.update "h.{i}.q"[1 to 3]
// PARTS: kerf.update "h.{i}.q"[3 to 4]

// An iteration that no repeat has, or none at all, splits nothing.
// WHOLE: kerf.repeat %{{.*}} = 0 to 4
// WHOLE-NOT: kerf.repeat

// Slices are cut, carried values go on, stacked results are joined for their readers.

// CHECK-LABEL: kerf.model @forward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2xf32>, %[[YS:[a-z0-9]+]]: tensor<3x2xf32>
// CHECK: %[[LOW:.*]] = kerf.slice %[[YS]] offsets [0, 0] sizes [1, 2]
// CHECK: %[[A:.*]]:2 = kerf.repeat %{{.*}} = 1 to 2 (%{{.*}} = %[[X]] : tensor<2xf32>) slices(%{{.*}} = %[[LOW]] : tensor<1x2xf32>)
// CHECK: %[[HIGH:.*]] = kerf.slice %[[YS]] offsets [1, 0] sizes [2, 2]
// CHECK: %[[B:.*]]:2 = kerf.repeat %{{.*}} = 2 to 4 (%{{.*}} = %[[A]]#0 : tensor<2xf32>) slices(%{{.*}} = %[[HIGH]] : tensor<2x2xf32>)
// CHECK: %[[ALL:.*]] = kerf.concat dim 0 %[[A]]#1, %[[B]]#1
// CHECK: kerf.return %{{.*}}, %[[ALL]]
kerf.model @forward(%x: tensor<2xf32>, %ys: tensor<3x2xf32>) {
  %last, %all = kerf.repeat %i = 1 to 4 (%h = %x : tensor<2xf32>) slices(%y = %ys : tensor<3x2xf32>) {
    %n = kerf.mul %h, %y : tensor<2xf32>
    kerf.yield %n stack(%n) : tensor<2xf32>, tensor<2xf32>
  }
  %s = kerf.reduce sum %last dims [0] : tensor<2xf32>
  kerf.return %s, %all : tensor<f32>, tensor<3x2xf32>
}

// -----

// A reverse repeat runs its upper half first.

// CHECK-LABEL: kerf.model @reverse
// CHECK: %[[A:.*]]:2 = kerf.repeat reverse %{{.*}} = 2 to 4 (%{{.*}} = %{{.*}} : tensor<2xf32>)
// CHECK: %[[B:.*]]:2 = kerf.repeat reverse %{{.*}} = 1 to 2 (%{{.*}} = %[[A]]#0 : tensor<2xf32>)
// CHECK: kerf.concat dim 0 %[[B]]#1, %[[A]]#1
kerf.model @reverse(%x: tensor<2xf32>) {
  %last, %all = kerf.repeat reverse %i = 1 to 4 (%h = %x : tensor<2xf32>) {
    %n = kerf.exp %h : tensor<2xf32>
    kerf.yield %n stack(%n) : tensor<2xf32>, tensor<2xf32>
  }
  %s = kerf.reduce sum %last dims [0] : tensor<2xf32>
  kerf.return %s, %all : tensor<f32>, tensor<3x2xf32>
}

// -----

// The first iteration of a repeat is no place to cut.

// CHECK-LABEL: kerf.model @at_its_start
// CHECK: kerf.repeat %{{.*}} = 2 to 4
// CHECK-NOT: kerf.repeat
kerf.model @at_its_start(%x: tensor<f32>) {
  %last = kerf.repeat %i = 2 to 4 (%h = %x : tensor<f32>) {
    %n = kerf.exp %h : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  kerf.return %last : tensor<f32>
}

// -----

// CHECK-LABEL: kerf.model @no_repeat
// CHECK-NEXT: kerf.exp
// CHECK-NEXT: kerf.return
kerf.model @no_repeat(%x: tensor<f32>) {
  %y = kerf.exp %x : tensor<f32>
  kerf.return %y : tensor<f32>
}
