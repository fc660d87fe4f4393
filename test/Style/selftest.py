"""Shows every check a good tree, which it must accept, and bad ones, which it must refuse."""

import pathlib
import sys
import tempfile
import unittest

import command_attrs
import common
import dead_checks
import docs_reference
import format as format_check
import layering
import machine_paths
import op_casts
import op_docs
import sizes
import top_level
import words

CLANG_FORMAT = "clang-format-22"

OP = '''
def Kerf_FooOp : Kerf_Op<"foo", [Pure]> {
  let summary = "double a tensor";
  let description = [{
    Meaning. Life: made by ingest, removed by partition.
    Constraints: (C1) ranks agree; (C2) types agree.
    ```mlir
    %0 = kerf.foo %x : tensor<2xf32>
    ```
  }];
}
'''
TD = "include/kerf/Dialect/Kerf/KerfTensorOps.td"
GOOD_OP = {
    TD: OP,
    "lib/Dialect/Kerf/TensorOps.cpp": "// foo_c1, foo_c2\n",
    "test/Dialect/Kerf/foo.mlir": "func @foo_c1()\nfunc @foo_c2()\n",
}
RUN = "// RUN: kerf-opt %s | FileCheck %s\n// CHECK: a\n"


def run_on(check, files, *extra):
    """What `check` finds in a tree with these files (path -> text)."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            target = pathlib.Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return check(pathlib.Path(folder), *(e.replace("ROOT", folder) for e in extra))


def function_of(lines, head="static int f(int a,\n             int b) {\n"):
    return head + "  a++;\n" * (lines - head.count("\n") - 1) + "}\n"


class Case(unittest.TestCase):
    def accepts(self, check, files, *extra):
        self.assertEqual(run_on(check, files, *extra), [])

    def refuses(self, check, files, text, *extra):
        findings = run_on(check, files, *extra)
        self.assertTrue(any(text in f for f in findings), f"{text!r} not in {findings}")


class Layering(Case):
    def test_accepts(self):
        include = '#include "kerf/Support/A.h"\n#include "mlir/IR/A.h"\n'
        self.accepts(
            layering.check,
            {"lib/Ingest/A.cpp": include + '#include "kerf/Ingest/B.h"\n',
             "tools/kerfc/main.cpp": '#include "kerf/Pipeline/P.h"\n'},
        )  # fmt: skip

    def test_refuses(self):
        stage = '#include "kerf/Ingest/B.h"\n'
        upward = '#include "kerf/Dialect/Kerf/A.h"\n'
        for path, text, finding in (
            ("lib/Precision/A.cpp", stage, "'Precision' may not include 'Ingest'"),
            ("include/kerf/Support/A.h", upward, "'Support' may not include 'Dialect'"),
            ("lib/Elsewhere/A.cpp", "", "has no line"),
            ("lib/Ingest/A.cpp", '#include "../Precision/P.h"\n', "include by a 'kerf/"),
            ("include/kerf/Interfaces/A.td", 'include "kerf/Dialect/K.td"\n', "may not"),
        ):
            self.refuses(layering.check, {path: text}, finding)

    def test_single_header(self):
        table = {"t.txt": "A: B/C.h\nB:\n"}
        files = table | {"lib/A/A.cpp": '#include "kerf/B/C.h"\n'}
        self.accepts(layering.check, files, "ROOT/t.txt")
        files = table | {"lib/A/A.cpp": '#include "kerf/B/D.h"\n'}
        self.refuses(layering.check, files, "'A' may not include 'B' (kerf/B/D.h)", "ROOT/t.txt")

    def test_table(self):
        files = {"t.txt": "A: B\n"}
        self.refuses(layering.check, files, "names 'B'", "ROOT/t.txt")
        self.refuses(layering.check, {"t.txt": "A:\nA:\n"}, "each component once", "ROOT/t.txt")


class OpDocs(Case):
    def test_accepts(self):
        self.accepts(op_docs.check, GOOD_OP)
        none = OP.replace("(C1) ranks agree; (C2) types agree.", "none.")
        self.accepts(op_docs.check, {TD: none})

    def test_refuses_changed_definition(self):
        for old, new, finding in (
            ('let summary = "double a tensor";', "", "no summary"),
            ("let description", "let note", "no description"),
            ("Life:", "", "'Life:'"),
            ("Constraints:", "", "without 'Constraints:'"),
            ("```mlir", "```", "example"),
            ("(C1) ranks agree; (C2) types agree.", "some.", "needs labels"),
            ("(C2)", "(C3)", "not numbered"),
            ("Kerf_Op<", "Strange<", "not of a form"),
        ):
            self.refuses(op_docs.check, GOOD_OP | {TD: OP.replace(old, new)}, finding)

    def test_refuses_missing_partner(self):
        source, test = "lib/Dialect/Kerf/TensorOps.cpp", "test/Dialect/Kerf/foo.mlir"
        self.refuses(op_docs.check, GOOD_OP | {source: "// foo_c1\n"}, "cited nowhere")
        self.refuses(op_docs.check, GOOD_OP | {test: "@foo_c1"}, "no negative test")
        stale = {source: "// foo_c1, foo_c2\n// foo_c9\n"}
        self.refuses(op_docs.check, GOOD_OP | stale, "no op has that constraint")
        other = {test: "", "test/Dialect/Other/foo.mlir": GOOD_OP[test]}
        self.refuses(op_docs.check, GOOD_OP | other, "no negative test")
        self.refuses(op_docs.check, {}, "no op found")


class DeadChecks(Case):
    def test_accepts(self):
        for text in (
            RUN + "// CHECK-NEXT: b\n// CHECK-COUNT-2: c\n// CHECK{LITERAL}: [[\n"
            "// CHECK-SAME: d\n// A sentence about this: fine.\n// Checks nothing else.\n",
            "// RUN: a %s \\\n// RUN:   | FileCheck %s --check-prefixes=CHECK,OPT\n"
            "// CHECK: a\n// OPT-NOT: b\nop // OPT: c\n",
            "// RUN: kerf-opt %s -verify-diagnostics\n// NOTE: only diagnostics\n",
        ):
            self.accepts(dead_checks.check, {"test/Dialect/a.mlir": text})
        self.accepts(dead_checks.check, {"test/A/a.test": RUN.replace("//", "#")})

    def test_refuses(self):
        for line in (
            "CHECK_NEXT: b", "CHEKC: b", "CHECK -NEXT: b", "CHECK b", "CHECK : b",
            "CHECK-NEXT b", "CHECK-LABEL b", "CHECK-SAME b", "CHECK-DAG b", "CHECK-NOT b",
            "CHECK-COUNT-2 b", "CHECK-COUNT: b", "CHECK-NXT: b", "CHECKNEXT: b",
            "OTHER: b", "OTHER-NEXT: b", "check-next: b", "Check: b", "CHEKC-NEXT b",
            "XCHECK: b", "CHECK-NEXT : b", "CHECK-DAG-NOT: b",
        ):  # fmt: skip
            text = RUN + f"// {line}\n"
            with self.subTest(line):
                self.refuses(dead_checks.check, {"test/D/a.mlir": text}, "test/D/a.mlir:3")
                hashes = text.replace("//", "#")
                self.refuses(dead_checks.check, {"test/D/a.test": hashes}, "test/D/a.test:3")

    def test_refuses_file(self):
        no_filecheck = "// RUN: kerf-opt %s\n// CHECK: a\n"
        self.refuses(dead_checks.check, {"test/D/a.mlir": no_filecheck}, "no RUN line calls")
        unused = RUN.replace("FileCheck", "FileCheck --check-prefixes=CHECK,OPT")
        self.refuses(dead_checks.check, {"test/D/a.mlir": unused}, "prefix 'OPT'")
        self.refuses(dead_checks.check, {}, "no lit test found")


class Sizes(Case):
    def test_accepts(self):
        text = (
            '#include "a.h"\n#define A {\nnamespace {\nstruct P : Q<A> {\n  int x = {1};\n'
            + function_of(100, "  void run(int a) override {\n")
            + "};\n} // namespace\nstatic const int t[] = {\n" + "    1,\n" * 200 + "};\n"
            + "/* { */ static const char *s = R\"({{)\";\nX::X() : a(1), b{2} {}\n"
            + function_of(100) + function_of(90)
        )  # fmt: skip
        self.accepts(sizes.check, {"lib/A/A.cpp": text, "lib/A/B.cpp": "\n" * 800})

    def test_refuses(self):
        method = "struct P {\npublic:\n" + function_of(101, "  void run() {\n") + "};\n"
        init = function_of(101, "X::X(int a)\n    : a(a), b{2} {\n")
        for path, text, finding in (
            ("lib/A/A.cpp", "\n" * 801, "801 lines"),
            ("test/Style/a.py", "\n" * 801, "801 lines"),
            ("include/kerf/A/A.td", "\n" * 801, "801 lines"),
            ("lib/A/Utils.cpp", "\n" * 201, "Utils.cpp"),
            ("lib/A/A.cpp", "\n\n" + function_of(101), "A.cpp:3: function of 101"),
            ("tools/a/main.cpp", function_of(101), "main.cpp:1: function of 101"),
            ("lib/A/A.cpp", "namespace a {\nint x{3};\n" + function_of(101) + "}\n", ":3:"),
            ("lib/A/A.cpp", method, "A.cpp:3: function of 101"),
            ("lib/A/A.cpp", init, "A.cpp:1: function of 101"),
        ):
            with self.subTest(finding):
                self.refuses(sizes.check, {path: text}, finding)
        many = {f"lib/A/{n}.cpp": "" for n in range(46)}
        self.refuses(sizes.check, many, "lib/A: 46 sources")


class OpCasts(Case):
    TD = {TD: "def Kerf_FooOp : Kerf_Op<\"foo\"> {}\ndef Kerf_BarOp : Kerf_Op<\"bar\"> {}\n"}

    def test_accepts(self):
        text = "isa<FooOp, kerf::BarOp>(op); dyn_cast<OtherOp>(op); FooOp::create(b);"
        files = self.TD | {"lib/Fuse/A.cpp": text, "lib/Dialect/A.cpp": text}
        self.accepts(op_casts.check, files | {"t.txt": "# why\nFuse 2 FooOp BarOp: a reason\n"}, "ROOT/t.txt")

    def test_refuses(self):
        for text in (
            "isa<FooOp>(op)", "value.getDefiningOp<FooOp>()", "llvm::IsaPred<FooOp>", "isa_and_nonnull<\n    FooOp>(op)",
            ".Case<FooOp>(f)", ".Case([&](FooOp op) {})", "root->walk([&](FooOp op) {})", "body.getOps<FooOp>()",
        ):  # fmt: skip
            files = self.TD | {"lib/Fuse/A.cpp": text, "t.txt": "Memory 0 BarOp: none\n"}
            with self.subTest(text):
                self.refuses(op_casts.check, files, "lib/Fuse: 1 casts to FooOp", "ROOT/t.txt")

    def test_table(self):
        for row, finding in (
            ("Fuse 2 FooOp: a reason", "t.txt says 2"),
            ("Fuse 1 FooOp:", "expected 'COMPONENT"),
            ("Fuse FooOp: a reason", "expected 'COMPONENT"),
            ("Fuse 121 FooOp: a reason", "at most 120"),
        ):
            files = self.TD | {"lib/Fuse/A.cpp": "isa<FooOp>(op)", "t.txt": row + "\n"}
            with self.subTest(row):
                self.refuses(op_casts.check, files, finding, "ROOT/t.txt")


class Others(Case):
    def test_top_level(self):
        good = {f"{name}/a": "" for name in top_level.ENTRIES if "." not in name}
        good |= {"CMakeLists.txt": "", "README.md": "", ".gitignore": ""}
        self.accepts(top_level.check, good)
        self.refuses(top_level.check, good | {"scratch.txt": ""}, "'scratch.txt' does not")
        good.pop("README.md")
        self.refuses(top_level.check, good, "'README.md' is missing")

    def test_machine_paths(self):
        good = {"a.md": "https://a/b/work ./x/root/y framework/ a/work/b $X/root/\n"}
        self.accepts(machine_paths.check, good)
        for folder in ("work", "root", "home/ann"):
            for text in (f"see /{folder}/main", f'"/{folder}"', f"-I/{folder}/x", f"=/{folder}/"):
                self.refuses(machine_paths.check, {"docs/a.md": text}, "docs/a.md:1")

    def test_words(self):
        good = {"lib/A/A.cpp": "// run again by hand; a product of sizes; the cheapest cut; what it rests on\n", "docs/changelog.md": "put off\n"}
        self.accepts(words.check, good)
        for text in ("is put off", "puts them off", "putOffSec", "makes it once again", "a matrix product", "StateFloor",
                     "spmd.input @x global tensor<4xf32> cut [[]]", "if (isCut)", "getCuts()", "cutsTensor", "the weight rests in pieces"):  # fmt: skip
            self.refuses(words.check, good | {"docs/a.md": text}, "docs/a.md:1")

    def test_command_attrs(self):
        good = {"lib/A/A.cpp": "attrs[KERF_LOOP_BODY]; attrs[first + i]; attrs[a]\n", "runtime/test/A.cpp": "attrs[3]\n"}
        self.accepts(command_attrs.check, good)
        for text in ("x = attrs[3];", "r.attr(0)", "view.attrs[command.first_attr]"):
            self.refuses(command_attrs.check, good | {"runtime/core/A.cpp": text}, "runtime/core/A.cpp:1")

    def test_format(self):
        style = {".clang-format": "BasedOnStyle: LLVM\n"}
        good = style | {"lib/A/A.cpp": "int f() { return 1; }\n"}
        self.accepts(format_check.check, good, CLANG_FORMAT)
        bad = style | {"lib/A/A.cpp": "int f( ){return 1;}\n"}
        self.refuses(format_check.check, bad, "lib/A/A.cpp: run clang-format", CLANG_FORMAT)
        self.refuses(format_check.check, style, "no C++ file", CLANG_FORMAT)

    def test_docs_reference(self):
        good = {"docs/reference/a.md": "x", "build/docs/a.md": "x"}
        check, out = docs_reference.check, "ROOT/build/docs"
        self.accepts(check, good, out)
        self.refuses(check, good | {"build/docs/a.md": "y"}, "out of date", out)
        self.refuses(check, good | {"build/docs/b.md": "y"}, "b.md is missing", out)
        self.refuses(check, good | {"docs/reference/c.md": ""}, "generated by nothing", out)
        self.refuses(check, {"docs/reference/a.md": ""}, "nothing was generated", out)

    def test_exit_status(self):
        for findings, status in (([], 0), (["bad"], 1)):
            sys.argv, saved = ["check", "."], sys.argv
            with self.assertRaises(SystemExit) as stopped:
                common.main(lambda root: findings)
            sys.argv = saved
            self.assertEqual(stopped.exception.code, status)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        CLANG_FORMAT = sys.argv.pop(1)
    unittest.main()
