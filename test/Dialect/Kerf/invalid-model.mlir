// RUN: kerf-opt %s --split-input-file --verify-diagnostics

// A role is one of a few.
// expected-error @+2 {{unknown role 'labels' of a model input}}
// expected-note @+1 {{expected one of tokens, targets, segments, positions, seed, step, learning_rate}}
kerf.model @model_c1(tokens %x: tensor<2x8xi32>, labels %y: tensor<2x8xi32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// A role is given once.
// expected-error @+1 {{role 'tokens' is given to a second input}}
kerf.model @role_twice(tokens %x: tensor<2x8xi32>, tokens %y: tensor<2x8xi32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// The factor on the loss is a number.
// expected-error @+1 {{input 'loss_scale' expected tensor<f32>, found 'tensor<i32>'}}
kerf.model @model_c2(loss_scale %x: tensor<i32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// Tokens are numbers of vocabulary rows.
// expected-error @+1 {{input 'tokens' expected an i32 tensor, found 'tensor<2x8xf32>'}}
kerf.model @model_c2(tokens %x: tensor<2x8xf32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// The step is a scalar.
// expected-error @+1 {{input 'step' expected tensor<i32>, found 'tensor<1xi32>'}}
kerf.model @step_of_rank_1(step %x: tensor<1xi32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// The learning rate is a scalar of f32.
// expected-error @+1 {{input 'learning_rate' expected tensor<f32>, found 'tensor<f64>'}}
kerf.model @rate_of_f64(learning_rate %x: tensor<f64>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// Shapes of inputs are static.
// expected-error @+1 {{input 'tokens' expected an i32 tensor, found 'tensor<?x8xi32>'}}
kerf.model @dynamic_role(tokens %x: tensor<?x8xi32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// Inputs are tensors.
// expected-error @+1 {{expected a tensor of f64, f32, bf16, f16, i32, i8 or i1 with static shape, rank <= 16 and no encoding as input, found 'index'}}
kerf.model @input_of_index(%x: index, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// Plain data has a static shape too.
// expected-error @+1 {{expected a tensor of f64, f32, bf16, f16, i32, i8 or i1 with static shape, rank <= 16 and no encoding as input, found 'tensor<?xf32>'}}
kerf.model @dynamic_input(%x: tensor<?xf32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// A rank has a limit.
// expected-error @+1 {{expected a tensor of f64, f32, bf16, f16, i32, i8 or i1 with static shape, rank <= 16 and no encoding as input, found 'tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>'}}
kerf.model @input_of_rank_17(%x: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>, %loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// Results of ops keep to that limit.
kerf.model @result_of_rank_17(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.constant' op result #0 must be plain tensor (static shape, rank <= 16, no encoding) of 64-bit float or 32-bit float or bfloat16 type or 16-bit float or f8E4M3FN type or f8E5M2 type or 32-bit signless integer or 8-bit signless integer or 1-bit signless integer values, but got 'tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>'}}
  %x = kerf.constant dense<0.0> : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Results of ops have no encoding.
kerf.model @result_with_encoding(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op result #0 must be plain tensor (static shape, rank <= 16, no encoding) of 64-bit float or 32-bit float or bfloat16 type or 16-bit float or 8-bit signless integer values, but got 'tensor<4xf32, "sparse">'}}
  %x = kerf.param "w" init<zeros> : tensor<4xf32, "sparse">
  kerf.return %loss : tensor<f32>
}

// -----

// Unranked tensors are refused where they are read.
kerf.model @unranked(%loss: tensor<f32>) {
  // expected-error @+1 {{custom op 'kerf.transpose' invalid kind of type specified: expected builtin.tensor, but found 'tensor<*xf32>'}}
  %x = kerf.transpose %loss perm [] : tensor<*xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// The first result is the loss, a scalar.
kerf.model @model_c3(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.return' op expected the scalar float loss as first value}}
  kerf.return %x, %loss : tensor<4xf32>, tensor<f32>
}

// -----

// A loss is no integer.
kerf.model @integer_loss(%loss: tensor<i32>) {
  // expected-error @+1 {{'kerf.return' op expected the scalar float loss as first value}}
  kerf.return %loss : tensor<i32>
}

// -----

// There is a loss.
kerf.model @no_loss(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.return' op expected the scalar float loss as first value}}
  "kerf.return"() : () -> ()
}

// -----

// Both reads of a parameter tell the same initial values.
kerf.model @model_c4(%loss: tensor<f32>) {
  // expected-note @+1 {{other read is here}}
  %a = kerf.param "w" init<ones> : tensor<4xf32>
  // expected-error @+1 {{'kerf.param' op "w" disagrees with another read of this parameter}}
  %b = kerf.param "w" init<zeros> : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A parameter is frozen in all its reads, those in repeats included.
kerf.model @frozen_once(%loss: tensor<f32>) {
  // expected-note @+1 {{other read is here}}
  %a = kerf.param "w" init<ones> frozen : tensor<4xf32>
  kerf.repeat %i = 0 to 2 () {
    // expected-error @+1 {{'kerf.param' op "w" disagrees with another read of this parameter}}
    %b = kerf.param "w" init<ones> : tensor<4xf32>
    kerf.yield
  }
  kerf.return %loss : tensor<f32>
}

// -----

// A norm is not negative.
// expected-error @+1 {{'kerf.model' op expected 'clip_norm' to be a finite number >= 0, found -1.000000e+00 : f64}}
kerf.model @model_c5(%loss: tensor<f32>) attributes {clip_norm = -1.0} {
  kerf.return %loss : tensor<f32>
}

// -----

// A norm is a number.
// expected-error @+1 {{'kerf.model' op expected 'clip_norm' to be a finite number >= 0, found 1 : i64}}
kerf.model @clip_of_integer(%loss: tensor<f32>) attributes {clip_norm = 1} {
  kerf.return %loss : tensor<f32>
}

// -----

// An optimizer is an update rule.
// expected-error @+1 {{'kerf.model' op expected 'optimizer' to be an update rule such as #kerf.adamw<>, found "adamw"}}
kerf.model @optimizer_by_name(%loss: tensor<f32>) attributes {optimizer = "adamw"} {
  kerf.return %loss : tensor<f32>
}

// -----

// Groups are an array of groups.
// expected-error @+1 {{'kerf.model' op expected 'groups' to be an array of #kerf.group, found #kerf.group<match = "*", weight_decay = 0.0>}}
kerf.model @one_group(%loss: tensor<f32>) attributes {groups = #kerf.group<match = "*", weight_decay = 0.0>} {
  kerf.return %loss : tensor<f32>
}

// -----

// Groups are groups.
// expected-error @+1 {{'kerf.model' op expected 'groups' to be an array of #kerf.group, found ["*.bias"]}}
kerf.model @groups_of_strings(%loss: tensor<f32>) attributes {groups = ["*.bias"]} {
  kerf.return %loss : tensor<f32>
}

// -----

// Ops of other dialects make tensors too.
kerf.model @model_c6(%loss: tensor<f32>) {
  // expected-error @+1 {{'builtin.unrealized_conversion_cast' op makes 'index', expected a tensor of f64, f32, bf16, f16, i32, i8 or i1 with static shape, rank <= 16 and no encoding}}
  %x = builtin.unrealized_conversion_cast %loss : tensor<f32> to index
  kerf.return %loss : tensor<f32>
}

// -----

// Nothing but a repeat has a body.
kerf.model @nested_module(%loss: tensor<f32>) {
  // expected-error @+1 {{'builtin.module' op has a body, expected that of 'kerf.repeat' only inside a 'kerf.model'}}
  builtin.module {
  }
  kerf.return %loss : tensor<f32>
}

// -----

// Each input has a role, if only an empty one.
// expected-error @+1 {{'kerf.model' op expected one role per input}}
"kerf.model"() <{roles = ["tokens"], sym_name = "roles_without_inputs"}> ({
  %loss = kerf.constant dense<0.0> : tensor<f32>
  kerf.return %loss : tensor<f32>
}) : () -> ()

// -----

// Roles are not written as an attribute.
// expected-error @+1 {{custom op 'kerf.model' attribute 'roles' occurs more than once in the attribute list}}
kerf.model @roles_as_attribute(%loss: tensor<f32>) attributes {roles = [""]} {
  kerf.return %loss : tensor<f32>
}

// -----

// A model has a body.
// expected-error @+1 {{'kerf.model' op region #0 ('body') failed to verify constraint: region with 1 blocks}}
kerf.model @empty() {
}

// -----

// A model ends in its return.
kerf.model @no_return(%loss: tensor<f32>) {
  // expected-error @+1 {{block with no terminator, has %0 = "kerf.neg"(%arg0) : (tensor<f32>) -> tensor<f32>}}
  %x = kerf.neg %loss : tensor<f32>
}

// -----

// Names of models differ.
// expected-note @+1 {{see existing symbol definition here}}
kerf.model @twice(%loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}
// expected-error @+1 {{redefinition of symbol named 'twice'}}
kerf.model @twice(%loss: tensor<f32>) {
  kerf.return %loss : tensor<f32>
}

// -----

// A return is for models.
kerf.model @return_c1(%loss: tensor<f32>) {
  kerf.repeat %i = 0 to 2 () {
    // expected-error @+1 {{'kerf.return' op expects parent op 'kerf.model'}}
    kerf.return %loss : tensor<f32>
    kerf.yield
  }
  kerf.return %loss : tensor<f32>
}

// -----

// There are no more names than values.
kerf.model @return_c2(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.return' op has more names than values, of which there are 1}}
  kerf.return %loss names ["", ""] : tensor<f32>
}

// -----

// A name says what is counted, of which layers.
kerf.model @return_c2(%loss: tensor<f32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{'kerf.return' op expected a name as "expert_load model.layers.{i}.mlp 0 to 4" for numbers of each layer, found "load" for 'tensor<4xf32>'}}
  kerf.return %loss, %x names ["", "load"] : tensor<f32>, tensor<4xf32>
}

// -----

// There are numbers of each layer.
kerf.model @return_c2(%loss: tensor<f32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{for numbers of each layer, found "expert_rows h.{i} 0 to 3" for 'tensor<4xf32>'}}
  kerf.return %loss, %x names ["", "expert_rows h.{i} 0 to 3"] : tensor<f32>, tensor<4xf32>
}

// -----

// Names differ.
kerf.model @return_c2(%loss: tensor<f32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{'kerf.return' op has two values of the name "expert_load h 0 to 1"}}
  kerf.return %loss, %x, %x names ["", "expert_load h 0 to 1", "expert_load h 0 to 1"] : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A parameter has a name.
kerf.model @param_c1(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op expected a parameter name}}
  %w = kerf.param "" init<ones> : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Braces close.
kerf.model @open_brace(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op name "h.{i.w" expected braces only as {i}, {a*i+b} and at most one {e}}}
  %w = kerf.param "h.{i.w" init<ones> : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Braces open.
kerf.model @closed_brace(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op name "h.i}.w" expected braces only as {i}, {a*i+b} and at most one {e}}}
  %w = kerf.param "h.i}.w" init<ones> : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Braces do not nest.
kerf.model @nested_braces(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op name "h.{{i}}.w" expected braces only as {i}, {a*i+b} and at most one {e}}}
  %w = kerf.param "h.{{i}}.w" init<ones> : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Iterations are counted by i only.
kerf.model @other_letter(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op name "h.{j}.w" expected braces only as {i}, {a*i+b} and at most one {e}}}
  %w = kerf.param "h.{j}.w" init<ones> : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Iterations count upwards.
kerf.model @negative_step(%loss: tensor<f32>) {
  kerf.repeat %i = 0 to 2 () {
    // expected-error @+1 {{'kerf.param' op name "h.{-1*i+2}.w" expected braces only as {i}, {a*i+b} and at most one {e}}}
    %w = kerf.param "h.{-1*i+2}.w" init<ones> : tensor<4xf32>
    kerf.yield
  }
  kerf.return %loss : tensor<f32>
}

// -----

// Iterations are counted, not the one of a constant.
kerf.model @zero_step(%loss: tensor<f32>) {
  kerf.repeat %i = 0 to 2 () {
    // expected-error @+1 {{'kerf.param' op name "h.{0*i}.w" expected braces only as {i}, {a*i+b} and at most one {e}}}
    %w = kerf.param "h.{0*i}.w" init<ones> : tensor<4xf32>
    kerf.yield
  }
  kerf.return %loss : tensor<f32>
}

// -----

// Two dimensions of experts have no meaning.
kerf.model @two_experts(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op name "{e}.{e}.w" expected braces only as {i}, {a*i+b} and at most one {e}}}
  %w = kerf.param "{e}.{e}.w" init<ones> : tensor<4x2xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Only a repeat has iterations.
kerf.model @param_c2(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op name "h.{i}.w" uses {i} outside a 'kerf.repeat'}}
  %w = kerf.param "h.{i}.w" init<ones> : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Experts are stacked along a dimension.
kerf.model @param_c3(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op a stack expected rank >= 1, found a scalar}}
  %w = kerf.param "{e}.w" init<ones> : tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// So are tensors with names, each of which has one.
kerf.model @param_c3_names(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op name "{k,v}.w" has 2 names in braces, which expected a dimension 0 of that size, found 3}}
  %w = kerf.param "{k,v}.w" init<ones> : tensor<3xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// A master is of floats.
kerf.model @param_c4(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op expected a master of f64, f32, bf16 or f16, found 'i32'}}
  %w = kerf.param "w" init<ones> master i32 : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Parameters are of floats.
kerf.model @integer_param(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op result #0 must be plain tensor (static shape, rank <= 16, no encoding) of 64-bit float or 32-bit float or bfloat16 type or 16-bit float or 8-bit signless integer values, but got 'tensor<4xi32>'}}
  %w = kerf.param "w" init<ones> : tensor<4xi32>
  kerf.return %loss : tensor<f32>
}

// -----

// A repeat has an iteration.
kerf.model @repeat_c1(%x: tensor<f32>) {
  // expected-error @+1 {{'kerf.repeat' op expected 0 <= start < end, found 3 to 3}}
  %y = kerf.repeat %i = 3 to 3 (%h = %x : tensor<f32>) {
    kerf.yield %h : tensor<f32>
  }
  kerf.return %y : tensor<f32>
}

// -----

// A stack has a dimension of iterations.
kerf.model @stack_of_nothing(%x: tensor<f32>) {
  // expected-error @+1 {{custom op 'kerf.repeat' expected 0 <= start < end, found 3 to 0}}
  %y = kerf.repeat %i = 3 to 0 () {
    kerf.yield stack(%x) : tensor<f32>
  }
  kerf.return %x : tensor<f32>
}

// -----

// Iterations start at 0.
kerf.model @negative_start(%x: tensor<f32>) {
  // expected-error @+1 {{'kerf.repeat' op expected 0 <= start < end, found -1 to 3}}
  %y = kerf.repeat %i = -1 to 3 (%h = %x : tensor<f32>) {
    kerf.yield %h : tensor<f32>
  }
  kerf.return %y : tensor<f32>
}

// -----

// There is one slice per iteration.
kerf.model @repeat_c2(%x: tensor<f32>, %ys: tensor<4xf32>) {
  // expected-error @+1 {{'kerf.repeat' op expected slices with leading dimension 3, found 'tensor<4xf32>'}}
  %z = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) slices(%y = %ys : tensor<4xf32>) {
    %n = kerf.mul %h, %y : tensor<f32>
    kerf.yield %n : tensor<f32>
  }
  kerf.return %z : tensor<f32>
}

