// RUN: kerf-opt %s --kerf-fuse-epilogues | FileCheck %s
// RUN: kerf-opt %s --kerf-fuse-epilogues=gelu=false | FileCheck %s --check-prefix=PLAIN
// RUN: kerf-opt %s --kerf-fuse-epilogues --kerf-outline-kernels --kerf-fuse-groups --kerf-verify-fused | FileCheck %s --check-prefix=REST
// RUN: kerf-opt %s "--kerf-fuse-epilogues=gelu=false sums=false wide-scales=true" | FileCheck %s --check-prefix=SCALES

// A gelu joins its matmul; what the matmul makes is kept for the backward pass.
// CHECK-LABEL: spmd.program @gelu_aux
// PLAIN-LABEL: spmd.program @gelu_aux
spmd.program @gelu_aux over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<2x4x8xbf16> sharded [[], [], []] : tensor<2x4x8xbf16>
  spmd.input @w global tensor<8x16xbf16> sharded [[], []] : tensor<8x16xbf16>
  spmd.input @b global tensor<16xbf16> sharded [[]] : tensor<16xbf16>
  spmd.input @v global tensor<8x16xbf16> sharded [[], []] : tensor<8x16xbf16>
  spmd.output @loss last : tensor<bf16>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<2x4x8xbf16>
    %w = spmd.read @w : tensor<8x16xbf16>
    %b = spmd.read @b : tensor<16xbf16>
    %v = spmd.read @v : tensor<8x16xbf16>
    // CHECK: %[[P:.*]]:2 = spmd.fused_matmul (%[[X:.*]] = %{{.*}} : tensor<2x4x8xbf16>, %[[W:.*]] = %{{.*}} : tensor<8x16xbf16>, %[[B:.*]] = %{{.*}} : tensor<16xbf16>) -> (tensor<2x4x16xbf16>, tensor<2x4x16xbf16>) attributes {spmd.kind = "linear+gelu"}
    // CHECK-NEXT: %[[H:.*]] = kerf.linear %[[X]], %[[W]] bias %[[B]] transposed
    // CHECK-NEXT: %[[G:.*]] = kerf.gelu tanh %[[H]]
    // CHECK-NEXT: spmd.yield %[[G]], %[[H]]
    // CHECK: kerf.linear %[[P]]#0, %{{.*}}
    // CHECK: kerf.linear %[[P]]#1, %{{.*}}
    // PLAIN-NOT: spmd.fused_matmul
    // PLAIN: kerf.gelu
    %h = kerf.linear %x, %w bias %b transposed : tensor<2x4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>
    %g = kerf.gelu tanh %h : tensor<2x4x16xbf16>
    %y = kerf.linear %g, %v : tensor<2x4x16xbf16>, tensor<8x16xbf16>
    %z = kerf.linear %h, %v : tensor<2x4x16xbf16>, tensor<8x16xbf16>
    %s = kerf.add %y, %z : tensor<2x4x8xbf16>
    %loss = kerf.reduce sum %s dims [0, 1, 2] : tensor<2x4x8xbf16>
    spmd.write %loss to @loss : tensor<bf16>
    spmd.return
  }
}

// What nobody else reads is not written; any number of columns will do then.
// CHECK-LABEL: spmd.program @gelu
spmd.program @gelu over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.input @w global tensor<7x8xf32> sharded [[], []] : tensor<7x8xf32>
  spmd.input @v global tensor<8x7xf32> sharded [[], []] : tensor<8x7xf32>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %w = spmd.read @w : tensor<7x8xf32>
    %v = spmd.read @v : tensor<8x7xf32>
    // CHECK: spmd.fused_matmul ({{.*}}) -> (tensor<4x7xf32>) attributes
    // CHECK: spmd.yield %{{.*}} : tensor<4x7xf32>
    %h = kerf.linear %x, %w : tensor<4x8xf32>, tensor<7x8xf32>
    %g = kerf.gelu tanh %h : tensor<4x7xf32>
    %y = kerf.linear %g, %v : tensor<4x7xf32>, tensor<8x7xf32>
    %loss = kerf.reduce sum %y dims [0, 1] : tensor<4x8xf32>
    spmd.write %loss to @loss : tensor<f32>
    spmd.return
  }
}

