//===- Profiles.cpp - runtimes that publish measurements ------------------===//
//
// What a runtime does is taken from its source or paper. Rates are what
// runtimes of its kind were found to reach, its own runs left out: matmuls in
// eager PyTorch at 0.85 to 0.98 of the best matmul, in NVIDIA's Megatron and
// NeMo at 0.92 to 0.98. test/Cost/validate prints what its rows would say.
//
//===----------------------------------------------------------------------===//

#include "kerf/Cost/Profiles.h"

using namespace kerf;

/// What runtimes on PyTorch and NCCL share.
static Profile pytorch(const char *name) {
  Profile profile;
  profile.name = name;
  profile.matmul = 0.88;
  profile.fused = false;
  profile.accumulateBytes = 8; // a gradient in bf16 is read, its f32 sum both
  // Flash attention 1 and its Triton version; `Efficiency::attention` is a
  // mean.
  profile.attention = 0.85;
  profile.attentionBackward = 1;
  profile.ownAttention = profile.ownAttentionBackward = 1;
  // Element-wise kernels that a compiler would join each read and write memory.
  profile.memory = 2;
  // Python launches about 60 kernels forward and 110 backward at 13 us each.
  profile.leastForwardSec = 0.8e-3;
  profile.leastBackwardSec = 1.4e-3;
  profile.gradientOverlap = profile.weightOverlap = 0.4;
  profile.updatedOverlap = 0.4;
  // Idle time of 1F1B is 0.85 to 0.95 of what the formula gives.
  profile.bubble = 0.9;
  profile.flatCollectives = true;
  profile.collectiveSec = 8.4e-6; // NCCL's tuner, see `Profile`
  profile.bucketBytes = 40e6;     // DDP has 25 MB, Megatron 40 million numbers
  return profile;
}

/// Megatron-LM of 2021 and 2022 (Narayanan et al., arXiv 2104.04473): kernels
/// for softmax, bias, gelu, dropout and norms in Python's place; all gradients
/// are reduced in one piece after the last backward. Logits stay sharded, in
/// f32.
static Profile megatron() {
  Profile profile = pytorch("megatron");
  profile.matmul = 0.95;
  profile.memory = 1;
  profile.flash = false;
  // Per score: QK^T 2, masked softmax 4, dropout 5, PV 2; backward the same
  // tensors and their gradients.
  profile.scoreBytesForward = 13;
  profile.scoreBytesBackward = 19;
  profile.leastForwardSec = 0.4e-3;
  profile.leastBackwardSec = 0.7e-3;
  profile.gradientOverlap = profile.weightOverlap = 0;
  profile.updatedOverlap = 0;
  profile.bucketBytes = 0;
  profile.logitBytes = 4;
  return profile;
}

/// DeepSpeed's engine around Megatron: more Python per layer, some kernels of
/// PyTorch instead of Megatron's, and a caching allocator with room to spare.
static Profile megatronDeepspeed() {
  Profile profile = megatron();
  profile.name = "megatron-deepspeed";
  profile.matmul = 0.92;
  profile.memory = 1.5;
  profile.leastForwardSec = 0.8e-3;
  profile.leastBackwardSec = 1.4e-3;
  profile.reservedBytes = 4e9;
  return profile;
}

/// Aleph Alpha's trainer (Hagemann et al. 2023, arXiv 2311.05610): flash
/// attention 2, which reaches 0.6 of an A100's peak (Dao 2023, arXiv
/// 2307.08691, figure 4); logits are gathered and the loss is PyTorch's: beside
/// the bf16 logits an f32 copy, the log-softmax, its gradient, and that in
/// bf16; gradients in bf16.
static Profile alephAlpha() {
  Profile profile = pytorch("aleph-alpha");
  profile.attention = 1.3;
  profile.gradientBytes = 2;
  profile.logitBytes = 14;
  profile.logitsWhole = true;
  profile.reservedBytes = 6e9;
  return profile;
}

/// nanotron: flash attention 2 without Hopper's instructions (0.35 of an H100's
/// peak at best: Shah et al. 2024, arXiv 2407.08608), loss over sharded logits
/// in f32, gradients in one f32 buffer. On a tensor axis its matmuls are
/// functions of Python that gather beside one third of a matmul and then do
/// the other two (parallel/tensor_parallel/functional.py): twice the launches,
/// as its smallest micro-batches show, which take 4.4 ms per layer whatever its
/// width.
static Profile nanotron() {
  Profile profile = pytorch("nanotron");
  profile.attention = 0.7;
  profile.leastForwardSec *= 2;
  profile.leastBackwardSec *= 2;
  profile.bucketBytes = 0;
  profile.logitBytes = 12;
  profile.reservedBytes = 4e9;
  return profile;
}

/// torchtitan: compiled layers, PyTorch's flash attention (as nanotron's), loss
/// in f32.
static Profile torchtitan() {
  Profile profile = pytorch("torchtitan");
  profile.attention = 0.7;
  profile.leastForwardSec = 0.4e-3;
  profile.leastBackwardSec = 0.7e-3;
  profile.logitBytes = 10;
  return profile;
}

/// NeMo with Transformer Engine: fused norms and activations, cuDNN attention,
/// collectives of the tensor axis in pieces beside the matmuls (0.4 to 0.95
/// hidden), gradients reduced in bf16 (`grad_sync_dtype` of its
/// configurations).
static Profile nemo() {
  Profile profile = pytorch("nemo");
  profile.matmul = 0.95;
  profile.attention = 1;
  profile.memory = 1.5;
  profile.leastForwardSec = 0.4e-3;
  profile.leastBackwardSec = 0.7e-3;
  profile.tensorOverlap = 0.8;
  profile.gradientBytes = 2;
  profile.logitBytes = 4;
  return profile;
}

std::optional<Profile> kerf::profileNamed(llvm::StringRef name) {
  if (name == "kerf")
    return Profile();
  if (name == "megatron")
    return megatron();
  if (name == "megatron-deepspeed")
    return megatronDeepspeed();
  if (name == "aleph-alpha")
    return alephAlpha();
  if (name == "nanotron")
    return nanotron();
  if (name == "fsdp")
    return pytorch("fsdp");
  if (name == "torchtitan")
    return torchtitan();
  if (name == "nemo")
    return nemo();
  return std::nullopt;
}

std::vector<llvm::StringRef> kerf::profileNames() {
  return {"kerf",     "megatron", "megatron-deepspeed", "aleph-alpha",
          "nanotron", "fsdp",     "torchtitan",         "nemo"};
}
