//===- Hash.cpp - content of a kernel as a number -------------------------===//

#include "kerf/Artifact/Format.h"
#include "kerf/Codegen/Codegen.h"
#include "kerf/Interfaces/KernelInterface.h"

using namespace mlir;
using namespace kerf;

/// What an op's own kernel consists of.
static void writeOwn(llvm::raw_ostream &os, const KernelCode &own) {
  os << "\nown " << own.function << ' ' << own.units << ' ' << own.grain;
  for (auto &[name, value] : own.sizes)
    os << ' ' << name << '=' << value;
  os << '\n' << own.code;
}

/// Text of a kernel by which two of equal content are equal: values by number,
/// attributes but those that code does not depend on.
static std::string contentOf(exec::KernelOp kernel) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::DenseMap<Value, unsigned> numbers;
  auto define = [&](Value value) {
    unsigned number = numbers.size();
    numbers[value] = number;
    os << number << ':' << value.getType() << ' ';
  };
  for (Value argument : kernel.getBody().getArguments())
    define(argument);
  for (Operation &op : kernel.getBody().front()) {
    os << '\n' << op.getName().getStringRef() << '(';
    for (Value operand : op.getOperands())
      os << numbers[operand] << ' ';
    os << ')';
    for (NamedAttribute attribute :
         op.getAttrDictionary()) // sorted by name, properties too
      if (attribute.getName() != kPhaseAttrName)
        os << attribute.getName().getValue() << '=' << attribute.getValue()
           << ' ';
    for (Value result : op.getResults())
      define(result);
    if (auto own = getOwnKernel(&op))
      writeOwn(os, *own);
  }
  if (kernel.getInplace())
    os << "\ninplace " << kernel.getInplaceAttr();
  if (Attribute aligned = kernel->getAttr(kAlignedAttrName))
    os << "\naligned " << aligned;
  return text;
}

uint64_t kerf::kernelHash(exec::KernelOp kernel) {
  std::string text = contentOf(kernel);
  return kerf_checksum(KERF_CHECKSUM_INIT, text.data(), text.size());
}