// The exact form, a gelu that a kernel reads, one of rows that are no blocks of
// eight and kept, a matmul of two types, and one of a batch stay.
// CHECK-LABEL: spmd.program @gelu_stays
spmd.program @gelu_stays over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.input @w global tensor<8x8xf32> sharded [[], []] : tensor<8x8xf32>
  spmd.input @u global tensor<7x8xf32> sharded [[], []] : tensor<7x8xf32>
  spmd.input @s global tensor<4x8xbf16> sharded [[], []] : tensor<4x8xbf16>
  spmd.input @t global tensor<2x4x8xf32> sharded [[], [], []] : tensor<2x4x8xf32>
  spmd.input @r global tensor<2x8x8xf32> sharded [[], [], []] : tensor<2x8x8xf32>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %w = spmd.read @w : tensor<8x8xf32>
    %u = spmd.read @u : tensor<7x8xf32>
    %s = spmd.read @s : tensor<4x8xbf16>
    %t = spmd.read @t : tensor<2x4x8xf32>
    %r = spmd.read @r : tensor<2x8x8xf32>
    // CHECK-NOT: spmd.fused_matmul
    // CHECK: spmd.return
    %h0 = kerf.linear %x, %w : tensor<4x8xf32>, tensor<8x8xf32>
    %g0 = kerf.gelu exact %h0 : tensor<4x8xf32>
    %y0 = kerf.linear %g0, %w : tensor<4x8xf32>, tensor<8x8xf32>
    %h1 = kerf.linear %y0, %w : tensor<4x8xf32>, tensor<8x8xf32>
    %g1 = kerf.gelu tanh %h1 : tensor<4x8xf32>
    %y1 = kerf.mul %g1, %x : tensor<4x8xf32>
    %h2 = kerf.linear %y1, %u : tensor<4x8xf32>, tensor<7x8xf32>
    %g2 = kerf.gelu tanh %h2 : tensor<4x7xf32>
    %y2 = kerf.einsum "sn,kn->sk" %g2, %h2 : tensor<4x7xf32>, tensor<4x7xf32> -> tensor<4x4xf32>
    %h3 = kerf.einsum "sk,tk->st" %s, %s : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x4xf32>
    %g3 = kerf.gelu tanh %h3 : tensor<4x4xf32>
    %y3 = kerf.einsum "st,tu->su" %g3, %y2 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %h4 = kerf.matmul %t, %r : tensor<2x4x8xf32>, tensor<2x8x8xf32>
    %g4 = kerf.gelu tanh %h4 : tensor<2x4x8xf32>
    %y4 = kerf.matmul %g4, %r : tensor<2x4x8xf32>, tensor<2x8x8xf32>
    %a = kerf.reduce sum %y3 dims [0, 1] : tensor<4x4xf32>
    %b = kerf.reduce sum %y4 dims [0, 1, 2] : tensor<2x4x8xf32>
    %loss = kerf.add %a, %b : tensor<f32>
    spmd.write %loss to @loss : tensor<f32>
    spmd.return
  }
}

