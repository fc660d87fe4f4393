//===- HiddenMatrices.h - matrices inside a model ---------------*- C++ -*-===//

#ifndef KERF_LIB_INGEST_HIDDENMATRICES_H
#define KERF_LIB_INGEST_HIDDENMATRICES_H

#include "kerf/Dialect/Kerf/Kerf.h"

#include "llvm/ADT/SetVector.h"

namespace kerf {

/// Names of trained parameters that are no matrices between the embedding and
/// the output layer: vectors, also with a dimension of 1, tables of embeddings,
/// the weight whose matmul the loss is of, and tensors of a higher rank but
/// for matrices of experts (`{e}` in their names).
llvm::SetVector<llvm::StringRef> notHidden(ModelOp model);

} // namespace kerf

#endif // KERF_LIB_INGEST_HIDDENMATRICES_H
