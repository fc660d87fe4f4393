// RUN: kerf-opt %s --split-input-file --kerf-raise | FileCheck %s
// RUN: kerf-opt %s --split-input-file --kerf-raise=explain --mlir-print-op-on-diagnostic=false -o /dev/null 2>&1 | FileCheck %s --check-prefix=WHY

// Biases by distance (ALiBi) are the matmul of more channels of queries and
// keys: slopes, and positions of keys. What a row gets besides, a softmax does
// not see.
// CHECK-LABEL: @slopes
// CHECK-DAG: %[[Q:.*]] = kerf.param "q"
// CHECK-DAG: %[[K:.*]] = kerf.param "k"
// CHECK-DAG: %[[SLOPES:.*]] = kerf.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-DAG: %[[FACTOR:.*]] = kerf.constant dense<2.000000e+00> : tensor<2xf32>
// CHECK: kerf.mul %[[SLOPES]], %[[FACTOR]] : tensor<2xf32>
// CHECK: %[[QUERIES:.*]] = kerf.concat dim 3 %[[Q]],
// CHECK: %[[KEYS:.*]] = kerf.concat dim 3 %[[K]],
// CHECK: kerf.attention %[[QUERIES]], %[[KEYS]], %[[K]] causal scale 5.000000e-01 : tensor<2x6x2x5xf32>, tensor<2x6x2x5xf32>, tensor<2x6x2x4xf32>
// CHECK-NOT: kerf.softmax
kerf.model @slopes() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x6x2x4xf32>
  %k = kerf.param "k" init<normal, 1.0> : tensor<2x6x2x4xf32>
  %s = kerf.einsum "bqhd,bkhd->bhqk" %q, %k : tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32> -> tensor<2x2x6x6xf32>
  %half = kerf.constant dense<0.5> : tensor<2x2x6x6xf32>
  %scaled = kerf.mul %s, %half : tensor<2x2x6x6xf32>
  %slopes = kerf.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %each = kerf.broadcast %slopes dims [1] : tensor<2xf32> -> tensor<2x2x6x6xf32>
  %row = kerf.iota dim 2 : tensor<2x2x6x6xi32>
  %column = kerf.iota dim 3 : tensor<2x2x6x6xi32>
  %behind = kerf.sub %column, %row : tensor<2x2x6x6xi32>
  %distance = kerf.cast %behind : tensor<2x2x6x6xi32> -> tensor<2x2x6x6xf32>
  %bias = kerf.mul %each, %distance : tensor<2x2x6x6xf32>
  %biased = kerf.add %scaled, %bias : tensor<2x2x6x6xf32>
  %seen = kerf.compare le %column, %row : tensor<2x2x6x6xi32>
  %low = kerf.constant dense<-1.0e9> : tensor<2x2x6x6xf32>
  %masked = kerf.select %seen, %biased, %low : tensor<2x2x6x6xf32>
  %p = kerf.softmax %masked : tensor<2x2x6x6xf32>
  %y = kerf.einsum "bhqk,bkhd->bqhd" %p, %k : tensor<2x2x6x6xf32>, tensor<2x6x2x4xf32> -> tensor<2x6x2x4xf32>
  %z = kerf.mul %y, %y : tensor<2x6x2x4xf32>
  %loss = kerf.reduce sum %z dims [0, 1, 2, 3] : tensor<2x6x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Minus a distance without a sign, under a causal mask; one slope for all