// Backward in bf16: the gradient of gelu joins the matmul that makes dy; the
// sum of its rows is f32 and joins the gradient of the weight, which reads them.
// CHECK-LABEL: spmd.program @backward
// PLAIN-LABEL: spmd.program @backward
// REST-LABEL: spmd.program @backward
spmd.program @backward over <> micro_batches 1 slots 1 {
  spmd.input @dy global tensor<2x4x8xbf16> sharded [[], [], []] : tensor<2x4x8xbf16>
  spmd.input @v global tensor<16x8xbf16> sharded [[], []] : tensor<16x8xbf16>
  spmd.input @h global tensor<2x4x16xbf16> sharded [[], [], []] : tensor<2x4x16xbf16>
  spmd.input @x global tensor<2x4x24xbf16> sharded [[], [], []] : tensor<2x4x24xbf16>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %dy = spmd.read @dy : tensor<2x4x8xbf16>
    %v = spmd.read @v : tensor<16x8xbf16>
    %h = spmd.read @h : tensor<2x4x16xbf16>
    %x = spmd.read @x : tensor<2x4x24xbf16>
    // CHECK: %[[D:.*]] = spmd.fused_matmul (%[[DY:.*]] = %{{.*}} : tensor<2x4x8xbf16>, %[[V:.*]] = %{{.*}} : tensor<16x8xbf16>, %[[H:.*]] = %{{.*}} : tensor<2x4x16xbf16>) -> (tensor<2x4x16xbf16>) attributes {kerf.phase = #kerf.phase<input_gradient 3>, spmd.kind = "einsum+gelu_backward"}
    // CHECK-NEXT: %[[P:.*]] = kerf.einsum "bsn,kn->bsk" %[[DY]], %[[V]]
    // CHECK-NEXT: kerf.gelu_backward tanh %[[H]], %[[P]]
    // CHECK: %[[W:.*]]:2 = spmd.fused_matmul (%[[R:.*]] = %[[D]] : tensor<2x4x16xbf16>, %{{.*}} = %{{.*}} : tensor<2x4x24xbf16>) -> (tensor<24x16xf32>, tensor<16xf32>) attributes {kerf.phase = #kerf.phase<weight_gradient 2>, spmd.kind = "einsum+cast+reduce"}
    // CHECK: kerf.cast %[[R]]
    // CHECK: kerf.reduce sum
    // CHECK: %[[DB:.*]] = kerf.reduce sum %[[W]]#1 dims [0]
    // Without gelu its gradient is a kernel, which makes the rows: it sums them.
    // PLAIN-NOT: spmd.fused_matmul
    // PLAIN: spmd.return
    // No kernel is left but those that add up.
    // REST-NOT: gelu_backward+
    // REST: spmd.return
    %p = kerf.einsum "bsn,kn->bsk" %dy, %v {kerf.phase = #kerf.phase<input_gradient 3>} : tensor<2x4x8xbf16>, tensor<16x8xbf16> -> tensor<2x4x16xbf16>
    %dh = kerf.gelu_backward tanh %h, %p {kerf.phase = #kerf.phase<input_gradient 2>} : tensor<2x4x16xbf16>
    %dw = kerf.einsum "bsn,bsk->kn" %dh, %x {kerf.phase = #kerf.phase<weight_gradient 2>} : tensor<2x4x16xbf16>, tensor<2x4x24xbf16> -> tensor<24x16xf32>
    %c = kerf.cast %dh {kerf.phase = #kerf.phase<weight_gradient 2>} : tensor<2x4x16xbf16> -> tensor<2x4x16xf32>
    %db = kerf.reduce sum %c dims [0, 1] {kerf.phase = #kerf.phase<weight_gradient 2>} : tensor<2x4x16xf32>
    %a = kerf.reduce sum %db dims [0] : tensor<16xf32>
    %b = kerf.reduce sum %dw dims [0, 1] : tensor<24x16xf32>
    %loss = kerf.add %a, %b : tensor<f32>
    spmd.write %loss to @loss : tensor<f32>
    spmd.return
  }
}

// Backward in f32: one matmul makes the gradient and the sum of its rows.
// CHECK-LABEL: spmd.program @backward_f32
spmd.program @backward_f32 over <> micro_batches 1 slots 1 {
  spmd.input @dy global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.input @v global tensor<16x8xf32> sharded [[], []] : tensor<16x8xf32>
  spmd.input @h global tensor<4x16xf32> sharded [[], []] : tensor<4x16xf32>
  spmd.input @x global tensor<4x24xf32> sharded [[], []] : tensor<4x24xf32>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %dy = spmd.read @dy : tensor<4x8xf32>
    %v = spmd.read @v : tensor<16x8xf32>
    %h = spmd.read @h : tensor<4x16xf32>
    %x = spmd.read @x : tensor<4x24xf32>
    // CHECK: %[[D:.*]]:2 = spmd.fused_matmul ({{.*}}) -> (tensor<4x16xf32>, tensor<16xf32>) attributes {spmd.kind = "einsum+gelu_backward+reduce"}
    // CHECK: kerf.einsum "sn,sk->nk" %[[D]]#0, %{{.*}}
    %p = kerf.einsum "sn,kn->sk" %dy, %v : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
    %dh = kerf.gelu_backward tanh %h, %p : tensor<4x16xf32>
    %dw = kerf.einsum "sn,sk->nk" %dh, %x : tensor<4x16xf32>, tensor<4x24xf32> -> tensor<16x24xf32>
    %db = kerf.reduce sum %dh dims [0] : tensor<4x16xf32>
    %a = kerf.reduce sum %db dims [0] : tensor<16xf32>
    %b = kerf.reduce sum %dw dims [0, 1] : tensor<16x24xf32>
    %loss = kerf.add %a, %b : tensor<f32>
    spmd.write %loss to @loss : tensor<f32>
    spmd.return
  }
}

// A gradient of gelu whose matmul others read as well, and one that another
// kernel reads, stay.
// CHECK-LABEL: spmd.program @backward_stays
spmd.program @backward_stays over <> micro_batches 1 slots 1 {
  spmd.input @dy global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.input @v global tensor<16x8xf32> sharded [[], []] : tensor<16x8xf32>
  spmd.input @h global tensor<4x16xf32> sharded [[], []] : tensor<4x16xf32>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %dy = spmd.read @dy : tensor<4x8xf32>
    %v = spmd.read @v : tensor<16x8xf32>
    %h = spmd.read @h : tensor<4x16xf32>
    // CHECK-NOT: spmd.fused_matmul
    // CHECK: spmd.return
    %p = kerf.einsum "sn,kn->sk" %dy, %v : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
    %dh = kerf.gelu_backward tanh %h, %p : tensor<4x16xf32>
    %y = kerf.einsum "sn,tn->st" %dh, %p : tensor<4x16xf32>, tensor<4x16xf32> -> tensor<4x4xf32>
    %q = kerf.einsum "st,tn->sn" %y, %h : tensor<4x4xf32>, tensor<4x16xf32> -> tensor<4x16xf32>
    %dq = kerf.gelu_backward tanh %h, %q : tensor<4x16xf32>
    %e = kerf.exp %dq : tensor<4x16xf32>
    %loss = kerf.reduce sum %e dims [0, 1] : tensor<4x16xf32>
    spmd.write %loss to @loss : tensor<f32>
    spmd.return
  }
}

// The gradient of a bias whose rows no kernel makes: the matmul that makes the
// gradient of the weight adds them up, from either factor.
// CHECK-LABEL: spmd.program @bias
spmd.program @bias over <> micro_batches 1 slots 1 {
  spmd.input @dy global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.input @x global tensor<4x24xf32> sharded [[], []] : tensor<4x24xf32>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %dy = spmd.read @dy : tensor<4x8xf32>
    %x = spmd.read @x : tensor<4x24xf32>
    // CHECK: %[[P:.*]]:2 = spmd.fused_matmul ({{.*}}) -> (tensor<24x8xf32>, tensor<8xf32>) attributes {spmd.kind = "einsum+reduce"}
    // CHECK: %[[Q:.*]]:2 = spmd.fused_matmul (%{{.*}} = %{{.*}} : tensor<4x24xf32>, %{{.*}} = %{{.*}} : tensor<4x8xf32>) -> (tensor<24x8xf32>, tensor<24xf32>)
    %dw = kerf.einsum "sn,sk->kn" %dy, %x : tensor<4x8xf32>, tensor<4x24xf32> -> tensor<24x8xf32>
    %db = kerf.reduce sum %dy dims [0] : tensor<4x8xf32>
    %dv = kerf.einsum "sk,sn->kn" %x, %dy : tensor<4x24xf32>, tensor<4x8xf32> -> tensor<24x8xf32>
    %dc = kerf.reduce sum %x dims [0] : tensor<4x24xf32>
    %t = kerf.add %dw, %dv : tensor<24x8xf32>
    %a = kerf.reduce sum %t dims [0, 1] : tensor<24x8xf32>
    %b = kerf.reduce sum %db dims [0] : tensor<8xf32>
    %c = kerf.reduce sum %dc dims [0] : tensor<24xf32>
    %d = kerf.add %b, %c : tensor<f32>
    %loss = kerf.add %a, %d : tensor<f32>
    spmd.write %loss to @loss : tensor<f32>
    spmd.return
  }
}

// Sums that a kernel has at hand (it makes the rows, or reads them), sums that
// are needed before the matmul, sums of another type, sums over other
// dimensions, and matmuls that add up over columns stay as they are.
// CHECK-LABEL: spmd.program @bias_stays
spmd.program @bias_stays over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.input @y global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.input @z global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.input @w global tensor<8x8xf32> sharded [[], []] : tensor<8x8xf32>
  spmd.input @s global tensor<4x8xbf16> sharded [[], []] : tensor<4x8xbf16>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %y = spmd.read @y : tensor<4x8xf32>
    %z = spmd.read @z : tensor<4x8xf32>
    %w = spmd.read @w : tensor<8x8xf32>
    %s = spmd.read @s : tensor<4x8xbf16>
    // CHECK-NOT: spmd.fused_matmul
    // CHECK: spmd.return
    %made = kerf.exp %x : tensor<4x8xf32>
    %d0 = kerf.einsum "sn,sk->kn" %made, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
    %b0 = kerf.reduce sum %made dims [0] : tensor<4x8xf32>
    %d1 = kerf.einsum "sn,sk->kn" %x, %made : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
    %b1 = kerf.reduce sum %x dims [0] : tensor<4x8xf32>
    %b2 = kerf.reduce sum %y dims [0] : tensor<4x8xf32>
    %n = kerf.einsum "n,nk->k" %b2, %w : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
    %d2 = kerf.einsum "sn,sk->kn" %y, %made : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
    %d3 = kerf.einsum "sn,sk->kn" %s, %s : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<8x8xf32>
    %b3 = kerf.reduce sum %s dims [0] : tensor<4x8xbf16>
    %d4 = kerf.einsum "sn,nk->sk" %z, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %b4 = kerf.reduce sum %z dims [0] : tensor<4x8xf32>
    %b5 = kerf.reduce sum %z dims [1] : tensor<4x8xf32>
    %loss = kerf.reduce sum %n dims [0] : tensor<8xf32>
    spmd.write %loss to @loss : tensor<f32>
    spmd.return
  }
}

