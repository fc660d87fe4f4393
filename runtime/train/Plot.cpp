//===- Plot.cpp - the loss as a picture -----------------------------------===//

#include "kerf/Train/Plot.h"

#include "kerf/Support/Numbers.h"
#include "kerf/Train/Text.h"

#include <algorithm>
#include <cmath>

using namespace kerf::runtime;

namespace {
constexpr double kWidth = 840, kHeight = 500;
constexpr double kLeft = 70, kRight = 24, kTop = 56, kBottom = 56;
constexpr const char *kTrain = "#2563eb", *kHeldout = "#dc2626",
                     *kEntropy = "#6b7280";

/// Data coordinates to pixels.
struct Frame {
  double firstStep, lastStep, low, high;

  double x(double step) const {
    return kLeft + (kWidth - kLeft - kRight) * (step - firstStep) /
                       (lastStep - firstStep);
  }
  double y(double loss) const {
    return kTop + (kHeight - kTop - kBottom) * (high - loss) / (high - low);
  }
};
} // namespace

std::vector<double> kerf::runtime::niceTicks(double low, double high,
                                             int count) {
  double rough = std::max((high - low) / std::max(count, 1), 1e-12);
  double power = std::pow(10, std::floor(std::log10(rough)));
  double unit = rough / power;
  double step = power * (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10);
  std::vector<double> ticks;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + step * 1e-9;
       ++k)
    ticks.push_back(k * step + 0.0); // not -0
  return ticks;
}

static std::string escapeXml(const std::string &text) {
  std::string result;
  for (char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)
      result += static_cast<unsigned char>(c) < 0x80 ? c : '?';
  }
  return result;
}

/// Text with an anchor: "start", "middle" or "end".
static std::string label(double x, double y, const char *anchor,
                         const std::string &text, const char *more = "") {
  return format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y,
                anchor, more) +
         escapeXml(text) + "</text>\n";
}

static std::string polyline(const Frame &frame,
                            const std::vector<LossPoint> &points,
                            const char *color, const char *more) {
  std::string text =
      format("<polyline fill=\"none\" stroke=\"%s\" %s points=\"", color, more);
  for (const LossPoint &point : points)
    text += format("%.1f,%.1f ", frame.x(point.step), frame.y(point.loss));
  return text + "\"/>\n";
}

/// The finite points; a loss that is none has no place.
static std::vector<LossPoint> finite(const std::vector<LossPoint> &points) {
  std::vector<LossPoint> kept;
  for (const LossPoint &point : points)
    if (std::isfinite(point.loss))
      kept.push_back(point);
  return kept;
}

/// Mean over a window around each point that grows with the run.
static std::vector<LossPoint> smooth(const std::vector<LossPoint> &points) {
  std::vector<LossPoint> result;
  auto count = static_cast<int64_t>(points.size());
  int64_t reach = std::max<int64_t>(1, count / 80);
  for (int64_t i = 0; i < count; ++i) {
    // Symmetric at the ends too, so that a falling curve keeps its place.
    int64_t own = std::min({reach, i, count - 1 - i});
    double sum = 0;
    for (int64_t j = i - own; j <= i + own; ++j)
      sum += points[j].loss;
    result.push_back({points[i].step, sum / static_cast<double>(2 * own + 1)});
  }
  return result;
}

static Frame makeFrame(const std::vector<LossPoint> &train,
                       const std::vector<LossPoint> &heldout, double entropy) {
  Frame frame{1e300, -1e300, 1e300, -1e300};
  for (const auto *points : {&train, &heldout})
    for (const LossPoint &point : *points) {
      frame.firstStep = std::min(frame.firstStep, point.step);
      frame.lastStep = std::max(frame.lastStep, point.step);
      frame.low = std::min(frame.low, point.loss);
      frame.high = std::max(frame.high, point.loss);
    }
  if (frame.lastStep < frame.firstStep)
    frame = {0, 1, 0, 1};
  if (entropy > 0) {
    frame.low = std::min(frame.low, entropy);
    frame.high = std::max(frame.high, entropy);
  }
  if (frame.lastStep == frame.firstStep)
    frame.lastStep += 1;
  double margin = std::max(0.05 * (frame.high - frame.low), 1e-3);
  if (entropy >= frame.high) // room for the legend above the line
    frame.high += 3 * margin;
  frame.low =
      frame.low >= 0 ? std::max(0.0, frame.low - margin) : frame.low - margin;
  frame.high += margin;
  return frame;
}

