// A log-sum-exp that the loss depends on has no gradient: an error also where it leaves a
// repeat as a stack.

// RUN: kerf-opt --kerf-differentiate --verify-diagnostics %s

kerf.model @stacked() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<normal, 0.5> : tensor<1x3x1x2xf32>
  %y, %l = kerf.repeat %i = 0 to 2 (%h = %x : tensor<1x3x1x2xf32>) {
    // expected-error @+2 {{has no gradient through its log-sum-exp}}
    // expected-note @+1 {{it can only be returned, as a metric}}
    %a, %lse = kerf.attention %h, %h, %h causal lse
        : tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>, tensor<1x3x1x2xf32>
    kerf.yield %a stack(%lse) : tensor<1x3x1x2xf32>, tensor<1x1x3xf32>
  }
  %p = kerf.reduce sum %y dims [0, 1, 2, 3] : tensor<1x3x1x2xf32>
  %q = kerf.reduce sum %l dims [0, 1, 2, 3] : tensor<2x1x1x3xf32>
  %loss = kerf.add %p, %q : tensor<f32>
  kerf.return %loss : tensor<f32>
}
