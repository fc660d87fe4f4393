//===- Plugins.h - device libraries of the tests --------------------------===//

#ifndef KERF_TEST_RUNTIME_PLUGINS_H
#define KERF_TEST_RUNTIME_PLUGINS_H

#include <cstdlib>

namespace kerf::test {

/// The folder of the device "test": the plain one's or, where the variable
/// KERF_TEST_DEVICES says so, that of the same behind memory of its own
/// (FarDevice.cpp).
inline const char *testPlugins() {
  const char *folder = std::getenv("KERF_TEST_DEVICES");
  return folder ? folder : KERF_TEST_PLUGINS;
}

} // namespace kerf::test

#endif // KERF_TEST_RUNTIME_PLUGINS_H