// -----

// A scalar has no slices.
kerf.model @slices_of_scalar(%x: tensor<f32>) {
  // expected-error @+1 {{custom op 'kerf.repeat' expected a tensor of rank >= 1 to slice, found 'tensor<f32>'}}
  %z = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) slices(%y = %x : tensor<f32>) {
    kerf.yield %h : tensor<f32>
  }
  kerf.return %z : tensor<f32>
}

// -----

// What a repeat carries keeps its type.
kerf.model @repeat_c3(%x: tensor<f32>) {
  // expected-note @+1 {{values enter the repeat here}}
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) {
    // expected-error @+1 {{'kerf.yield' op expected carried values of types ('tensor<f32>'), found ('tensor<i32>')}}
    kerf.yield %i : tensor<i32>
  }
  kerf.return %x : tensor<f32>
}

// -----

// Repeats do not nest.
kerf.model @repeat_c4(%x: tensor<f32>) {
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) {
    // expected-error @+1 {{'kerf.repeat' op is inside another 'kerf.repeat'; write the inner layers out, with names such as {2*i+1}}}
    %z = kerf.repeat %j = 0 to 3 (%g = %h : tensor<f32>) {
      kerf.yield %g : tensor<f32>
    }
    kerf.yield %z : tensor<f32>
  }
  kerf.return %y : tensor<f32>
}

