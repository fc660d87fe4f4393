// RUN: kerf-opt --split-input-file --verify-diagnostics --kerf-partition %s

// What a plan may say and programs cannot do yet is refused by name, all of it.

// expected-error @below {{is planned with 2 pipeline stages, which no program can be written for yet}}
// expected-note @below {{plan again with pp=1}}
// expected-error @below {{is planned with 2 chunks per stage, which no program can be written for yet}}
// expected-note @below {{plan again with chunks=1}}
// expected-error @below {{is planned with zero = 3, which no program can be written for yet}}
// expected-note @below {{plan again with zero=0}}
kerf.model @staged(%x: tensor<4xf32>) attributes {
    plan = #kerf.plan<mesh = <pp = 2, dp = 2>, micro_batches = 1, schedule = "interleaved", recompute = none, chunks = 2, zero = 3>} {
  %s = kerf.reduce sum %x dims [0] : tensor<4xf32>
  kerf.return %s : tensor<f32>
}

// -----

kerf.model @variant(%x: tensor<4x16xf32>, %t: tensor<4xi32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  %e = kerf.exp %x : tensor<4x16xf32>
  %u = kerf.add %t, %t : tensor<4xi32>
  %n = kerf.count_valid %u : tensor<4xi32>
  // expected-error @below {{is planned by its variant 'split_vocabulary', which no program can be written for yet}}
  %l = kerf.cross_entropy %e, %u normalizer %n {kerf.assign = #kerf.assign<v = [tp], variant = [split_vocabulary]>} : tensor<4x16xf32>, tensor<4xi32>
  kerf.return %l : tensor<f32>
}

// -----

kerf.model @blocks(%x: tensor<4x6xf32>, %z: tensor<f32>) attributes {
    plan = #kerf.plan<mesh = <tp = 2>, micro_batches = 1, schedule = "1f1b", recompute = none>} {
  // expected-error @below {{is planned in parts of 3 blocks, which no program can be written for yet}}
  %e = kerf.exp %x {kerf.assign = #kerf.assign<s = [tp], blocks = 3>} : tensor<4x6xf32>
  kerf.return %z : tensor<f32>
}