// Gelu of matmuls of 8-bit floats and a sum of rows that the library
// would see as parts of longer ones stay.
// CHECK-LABEL: spmd.program @other_rows
spmd.program @other_rows over <> micro_batches 1 slots 1 {
  spmd.input @q global tensor<16x16xf8E4M3FN> sharded [[], []] : tensor<16x16xf8E4M3FN>
  spmd.input @dy global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.input @v global tensor<2x8x8xf32> sharded [[], [], []] : tensor<2x8x8xf32>
  spmd.input @h global tensor<4x2x8xf32> sharded [[], [], []] : tensor<4x2x8xf32>
  spmd.output @y last : tensor<16x16xf32>
  spmd.output @z last : tensor<4x2x8xf32>
  spmd.output @s last : tensor<8xf32>
  spmd.func @forward() {
    %q = spmd.read @q : tensor<16x16xf8E4M3FN>
    %dy = spmd.read @dy : tensor<4x8xf32>
    %v = spmd.read @v : tensor<2x8x8xf32>
    %h = spmd.read @h : tensor<4x2x8xf32>
    // CHECK-NOT: spmd.fused_matmul
    // CHECK: spmd.return
    %e = kerf.einsum "mk,nk->mn" %q, %q : tensor<16x16xf8E4M3FN>, tensor<16x16xf8E4M3FN> -> tensor<16x16xf32>
    %g = kerf.gelu tanh %e : tensor<16x16xf32>
    %p = kerf.einsum "bd,hkd->bhk" %dy, %v : tensor<4x8xf32>, tensor<2x8x8xf32> -> tensor<4x2x8xf32>
    %dh = kerf.gelu_backward tanh %h, %p : tensor<4x2x8xf32>
    %s = kerf.reduce sum %dh dims [0, 1] : tensor<4x2x8xf32>
    spmd.write %g to @y : tensor<16x16xf32>
    spmd.write %dh to @z : tensor<4x2x8xf32>
    spmd.write %s to @s : tensor<8xf32>
    spmd.return
  }
}

