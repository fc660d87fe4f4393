// Kernels that ops bring along: some that are right, and what is wrong with others.
// RUN: split-file %s %t
// RUN: kerf-kernels %t/right.mlir --plugin %test_plugin --dump %t | FileCheck %s --check-prefix=RIGHT
// RUN: cat %t/*.ll | FileCheck %s --check-prefix=CODE
// RUN: kerf-opt --load-dialect-plugin=%test_plugin %t/content.mlir --kerf-generate-code | FileCheck %s --check-prefix=CONTENT
// RUN: kerf-opt --load-dialect-plugin=%test_plugin %t/same.mlir --kerf-generate-code | grep -o 'symbol = .*,' > %t/symbol
// RUN: %python -c "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read().replace(b' urem i64', b' srem i64'))" %test_plugin > %t/other.so
// RUN: kerf-opt --load-dialect-plugin=%t/other.so %t/same.mlir --kerf-generate-code | grep -o 'symbol = .*,' > %t/other
// RUN: not cmp %t/symbol %t/other
// RUN: not kerf-opt --load-dialect-plugin=%test_plugin %t/content.mlir --kerf-generate-code=target=cuda 2>&1 | FileCheck %s --check-prefix=CUDA
// RUN: kerf-opt --load-dialect-plugin=%test_plugin %t/wrong.mlir --split-input-file --verify-diagnostics --kerf-generate-code
// RUN: kerf-opt --load-dialect-plugin=%test_plugin %t/linkage.mlir --kerf-generate-code > %t/linked.mlir
// RUN: %python -c "import base64, re, sys; sys.stdout.buffer.write(base64.b64decode(re.search('exec.image .([A-Za-z0-9+/=]+)', open(sys.argv[1]).read())[1]))" %t/linked.mlir > %t/image.so
// RUN: llvm-readelf --dyn-syms %t/image.so | FileCheck %s --check-prefix=LINKAGE
// RUN: not kerf-opt --load-dialect-plugin=%test_plugin %t/mixed.mlir 2>&1 | FileCheck %s --check-prefix=MIXED

// RIGHT: rows: ok
// RIGHT: line: ok
// Sizes became numbers.
// CODE: define void @k
// CODE-NOT: @columns
// Each kernel has code of its own but the last.
// CONTENT: @a{{.*}}symbol = "[[A:k[0-9a-f]+]]"
// CONTENT: @b{{.*}}symbol = "[[B:k[0-9a-f]+]]"
// CONTENT-NOT: symbol = "[[A]]"
// CONTENT-NOT: symbol = "[[B]]"
// CONTENT: @f{{.*}}symbol = "[[A]]"
// Every kernel is exported, and nothing else of its module.
// LINKAGE-NOT: other
// LINKAGE-COUNT-4: FUNC GLOBAL DEFAULT {{.*}} k{{[0-9a-f]+}}
// LINKAGE-NOT: other
// CUDA: error: {{.*}} brings a kernel for CPUs, which a GPU cannot run: compile with '--target=cpu', or give the op a decomposition
// MIXED: mixed.mlir:3:8: error: 'kerf_test.code' op in a kernel, expected a plain op, one that evaluates, or a single op that brings its own kernel

//--- right.mlir
exec.kernel @rows(%x: tensor<5x3x40xf32>) -> tensor<5x3x40xf32> {
  %y = kerf_test.reverse_rows %x : tensor<5x3x40xf32>
  exec.yield %y : tensor<5x3x40xf32>
}
// The same text with another size.
exec.kernel @line(%x: tensor<7xf32>) -> tensor<7xf32> {
  %y = kerf_test.reverse_rows %x : tensor<7xf32>
  exec.yield %y : tensor<7xf32>
}

//--- content.mlir
// Text, units, grain and sizes make different kernels; names do not.
exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @a() {
    kerf_test.code "define void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" : () -> ()
    exec.yield
  }
  exec.kernel @b() {
    kerf_test.code "define void @kernel(ptr %a, i64 %b, i64 %e) { store i64 %b, ptr %a  ret void }" : () -> ()
    exec.yield
  }
  exec.kernel @c() {
    kerf_test.code "define void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" {units = 2} : () -> ()
    exec.yield
  }
  exec.kernel @d() {
    kerf_test.code "define void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" {grain = 2} : () -> ()
    exec.yield
  }
  exec.kernel @e() {
    kerf_test.code "define void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" {size = "rows"} : () -> ()
    exec.yield
  }
  exec.kernel @f() {
    kerf_test.code "define void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" : () -> ()
    exec.yield
  }
}

