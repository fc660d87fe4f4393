// An op that no stage knows goes through every stage that exists.

// RUN: kerf-opt --load-dialect-plugin=%test_plugin %s --kerf-verify-ingest --kerf-differentiate --kerf-verify-differentiated --kerf-split-weight-gradient --kerf-split-repeat=at=1 --kerf-precision=policy=bf16 --kerf-verify-precision | FileCheck %s
// RUN: kerfc --load-dialect-plugin=%test_plugin %s --precision=bf16 | FileCheck %s --check-prefix=STEP
// RUN: kerf-inspect --load-dialect-plugin=%test_plugin gradcheck %s --samples=64 | FileCheck %s --check-prefix=GRAD
// RUN: kerf-inspect --load-dialect-plugin=%test_plugin interpret %s --compute=f64 | FileCheck %s --check-prefix=LOSS
// RUN: kerf-opt --load-dialect-plugin=%test_plugin %s --kerf-dump-factors 2>&1 | FileCheck %s --check-prefix=FACTORS

// CHECK-LABEL: kerf.model @gate
// CHECK: kerf_test.softplus_gate {{.*}} : tensor<2x4xbf16>
// STEP: kerf_test.softplus_gate {{.*}}kerf.phase = #kerf.phase<forward 3>
// STEP: kerf.update "h.{i}.gate"[0 to 2]
// GRAD: ok {{.*}} h.0.gate
// GRAD: ok {{.*}} h.1.gate
// GRAD: ok {{.*}} x
// The loss of x = 1, gate = 0 in two layers: 8 ln(2)^2.
// LOSS: step 1 loss 3.84362411
// FACTORS: remark: b=2 s=4 : [b, s], [b, s] -> [b, s] linear in 0
kerf.model @gate() attributes {optimizer = #kerf.sgd<>} {
  %x = kerf.param "x" init<ones> : tensor<2x4xf32>
  %y = kerf.repeat %i = 0 to 2 (%h = %x : tensor<2x4xf32>) {
    %g = kerf.param "h.{i}.gate" init<zeros> : tensor<2x4xf32>
    %z = kerf_test.softplus_gate %h, %g : tensor<2x4xf32>
    kerf.yield %z : tensor<2x4xf32>
  }
  %loss = kerf.reduce sum %y dims [0, 1] : tensor<2x4xf32>
  kerf.return %loss : tensor<f32>
}