// Units of 8-bit floats join the matmul that they scale, in the type of the
// result, also the largest of several ranks; a scalar that others read is made
// for them, too.
// CHECK-LABEL: spmd.program @scale
// REST-LABEL: spmd.program @scale
spmd.program @scale over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<16x32xbf16> sharded [[], []] : tensor<16x32xbf16>
  spmd.input @a global tensor<16x32xf8E4M3FN> sharded [[], []] : tensor<16x32xf8E4M3FN>
  spmd.input @b global tensor<48x32xf8E5M2> sharded [[], []] : tensor<48x32xf8E5M2>
  spmd.output @y last : tensor<16x48xbf16>
  spmd.output @z last : tensor<16x48xf32>
  spmd.output @uv last : tensor<bf16>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<16x32xbf16>
    %a = spmd.read @a : tensor<16x32xf8E4M3FN>
    %b = spmd.read @b : tensor<48x32xf8E5M2>
    // CHECK: %[[U:.*]] = kerf.unit
    // CHECK: %[[V:.*]] = spmd.all_reduce max
    %u = kerf.unit %x of f8E4M3FN : tensor<16x32xbf16>
    %part = kerf.unit %x of f8E5M2 : tensor<16x32xbf16>
    %v = spmd.all_reduce max %part over [tp] : tensor<f32>
    // CHECK: %[[Y:.*]] = spmd.fused_matmul (%[[A:.*]] = %{{.*}} : tensor<16x32xf8E4M3FN>, %[[B:.*]] = %{{.*}} : tensor<48x32xf8E5M2>, %[[C:.*]] = %[[U]] : tensor<f32>, %[[D:.*]] = %[[V]] : tensor<f32>) -> (tensor<16x48xbf16>) attributes {spmd.kind = "einsum+cast+cast+mul+broadcast+mul"}
    // CHECK-NEXT: %[[P:.*]] = kerf.einsum "mk,nk->mn" %[[A]], %[[B]]
    // CHECK-NEXT: %[[E:.*]] = kerf.cast %[[C]] : tensor<f32> -> tensor<bf16>
    // CHECK-NEXT: %[[F:.*]] = kerf.cast %[[D]] : tensor<f32> -> tensor<bf16>
    // CHECK-NEXT: %[[UV:.*]] = kerf.mul %[[E]], %[[F]]
    // CHECK-NEXT: %[[W:.*]] = kerf.broadcast %[[UV]] dims []
    // CHECK-NEXT: %[[R:.*]] = kerf.mul %[[P]], %[[W]]
    // CHECK-NEXT: spmd.yield %[[R]]
    // CHECK: spmd.write %[[Y]] to @y
    %p = kerf.einsum "mk,nk->mn" %a, %b : tensor<16x32xf8E4M3FN>, tensor<48x32xf8E5M2> -> tensor<16x48xbf16>
    %cu = kerf.cast %u : tensor<f32> -> tensor<bf16>
    %cv = kerf.cast %v : tensor<f32> -> tensor<bf16>
    %uv = kerf.mul %cu, %cv : tensor<bf16>
    %f = kerf.broadcast %uv dims [] : tensor<bf16> -> tensor<16x48xbf16>
    %y = kerf.mul %p, %f : tensor<16x48xbf16>
    spmd.write %y to @y : tensor<16x48xbf16>
    // One unit is enough.
    // CHECK: spmd.fused_matmul ({{.*}}, %{{.*}} = %[[U]] : tensor<f32>) -> (tensor<16x48xf32>)
    // REST-NOT: spmd.kind = "broadcast
    // REST: spmd.return
    %q = kerf.einsum "mk,nk->mn" %a, %b : tensor<16x32xf8E4M3FN>, tensor<48x32xf8E5M2> -> tensor<16x48xf32>
    %g = kerf.broadcast %u dims [] : tensor<f32> -> tensor<16x48xf32>
    %z = kerf.mul %q, %g : tensor<16x48xf32>
    spmd.write %z to @z : tensor<16x48xf32>
    // CHECK: spmd.write %{{.*}} to @uv
    spmd.write %uv to @uv : tensor<bf16>
    spmd.return
  }
}