// -----

// The body takes the iteration number first.
kerf.model @repeat_c5(%x: tensor<f32>) {
  // expected-error @+1 {{'kerf.repeat' op expected a body that takes the iteration number, the carried values and the slices}}
  %y = "kerf.repeat"(%x) <{end = 3 : i64, operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64}> ({
  ^bb0(%h: tensor<f32>):
    kerf.yield %h : tensor<f32>
  }) : (tensor<f32>) -> tensor<f32>
  kerf.return %y : tensor<f32>
}

// -----

// Results follow from the yield.
kerf.model @repeat_results(%x: tensor<f32>) {
  // expected-error @+1 {{'kerf.repeat' op has results that do not follow from its yield}}
  %y = "kerf.repeat"(%x) <{end = 3 : i64, operandSegmentSizes = array<i32: 1, 0>, start = 0 : i64}> ({
  ^bb0(%i: tensor<i32>, %h: tensor<f32>):
    kerf.yield %h : tensor<f32>
  }) : (tensor<f32>) -> tensor<3xf32>
  kerf.return %x : tensor<f32>
}

// -----

// A body ends in a yield.
kerf.model @no_yield(%x: tensor<f32>) {
  // expected-error @+1 {{custom op 'kerf.repeat' expected a body that ends in a 'kerf.yield' of tensors}}
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) {
    %z = kerf.exp %h : tensor<f32>
  }
  kerf.return %x : tensor<f32>
}

