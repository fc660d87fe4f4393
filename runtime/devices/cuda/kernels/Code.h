//===- Code.h - the plug-in's own kernels, as PTX text --------------------===//
//
// Each text ends with a NUL and holds the kernels of one source for one type of
// numbers, so that a GPU translates what is used.
//
//===----------------------------------------------------------------------===//

#ifndef KERF_DEVICES_CUDA_KERNELS_CODE_H
#define KERF_DEVICES_CUDA_KERNELS_CODE_H

extern "C" {
extern const char kerf_ptx_attention_plain_f32[];
extern const char kerf_ptx_attention_plain_bf16[];
extern const char kerf_ptx_attention_plain_f16[];
extern const char kerf_ptx_attention_delta_f32[];
extern const char kerf_ptx_attention_delta_bf16[];
extern const char kerf_ptx_attention_delta_f16[];
extern const char kerf_ptx_attention_forward_bf16[];
extern const char kerf_ptx_attention_forward_f16[];
extern const char kerf_ptx_attention_backward_bf16[];
extern const char kerf_ptx_attention_backward_f16[];
extern const char kerf_ptx_beside[];
extern const char kerf_ptx_epilogue[];
extern const char kerf_ptx_grouped_plan[];
extern const char kerf_ptx_grouped_plain[];
extern const char kerf_ptx_grouped_mma_bf16[];
extern const char kerf_ptx_grouped_mma_f16[];
extern const char kerf_ptx_grouped_wgmma_bf16[];
extern const char kerf_ptx_grouped_wgmma_f16[];
extern const char kerf_ptx_builtin[];
}

#endif // KERF_DEVICES_CUDA_KERNELS_CODE_H