// What is no power of two, the largest of no units, a matmul that others read,
// one by three units, and one of a batch stay; wider floats on GPUs, too.
// CHECK-LABEL: spmd.program @scale_stays
// SCALES-LABEL: spmd.program @scale_stays
spmd.program @scale_stays over <tp = 2> micro_batches 1 slots 1 {
  spmd.input @x global tensor<16x32xbf16> sharded [[], []] : tensor<16x32xbf16>
  spmd.input @s global tensor<f32> sharded [] : tensor<f32>
  spmd.input @a global tensor<16x32xf8E4M3FN> sharded [[], []] : tensor<16x32xf8E4M3FN>
  spmd.input @b global tensor<2x16x32xf8E4M3FN> sharded [[], [], []] : tensor<2x16x32xf8E4M3FN>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<16x32xbf16>
    %s = spmd.read @s : tensor<f32>
    %a = spmd.read @a : tensor<16x32xf8E4M3FN>
    %b = spmd.read @b : tensor<2x16x32xf8E4M3FN>
    %u = kerf.unit %x of f8E4M3FN : tensor<16x32xbf16>
    // CHECK-NOT: spmd.fused_matmul
    // CHECK: spmd.return
    // SCALES: spmd.fused_matmul
    // SCALES-SAME: tensor<16x32xbf16>
    // SCALES-NOT: spmd.fused_matmul
    // SCALES: spmd.return
    %w = kerf.einsum "mk,nk->mn" %x, %x : tensor<16x32xbf16>, tensor<16x32xbf16> -> tensor<16x16xf32>
    %f = kerf.broadcast %u dims [] : tensor<f32> -> tensor<16x16xf32>
    %y0 = kerf.mul %w, %f : tensor<16x16xf32>
    %p1 = kerf.einsum "mk,nk->mn" %a, %a : tensor<16x32xf8E4M3FN>, tensor<16x32xf8E4M3FN> -> tensor<16x16xf32>
    %f1 = kerf.broadcast %s dims [] : tensor<f32> -> tensor<16x16xf32>
    %y1 = kerf.mul %p1, %f1 : tensor<16x16xf32>
    %sum = spmd.all_reduce sum %u over [tp] : tensor<f32>
    %p2 = kerf.einsum "mk,nk->mn" %a, %a : tensor<16x32xf8E4M3FN>, tensor<16x32xf8E4M3FN> -> tensor<16x16xf32>
    %f2 = kerf.broadcast %sum dims [] : tensor<f32> -> tensor<16x16xf32>
    %y2 = kerf.mul %p2, %f2 : tensor<16x16xf32>
    %p3 = kerf.einsum "mk,nk->mn" %a, %a : tensor<16x32xf8E4M3FN>, tensor<16x32xf8E4M3FN> -> tensor<16x16xf32>
    %y3 = kerf.mul %p3, %f : tensor<16x16xf32>
    %u2 = kerf.mul %u, %u : tensor<f32>
    %u3 = kerf.mul %u2, %u : tensor<f32>
    %p4 = kerf.einsum "mk,nk->mn" %a, %a : tensor<16x32xf8E4M3FN>, tensor<16x32xf8E4M3FN> -> tensor<16x16xf32>
    %f4 = kerf.broadcast %u3 dims [] : tensor<f32> -> tensor<16x16xf32>
    %y4 = kerf.mul %p4, %f4 : tensor<16x16xf32>
    %p5 = kerf.einsum "bmk,bnk->bmn" %b, %b : tensor<2x16x32xf8E4M3FN>, tensor<2x16x32xf8E4M3FN> -> tensor<2x16x16xf32>
    %f5 = kerf.broadcast %u dims [] : tensor<f32> -> tensor<2x16x16xf32>
    %y5 = kerf.mul %p5, %f5 : tensor<2x16x16xf32>
    %r5 = kerf.reduce sum %y5 dims [0] : tensor<2x16x16xf32>
    %t0 = kerf.add %y0, %y1 : tensor<16x16xf32>
    %t1 = kerf.add %y2, %y3 : tensor<16x16xf32>
    %t2 = kerf.add %y4, %p3 : tensor<16x16xf32>
    %t3 = kerf.add %t0, %t1 : tensor<16x16xf32>
    %t4 = kerf.add %t2, %r5 : tensor<16x16xf32>
    %t5 = kerf.add %t3, %t4 : tensor<16x16xf32>
    %loss = kerf.reduce sum %t5 dims [0, 1] : tensor<16x16xf32>
    spmd.write %loss to @loss : tensor<f32>
    spmd.return
  }
}