// -----

// A repeat has a body.
kerf.model @empty_repeat(%x: tensor<f32>) {
  // expected-error @+1 {{custom op 'kerf.repeat' expected a body that ends in a 'kerf.yield' of tensors}}
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) {
  }
  kerf.return %x : tensor<f32>
}

// -----

// Segments of a generic yield add up to its operands.
kerf.model @yield_of_too_many(%x: tensor<f32>) {
  // expected-error @+1 {{custom op 'kerf.repeat' expected a body that ends in a 'kerf.yield' of tensors}}
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) {
    "kerf.yield"(%h) <{operandSegmentSizes = array<i32: 1, 4>}> : (tensor<f32>) -> ()
  }
  kerf.return %x : tensor<f32>
}

// -----

// Numbers of iterations are not written as attributes.
kerf.model @start_as_attribute(%x: tensor<f32>) {
  // expected-error @+1 {{custom op 'kerf.repeat' attribute 'start' occurs more than once in the attribute list}}
  %y = kerf.repeat %i = 0 to 3 (%h = %x : tensor<f32>) attributes {start = 1 : i64} {
    kerf.yield %h : tensor<f32>
  }
  kerf.return %y : tensor<f32>
}

// -----

// A yield is for repeats.
kerf.model @yield_c1(%x: tensor<f32>) {
  // expected-error @+1 {{'kerf.yield' op expects parent op 'kerf.repeat'}}
  kerf.yield %x : tensor<f32>
}

