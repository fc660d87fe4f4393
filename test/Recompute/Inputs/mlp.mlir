// Forward ops: 0 is the parameter, 1 the repeat, 2 to 5 its body.
kerf.model @mlp() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<2x4xf32>
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<2x4xf32>) {
    %w = kerf.param "h.{i}.w" init<normal, 0.5> : tensor<4x4xf32>
    %0 = kerf.linear %h, %w : tensor<2x4xf32>, tensor<4x4xf32>
    %1 = kerf.silu %0 : tensor<2x4xf32>
    kerf.yield %1 : tensor<2x4xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}
