//===- Load.cpp - modules: parse, place variables, decode -----------------===//

#include "Decode.h"

#include <cstring>
#include <unordered_map>

using namespace kerf::sim;

static bool hasAvx2() {
#ifdef KERF_SIM_HAVE_AVX2
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

static std::unordered_map<std::string, Handler> makeTable() {
  std::unordered_map<std::string, Handler> handlers;
  auto add = [&](HandlerTable table) {
    for (size_t at = 0; at < table.count; ++at)
      handlers[table.handlers[at].name] = table.handlers[at].handler;
  };
#ifdef KERF_SIM_HAVE_AVX2
  if (hasAvx2()) {
    add(integerHandlersAvx2());
    add(floatHandlersAvx2());
    add(convertHandlersAvx2());
  }
#endif
  if (!hasAvx2()) {
    add(integerHandlers());
    add(floatHandlers());
    add(convertHandlers());
  }
  add(memoryHandlers());
  add(warpHandlers());
  add(warpgroupHandlers());
  return handlers;
}

Handler kerf::sim::findHandler(const std::string &name) {
  static const std::unordered_map<std::string, Handler> handlers = makeTable();
  auto found = handlers.find(name);
  return found == handlers.end() ? nullptr : found->second;
}

Program::~Program() {
  for (auto &[name, place] : globals)
    memory().release(place.first);
}

const Entry *Program::find(std::string_view name) const {
  for (const Entry &entry : entries)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

static void placeGlobals(Program &program, const Parsed &module) {
  for (const Variable &variable : module.variables) {
    if (variable.space != Space::Global)
      continue;
    if (variable.external)
      throw Trap{InvalidPtx, "'" + variable.name +
                                 "' is defined in another module, which is "
                                 "not simulated"};
    uint64_t bytes = std::max<uint64_t>(variable.bytes, 1);
    uint64_t address = memory().allocate(bytes);
    if (!address)
      throw Trap{OutOfMemory, "no memory for '" + variable.name + "'"};
    program.globals[variable.name] = {address, variable.bytes};
    uint8_t *host = memory().host(address, bytes);
    memset(host, 0, bytes);
    if (!variable.initial.empty())
      memcpy(host, variable.initial.data(), variable.initial.size());
  }
  for (const Variable &variable : module.variables)
    for (const auto &[offset, name] : variable.pointers) {
      auto target = program.globals.find(name);
      if (target == program.globals.end())
        throw Trap{InvalidPtx, "'" + variable.name + "' points to '" + name +
                                   "', which is no global variable"};
      uint8_t *at = memory().host(program.globals[variable.name].first, 0);
      uint64_t address = 0;
      memcpy(&address, at + offset, sizeof address);
      address += target->second.first;
      memcpy(at + offset, &address, sizeof address);
    }
}

static void splitLines(std::string_view text, std::vector<std::string> &lines) {
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    size_t first = std::min(line.find_first_not_of(" \t"), line.size());
    std::string kept;
    for (char c : line.substr(first))
      kept += c == '\t' ? ' ' : c;
    lines.push_back(std::move(kept));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::unique_ptr<Program> kerf::sim::loadPtx(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  Parsed module = parsePtx(text);
  auto program = std::make_unique<Program>();
  program->version = module.version;
  program->target = module.target;
  splitLines(text, program->lines);
  placeGlobals(*program, module);
  for (const Function &function : module.functions)
    for (const Statement &one : function.statements)
      program->hasMatrices |= one.parts[0] == "wgmma";
  CommonPlaces common;
  std::map<std::string, uint32_t> begins;
  for (bool kernels : {false, true})
    for (const Function &function : module.functions)
      if (function.isEntry == kernels && function.isDefined)
        Decoder(*program, module, function, common, begins).run();
  return program;
}
