#!/usr/bin/env python3
"""The first GPU as the driver sees it, and how fast it copies. Prints JSON.

    test/Bench/gpu_device.py [--copy-mib N]

libcuda.so.1 is looked for as kerf-run does: in the folders of KERF_CUDA_PATH, then by
the loader. Without a driver or a GPU the JSON has `missing`, which says what is not
there. A process of its own, so that no context stays in the memory that is measured.
"""

import argparse
import ctypes
import json
import os
import statistics
import time
from pathlib import Path

L2_BYTES, PROCESSORS, MAJOR, MINOR = 38, 16, 75, 76  # CUdevice_attribute
ROUNDS, COPIES = 5, 20


class Missing(Exception):
    """No GPU can be used; the text says why."""


def open_driver():
    """libcuda, or Missing."""
    name = "libcuda.so.1"
    folders = [f for f in os.environ.get("KERF_CUDA_PATH", "").split(":") if f]
    for path in [*(Path(f) / name for f in folders), name]:
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    places = ", ".join([*folders, "the loader's folders"])
    raise Missing(f"no CUDA driver: {name} is not in {places}")


class Driver:
    """Calls that fail raise Missing with the driver's word for it."""

    def __init__(self):
        self.library = open_driver()
        self.call("cuInit", 0)
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        if count.value == 0:
            raise Missing("the CUDA driver sees no GPU")
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)

    def call(self, name, *values):
        code = getattr(self.library, name)(*values)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(code, ctypes.byref(text))
            said = text.value.decode() if text.value else "unknown error"
            raise Missing(f"{name} of the CUDA driver failed: {said} ({code})")

    def attribute(self, number):
        """0 where the driver does not know the attribute."""
        value = ctypes.c_int()
        code = self.library.cuDeviceGetAttribute(ctypes.byref(value), number, self.device)
        return 0 if code else value.value

    def describe(self):
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, self.device)
        total, version = ctypes.c_size_t(), ctypes.c_int()
        self.call("cuDeviceTotalMem_v2", ctypes.byref(total), self.device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return {
            "name": name.value.decode(),
            "arch": f"sm_{self.attribute(MAJOR)}{self.attribute(MINOR)}",
            "memory_bytes": total.value,
            "processors": self.attribute(PROCESSORS),
            "l2_bytes": self.attribute(L2_BYTES),
            "driver": f"{version.value // 1000}.{version.value % 1000 // 10}",
        }

    def copy_rate(self, size):
        """Bytes per second, read and written together, of copies of `size` bytes on
        the device: the median of ROUNDS of COPIES copies each."""
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)
        ends = [ctypes.c_uint64(), ctypes.c_uint64()]
        for end in ends:
            self.call("cuMemAlloc_v2", ctypes.byref(end), ctypes.c_size_t(size))
            self.call("cuMemsetD8_v2", end, ctypes.c_ubyte(1), ctypes.c_size_t(size))
        rates = []
        for _ in range(ROUNDS + 1):  # the first warms up
            self.call("cuCtxSynchronize")
            start = time.perf_counter()
            for _ in range(COPIES):
                self.call("cuMemcpyDtoDAsync_v2", *ends, ctypes.c_size_t(size), None)
            self.call("cuCtxSynchronize")
            rates.append(2 * size * COPIES / (time.perf_counter() - start))
        for end in ends:
            self.call("cuMemFree_v2", end)
        self.call("cuDevicePrimaryCtxRelease_v2", self.device)
        return statistics.median(rates[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--copy-mib", type=int, default=1024, help="size of the copies; 0: none")
    args = parser.parse_args()
    try:
        driver = Driver()
        found = driver.describe()
        if args.copy_mib:
            found["copy_bytes_per_sec"] = driver.copy_rate(args.copy_mib << 20)
    except Missing as missing:
        found = {"missing": str(missing)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
