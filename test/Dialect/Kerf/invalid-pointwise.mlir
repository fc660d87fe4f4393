// RUN: kerf-opt %s --split-input-file --verify-diagnostics

// The result of neg has the operand's type.
kerf.model @neg_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.neg' op requires the same type for all operands and results}}
  %y = "kerf.neg"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of exp has the operand's type.
kerf.model @exp_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.exp' op requires the same type for all operands and results}}
  %y = "kerf.exp"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of log has the operand's type.
kerf.model @log_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.log' op requires the same type for all operands and results}}
  %y = "kerf.log"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of sqrt has the operand's type.
kerf.model @sqrt_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.sqrt' op requires the same type for all operands and results}}
  %y = "kerf.sqrt"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of stop_gradient has the operand's type.
kerf.model @stop_gradient_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.stop_gradient' op requires the same type for all operands and results}}
  %y = "kerf.stop_gradient"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// Powers of two are those of f32.
kerf.model @power_of_two_c1(%x: tensor<4xbf16>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.power_of_two' op operand #0 must be plain tensor (static shape, rank <= 16, no encoding) of 32-bit float values, but got 'tensor<4xbf16>'}}
  %y = "kerf.power_of_two"(%x) : (tensor<4xbf16>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of rsqrt has the operand's type.
kerf.model @rsqrt_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.rsqrt' op requires the same type for all operands and results}}
  %y = "kerf.rsqrt"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of tanh has the operand's type.
kerf.model @tanh_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.tanh' op requires the same type for all operands and results}}
  %y = "kerf.tanh"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of erf has the operand's type.
kerf.model @erf_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.erf' op requires the same type for all operands and results}}
  %y = "kerf.erf"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of sin has the operand's type.
kerf.model @sin_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.sin' op requires the same type for all operands and results}}
  %y = "kerf.sin"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of cos has the operand's type.
kerf.model @cos_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.cos' op requires the same type for all operands and results}}
  %y = "kerf.cos"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// The result of logistic has the operand's type.
kerf.model @logistic_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.logistic' op requires the same type for all operands and results}}
  %y = "kerf.logistic"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  kerf.return %loss : tensor<f32>
}

// -----

// Functions of one operand are for floats.
kerf.model @unary_of_integers(%x: tensor<4xi32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.exp' op operand #0 must be plain tensor (static shape, rank <= 16, no encoding) of 64-bit float or 32-bit float or bfloat16 type or 16-bit float values, but got 'tensor<4xi32>'}}
  %y = kerf.exp %x : tensor<4xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// The operands of add have one type.
kerf.model @add_c1(%x: tensor<4xf32>, %y: tensor<2x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.add' op requires the same type for all operands and results}}
  %z = "kerf.add"(%x, %y) : (tensor<4xf32>, tensor<2x2xf32>) -> tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The operands of sub have one type.
kerf.model @sub_c1(%x: tensor<4xf32>, %y: tensor<2x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.sub' op requires the same type for all operands and results}}
  %z = "kerf.sub"(%x, %y) : (tensor<4xf32>, tensor<2x2xf32>) -> tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The operands of mul have one type.
kerf.model @mul_c1(%x: tensor<4xf32>, %y: tensor<2x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.mul' op requires the same type for all operands and results}}
  %z = "kerf.mul"(%x, %y) : (tensor<4xf32>, tensor<2x2xf32>) -> tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The operands of div have one type.
kerf.model @div_c1(%x: tensor<4xf32>, %y: tensor<2x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.div' op requires the same type for all operands and results}}
  %z = "kerf.div"(%x, %y) : (tensor<4xf32>, tensor<2x2xf32>) -> tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The operands of max have one type.
kerf.model @max_c1(%x: tensor<4xf32>, %y: tensor<2x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.max' op requires the same type for all operands and results}}
  %z = "kerf.max"(%x, %y) : (tensor<4xf32>, tensor<2x2xf32>) -> tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The operands of min have one type.
kerf.model @min_c1(%x: tensor<4xf32>, %y: tensor<2x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.min' op requires the same type for all operands and results}}
  %z = "kerf.min"(%x, %y) : (tensor<4xf32>, tensor<2x2xf32>) -> tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The operands of pow have one type.
kerf.model @pow_c1(%x: tensor<4xf32>, %y: tensor<2x2xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.pow' op requires the same type for all operands and results}}
  %z = "kerf.pow"(%x, %y) : (tensor<4xf32>, tensor<2x2xf32>) -> tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Arithmetic is for numbers, not for truth values.
kerf.model @binary_of_booleans(%x: tensor<4xi1>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.add' op operand #0 must be plain tensor (static shape, rank <= 16, no encoding) of 64-bit float or 32-bit float or bfloat16 type or 16-bit float or 32-bit signless integer values, but got 'tensor<4xi1>'}}
  %y = kerf.add %x, %x : tensor<4xi1>
  kerf.return %loss : tensor<f32>
}

// -----

// Both sides of a comparison have one type.
kerf.model @compare_c1(%x: tensor<4xf32>, %y: tensor<4xf64>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.compare' op requires all operands to have the same type}}
  %z = "kerf.compare"(%x, %y) <{kind = #kerf<compare_kind lt>}> : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xi1>
  kerf.return %loss : tensor<f32>
}

// -----

// A relation is one of six.
kerf.model @unknown_relation(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+2 {{custom op 'kerf.compare' expected ::kerf::CompareKind to be one of: eq, ne, lt, le, gt, ge}}
  // expected-error @+1 {{custom op 'kerf.compare' failed to parse Kerf_CompareKindAttr parameter 'value' which is to be a `::kerf::CompareKind`}}
  %z = kerf.compare less %x, %x : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A comparison gives truth values.
kerf.model @compare_result(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.compare' op result #0 must be plain tensor (static shape, rank <= 16, no encoding) of 1-bit signless integer values, but got 'tensor<4xi32>'}}
  %z = "kerf.compare"(%x, %x) <{kind = #kerf<compare_kind lt>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// The condition has the choices' shape.
kerf.model @select_c1(%c: tensor<2xi1>, %x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+2 {{'kerf.select' expected a condition shaped like the choices 'tensor<4xf32>', found 'tensor<2xi1>'}}
  // expected-error @+1 {{'kerf.select' op failed to infer returned types}}
  %z = "kerf.select"(%c, %x, %x) : (tensor<2xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Both choices have one type.
kerf.model @select_c2(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf64>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.select' op failed to verify that all of {on_true, on_false} have same type}}
  %z = "kerf.select"(%c, %x, %y) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A choice needs three operands.
kerf.model @select_of_two(%c: tensor<4xi1>, %x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{custom op 'kerf.select' expected 3 operands}}
  %z = kerf.select %c, %x : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A cast keeps the shape.
kerf.model @cast_c1(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.cast' op requires the same shape for all operands and results}}
  %y = kerf.cast %x : tensor<4xf32> -> tensor<2x2xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// Casts know the dialect's element types only.
kerf.model @cast_to_i64(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.cast' op result #0 must be plain tensor (static shape, rank <= 16, no encoding) of 64-bit float or 32-bit float or bfloat16 type or 16-bit float or f8E4M3FN type or f8E5M2 type or 32-bit signless integer or 8-bit signless integer or 1-bit signless integer values, but got 'tensor<4xi64>'}}
  %y = kerf.cast %x : tensor<4xf32> -> tensor<4xi64>
  kerf.return %loss : tensor<f32>
}
