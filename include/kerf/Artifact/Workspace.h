/*===- Workspace.h - scratch memory of library calls, by target -----------===*\
|*
|* What the compiler places in the arena for the device that will run the
|* command, and the planner counts.
|*
\*===----------------------------------------------------------------------===*/

#ifndef KERF_ARTIFACT_WORKSPACE_H
#define KERF_ARTIFACT_WORKSPACE_H

#include "kerf/Artifact/CpuWorkspace.h"
#include "kerf/Artifact/CudaWorkspace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whose library calls: kerf_meta.target. */
enum kerf_target { KERF_TARGET_CPU, KERF_TARGET_CUDA };

static inline const char *kerf_target_name(enum kerf_target target) {
  return target == KERF_TARGET_CUDA ? "cuda" : "cpu";
}

/* Bytes of the workspace of a command with these attributes (Format.h): a
 * matmul, an attention or its gradient, a matmul in groups. `workers`:
 * threads of a CPU. */
static inline int64_t kerf_workspace(enum kerf_target target, uint32_t opcode,
                                     const int64_t *attrs, int64_t workers) {
  int isCuda = target == KERF_TARGET_CUDA;
  switch (opcode) {
  case KERF_OP_MATMUL:
    return isCuda ? kerf_cuda_matmul_workspace(attrs)
                  : kerf_cpu_matmul_workspace(attrs, workers);
  case KERF_OP_ATTENTION:
    return isCuda ? kerf_cuda_attention_workspace(attrs)
                  : kerf_cpu_attention_workspace(attrs, workers);
  case KERF_OP_ATTENTION_BACKWARD:
    return isCuda ? kerf_cuda_attention_backward_workspace(attrs)
                  : kerf_cpu_attention_backward_workspace(attrs, workers);
  case KERF_OP_GROUPED_MATMUL:
    return isCuda ? kerf_cuda_grouped_workspace(attrs)
                  : kerf_cpu_grouped_workspace(attrs, workers);
  default:
    return 0;
  }
}

/* The same of attention over packed documents: on GPUs no library takes its
 * gradient (CudnnAttention.cpp), nor a part of a sequence. */
static inline int64_t kerf_documents_workspace(enum kerf_target target,
                                               uint32_t opcode,
                                               const int64_t *attrs,
                                               int64_t workers) {
  if (target != KERF_TARGET_CUDA)
    return kerf_workspace(target, opcode, attrs, workers);
  return opcode == KERF_OP_ATTENTION
             ? kerf_cuda_attention_documents_workspace(attrs)
             : kerf_cuda_attention_delta(attrs);
}

#ifdef __cplusplus
}
#endif

#endif /* KERF_ARTIFACT_WORKSPACE_H */
