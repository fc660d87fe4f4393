// fuse=1 recompute=none threads=1 plan={"mesh": {"dp": 1}, "micro_batches": 2, "assign": [{"op": "embedding", "weight": "wte*", "factors": {"b": ["micro"]}}]}
// A longer weight in a loop, whose gradient is a prefix in a stack and a sum over micro-batches.
kerf.model @m(tokens %tokens: tensor<4x3xi32>, targets %targets: tensor<4x3xi32>) attributes {optimizer = #kerf.sgd<momentum = 0.9>} {
  %wte = kerf.param "wte" init<normal, 0.4> : tensor<11x16xf32>
  %x = kerf.embedding %tokens, %wte : tensor<4x3xi32>, tensor<11x16xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<4x3x16xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.4> : tensor<30x16xf32>
    %v = kerf.param "h.{i}.v" init<normal, 0.4> : tensor<16x32xf32>
    %wp = kerf.pad %w low [0, 0] high [2, 0] : tensor<30x16xf32>
    %a = kerf.linear %h, %wp : tensor<4x3x16xf32>, tensor<32x16xf32>
    %t = kerf.tanh %a : tensor<4x3x32xf32>
    %b = kerf.linear %t, %v : tensor<4x3x32xf32>, tensor<16x32xf32>
    %n = kerf.add %b, %h : tensor<4x3x16xf32>
    kerf.yield %n : tensor<4x3x16xf32>
  }
  %l = kerf.linear %y, %wte : tensor<4x3x16xf32>, tensor<11x16xf32>
  %n = kerf.count_valid %targets : tensor<4x3xi32>
  %loss = kerf.cross_entropy %l, %targets normalizer %n : tensor<4x3x11xf32>, tensor<4x3xi32>
  kerf.return %loss : tensor<f32>
}
