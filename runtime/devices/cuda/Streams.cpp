//===- Streams.cpp - order, waiting and graphs ----------------------------===//

#include "Streams.h"

#include "Step.h"

#include <new>

using namespace kerf::cuda;

struct kerf_graph {
  kerf_device &device;
  CUgraphExec handle;
  int64_t steps;         ///< that were recorded
  const kerf_step *last; ///< of them; null without any
};

/// Writes a failure of the driver; true when there is none.
static bool succeeded(kerf_device &device, CUresult result, const char *what,
                      char *error, size_t errorBytes) {
  if (result == CUDA_SUCCESS)
    return true;
  say(error, errorBytes, "%s: %s", what, device.driver.text(result).c_str());
  return false;
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

std::string kerf::cuda::placeOf(const kerf_device &device) {
  if (!device.enqueuedSteps || !device.lastStep)
    return "outside of steps";
  if (device.enqueuedSteps == 1)
    return "in '" + device.lastStep->name + "'";
  return "in one of " + std::to_string(device.enqueuedSteps) +
         " steps, of which the last is '" + device.lastStep->name +
         "' (KERF_NO_GRAPH=1 KERF_CUDA_SYNC=1 finds the step)";
}

/// Fails with what a kernel reported.
static kerf_device_status tellFault(kerf_device &device, const Fault &fault,
                                    char *error, size_t errorBytes) {
  auto found = device.watched.find(fault.step);
  if (found == device.watched.end())
    say(error, errorBytes, "step %d, which is gone, reported a fault",
        fault.step);
  else
    say(error, errorBytes, "command '%s': %s", found->second->name.c_str(),
        found->second->explain(fault).c_str());
  return KERF_DEVICE_FAILED;
}

kerf_device_status kerf::cuda::synchronize(kerf_device *device, char *error,
                                           size_t errorBytes) {
  Driver &driver = device->driver;
  if (device->recording) {
    say(error, errorBytes, "cannot wait while a graph is recorded");
    return KERF_DEVICE_INVALID;
  }
  device->makeCurrent();
  Fault fault = {};
  CUresult result = CUDA_SUCCESS;
  if (!device->watched.empty())
    result = driver.copyDeviceToHost(&fault, device->fault, sizeof fault,
                                     device->streams[0]);
  // Not the context: streams of a transport may wait for other ranks.
  for (CUstream stream : device->streams)
    if (result == CUDA_SUCCESS)
      result = driver.streamSynchronize(stream);
  if (!succeeded(*device, result, placeOf(*device).c_str(), error, errorBytes))
    return KERF_DEVICE_FAILED;
  device->enqueuedSteps = 0;
  if (fault.step)
    return tellFault(*device, fault, error, errorBytes);
  if (device->copyFailure.empty())
    return KERF_DEVICE_OK;
  say(error, errorBytes, "%s", device->copyFailure.c_str());
  return KERF_DEVICE_FAILED;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

void *kerf::cuda::stream(kerf_device *device, uint32_t number) {
  return number < KERF_DEVICE_STREAMS ? device->streams[number] : nullptr;
}

kerf_device_status kerf::cuda::order(kerf_device *device, uint32_t before,
                                     uint32_t after, char *error,
                                     size_t errorBytes) {
  if (before >= KERF_DEVICE_STREAMS || after >= KERF_DEVICE_STREAMS) {
    say(error, errorBytes, "found streams %u and %u, expected 0 to %u", before,
        after, KERF_DEVICE_STREAMS - 1);
    return KERF_DEVICE_INVALID;
  }
  if (before == after)
    return KERF_DEVICE_OK;
  device->makeCurrent();
  // Recording an event again does not change what waits for it already.
  CUevent event = device->events[before];
  CUresult result = device->driver.eventRecord(event, device->streams[before]);
  if (result == CUDA_SUCCESS)
    result = device->driver.streamWaitEvent(device->streams[after], event, 0);
  return succeeded(*device, result, "cannot order streams", error, errorBytes)
             ? KERF_DEVICE_OK
             : KERF_DEVICE_FAILED;
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

kerf_device_status kerf::cuda::beginGraph(kerf_device *device, char *error,
                                          size_t errorBytes) {
  if (device->recording) {
    say(error, errorBytes, "a graph is being recorded already");
    return KERF_DEVICE_INVALID;
  }
  device->makeCurrent();
  CUresult result = device->driver.streamBeginCapture(
      device->streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (!succeeded(*device, result, "cannot record a graph", error, errorBytes))
    return KERF_DEVICE_FAILED;
  device->recording = true;
  device->recordedSteps = 0;
  device->lastRecorded = nullptr;
  return KERF_DEVICE_OK;
}

/// Null after writing a message.
static CUgraphExec instantiate(kerf_device &device, CUgraph recorded,
                               char *error, size_t errorBytes) {
  CUgraphExec made = nullptr;
  CUresult result = device.driver.graphInstantiate(&made, recorded, 0);
  return succeeded(device, result, "cannot make the recorded graph", error,
                   errorBytes)
             ? made
             : nullptr;
}

kerf_device_status kerf::cuda::endGraph(kerf_device *device, kerf_graph **graph,
                                        char *error, size_t errorBytes) {
  Driver &driver = device->driver;
  if (graph)
    *graph = nullptr;
  if (!device->recording) {
    say(error, errorBytes, "no graph is being recorded");
    return KERF_DEVICE_INVALID;
  }
  device->makeCurrent();
  device->recording = false;
  CUgraph recorded = nullptr;
  CUresult result = driver.streamEndCapture(device->streams[0], &recorded);
  if (!succeeded(*device, result, "cannot end the recording of a graph", error,
                 errorBytes))
    return KERF_DEVICE_FAILED;
  if (!graph) {
    driver.graphDestroy(recorded);
    return KERF_DEVICE_OK;
  }
  CUgraphExec made = instantiate(*device, recorded, error, errorBytes);
  driver.graphDestroy(recorded);
  if (!made)
    return KERF_DEVICE_FAILED;
  *graph = new (std::nothrow)
      kerf_graph{*device, made, device->recordedSteps, device->lastRecorded};
  if (*graph)
    return KERF_DEVICE_OK;
  driver.graphExecDestroy(made);
  say(error, errorBytes, "out of memory");
  return KERF_DEVICE_NO_MEMORY;
}

kerf_device_status kerf::cuda::launchGraph(kerf_device *device,
                                           kerf_graph *graph, char *error,
                                           size_t errorBytes) {
  if (device->recording) {
    say(error, errorBytes, "cannot run a graph while another is recorded");
    return KERF_DEVICE_INVALID;
  }
  device->makeCurrent();
  CUresult result =
      device->driver.graphLaunch(graph->handle, device->streams[0]);
  if (!succeeded(*device, result, "cannot run a graph", error, errorBytes))
    return KERF_DEVICE_FAILED;
  device->enqueuedSteps += graph->steps;
  if (graph->last)
    device->lastStep = graph->last;
  return KERF_DEVICE_OK;
}

void kerf::cuda::destroyGraph(kerf_graph *graph) {
  if (!graph)
    return;
  graph->device.makeCurrent();
  graph->device.driver.graphExecDestroy(graph->handle);
  delete graph;
}
