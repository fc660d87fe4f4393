// RUN: kerf-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect

// Zeros need no number.
// expected-error @+1 {{expected no number after 'zeros', found 1.000000e+00}}
"test.use"() {init = #kerf.init<zeros, 1.0>} : () -> ()

// -----

// Ones need no number.
// expected-error @+1 {{expected no number after 'ones', found 1.000000e+00}}
"test.use"() {init = #kerf.init<ones, 1.0>} : () -> ()

// -----

// A deviation is not negative.
// expected-error @+1 {{expected normal >= 0, found -2.000000e-02}}
"test.use"() {init = #kerf.init<normal, -0.02>} : () -> ()

// -----

// A bound is not negative.
// expected-error @+1 {{expected uniform >= 0, found -1.000000e+00}}
"test.use"() {init = #kerf.init<uniform, -1>} : () -> ()

// -----

// Kinds of initial values have names.
// expected-error @+2 {{expected ::kerf::InitKind to be one of: zeros, ones, constant, normal, uniform}}
// expected-error @+1 {{failed to parse Kerf_InitAttr parameter 'kind' which is to be a `::kerf::InitKind`}}
"test.use"() {init = #kerf.init<gaussian, 0.02>} : () -> ()

// -----

// Numbers are finite.
// expected-error @+2 {{expected a finite number}}
// expected-error @+1 {{failed to parse Kerf_InitAttr parameter 'value' which is to be a `::kerf::Real`}}
"test.use"() {init = #kerf.init<constant, 1.0e999>} : () -> ()

// -----

// Numbers are numbers.
// expected-error @+2 {{expected floating point literal}}
// expected-error @+1 {{failed to parse Kerf_InitAttr parameter 'value' which is to be a `::kerf::Real`}}
"test.use"() {init = #kerf.init<constant, "0">} : () -> ()

// -----

// MLIR reads an exponent only after a point.
// expected-error @+1 {{expected '>'}}
"test.use"() {init = #kerf.init<constant, 1e-6>} : () -> ()

// -----

// A decay of 1 would never forget.
// expected-error @+1 {{expected beta1 in [0.000000e+00, 1.000000e+00), found 1.000000e+00}}
"test.use"() {rule = #kerf.adamw<beta1 = 1.0>} : () -> ()

// -----

// A decay is not negative.
// expected-error @+1 {{expected beta2 in [0.000000e+00, 1.000000e+00), found -1.000000e-01}}
"test.use"() {rule = #kerf.adamw<beta2 = -0.1>} : () -> ()

// -----

// An eps is not negative.
// expected-error @+1 {{expected eps >= 0, found -1.000000e-08}}
"test.use"() {rule = #kerf.adamw<eps = -1.0e-8>} : () -> ()

// -----

// A weight decay is not negative.
// expected-error @+1 {{expected weight_decay >= 0, found -1.000000e-01}}
"test.use"() {rule = #kerf.adamw<weight_decay = -0.1>} : () -> ()

// -----

// A rule knows its own parameters only.
// expected-error @+1 {{duplicate or unknown struct parameter name: momentum}}
"test.use"() {rule = #kerf.adamw<momentum = 0.9>} : () -> ()

// -----

// A momentum of 1 would never forget.
// expected-error @+1 {{expected momentum in [0.000000e+00, 1.000000e+00), found 1.000000e+00}}
"test.use"() {rule = #kerf.sgd<momentum = 1>} : () -> ()

// -----

// Nesterov's step looks ahead along a momentum.
// expected-error @+1 {{expected momentum > 0 with nesterov}}
"test.use"() {rule = #kerf.sgd<nesterov = true>} : () -> ()

// -----

// A weight decay is not negative.
// expected-error @+1 {{expected weight_decay >= 0, found -1.000000e-01}}
"test.use"() {rule = #kerf.sgd<weight_decay = -0.1>} : () -> ()

// -----

// A share is not 1.
// expected-error @+1 {{expected beta1 in [0.000000e+00, 1.000000e+00), found 1.000000e+00}}
"test.use"() {rule = #kerf.lion<beta1 = 1.0>} : () -> ()

// -----

// A decay is not negative.
// expected-error @+1 {{expected beta2 in [0.000000e+00, 1.000000e+00), found -5.000000e-01}}
"test.use"() {rule = #kerf.lion<beta2 = -0.5>} : () -> ()

// -----

// A growing weight of old gradients.
// expected-error @+1 {{expected beta2_decay <= 0, found 8.000000e-01}}
"test.use"() {rule = #kerf.adafactor<beta2_decay = 0.8>} : () -> ()

// -----

// An update of nothing.
// expected-error @+1 {{expected clip > 0, found 0.000000e+00}}
"test.use"() {rule = #kerf.adafactor<clip = 0.0>} : () -> ()

// -----

// Sizes are not negative.
// expected-error @+1 {{expected eps1 >= 0, found -1.000000e+00}}
"test.use"() {rule = #kerf.adafactor<eps1 = -1.0>} : () -> ()

// -----

// Sizes are not negative.
// expected-error @+1 {{expected eps2 >= 0, found -1.000000e+00}}
"test.use"() {rule = #kerf.adafactor<eps2 = -1.0>} : () -> ()

// -----

// Muon without a step is a momentum, SGD's.
// expected-error @+1 {{expected steps from 1 to 99, found 0}}
"test.use"() {rule = #kerf.muon<steps = 0>} : () -> ()

// -----

// A momentum of 1 would never change.
// expected-error @+1 {{expected momentum in [0.000000e+00, 1.000000e+00), found 1.000000e+00}}
"test.use"() {rule = #kerf.muon<momentum = 1.0>} : () -> ()

// -----

// A matrix of zeros is divided by eps.
// expected-error @+1 {{expected eps > 0, found 0.000000e+00}}
"test.use"() {rule = #kerf.muon<eps = 0.0>} : () -> ()

// -----

// A weight decay is not negative.
// expected-error @+1 {{expected weight_decay >= 0, found -1.000000e+00}}
"test.use"() {rule = #kerf.muon<weight_decay = -1.0>} : () -> ()

// -----

// Factors on the rate have names.
// expected-error @+2 {{expected ::kerf::MuonRate to be one of: original, match_rms_adamw}}
// expected-error @+1 {{failed to parse Kerf_MuonAttr parameter 'adjust' which is to be a `::kerf::MuonRate`}}
"test.use"() {rule = #kerf.muon<adjust = spectral>} : () -> ()

// -----

// Lion divides by nothing: it has no eps.
// expected-error @+1 {{duplicate or unknown struct parameter name: eps}}
"test.use"() {rule = #kerf.lion<eps = 1.0e-8>} : () -> ()

// -----

// The numbers of AdamW are those of AdamW.
// expected-error @+1 {{expected beta2 in [0.000000e+00, 1.000000e+00), found 2.000000e+00}}
"test.use"() {rule = #kerf.adamw_8bit<beta2 = 2.0>} : () -> ()

// -----

// A block of one element is no block.
// expected-error @+1 {{expected block from 2 to 1048576, found 1}}
"test.use"() {rule = #kerf.adamw_8bit<block = 1>} : () -> ()

// -----

// Pieces of ZeRO are whole blocks: blocks beyond any sense would be mostly padding.
// expected-error @+1 {{expected block from 2 to 1048576, found 1048577}}
"test.use"() {rule = #kerf.adamw_8bit<block = 1048577>} : () -> ()

// -----

// A number of elements is not negative.
// expected-error @+1 {{expected min_elements >= 0, found -1}}
"test.use"() {rule = #kerf.adamw_8bit<min_elements = -1>} : () -> ()

// -----

// A group matches something.
// expected-error @+1 {{expected a pattern of parameter names}}
"test.use"() {group = #kerf.group<match = "", weight_decay = 0.1>} : () -> ()

// -----

// A group's decay is not negative.
// expected-error @+1 {{expected weight_decay >= 0, found -1.000000e-01}}
"test.use"() {group = #kerf.group<match = "*", weight_decay = -0.1>} : () -> ()

// -----

// A group's rate is not negative.
// expected-error @+1 {{expected rate_scale >= 0, found -1.000000e+00}}
"test.use"() {group = #kerf.group<match = "*", weight_decay = 0.1, rate_scale = -1.0>} : () -> ()

// -----

// A group's rule updates.
// expected-error @+1 {{expected an optimizer rule, found 3 : i64}}
"test.use"() {group = #kerf.group<match = "*", weight_decay = 0.1, rule = 3>} : () -> ()

// -----

// A step is not negative.
// expected-error @+1 {{expected rate >= 0, found -1.000000e+00}}
"test.use"() {rule = #kerf.balance<rate = -1.0, target = 4.0>} : () -> ()

// -----

// Nor is a load.
// expected-error @+1 {{expected target >= 0, found -4.000000e+00}}
"test.use"() {rule = #kerf.balance<rate = 1.0, target = -4.0>} : () -> ()

// -----

// A group has a decay.
// expected-error @+1 {{struct is missing required parameter: weight_decay}}
"test.use"() {group = #kerf.group<match = "*">} : () -> ()

// -----

// Scaling lengthens waves.
// expected-error @+1 {{expected factor >= 1, 0 < low < high and original >= 1}}
"test.use"() {scaling = #kerf.rope_llama3<factor = 0.5, low = 1.0, high = 4.0, original = 8192.0>} : () -> ()

// -----

// The band of wavelengths is not empty.
// expected-error @+1 {{expected factor >= 1, 0 < low < high and original >= 1}}
"test.use"() {scaling = #kerf.rope_llama3<factor = 8.0, low = 4.0, high = 4.0, original = 8192.0>} : () -> ()

// -----

// Linear scaling lengthens waves too.
// expected-error @+1 {{expected factor >= 1, found 0.000000e+00}}
"test.use"() {scaling = #kerf.rope_linear<factor = 0.0>} : () -> ()

// -----

// The band of pairs is not empty.
// expected-error @+1 {{expected factor >= 1, 0 <= low < high and finite magnitude > 0}}
"test.use"() {scaling = #kerf.rope_yarn<factor = 4.0, low = 2.0, high = 2.0, magnitude = 1.0>} : () -> ()

// -----

// A turned pair has a length.
// expected-error @+1 {{expected factor >= 1, 0 <= low < high and finite magnitude > 0}}
"test.use"() {scaling = #kerf.rope_yarn<factor = 4.0, low = 0.0, high = 2.0, magnitude = 0.0>} : () -> ()

// -----

// expected-error @+1 {{expected finite frequencies and magnitude > 0}}
"test.use"() {scaling = #kerf.rope_table<frequencies = [1.0, 0x7FF0000000000000]>} : () -> ()

// -----

// A phase is of a part of the step.
// expected-error @+2 {{expected ::kerf::PhaseKind to be one of: forward, input_gradient, weight_gradient, update}}
// expected-error @+1 {{failed to parse Kerf_PhaseAttr parameter 'kind' which is to be a `::kerf::PhaseKind`}}
"test.use"() {phase = #kerf.phase<backward 3>} : () -> ()

// -----

// The dialect has one attribute for ops.
// expected-error @+1 {{'test.use' op has unknown attribute 'kerf.colour', expected 'kerf.phase', 'kerf.assign', 'kerf.recomputed', 'kerf.chunk', 'kerf.recompute' or none}}
"test.use"() {kerf.colour = "red"} : () -> ()

// -----

// A phase is a phase.
// expected-error @+1 {{'test.use' op expected 'kerf.phase' to be a #kerf.phase}}
"test.use"() {kerf.phase = 3} : () -> ()

// -----

// That an op computes a value again is a mark, not a number.
// expected-error @+1 {{'test.use' op expected 'kerf.recomputed' to be a unit attribute}}
"test.use"() {kerf.recomputed = 3} : () -> ()

// -----

// expected-error @+1 {{expected 'kerf.chunk' to be the number of a chunk, on a repeat}}
"test.use"() {kerf.chunk = 1 : i64} : () -> ()

// -----

// expected-error @+1 {{expected 'kerf.recompute' to be numbers of forward ops, on a repeat}}
"test.use"() {kerf.recompute = "all"} : () -> ()
