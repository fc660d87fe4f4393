//===- Ptx.h - a parsed module of PTX -------------------------------------===//
//
// The parser resolves names of registers, variables and labels; what an
// instruction does is found by Decode.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SIMULATOR_PTX_H
#define KERF_SIMULATOR_PTX_H

#include "Memory.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::sim {

enum class Space : uint8_t { Generic, Global, Shared, Local, Param };

/// How a register is kept: one 32-bit mask per warp, or 32 lanes of 4 or 8
/// bytes. 16-bit registers are kept in 4 bytes.
enum class Width : uint8_t { Predicate, Half, Word, Double };

struct Variable {
  std::string name;
  Space space = Space::Global;
  uint64_t bytes = 0, align = 1;
  bool external = false;        ///< .extern .shared x[]: dynamic shared memory
  std::vector<uint8_t> initial; ///< empty: zero
  /// Addresses within `initial` that hold the address of a variable.
  std::vector<std::pair<uint64_t, std::string>> pointers;
  /// Global: address once loaded. Param, local: bytes from the start.
  uint64_t offset = 0;
};

struct Operand {
  enum Kind : uint8_t {
    Register,  ///< slot, width
    Immediate, ///< bits; of a float where `isFloat`
    Special,   ///< name: %tid.x
    Address,   ///< items[0] (a register or name, or none) + offset
    Vector,    ///< items
    List,      ///< items, in parentheses
    Name,      ///< a variable, function or label; + offset
    Sink       ///< _
  };
  Kind kind = Sink;
  Width width = Width::Word;
  uint32_t slot = 0; ///< bytes into the file of registers, or of a predicate
  bool negated = false, isFloat = false;
  uint64_t bits = 0;
  int64_t offset = 0;
  std::string name;
  std::vector<Operand> items; ///< also q of "p|q"
};

struct Statement {
  int line = 0;
  std::vector<std::string> parts; ///< mnemonic, split at dots
  int32_t guard = -1;             ///< slot of the predicate
  bool guardNegated = false;
  std::vector<Operand> operands;
};

struct Function {
  std::string name;
  bool isEntry = false, isDefined = false;
  std::vector<Variable> params, results;
  std::vector<Variable> variables; ///< local, shared and param of the body
  std::vector<Statement> statements;
  std::map<std::string, uint32_t> labels; ///< index of a statement
  std::map<std::string, std::vector<std::string>> targets;
  uint32_t registerBytes = 0, predicates = 0;
  uint32_t maxThreads[3] = {0, 0, 0}, requiredThreads[3] = {0, 0, 0};
  uint32_t maxRegisters[3] = {0, 0, 0}; ///< the first alone
};

struct Parsed {
  std::string version, target;
  std::vector<Variable> variables; ///< global, const and shared of the module
  std::vector<Function> functions;
};

/// Parses a module. Throws Trap{InvalidPtx} with line and what was expected.
Parsed parsePtx(std::string_view text);

/// Bytes of a type's name without its dot ("b32": 4), 0 for no type.
uint32_t typeBytes(std::string_view type);

} // namespace kerf::sim

#endif // KERF_SIMULATOR_PTX_H
