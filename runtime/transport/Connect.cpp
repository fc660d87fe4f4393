//===- Connect.cpp - choosing a transport ---------------------------------===//

#include "Plugin.h"
#include "Wires.h"
#include "nccl/NcclTransport.h"
#include "tcp/Tcp.h"

#include <cstdlib>
#include <cstring>

using namespace kerf::runtime;

const char *kerf::runtime::defaultTransport() {
  return std::getenv("OMPI_COMM_WORLD_RANK") ? "mpi" : "shm";
}

std::string kerf::runtime::chooseTransport(const char *given,
                                           const char *device) {
  if (given && *given)
    return given;
  const char *named = std::getenv("KERF_TRANSPORT");
  if (named && *named)
    return named;
  return std::strcmp(device, "cuda") == 0 ? "nccl" : defaultTransport();
}

Status kerf::runtime::connectTransport(const std::string &name,
                                       const char *pluginPath,
                                       const Rendezvous &rendezvous,
                                       std::unique_ptr<Transport> &transport) {
  std::string chosen = name.empty() ? defaultTransport() : name;
  if (chosen == "shm")
    return connectShm(rendezvous, transport);
  if (chosen == "tcp")
    return tcp::connectTcp(rendezvous, transport);
  if (chosen == "nccl")
    return nccl::connectNccl(rendezvous, pluginPath, transport);
  const kerf_wire_api *api = nullptr;
  Status status = openWire(chosen, pluginPath, api);
  return status.failed() ? status : connectWire(*api, rendezvous, transport);
}