// -----

// A norm is of something.
kerf.model @global_norm_c1(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.global_norm' op expected at least one gradient}}
  %n = "kerf.global_norm"() : () -> tensor<f32>
  kerf.return %loss : tensor<f32>
}

// -----

// Clipping to nothing is refused.
kerf.model @clip_factor_c1(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.clip_factor' op expected a finite max > 0, found 0.000000e+00}}
  %c = kerf.clip_factor %loss max 0.0
  kerf.return %loss : tensor<f32>
}

// -----

// What is updated is a parameter of the model.
kerf.model @update_c1(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<4xf32>) {
  // expected-error @+1 {{'kerf.update' op of "w", which is no trainable parameter of this model}}
  kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<4xf32>
  kerf.return %r : tensor<f32>
}

// -----

// Frozen parameters are not updated.
kerf.model @update_of_frozen(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<4xf32>) {
  %w = kerf.param "w" init<ones> frozen : tensor<4xf32>
  // expected-error @+1 {{'kerf.update' op of "w", which is no trainable parameter of this model}}
  kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<4xf32>
  kerf.return %r : tensor<f32>
}

// -----

// The gradient has the parameter's type.
kerf.model @update_of_other_type(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<4xf32>) {
  // expected-note @+1 {{parameter is read here}}
  %w = kerf.param "w" init<ones> : tensor<4xbf16>
  // expected-error @+1 {{'kerf.update' op of "w" expected 'tensor<4xbf16>', found 'tensor<4xf32>'}}
  kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<4xf32>
  kerf.return %r : tensor<f32>
}

