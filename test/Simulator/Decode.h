//===- Decode.h - statements to instructions ------------------------------===//

#ifndef KERF_SIMULATOR_DECODE_H
#define KERF_SIMULATOR_DECODE_H

#include "Machine.h"
#include "Ops.h"

#include <set>

namespace kerf::sim {

/// What functions of a module share: places that kernels must leave alone.
struct CommonPlaces {
  uint32_t registerBytes = 0, predicates = 2;
  uint64_t localBytes = 0, sharedBytes = 0;
  std::map<std::string, uint64_t> shared; ///< offset by name
  /// In each thread's own memory, by "function::name".
  std::map<std::string, uint64_t> params;
  std::vector<Constant> constants;
  std::vector<std::pair<uint32_t, SpecialRegister>> specials;
};

/// Decodes one function. Functions before kernels.
class Decoder {
public:
  Decoder(Program &program, const Parsed &module, const Function &function,
          CommonPlaces &common, std::map<std::string, uint32_t> &begins);
  /// Appends the code; a kernel also becomes an entry of the program.
  void run();

private:
  // Decode.cpp: places
  [[noreturn]] void fail(const std::string &text) const;
  uint32_t addRegister(bool isDouble);
  uint32_t constant(uint64_t bits, bool isDouble);
  uint32_t special(const std::string &name);
  uint32_t value(const Operand &operand, bool isDouble);
  uint32_t result(const Operand &operand, bool isDouble);
  uint32_t predicate(const Operand &operand);
  struct Place {
    Space space;
    uint64_t offset;
  };
  Place placeOf(const std::string &name);
  void assignVariables();
  uint64_t sharedOffset(const Variable &variable);
  void finishKernel();
  Inst &emit(Handler handler);
  Inst &emitNamed(const std::string &name);
  void decode();

  // DecodeOps.cpp, DecodeMemory.cpp, DecodeWarpgroup.cpp: instructions
  bool decodeControl();
  void decodeBranch();
  void decodeBarrier(bool ofWarp);
  void decodeCall();
  void copyParameter(const std::string &callee, const Variable &variable,
                     const std::string &own, bool isResult);
  bool decodeMemory();
  void setAddress(Inst &inst, const Operand &operand);
  void decodeAccess(bool isStore);
  void decodeAtomic();
  void decodeAddressConversion();
  void decodeCopyAsync();
  bool decodeWarp();
  void decodeShuffle();
  void decodeVote();
  void decodeMatrix();
  void decodeWarpgroup();
  void decodeMatmul();
  bool choice(size_t index, const char *name, int64_t first, int64_t second);
  void fragment(const Operand &vector, const char *name, size_t count);
  void noteTouches(uint32_t at);
  void noteTouch(uint32_t at, const Operand &item, bool isWrite);
  void finishTouches();
  void list(Inst &inst, const std::vector<const Operand *> &operands);
  bool decodeMove();
  void decodeConvert();
  void decodeCompare();
  void decodeSelect();
  void decodeArithmetic();
  void setModifiers(Inst &inst);
  bool has(std::string_view part) const;
  std::string type(size_t fromLast = 0) const;
  const Operand &operand(size_t index) const;

  Program &program;
  const Parsed &module;
  const Function &function;
  CommonPlaces &common;
  std::map<std::string, uint32_t> &begins;
  Entry entry;
  const Statement *statement = nullptr;
  uint32_t registerBase, predicateBase, registerEnd;
  uint64_t localEnd, dynamicOffset = 0;
  bool mayCall = false;
  /// Registers of wgmma, and what touches registers in which instruction.
  std::set<uint32_t> matrixPlaces;
  std::vector<std::pair<uint32_t, Touch>> touched;
  std::map<std::string, uint64_t> locals, shared;
  std::map<std::pair<uint64_t, bool>, uint32_t> constants;
  std::map<SpecialRegister, uint32_t> specials;
  struct Fixup {
    size_t place; ///< instruction, or place of a table
    std::string label;
    bool inTable;
  };
  std::vector<Fixup> fixups;
};

} // namespace kerf::sim

#endif // KERF_SIMULATOR_DECODE_H
