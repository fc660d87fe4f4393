"""What cpack makes, as a user has it: package.py BUILD

The tarball is unpacked elsewhere and trains a model with the libraries that it brings; the Debian package
says what it needs.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = ""
SYSTEM = ("linux-vdso", "/lib64/ld-linux", "libc.so", "libm.so", "libgcc_s.so", "libstdc++.so")


def run(*command, **options):
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}"
    return done.stdout


class Package(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def pack(self, kind, pattern):
        run("cpack", "--config", pathlib.Path(BUILD, "CPackConfig.cmake"), "-G", kind, "-B", self.folder)
        (made,) = self.folder.glob(pattern)
        return made

    def test_tarball_brings_all_libraries(self):
        packed, user = self.pack("TGZ", "*.tar.gz"), self.folder / "user"
        user.mkdir()
        run("tar", "-xf", packed, "-C", user)
        (kerf,) = user.iterdir()
        programs = sorted((kerf / "bin").iterdir())
        self.assertGreater(len(programs), 4)
        for program in programs:
            for line in run("ldd", program).splitlines():
                is_own = str(kerf) in os.path.realpath(line.split("=> ")[-1].split(" (")[0])
                self.assertTrue(is_own or line.strip().startswith(SYSTEM), f"{program.name}: {line}")
        self.train(kerf)

    def train(self, kerf):
        options = {"env": {"PATH": f"{kerf}/bin:/usr/bin:/bin"}, "cwd": self.folder}
        examples = kerf / "share/kerf/examples"
        run("kerf-import", examples / "models/tiny-gpt2/config.json", "--batch=2", "--seq=16", "-o", "m.mlir", **options)
        run("kerfc", "m.mlir", "-o", "m.kerf", **options)
        said = run("kerf-run", "m.kerf", "--data", examples / "hand-written.mlir", "--steps=2", **options)
        self.assertIn(" iteration        2/       2 |", said)

    def test_debian_package_says_what_it_needs(self):
        control = run("dpkg-deb", "--info", self.pack("DEB", "*.deb"))
        needed = next(line for line in control.splitlines() if line.strip().startswith("Depends:"))
        for package in ("libc6", "libmlir-22"):
            self.assertIn(package, needed)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