// -----

// The parameters of all iterations are updated at once.
kerf.model @update_c2(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<4xf32>) {
  // expected-error @+1 {{'kerf.update' op "h.{i}.w" expected [start to end] with {i} in its name}}
  kerf.update "h.{i}.w" rule #kerf.sgd<> by %g rate %r step %t : tensor<4xf32>
  kerf.return %r : tensor<f32>
}

// -----

// Only parameters of iterations have iterations.
kerf.model @update_range(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<3x4xf32>) {
  // expected-error @+1 {{'kerf.update' op "w" expected an {i} in its name with [start to end]}}
  kerf.update "w" [0 to 3] rule #kerf.sgd<> by %g rate %r step %t : tensor<3x4xf32>
  kerf.return %r : tensor<f32>
}

// -----

// There is one gradient per iteration.
kerf.model @update_of_too_few(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<3x4xf32>) {
  // expected-error @+1 {{'kerf.update' op [0 to 4] does not match gradient 'tensor<3x4xf32>'}}
  kerf.update "h.{i}.w" [0 to 4] rule #kerf.sgd<> by %g rate %r step %t : tensor<3x4xf32>
  kerf.return %r : tensor<f32>
}

// -----

// Iterations are not negative.
kerf.model @update_before_first(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<2x4xf32>) {
  // expected-error @+1 {{'kerf.update' op [-3 to -1] does not match gradient 'tensor<2x4xf32>'}}
  kerf.update "h.{i}.w" [-3 to -1] rule #kerf.sgd<> by %g rate %r step %t : tensor<2x4xf32>
  kerf.return %r : tensor<f32>
}

// -----

