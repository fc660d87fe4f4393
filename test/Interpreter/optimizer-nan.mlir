// A gradient that is no number makes a parameter that is none, by every rule: a
// parameter that stayed would hide the step that went wrong.
//
// RUN: sed 's/@RULE@/#kerf.lion<>/' %s > %t.lion.mlir
// RUN: kerf-inspect interpret %t.lion.mlir --steps=2 --rate=0.125
// RUN: sed 's/@RULE@/#kerf.adamw<>/' %s > %t.adamw.mlir
// RUN: kerf-inspect interpret %t.adamw.mlir --steps=2 --rate=0.125

kerf.model @m(learning_rate %lr: tensor<f32>, step %t: tensor<i32>) {
  %g = kerf.constant dense<[0x7FC00000, 1.0]> : tensor<2xf32>
  %expected = kerf.constant dense<[[0.0, 0.0], [1.0, 0.0]]> : tensor<2x2xf32>
  %one = kerf.constant dense<1> : tensor<i32>
  %row = kerf.sub %t, %one : tensor<i32>
  %e = kerf.gather %expected, %row : tensor<2x2xf32>, tensor<i32>
  %w = kerf.param "w" init<constant, 0.75> : tensor<2xf32>
  %is = kerf.compare ne %w, %w : tensor<2xf32>
  %none = kerf.cast %is : tensor<2xi1> -> tensor<2xf32>
  kerf.check_close %none, %e within 0.0 : tensor<2xf32>
  kerf.update "w" rule @RULE@ by %g rate %lr step %t : tensor<2xf32>
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}
