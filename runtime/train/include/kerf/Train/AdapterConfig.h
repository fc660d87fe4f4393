//===- AdapterConfig.h - what saved adapters are ----------------*- C++ -*-===//

#ifndef KERF_TRAIN_ADAPTERCONFIG_H
#define KERF_TRAIN_ADAPTERCONFIG_H

#include <string>
#include <string_view>
#include <vector>

namespace kerf::runtime {

/// Whether adapters whose config, in the form of the peft library, is the file
/// at `path` are computed as those of a compiled model, whose config is the
/// text `model`: same rank and alpha, and nothing that gives another formula.
[[nodiscard]] bool matchAdapterConfig(const std::string &path,
                                      std::string_view model,
                                      std::vector<std::string> &errors);

} // namespace kerf::runtime

#endif // KERF_TRAIN_ADAPTERCONFIG_H