/// A round value at an axis.
static std::string tickText(double value) {
  return std::abs(value) < 1000  ? format("%.6g", value)
         : std::abs(value) < 1e6 ? kerf::report::grouped(value)
                                 : kerf::report::tick(value);
}

/// Ticks of whole steps.
static std::vector<double> stepTicks(const Frame &frame) {
  std::vector<double> ticks = niceTicks(frame.firstStep, frame.lastStep, 8);
  std::erase_if(ticks, [](double step) { return step != std::round(step); });
  return ticks;
}

static std::string axes(const Frame &frame, const std::string &unit) {
  std::string text = "<g stroke=\"#e5e7eb\">\n", labels;
  double bottom = kHeight - kBottom, right = kWidth - kRight;
  for (double tick : niceTicks(frame.low, frame.high, 6)) {
    double y = frame.y(tick);
    text += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                   kLeft, y, right, y);
    labels += label(kLeft - 8, y + 4, "end", tickText(tick));
  }
  for (double tick : stepTicks(frame)) {
    double x = frame.x(tick);
    text += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                   x, kTop, x, bottom);
    labels += label(x, bottom + 18, "middle", tickText(tick));
  }
  text += "</g>\n" + labels;
  text += format("<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" "
                 "stroke=\"#374151\"/>\n",
                 kLeft, kTop, bottom, right);
  text += label((kLeft + right) / 2, kHeight - 14, "middle", "step");
  double middle = (kTop + bottom) / 2;
  return text +
         label(18, middle, "middle", unit,
               format(" transform=\"rotate(-90 18 %.1f)\"", middle).c_str());
}

/// One entry of the legend; returns the row below it.
static double legendRow(std::string &text, double y, const char *color,
                        const char *style, const std::string &name) {
  double x = kWidth - kRight - 250;
  text += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                 "stroke=\"%s\" %s/>\n",
                 x, y, x + 28, y, color, style);
  text += label(x + 36, y + 4, "start", name);
  return y + 20;
}

static std::string legend(const LossPlot &plot,
                          const std::vector<LossPoint> &train,
                          const std::vector<LossPoint> &heldout) {
  std::string text;
  double y = kTop + 18;
  auto words = [&](double value) {
    return plot.words ? plot.words(value) : format("%.4f", value);
  };
  auto last = [&](const std::vector<LossPoint> &points) {
    return " (last " + words(points.back().loss) + ")";
  };
  if (!train.empty())
    y = legendRow(text, y, kTrain, "stroke-width=\"2\"",
                  plot.name + last(train));
  if (!heldout.empty())
    y = legendRow(text, y, kHeldout, "stroke-width=\"2\"",
                  "held-out loss" + last(heldout));
  if (plot.unigramEntropy > 0)
    legendRow(text, y, kEntropy, "stroke-dasharray=\"6 4\"",
              plot.entropyName + " (" + words(plot.unigramEntropy) + ")");
  return text;
}

std::string kerf::runtime::renderLossPlot(const LossPlot &plot) {
  std::vector<LossPoint> train = finite(plot.train),
                         heldout = finite(plot.heldout);
  Frame frame = makeFrame(train, heldout, plot.unigramEntropy);
  std::string text =
      format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
             "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
             "font-family=\"sans-serif\" font-size=\"13\" fill=\"#111827\">\n",
             kWidth, kHeight, kWidth, kHeight);
  text += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  text += label(kWidth / 2, 30, "middle", plot.title,
                " font-size=\"17\" font-weight=\"bold\"");
  text += axes(frame, plot.unit);
  if (plot.unigramEntropy > 0) {
    double y = frame.y(plot.unigramEntropy);
    text += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                   "stroke=\"%s\" stroke-width=\"1.5\" "
                   "stroke-dasharray=\"6 4\"/>\n",
                   kLeft, y, kWidth - kRight, y, kEntropy);
  }
  if (train.size() >= 40) {
    text += polyline(frame, train, kTrain, "opacity=\"0.3\"");
    text += polyline(frame, smooth(train), kTrain, "stroke-width=\"2\"");
  } else if (!train.empty()) {
    text += polyline(frame, train, kTrain, "stroke-width=\"2\"");
  }
  if (!heldout.empty())
    text += polyline(frame, heldout, kHeldout, "stroke-width=\"2\"");
  for (const LossPoint &point : heldout)
    text += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                   frame.x(point.step), frame.y(point.loss), kHeldout);
  return text + legend(plot, train, heldout) + "</svg>\n";
}
