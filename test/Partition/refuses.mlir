// RUN: kerf-opt --split-input-file --verify-diagnostics --kerf-partition %s

// What a plan may say and programs cannot do yet is refused by name, all of it.

kerf.model @staged(%x: tensor<4xf32>) attributes {
    plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  // expected-error @below {{belongs to no stage of the plan, which has 2 chunks}}
  // expected-note @below {{run 'kerf-split-stages' before}}
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<4xf32>) {
    %e = kerf.exp %h : tensor<4xf32>
    kerf.yield %e : tensor<4xf32>
  }
  %s = kerf.reduce sum %y dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

// expected-error @below {{is planned with a shard group that ends inside axis "dp"}}
// expected-note @below {{run 'kerf-split-shard-axis' before}}
kerf.model @inside(%x: tensor<4xf32>) attributes {
    plan = #kerf.plan<mesh = <dp = 4>, micro_batches = 1, schedule = "1f1b", recompute = none, zero = 1, shard_group = 2>} {
  %s = kerf.reduce sum %x dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

// expected-error @below {{is planned with shard_group = 2, which is no part of the data ranks of #kerf.mesh<dp = 3, tp = 2>}}
// expected-note @below {{expected the product of the sizes of inner axes, tp and pp aside, and a divisor of the next}}
kerf.model @group(%x: tensor<4xf32>) attributes {
    plan = #kerf.plan<mesh = <dp = 3, tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, zero = 1, shard_group = 2>} {
  %s = kerf.reduce sum %x dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}
