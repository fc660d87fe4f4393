// RUN: kerf-opt %s --kerf-generate-code=cpu=x86-64-v3 --kerf-verify-code | FileCheck %s
// RUN: not kerf-opt %s --kerf-generate-code=cpu=x86-65 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: not kerf-opt %s --kerf-verify-code 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: kerf-opt %s --kerf-generate-code=cpu=x86-64-v3 > %t.1
// RUN: kerf-opt %s "--kerf-generate-code=cpu=x86-64-v3 threads=1" > %t.2
// RUN: cmp %t.1 %t.2
// RUN: kerf-opt %s --kerf-generate-code=cpu=x86-64-v2 > %t.3
// RUN: not cmp -s %t.1 %t.3

// CPU: error: unknown CPU 'x86-65', expected 'native', 'x86-64-v2'
// NONE: error: 'exec.kernel' op has no machine code
// NONE: note: run 'kerf-generate-code' first

// Each kernel gets its symbol, units and grain; the program its CPU, what this
// needs, and the shared object, a file of ELF. Threads that compile and the
// order in which they end change nothing; the CPU does.
// CHECK-LABEL: exec.program @two
// CHECK-SAME: cpu = "x86-64-v3", features = "{{[^"]*}}avx2{{[^"]*}}"
exec.program @two arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 128] {
  // CHECK: exec.kernel @k0{{.*}} attributes {code = {grain = {{[1-9][0-9]*}} : i64, symbol = "[[S:k[0-9a-f]+]]", units = {{[1-9][0-9]*}} : i64}}
  exec.kernel @k0(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = kerf.exp %x : tensor<4xf32>
    exec.yield %y : tensor<4xf32>
  }
  // CHECK: exec.kernel @k1{{.*}} attributes {code = {grain = {{[1-9][0-9]*}} : i64, symbol = "{{k[0-9a-f]+}}", units = {{[1-9][0-9]*}} : i64}}
  exec.kernel @k1(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = kerf.tanh %x : tensor<4xf32>
    exec.yield %y : tensor<4xf32>
  }
  // Of the same content as k0, so of the same code.
  // CHECK: exec.kernel @k2{{.*}} symbol = "[[S]]"
  exec.kernel @k2(%z: tensor<4xf32>) -> tensor<4xf32> {
    %y = kerf.exp %z : tensor<4xf32>
    exec.yield %y : tensor<4xf32>
  }
  // CHECK: exec.image "f0VMRg
}
// Another program with kernels of that content names the same code, and has no
// shared object of its own.
// CHECK-LABEL: exec.program @more
// CHECK-SAME: cpu = "x86-64-v3", features = "{{[^"]*}}avx2{{[^"]*}}"
exec.program @more arena 128 lower_bound 128 classes [0, 0, 0, 0, 0, 0, 0, 128] {
  // CHECK: exec.kernel @k0{{.*}} symbol = "[[S]]"
  exec.kernel @k0(%z: tensor<4xf32>) -> tensor<4xf32> {
    %y = kerf.exp %z : tensor<4xf32>
    exec.yield %y : tensor<4xf32>
  }
  // CHECK-NOT: exec.image
}
// A program without kernels has code too.
// CHECK-LABEL: exec.program @none
exec.program @none arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.output "loss" f32 at 0
}
