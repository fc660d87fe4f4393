// RUN: kerf-opt --kerf-differentiate --kerf-recompute-views --kerf-verify-differentiated --split-input-file %s | FileCheck %s

// Three slices of one tensor are saved as that tensor: as many bytes, one stack.

// CHECK-LABEL: kerf.model @parts
// CHECK: kerf.repeat
// CHECK: %[[U:.*]] = kerf.linear
// CHECK: kerf.yield %{{.*}} stack(%[[U]], %{{.*}}) {{.*}} : tensor<2x4xf32>, tensor<2x12xf32>, tensor<2x4xf32>
// CHECK: kerf.repeat reverse {{.*}} slices(%[[S:.*]] = %{{.*}} : tensor<3x2x12xf32>, %{{.*}} : tensor<3x2x4xf32>)
// CHECK-DAG: kerf.slice %[[S]] offsets [0, 0] sizes [2, 4] {kerf.phase = #kerf.phase<input_gradient 4>, kerf.recomputed}
// CHECK-DAG: kerf.slice %[[S]] offsets [0, 4] sizes [2, 4] {{.*}}kerf.recomputed
// CHECK-DAG: kerf.slice %[[S]] offsets [0, 8] sizes [2, 4] {{.*}}kerf.recomputed
kerf.model @parts() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x4xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x4xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<12x4xf32>
    %u = kerf.linear %h, %w : tensor<2x4xf32>, tensor<12x4xf32>
    %a = kerf.slice %u offsets [0, 0] sizes [2, 4] : tensor<2x12xf32>
    %b = kerf.slice %u offsets [0, 4] sizes [2, 4] : tensor<2x12xf32>
    %c = kerf.slice %u offsets [0, 8] sizes [2, 4] : tensor<2x12xf32>
    %ab = kerf.mul %a, %b : tensor<2x4xf32>
    %s = kerf.sin %c : tensor<2x4xf32>
    %n = kerf.add %ab, %s : tensor<2x4xf32>
    kerf.yield %n : tensor<2x4xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// One slice of a larger tensor is smaller than it and stays saved.

// CHECK-LABEL: kerf.model @small_part
// CHECK: %[[A:.*]] = kerf.slice
// CHECK: kerf.yield %{{.*}} stack(%[[A]], %{{.*}}) {{.*}} : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
// CHECK-NOT: kerf.recomputed
kerf.model @small_part() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x4xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x4xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<12x4xf32>
    %u = kerf.linear %h, %w : tensor<2x4xf32>, tensor<12x4xf32>
    %a = kerf.slice %u offsets [0, 4] sizes [2, 4] : tensor<2x12xf32>
    %n = kerf.sin %a : tensor<2x4xf32>
    kerf.yield %n : tensor<2x4xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Views of the carried value and of a parameter take no stack of their own, through
// chains of views.

// CHECK-LABEL: kerf.model @bases
// CHECK: kerf.repeat %{{.*}} (%[[H:.*]] = %{{.*}}) pair
// CHECK: %[[E:.*]] = kerf.exp
// CHECK: kerf.yield %{{.*}} stack(%[[E]], %[[H]])
// CHECK: kerf.repeat reverse {{.*}} slices(%[[SE:.*]] = %{{.*}} : tensor<3x8xf32>, %[[SH:.*]] = %{{.*}} : tensor<3x2x4xf32>)
// CHECK-DAG: %[[W:.*]] = kerf.param "h.{i}.w"
// CHECK-DAG: %[[B:.*]] = kerf.broadcast %[[W]] dims [1] {{.*}}kerf.recomputed
// CHECK-DAG: kerf.reshape %[[B]] {{.*}}kerf.recomputed{{.*}} -> tensor<8xf32>
// CHECK-DAG: kerf.reshape %[[SH]] {{.*}}kerf.recomputed{{.*}} -> tensor<8xf32>
kerf.model @bases() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x4xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x4xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<4xf32>
    %b = kerf.broadcast %w dims [1] : tensor<4xf32> -> tensor<2x4xf32>
    %b1 = kerf.reshape %b : tensor<2x4xf32> -> tensor<8xf32>
    %h1 = kerf.reshape %h : tensor<2x4xf32> -> tensor<8xf32>
    %p = kerf.mul %h1, %b1 : tensor<8xf32>
    %p2 = kerf.reshape %p : tensor<8xf32> -> tensor<2x4xf32>
    %p1 = kerf.reshape %p2 : tensor<2x4xf32> -> tensor<8xf32>
    %e = kerf.exp %p1 : tensor<8xf32>
    %e2 = kerf.reshape %e : tensor<8xf32> -> tensor<2x4xf32>
    %n = kerf.mul %h, %e2 : tensor<2x4xf32>
    kerf.yield %n : tensor<2x4xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Stacks of one value are merged, unread ones dropped, with the op that only one needs.

// CHECK-LABEL: kerf.model @stacks
// CHECK: kerf.repeat %
// CHECK: %[[N:.*]] = kerf.sin
// CHECK-NOT: kerf.cos
// CHECK: kerf.yield %[[N]] stack(%[[N]]) {{.*}} : tensor<4xf32>, tensor<4xf32>
// CHECK: kerf.mul %[[ALL:.*]]#1, %[[ALL]]#1 {{.*}} : tensor<3x4xf32>
kerf.model @stacks() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<4xf32>
  %f = kerf.param "f" init<normal, 0.5> frozen : tensor<4xf32>
  %z, %zs, %again, %unread = kerf.repeat %i = 0 to 3 (%h = %f : tensor<4xf32>) {
    %n = kerf.sin %h : tensor<4xf32>
    %o = kerf.cos %h : tensor<4xf32>
    kerf.yield %n stack(%n, %n, %o) : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  %m = kerf.mul %zs, %again : tensor<3x4xf32>
  %r = kerf.reduce sum %m dims [0] : tensor<3x4xf32>
  %y = kerf.mul %x, %r : tensor<4xf32>
  %loss = kerf.reduce sum %y dims [0] : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}
