//===- MeasuredSizes.cpp - what sizes a calibration times -----------------===//

#include "kerf/Train/Calibrate.h"

using namespace kerf::runtime;

static constexpr int64_t kib = 1 << 10, mib = 1 << 20;

static const MeasuredSizes cpuSizes = {
    .rows = {32, 64, 128, 256, 512, 1024, 2048},
    .widths = {256, 768},
    .depths = {64, 1024},
    .lengths = {128, 1024},
    .depthWidth = 768,
    .tokens = 2048,
    .heads = 8,
    .headSize = 64,
    .matmuls = {{64, 64, 64},
                {128, 128, 128},
                {256, 256, 256},
                {512, 512, 512},
                {1024, 1024, 1024},
                {2048, 2048, 2048},
                {1024, 1024, 64},
                {1024, 64, 1024},
                {64, 1024, 1024},
                {2048, 3072, 768}},
    .vectors = {256 * kib, 4 * mib, 64 * mib},
    .leastMessage = kib,
    .mostMessage = 64 * mib,
};

// Micro-batches of 128 to 16,384 tokens on layers as wide as those of models
// that are trained on GPUs; vectors beyond the second cache of any of them.
static const MeasuredSizes gpuSizes = {
    .rows = {128, 256, 512, 1024, 2048, 4096, 8192, 16384},
    .widths = {1024, 4096},
    .depths = {512, 8192},
    .lengths = {512, 4096},
    .depthWidth = 4096,
    .tokens = 16384,
    .heads = 16,
    .headSize = 128,
    .matmuls = {{1024, 1024, 1024},
                {4096, 4096, 4096},
                {8192, 8192, 8192},
                {8192, 8192, 128},
                {8192, 128, 8192},
                {128, 8192, 8192},
                {8192, 3072, 768},
                {8192, 50304, 768}},
    .vectors = {mib, 64 * mib, 1024 * mib},
    .leastMessage = kib,
    .mostMessage = 256 * mib,
};

static const MeasuredSizes tinySizes = {
    .rows = {16, 32},
    .widths = {16},
    .depths = {16, 32},
    .lengths = {64, 128},
    .depthWidth = 16,
    .tokens = 128,
    .heads = 1,
    .headSize = 64,
    .matmuls = {{16, 16, 16}, {32, 48, 16}},
    .vectors = {16 * kib, 32 * kib},
    .leastMessage = kib,
    .mostMessage = 4 * mib,
};

const MeasuredSizes &kerf::runtime::measuredSizes(bool isGpu, bool isTiny) {
  return isTiny ? tinySizes : isGpu ? gpuSizes : cpuSizes;
}
