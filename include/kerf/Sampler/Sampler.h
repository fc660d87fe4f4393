//===- Sampler.h - from a model to what chooses its next token ------------===//
//
// `kerf-run` has the model go on from a text. What it runs for that is a model,
// too: the same ops up to the logits, then a choice in place of the loss.
//
// Inputs of a sampler. `tokens` is the text, in row 0 from its first position
// on. `targets` asks for the token behind one position: there stands n in
// [0, 2^23), everywhere else a negative number; n / 2^23 is a uniform random
// number u. `learning_rate` is the temperature T > 0. `segments` and
// `positions` are those of training.
//
// Output: the loss is the number of the token that is chosen, exactly, or no
// number where the logits are none. Of the probabilities p = softmax(logits /
// T) it is the first token whose p[0] + ... + p[token] is above u. With u = 0
// and a tiny T (1e-30) it is the first of those with the largest logit.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_SAMPLER_SAMPLER_H
#define KERF_SAMPLER_SAMPLER_H

#include "kerf/Dialect/Spmd/Spmd.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace kerf {

/// The sampler of a model or training step, alone in a module, with a plan in
/// as many micro-batches as its rows allow (`keepOneCall`). Parameters are
/// frozen, losses that balance experts are gone. Fails with an error for a
/// model without one loss over `targets`, and for one whose logits at a
/// position depend on tokens behind it.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> makeSampler(ModelOp model);

/// Checks that what an op makes at a position depends on no token behind it,
/// for all ops that `value` is made from. Fails with an error that names the
/// op.
mlir::LogicalResult checkCausal(ModelOp model, mlir::Value value);

/// Makes of a scheduled program of one rank one that evaluates the first of its
/// micro-batches, and nothing else: its inputs have that one's rows.
void keepOneCall(spmd::ProgramOp program);

} // namespace kerf

#endif // KERF_SAMPLER_SAMPLER_H