//--- linkage.mlir
// Whatever a kernel was in its own file.
exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @a() {
    kerf_test.code "define internal void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" : () -> ()
    exec.yield
  }
  exec.kernel @b() {
    kerf_test.code "define hidden void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" : () -> ()
    exec.yield
  }
  exec.kernel @c() {
    kerf_test.code "$kernel = comdat any define linkonce_odr void @kernel(ptr %a, i64 %b, i64 %e) comdat { ret void }" : () -> ()
    exec.yield
  }
  exec.kernel @d() {
    kerf_test.code "define void @other(ptr %a) noinline { ret void } define weak void @kernel(ptr %a, i64 %b, i64 %e) { call void @other(ptr %a) ret void }" : () -> ()
    exec.yield
  }
}

//--- same.mlir
// The same op of another plug-in, whose text differs, is another kernel.
exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k(%x: tensor<7xf32>) -> tensor<7xf32> {
    %y = kerf_test.reverse_rows %x : tensor<7xf32>
    exec.yield %y : tensor<7xf32>
  }
}

//--- mixed.mlir
// Beside other ops, or with the arguments in another order, it is none.
exec.kernel @swapped(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %z = kerf_test.code %y, %x "define void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  exec.yield %z : tensor<4xf32>
}

//--- wrong.mlir
// The text does not parse.
exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{brings a kernel that is no LLVM IR: line 1: expected type}}
    kerf_test.code "define void @kernel(" : () -> ()
    exec.yield
  }
}

// -----

// It parses, and makes no sense.
exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{brings a kernel that is no sound LLVM IR: Instruction does not dominate all uses!}}
    kerf_test.code "define void @kernel(ptr %a, i64 %b, i64 %e) { %x = load i64, ptr %p  %p = getelementptr i8, ptr %a, i64 %x  ret void }" : () -> ()
    exec.yield
  }
}

// -----

// Another name, and another signature.
exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{brings a kernel that has no function 'void kernel(void *const *, int64_t, int64_t)'}}
    kerf_test.code "define void @kern(ptr %a, i64 %b, i64 %e) { ret void }" : () -> ()
    exec.yield
  }
}

// -----

exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{has no function 'void kernel(}}
    kerf_test.code "define i32 @kernel(ptr %a, i64 %b, i64 %e) { ret i32 0 }" : () -> ()
    exec.yield
  }
}

// -----

exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{has no function 'void kernel(}}
    kerf_test.code "declare void @kernel(ptr, i64, i64)" : () -> ()
    exec.yield
  }
}

// -----

// Code for another machine.
exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{is for another machine: its data layout is 'e-m:e-i8:8:32}}
    kerf_test.code "target datalayout = \22e-m:e-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128\22 define void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" : () -> ()
    exec.yield
  }
}

// -----

// What a kernel may not call, read or keep.
exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{calls 'foo', expected its own functions and those of the C library that take and return numbers}}
    kerf_test.code "declare void @foo() define void @kernel(ptr %a, i64 %b, i64 %e) { call void @foo() ret void }" : () -> ()
    exec.yield
  }
}

// -----

exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{calls 'puts'}}
    kerf_test.code "declare i32 @puts(ptr) define void @kernel(ptr %a, i64 %b, i64 %e) { %n = call i32 @puts(ptr %a) ret void }" : () -> ()
    exec.yield
  }
}

// -----

exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{reads 'columns', to which 'sizes' gives no value}}
    kerf_test.code "@columns = external constant i64 define void @kernel(ptr %a, i64 %b, i64 %e) { %n = load i64, ptr @columns  store i64 %n, ptr %a  ret void }" {size = "rows"} : () -> ()
    exec.yield
  }
}

// -----

exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{defines 'rows', expected 'extern const int64_t'}}
    kerf_test.code "@rows = constant i64 4 define void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" {size = "rows"} : () -> ()
    exec.yield
  }
}

// -----

exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{has the variable 'count', expected constants alone: units run at the same time}}
    kerf_test.code "@count = internal global i64 0 define void @kernel(ptr %a, i64 %b, i64 %e) { store i64 %b, ptr @count  ret void }" : () -> ()
    exec.yield
  }
}

// -----

exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{has assembly outside of functions, expected none}}
    kerf_test.code "module asm \22nop\22 define void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" : () -> ()
    exec.yield
  }
}

// -----

// Numbers of units that no thread can work on.
exec.program @p arena 64 lower_bound 64 classes [0, 0, 0, 0, 0, 0, 0, 64] {
  exec.kernel @k() {
    // expected-error@+1 {{brings a kernel with 4 units of grain 0, expected at least 0 and 1}}
    kerf_test.code "define void @kernel(ptr %a, i64 %b, i64 %e) { ret void }" {units = 4, grain = 0} : () -> ()
    exec.yield
  }
}