// heads, before the scores' factor. More than 256 positions are two channels,
// which every precision has exactly, and channels stay a multiple of 8.
// CHECK-LABEL: @long
// CHECK: kerf.attention {{.*}} causal scale 1.250000e-01 : tensor<1x512x2x16xf32>, tensor<1x512x2x16xf32>, tensor<1x512x2x8xf32>
kerf.model @long() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<1x512x2x8xf32>
  %s = kerf.einsum "bqhd,bkhd->bhqk" %q, %q : tensor<1x512x2x8xf32>, tensor<1x512x2x8xf32> -> tensor<1x2x512x512xf32>
  %row = kerf.iota dim 0 : tensor<512x512xi32>
  %column = kerf.iota dim 1 : tensor<512x512xi32>
  %sub = kerf.sub %row, %column : tensor<512x512xi32>
  %behind = kerf.cast %sub : tensor<512x512xi32> -> tensor<512x512xf32>
  %neg = kerf.neg %behind : tensor<512x512xf32>
  %number = kerf.max %behind, %neg : tensor<512x512xf32>
  %slope = kerf.constant dense<-0.3> : tensor<512x512xf32>
  %plane = kerf.mul %number, %slope : tensor<512x512xf32>
  %bias = kerf.broadcast %plane dims [2, 3] : tensor<512x512xf32> -> tensor<1x2x512x512xf32>
  %biased = kerf.add %bias, %s : tensor<1x2x512x512xf32>
  %factor = kerf.constant dense<0.125> : tensor<1x2x512x512xf32>
  %scaled = kerf.mul %biased, %factor : tensor<1x2x512x512xf32>
  %causal = kerf.compare le %column, %row : tensor<512x512xi32>
  %seen = kerf.broadcast %causal dims [2, 3] : tensor<512x512xi1> -> tensor<1x2x512x512xi1>
  %low = kerf.constant dense<-1.0e9> : tensor<1x2x512x512xf32>
  %masked = kerf.select %seen, %scaled, %low : tensor<1x2x512x512xf32>
  %p = kerf.softmax %masked : tensor<1x2x512x512xf32>
  %y = kerf.einsum "bhqk,bkhd->bqhd" %p, %q : tensor<1x2x512x512xf32>, tensor<1x512x2x8xf32> -> tensor<1x512x2x8xf32>
  %loss = kerf.reduce sum %y dims [0, 1, 2, 3] : tensor<1x512x2x8xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Such a distance is none of positions where later tokens are seen, too, and a
// soft cap sees what rows get.
// CHECK-LABEL: @others
// CHECK-COUNT-2: kerf.softmax
// WHY: remark: attention is left plain: its bias is no number of a head times the distance of a key
// WHY: remark: attention is left plain: 'kerf.add' stands between the scores and the softmax
kerf.model @others() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x6x2x4xf32>
  %s = kerf.einsum "bqhd,bkhd->bhqk" %q, %q : tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32> -> tensor<2x2x6x6xf32>
  %row = kerf.iota dim 2 : tensor<2x2x6x6xi32>
  %column = kerf.iota dim 3 : tensor<2x2x6x6xi32>
  %sub = kerf.sub %row, %column : tensor<2x2x6x6xi32>
  %zero = kerf.constant dense<0> : tensor<2x2x6x6xi32>
  %neg = kerf.sub %zero, %sub : tensor<2x2x6x6xi32>
  %far = kerf.max %sub, %neg : tensor<2x2x6x6xi32>
  %number = kerf.cast %far : tensor<2x2x6x6xi32> -> tensor<2x2x6x6xf32>
  %biased = kerf.add %s, %number : tensor<2x2x6x6xf32>
  %p = kerf.softmax %biased : tensor<2x2x6x6xf32>
  %y = kerf.einsum "bhqk,bkhd->bqhd" %p, %q : tensor<2x2x6x6xf32>, tensor<2x6x2x4xf32> -> tensor<2x6x2x4xf32>
  %t = kerf.einsum "bqhd,bkhd->bhqk" %y, %q : tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32> -> tensor<2x2x6x6xf32>
  %distance = kerf.cast %sub : tensor<2x2x6x6xi32> -> tensor<2x2x6x6xf32>
  %more = kerf.add %t, %distance : tensor<2x2x6x6xf32>
  %capped = kerf.tanh %more : tensor<2x2x6x6xf32>
  %p2 = kerf.softmax %capped : tensor<2x2x6x6xf32>
  %y2 = kerf.einsum "bhqk,bkhd->bqhd" %p2, %q : tensor<2x2x6x6xf32>, tensor<2x6x2x4xf32> -> tensor<2x6x2x4xf32>
  %loss = kerf.reduce sum %y2 dims [0, 1, 2, 3] : tensor<2x6x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Tokens that see those of their chunk: documents of the op.