// A range has two ends.
kerf.model @update_without_end(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<3x4xf32>) {
  // expected-error @+1 {{'kerf.update' op expected 'start' and 'end' both or neither}}
  "kerf.update"(%g, %r, %t) <{name = "h.{i}.w", operandSegmentSizes = array<i32: 1, 0, 1, 1, 0>, rule = #kerf.sgd<>, start = 0 : i64}> : (tensor<3x4xf32>, tensor<f32>, tensor<i32>) -> ()
  kerf.return %r : tensor<f32>
}

// -----

// A parameter is updated once.
kerf.model @update_c3(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<4xf32>) {
  %w = kerf.param "w" init<ones> : tensor<4xf32>
  kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<4xf32>
  // expected-error @+1 {{'kerf.update' op updates "w" a second time}}
  kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<4xf32>
  kerf.return %r : tensor<f32>
}

// -----

// Ranges of iterations do not overlap; those that touch are fine.
kerf.model @update_overlap(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<2x4xf32>) {
  kerf.repeat %i = 0 to 5 () {
    %w = kerf.param "h.{i}.w" init<ones> : tensor<4xf32>
    kerf.yield
  }
  kerf.update "h.{i}.w" [0 to 2] rule #kerf.sgd<> by %g rate %r step %t : tensor<2x4xf32>
  kerf.update "h.{i}.w" [2 to 4] rule #kerf.sgd<> by %g rate %r step %t : tensor<2x4xf32>
  // expected-error @+1 {{'kerf.update' op updates "h.{i}.w" a second time}}
  kerf.update "h.{i}.w" [3 to 5] rule #kerf.sgd<> by %g rate %r step %t : tensor<2x4xf32>
  kerf.return %r : tensor<f32>
}

// -----

// Muon updates matrices.
kerf.model @update_c5(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<4xf32>) {
  // expected-note @+1 {{give it another rule: a group of the model, or --group='w:optimizer=adamw'}}
  %w = kerf.param "w" init<ones> : tensor<4xf32>
  // expected-error @+1 {{'kerf.update' op of "w" expected matrices and stacks of them, which #kerf.muon<> updates, found 'tensor<4xf32>'}}
  kerf.update "w" rule #kerf.muon<> by %g rate %r step %t : tensor<4xf32>
  kerf.return %r : tensor<f32>
}

// -----

// A rule says how to update.
kerf.model @update_c4(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<4xf32>) {
  %w = kerf.param "w" init<ones> : tensor<4xf32>
  // expected-error @+1 {{'kerf.update' op attribute 'rule' failed to satisfy constraint: optimizer rule}}
  kerf.update "w" rule "adamw" by %g rate %r step %t : tensor<4xf32>
  kerf.return %r : tensor<f32>
}

// -----

// Updates are not repeated.
kerf.model @update_in_repeat(learning_rate %r: tensor<f32>, step %t: tensor<i32>, %g: tensor<4xf32>) {
  kerf.repeat %i = 0 to 5 () {
    %w = kerf.param "w" init<ones> : tensor<4xf32>
    // expected-error @+1 {{'kerf.update' op expects parent op 'kerf.model'}}
    kerf.update "w" rule #kerf.sgd<> by %g rate %r step %t : tensor<4xf32>
    kerf.yield
  }
  kerf.return %r : tensor<f32>
}

// -----

// Only tensors of one type can agree.
kerf.model @check_close_c1(%x: tensor<4xf32>, %y: tensor<4xf64>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.check_close' op requires all operands to have the same type}}
  "kerf.check_close"(%x, %y) <{tolerance = 0.0 : f64}> : (tensor<4xf32>, tensor<4xf64>) -> ()
  kerf.return %loss : tensor<f32>
}

// -----

// No two numbers are closer than the same.
kerf.model @check_close_c2(%x: tensor<4xf32>, %loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.check_close' op expected a finite tolerance >= 0, found -1.000000e-06}}
  kerf.check_close %x, %x within -1.0e-6 : tensor<4xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// Codes are not trained.
kerf.model @param_c5(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op of 'tensor<4x32xi8>': i8 and init<nf4> stand together, frozen and without a master}}
  %c = kerf.param "c" init<nf4> : tensor<4x32xi8>
  kerf.return %loss : tensor<f32>
}

// -----

// Numbers are no codes.
kerf.model @param_of_numbers(%loss: tensor<f32>) {
  // expected-error @+1 {{'kerf.param' op of 'tensor<4x32xf32>': i8 and init<nf4> stand together, frozen and without a master}}
  %c = kerf.param "c" init<nf4> frozen : tensor<4x32xf32>
  kerf.return %loss : tensor<f32>
}

// -----

// What an adapter is, is text.
// expected-error @+1 {{'kerf.model' op expected 'adapter' to be a string, found 8 : i64}}
kerf.model @model_c9(%loss: tensor<f32>) attributes {adapter = 8} {
  kerf.return %loss : tensor<f32>
}

// -----

// 8-bit floats do not leave a model.
kerf.model @float8_result(%x: tensor<4xf32>, %loss: tensor<f32>) {
  %y = kerf.cast %x : tensor<4xf32> -> tensor<4xf8E4M3FN>
  // expected-error @+1 {{'kerf.return' op expected values of other types than 8-bit floats, found 'tensor<4xf8E4M3FN>'}}
  kerf.return %loss, %y : tensor<f32>, tensor<4xf8E4M3FN>
}

// -----

// An op that is misspelt is told with a near one.
kerf.model @unknown_op(tokens %tokens: tensor<2x8xi32>) {
  %table = kerf.param "wte.weight" init<normal, 0.02> : tensor<32x16xf32>
  // expected-error @+3 {{'kerf.embeding' is no op of the dialect}}
  // expected-note @+2 {{did you mean 'kerf.embedding'?}}
  // expected-note @+1 {{docs/reference/kerf-dialect.md lists all ops}}
  %x = kerf.embeding %tokens, %table : tensor<2x8xi32>, tensor<32x16xf32>
}
