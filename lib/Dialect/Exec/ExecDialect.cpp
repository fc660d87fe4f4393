#include "kerf/Dialect/Exec/Exec.h"

#include "kerf/Artifact/Format.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kerf::exec;

#include "kerf/Dialect/Exec/ExecDialect.cpp.inc"

#include "kerf/Dialect/Exec/ExecEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "kerf/Dialect/Exec/ExecAttrs.cpp.inc"

void ExecDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kerf/Dialect/Exec/ExecAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "kerf/Dialect/Exec/ExecKernelOps.cpp.inc"
      ,
#define GET_OP_LIST
#include "kerf/Dialect/Exec/ExecProgramOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Arena operands
//===----------------------------------------------------------------------===//

static const char *const kAccessNames[] = {"", "read", "write", "update"};

Attribute ArenaAttr::parse(AsmParser &parser, Type) {
  int64_t access = 0, offset = 0, iter = 0, slot = 0, copies = 1, bytes = 0;
  Type type;
  llvm::StringRef word;
  if (parser.parseLess() || parser.parseKeyword(&word))
    return {};
  for (int64_t a = 1; a <= 3; ++a)
    if (word == kAccessNames[a])
      access = a;
  if (access == 0) {
    parser.emitError(parser.getCurrentLocation())
        << "expected read, write or update, found '" << word << "'";
    return {};
  }
  if (parser.parseType(type) || parser.parseInteger(offset))
    return {};
  if (succeeded(parser.parseOptionalKeyword("iter")) &&
      parser.parseInteger(iter))
    return {};
  if (succeeded(parser.parseOptionalKeyword("slot")) &&
      (parser.parseInteger(slot) || parser.parseKeyword("of") ||
       parser.parseInteger(copies)))
    return {};
  if (parser.parseKeyword("bytes") || parser.parseInteger(bytes) ||
      parser.parseGreater())
    return {};
  return ArenaAttr::get(parser.getContext(), access, type, offset, iter, slot,
                        copies, bytes);
}

void ArenaAttr::print(AsmPrinter &printer) const {
  printer << '<' << kAccessNames[getAccess() & 3] << ' ' << getType() << ' '
          << getOffset();
  if (getIter() != 0)
    printer << " iter " << getIter();
  if (getCopies() != 1)
    printer << " slot " << getSlot() << " of " << getCopies();
  printer << " bytes " << getBytes() << '>';
}

//===----------------------------------------------------------------------===//
// Types of the file
//===----------------------------------------------------------------------===//

uint32_t kerf::exec::dtypeOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (element.isBF16())
    return KERF_BF16;
  if (element.isF16())
    return KERF_F16;
  if (isa<Float8E4M3FNType>(element))
    return KERF_F8E4M3;
  if (isa<Float8E5M2Type>(element))
    return KERF_F8E5M2;
  if (element.isF64())
    return KERF_F64;
  if (element.isInteger(32))
    return KERF_I32;
  if (element.isInteger(8))
    return KERF_I8;
  if (element.isInteger(1))
    return KERF_I1;
  return KERF_F32;
}