// CHECK-LABEL: @chunks
// CHECK: %[[AT:.*]] = kerf.iota dim 1 : tensor<2x6xi32>
// CHECK: %[[CHUNKS:.*]] = kerf.div %[[AT]]
// CHECK: kerf.attention {{.*}} causal scale 1.000000e+00 segments(%[[CHUNKS]], %[[CHUNKS]]
kerf.model @chunks() {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x6x2x4xf32>
  %s = kerf.einsum "bqhd,bkhd->bhqk" %q, %q : tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32> -> tensor<2x2x6x6xf32>
  %row = kerf.iota dim 2 : tensor<2x2x6x6xi32>
  %column = kerf.iota dim 3 : tensor<2x2x6x6xi32>
  %size = kerf.constant dense<4> : tensor<2x2x6x6xi32>
  %number = kerf.div %row, %size : tensor<2x2x6x6xi32>
  %first = kerf.mul %number, %size : tensor<2x2x6x6xi32>
  %same = kerf.compare ge %column, %first : tensor<2x2x6x6xi32>
  %causal = kerf.compare le %column, %row : tensor<2x2x6x6xi32>
  %false = kerf.constant dense<false> : tensor<2x2x6x6xi1>
  %seen = kerf.select %causal, %same, %false : tensor<2x2x6x6xi1>
  %low = kerf.constant dense<-1.0e9> : tensor<2x2x6x6xf32>
  %masked = kerf.select %seen, %s, %low : tensor<2x2x6x6xf32>
  %p = kerf.softmax %masked : tensor<2x2x6x6xf32>
  %y = kerf.einsum "bhqk,bkhd->bqhd" %p, %q : tensor<2x2x6x6xf32>, tensor<2x6x2x4xf32> -> tensor<2x6x2x4xf32>
  %loss = kerf.reduce sum %y dims [0, 1, 2, 3] : tensor<2x6x2x4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The same by numbers of chunks, within documents.
// CHECK-LABEL: @chunks_of_documents
// CHECK: %[[BEGUN:.*]] = kerf.mul %segments
// CHECK: %[[CHUNKS:.*]] = kerf.add %[[BEGUN]]
// CHECK: kerf.attention {{.*}} causal scale 1.000000e+00 segments(%[[CHUNKS]], %[[CHUNKS]]
kerf.model @chunks_of_documents(segments %segments: tensor<2x6xi32>) {
  %q = kerf.param "q" init<normal, 1.0> : tensor<2x6x2x4xf32>
  %s = kerf.einsum "bqhd,bkhd->bhqk" %q, %q : tensor<2x6x2x4xf32>, tensor<2x6x2x4xf32> -> tensor<2x2x6x6xf32>
  %row = kerf.iota dim 2 : tensor<2x2x6x6xi32>
  %column = kerf.iota dim 3 : tensor<2x2x6x6xi32>
  %size = kerf.constant dense<4> : tensor<2x2x6x6xi32>
  %of_row = kerf.div %row, %size : tensor<2x2x6x6xi32>
  %of_column = kerf.div %column, %size : tensor<2x2x6x6xi32>
  %same = kerf.compare eq %of_row, %of_column : tensor<2x2x6x6xi32>
  %causal = kerf.compare le %column, %row : tensor<2x2x6x6xi32>
  %a = kerf.broadcast %segments dims [0, 2] : tensor<2x6xi32> -> tensor<2x2x6x6xi32>
  %b = kerf.broadcast %segments dims [0, 3] : tensor<2x6xi32> -> tensor<2x2x6x6xi32>
  %one = kerf.compare eq %a, %b : tensor<2x2x6x6xi32>
  %false = kerf.constant dense<false> : tensor<2x2x6x6xi1>
  %both = kerf.select %causal, %same, %false : tensor<2x2x6x6xi1>
  %seen = kerf.select %both, %one, %false : tensor<2x2x6x6xi1>
  %low = kerf.constant dense<-1.0e9> : tensor<2x2x6x6xf32>
  %masked = kerf.select %seen, %s, %low : tensor<2x2x6x6xf32>
  %p = kerf.softmax %masked : tensor<2x2x6x6xf32>
  %y = kerf.einsum "bhqk,bkhd->bqhd" %p, %q : tensor<2x2x6x6xf32>, tensor<2x6x2x4xf32> -> tensor<2x6x2x4xf32>
  %loss = kerf.reduce sum %y dims [0, 1, 2, 3] : tensor<2x6x2x4xf32>
  kerf.return %loss : tensor<f32>
}
