# Configuration of lit; lit.site.cfg.py in the build folder loads it.
import os

import lit.formats

config.name = "Kerf"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "Unit", "Style", "cases", "packages", "functions"]
config.test_source_root = os.path.dirname(__file__)

config.environment["PATH"] = os.pathsep.join(
    [config.kerf_tools_dir, config.llvm_tools_dir, os.environ.get("PATH", "")]
)
# A real cuDNN that is installed cannot run on the simulator's driver.
config.environment["KERF_CUDA_OWN_ATTENTION"] = "1"
config.substitutions.append(("%source_root", config.kerf_source_root))
config.substitutions.append(("%python", config.python))
# Stand-ins of the runtime's tests.
build = os.path.dirname(config.kerf_tools_dir.rstrip(os.sep))
config.substitutions.append(("%runtime_tests", os.path.join(build, "test/Runtime")))
config.substitutions.append(("%test_plugin", config.test_plugin))
config.substitutions.append(("%fault_plugin", config.fault_plugin))

# Stays empty: a test that some machines skip is a test nobody trusts.
config.available_features.clear()
