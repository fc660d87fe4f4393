"""The installed package, as a user has it: moved elsewhere, with the examples built against it.

install.py BUILD CXX

Installs the build folder into a temporary folder, renames that, builds the examples with a pass and with an op
of one's own, and runs their tests, which compile and train with the installed tools.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = CXX = ""
EXAMPLES = {"out-of-tree-pass": "FreezeParameters", "out-of-tree-op": "Smooth"}


def run(*command, status=0):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == status, f"{' '.join(map(str, command))}:\n{done.stdout}"
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        first = cls.folder / "first"
        run("cmake", "--install", BUILD, "--prefix", first)
        cls.kerf = first.rename(cls.folder / "kerf")
        about = (cls.kerf / "lib/cmake/Kerf/KerfConfigVersion.cmake").read_text()
        cls.version = re.search(r'set\(PACKAGE_VERSION "([0-9.]+)"\)', about)[1]
        for example in EXAMPLES:
            cls.configure(cls.kerf / "share/kerf/examples" / example, cls.folder / example)
            run("cmake", "--build", cls.folder / example)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def configure(cls, source, build, status=0):
        return run("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={cls.kerf}",
                   f"-DCMAKE_CXX_COMPILER={CXX}", status=status)  # fmt: skip

    def test_examples(self):
        for example in EXAMPLES:
            out = run("ctest", "--test-dir", self.folder / example, "--output-on-failure")
            self.assertIn("100% tests passed, 0 tests failed out of 1", out)

    def test_tells_no_folder_that_it_came_from(self):
        files = list((self.kerf / "lib/cmake/Kerf").iterdir())
        self.assertGreater(len(files), 4)
        for path in files:
            text = path.read_text()
            self.assertNotIn(str(self.folder), text, path.name)
            self.assertNotIn(str(BUILD), text, path.name)

    # A plug-in whose section names another version, or that has none, is not even loaded.
    def test_refuses_plugins_of_another_version(self):
        plugin = self.folder / "other.so"
        own = f"{self.version} (LLVM "
        other = own.replace(".", "x")
        for (example, name), kind in zip(EXAMPLES.items(), ("pass", "dialect")):
            right = (self.folder / example / f"{name}.so").read_bytes()
            for old, new, said in (
                (own.encode(), other.encode(), f"was built against Kerf {other}"),
                (b"\0.kerf\0", b"\0.none\0", "was built against no Kerf"),
            ):
                self.assertEqual(right.count(old), 1)
                plugin.write_bytes(right.replace(old, new))
                for tool in ("kerfc", "kerf-opt"):
                    out = run(self.kerf / "bin" / tool, f"--load-{kind}-plugin={plugin}", "none.mlir", status=1)
                    self.assertIn(f"error: plug-in '{plugin}' {said}", out)
                    self.assertIn(f", expected Kerf {own}", out)
                    self.assertIn("note: build it anew", out)

    def test_package_is_of_one_version(self):
        source = self.folder / "newer"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(Newer CXX)\nfind_package(Kerf 99.0 REQUIRED)\n")  # fmt: skip
        self.assertIn(f"version: {self.version}", self.configure(source, self.folder / "n", status=1))


if __name__ == "__main__":
    BUILD, CXX = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
