//===- TestWire.cpp - a transport library of another version --------------===//

#include "kerf/Runtime/Wire.h"

extern "C" __attribute__((visibility("default"))) const kerf_wire_api *
kerf_wire_entry() {
  static kerf_wire_api api = {};
  api.abi_version = 99;
  api.struct_bytes = sizeof api;
  return &api;
}
