// RUN: kerf-opt --split-input-file --verify-diagnostics --allow-unregistered-dialect %s

// expected-error @below {{expected 'plan' to be a #kerf.plan, found "fast"}}
kerf.model @model_c7(%x: tensor<f32>) attributes {plan = "fast"} {
  kerf.return %x : tensor<f32>
}

// -----

// expected-error @below {{expected 'zigzag' to be a #kerf.zigzag along [1] of its tokens, found #kerf.zigzag<2 x 3 along [1]>}}
kerf.model @model_c8(tokens %t: tensor<4x8xi32>, %x: tensor<f32>) attributes {zigzag = #kerf.zigzag<2 x 3 along [1]>} {
  kerf.return %x : tensor<f32>
}

// -----

// expected-error @below {{expected a zigzag of up to 2^31 rows over 1 to 1048576 ranks, found 0 x 4}}
"test.use"() {order = #kerf.zigzag<0 x 4 along [1]>} : () -> ()

// -----

// expected-error @below {{expected a zigzag along ascending dimensions}}
"test.use"() {order = #kerf.zigzag<2 x 4 along [3, 2]>} : () -> ()

// -----

// expected-error @below {{unknown cp_order "back to front", expected "plain"}}
"test.use"() {plan = #kerf.plan<mesh = <cp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, cp_order = "back to front">} : () -> ()

// -----

// expected-error @below {{'micro' is no name for an axis of a mesh}}
"test.use"() {mesh = #kerf.mesh<micro = 2>} : () -> ()

// -----

// expected-error @below {{axis 'dp' is in the mesh twice}}
"test.use"() {mesh = #kerf.mesh<dp = 2, dp = 2>} : () -> ()

// -----

// expected-error @below {{expected 1 to 1048576 ranks in a mesh, found axis 'dp' of size 0}}
"test.use"() {mesh = #kerf.mesh<dp = 0>} : () -> ()

// -----

// expected-error @below {{expected 1 to 1048576 ranks in a mesh, found axis 'tp' of size 2048}}
"test.use"() {mesh = #kerf.mesh<dp = 1024, tp = 2048>} : () -> ()

// -----

// expected-error @below {{expected at most 8 axes in a mesh, found 9}}
"test.use"() {mesh = #kerf.mesh<a = 1, b = 1, c = 1, d = 1, e = 1, f = 1, g = 1, h = 1, i = 1>} : () -> ()

// -----

// expected-error @below {{expected 1 to 1048576 micro-batches, found 0}}
"test.use"() {plan = #kerf.plan<mesh = <>, micro_batches = 0, schedule = "1f1b", recompute = none>} : () -> ()

// -----

// expected-error @below {{unknown schedule 'any', expected gpipe, 1f1b, interleaved or zb-h1}}
"test.use"() {plan = #kerf.plan<mesh = <>, micro_batches = 1, schedule = "any", recompute = none>} : () -> ()

// -----

// expected-error @below {{unknown recompute 'some', expected none, full or a list of forward ops}}
"test.use"() {plan = #kerf.plan<mesh = <>, micro_batches = 1, schedule = "1f1b", recompute = some>} : () -> ()

// -----

// expected-error @below {{expected numbers of forward ops to recompute, found -1}}
"test.use"() {plan = #kerf.plan<mesh = <>, micro_batches = 1, schedule = "1f1b", recompute = [-1]>} : () -> ()

// -----

// expected-error @below {{unknown field 'colour' of a plan, expected chunks, defer, zero, shard_group, stages, cp_order or moe_buffer}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, colour = 1>} : () -> ()

// -----

// expected-error @below {{expected 1 to 1024 chunks per stage, found 0}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, chunks = 0>} : () -> ()

// -----

// expected-error @below {{expected one chunk per stage with schedule '1f1b', found 2; several need "interleaved"}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, chunks = 2>} : () -> ()

// -----

// expected-error @below {{expected 0 or more micro-batches to defer, found -1}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "zb-h1", recompute = none, defer = -1>} : () -> ()

// -----

// expected-error @below {{expected no defer with schedule '1f1b', found 1; weight gradients wait in "zb-h1"}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, defer = 1>} : () -> ()

// -----

// expected-error @below {{expected zero 0 (nothing sharded), 1 (optimizer state), 2 (gradients too) or 3 (weights too), found 4}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, zero = 4>} : () -> ()

// -----

// expected-error @below {{expected a shard_group that divides the 2 ranks, found 3}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, zero = 1, shard_group = 3>} : () -> ()

// -----

// expected-error @below {{a shard_group needs zero of 1 to 3}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, shard_group = 2>} : () -> ()

// -----

// expected-error @below {{expected 2 entries of stages, one per chunk of each rank of 'pp', found 1}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, stages = [[layer x 1]]>} : () -> ()

// -----

// expected-error @below {{expected layers in entry 1 of stages}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, stages = [[layer x 1], []]>} : () -> ()

// -----

// expected-error @below {{expected 1 to 1048576 layers of 'layer', found 0}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, stages = [[layer x 0], [layer x 1]]>} : () -> ()

// -----

// expected-error @below {{expected numbers of forward ops to recompute, found -2}}
"test.use"() {plan = #kerf.plan<mesh = <pp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, stages = [[layer x 1 recompute [-2]], [layer x 1]]>} : () -> ()

// -----

// expected-error @below {{expected at least one block, found 0}}
"test.use"() {assign = #kerf.assign<b = [dp], blocks = 0>} : () -> ()

// -----

// expected-error @below {{factor 'b' is given twice}}
"test.use"() {assign = #kerf.assign<b = [dp], b = [tp]>} : () -> ()

// -----

// expected-error @below {{expected 'kerf.assign' to be a #kerf.assign}}
%c = kerf.constant {kerf.assign = "b"} dense<1.0> : tensor<f32>

// -----

// expected-error @below {{expected a moe_buffer of 1 (an even share of rows) or more, found 0.5}}
"test.use"() {plan = #kerf.plan<mesh = <ep = 2>, micro_batches = 1, schedule = "1f1b", recompute = none, moe_buffer = 0.5>} : () -> ()
