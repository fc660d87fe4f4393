//===- Connect.cpp - choosing a transport ---------------------------------===//

#include "Plugin.h"
#include "Wires.h"

#include <cstdlib>

using namespace kerf::runtime;

const char *kerf::runtime::defaultTransport() {
  return std::getenv("OMPI_COMM_WORLD_RANK") ? "mpi" : "shm";
}

Status kerf::runtime::connectTransport(const std::string &name,
                                       const char *pluginPath,
                                       const Rendezvous &rendezvous,
                                       std::unique_ptr<Transport> &transport) {
  std::string chosen = name.empty() ? defaultTransport() : name;
  if (chosen == "shm")
    return connectShm(rendezvous, transport);
  const kerf_wire_api *api = nullptr;
  Status status = openWire(chosen, pluginPath, api);
  return status.failed() ? status : connectWire(*api, rendezvous, transport);
}
