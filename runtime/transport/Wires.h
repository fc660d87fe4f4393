//===- Wires.h - transports of libraries ----------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_WIRES_H
#define KERF_RUNTIME_TRANSPORT_WIRES_H

#include "Transport.h"

#include "kerf/Runtime/Wire.h"

namespace kerf::runtime {

/// Meets the other ranks through a library. Returns when all are there.
Status connectWire(const kerf_wire_api &api, const Rendezvous &rendezvous,
                   std::unique_ptr<Transport> &transport);

} // namespace kerf::runtime

#endif // KERF_RUNTIME_TRANSPORT_WIRES_H
