//===- Plot.h - the loss as a picture ---------------------------*- C++ -*-===//

#ifndef KERF_TRAIN_PLOT_H
#define KERF_TRAIN_PLOT_H

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::runtime {

struct LossPoint {
  double step, loss;
};

struct LossPlot {
  std::string title;
  std::vector<LossPoint> train, heldout;
  std::string unit = "loss (nats per token)"; ///< of the axis
  std::string name = "training loss", entropyName = "unigram entropy";
  /// A value in the legend; null: a loss, with four digits.
  std::string (*words)(double) = nullptr;
  /// Entropy of single tokens in nats: what a model reaches that only knows
  /// how frequent they are; 0: unknown.
  double unigramEntropy = 0; ///< or another level to compare with
};

/// Positions of about `count` round ticks (1, 2 or 5 times a power of ten) in
/// [low, high].
std::vector<double> niceTicks(double low, double high, int count);

/// The plot as an SVG document: train loss (with a smoothed line where there
/// are many steps), held-out loss, the entropy as a dashed line, axes, legend.
std::string renderLossPlot(const LossPlot &plot);

} // namespace kerf::runtime

#endif // KERF_TRAIN_PLOT_H
