//===- Tcp.h - ranks that talk through rank 0 -----------------------------===//
//
// A wire (kerf/Runtime/Wire.h) without a library: each rank has one connection
// to rank 0, which hands on what is for others. That is for agreeing, telling
// of failures, and small jobs; data of large ones go by NCCL or MPI.
//
// Rank 0 listens where torchrun and its kind say: on MASTER_PORT of
// MASTER_ADDR. KERF_PORT is another port; beside torchrun's own store, which
// has MASTER_PORT itself, the next one is taken.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_RUNTIME_TRANSPORT_TCP_TCP_H
#define KERF_RUNTIME_TRANSPORT_TCP_TCP_H

#include "Transport.h"

namespace kerf::runtime::tcp {

/// Meets the other ranks. Returns when all are there.
Status connectTcp(const Rendezvous &rendezvous,
                  std::unique_ptr<Transport> &transport);

} // namespace kerf::runtime::tcp

#endif // KERF_RUNTIME_TRANSPORT_TCP_TCP_H