// Of rows from outside a loop the loop's sum joins its matmul where no kernel
// outside makes or reads them.
// CHECK-LABEL: spmd.program @outside
spmd.program @outside over <> micro_batches 1 slots 1 {
  spmd.input @x global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.input @r global tensor<4x8xf32> sharded [[], []] : tensor<4x8xf32>
  spmd.output @loss last : tensor<f32>
  spmd.func @forward() {
    %x = spmd.read @x : tensor<4x8xf32>
    %r = spmd.read @r : tensor<4x8xf32>
    %made = kerf.exp %x : tensor<4x8xf32>
    %w = kerf.einsum "sn,sk->kn" %x, %made : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
    %zero = kerf.reduce sum %w dims [0] : tensor<8x8xf32>
    // CHECK: kerf.repeat
    // CHECK-NOT: spmd.fused_matmul
    // CHECK: kerf.reduce sum %{{.*}} dims [0] : tensor<4x8xf32>
    // CHECK: spmd.fused_matmul ({{.*}}) -> (tensor<8x8xf32>, tensor<8xf32>) attributes {spmd.kind = "einsum+reduce"}
    // CHECK: kerf.yield
    %last = kerf.repeat %i = 0 to 2 (%h = %zero : tensor<8xf32>) {
      %d0 = kerf.einsum "sn,sk->kn" %made, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
      %b0 = kerf.reduce sum %made dims [0] : tensor<4x8xf32>
      %d1 = kerf.einsum "sn,sk->kn" %r, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
      %b1 = kerf.reduce sum %r dims [0] : tensor<4x8xf32>
      %v = kerf.einsum "n,nk->k" %b0, %d0 : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
      %u = kerf.einsum "n,nk->k" %b1, %d1 : tensor<8xf32>, tensor<8x8xf32> -> tensor<8xf32>
      %s = kerf.add %v, %u : tensor<8xf32>
      %t = kerf.add %s, %h : tensor<8xf32>
      kerf.yield %t : tensor<8xf32>
    }
    %loss = kerf.reduce sum %last dims [0] : tensor<8xf32>
    spmd.write %loss to @loss : tensor<f32>
    spmd.return
  }
}
