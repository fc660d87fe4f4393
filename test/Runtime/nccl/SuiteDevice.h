//===- SuiteDevice.h - a device for the suite of transports ---------------===//

#ifndef KERF_TEST_RUNTIME_NCCL_SUITEDEVICE_H
#define KERF_TEST_RUNTIME_NCCL_SUITEDEVICE_H

#include "Transport.h"

namespace kerf::test {

/// A device whose memory is the host's and whose streams are the stand-in's
/// (StandIn.cpp, which KERF_CUDA_PATH names). It runs nothing.
const kerf_device_api *suiteDevice(kerf_device **device);

/// Pretends that the device has `count` recordings with calls of NCCL, which
/// keep their communicators. False where the stand-in is not loaded.
bool setRecordings(int count);

/// The same transport, but what it enqueues is done on return.
std::unique_ptr<runtime::Transport>
waitFor(std::unique_ptr<runtime::Transport> transport);

} // namespace kerf::test

#endif // KERF_TEST_RUNTIME_NCCL_SUITEDEVICE_H
