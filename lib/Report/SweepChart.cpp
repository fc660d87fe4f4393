//===- SweepChart.cpp - a sweep as a picture ------------------------------===//

#include "kerf/Report/Report.h"

#include "kerf/Report/Sweep.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>

using namespace kerf;
using namespace kerf::report;

namespace {
constexpr double kWidth = 1080, kHeight = 520;
constexpr double kTop = 104, kBottom = 452; ///< of both panels
constexpr double kPanelWidth = 430;
constexpr double kLeft[2] = {80, 622};
/// Colours that people with colour-blindness tell apart (Okabe and Ito 2008).
constexpr const char *kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                   "#e69f00", "#56b4e9", "#444444"};
constexpr const char *kGrid = "#e5e7eb", *kAxis = "#374151", *kSoft = "#6b7280";

/// Logarithmic coordinates of one panel.
struct Panel {
  double left = 0;
  double firstX = 1, lastX = 2, low = 1, high = 10;
  double x(double value) const {
    return left +
           kPanelWidth * std::log(value / firstX) / std::log(lastX / firstX);
  }
  double y(double value) const {
    return kBottom -
           (kBottom - kTop) * std::log(value / low) / std::log(high / low);
  }
};

/// The points of one machine.
struct Line {
  std::string machine;
  const char *color = nullptr;
  double crossY = 0; ///< where nothing fits; lines lie above each other
  std::vector<const SweepPoint *> points;
};
} // namespace

static std::string number(double value) { return fixed(value, 1); }

static std::string label(double x, double y, llvm::StringRef anchor,
                         llvm::StringRef text, llvm::StringRef more = "") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) +
         "\" text-anchor=\"" + anchor.str() + "\" " + more.str() + ">" +
         escapeMarkup(text) + "</text>\n";
}

static std::string segment(double x1, double y1, double x2, double y2,
                           llvm::StringRef color, llvm::StringRef more = "") {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" +
         number(x2) + "\" y2=\"" + number(y2) + "\" stroke=\"" + color.str() +
         "\" " + more.str() + "/>\n";
}

static std::vector<Line> linesOf(const Sweep &sweep) {
  std::vector<Line> lines;
  for (const SweepPoint &point : sweep.points) {
    if (lines.empty() || lines.back().machine != point.machine)
      lines.push_back({point.machine, nullptr, 0, {}});
    lines.back().points.push_back(&point);
  }
  for (auto [i, line] : llvm::enumerate(lines)) {
    line.color = kColors[i % std::size(kColors)];
    line.crossY = kBottom - 12 * static_cast<double>(i);
  }
  return lines;
}

/// What a panel shows of a point.
static double valueOf(const SweepPoint &point, int panel) {
  return panel == 0 ? point.run.tokensPerSec : point.stepSec;
}

/// What it would be without any loss.
static double perfectOf(const SweepPoint &point, int panel) {
  if (point.scaling <= 0)
    return valueOf(point, panel);
  return panel == 0 ? point.run.tokensPerSec / point.scaling
                    : point.stepSec * point.scaling;
}

/// Limits around all values, a little apart from the frame.
static Panel panelOf(const Sweep &sweep, int index) {
  Panel panel;
  panel.left = kLeft[index];
  double first = 1e300, last = 0, low = 1e300, high = 0;
  for (const SweepPoint &point : sweep.points) {
    auto devices = static_cast<double>(point.devices);
    first = std::min(first, devices);
    last = std::max(last, devices);
    if (!point.fits)
      continue;
    for (double value : {valueOf(point, index), perfectOf(point, index)}) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  panel.firstX = first / 1.15;
  panel.lastX = last * 1.15;
  panel.low = high > 0 ? low / 1.4 : 1;
  panel.high = high > 0 ? high * 1.3 : 10;
  return panel;
}

/// 1, 2 and 5 times powers of ten within the limits; only powers of ten if that
/// were too many.
static std::vector<double> ticks(double low, double high) {
  std::vector<double> all, powers;
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high;
       power *= 10)
    for (double factor : {1.0, 2.0, 5.0}) {
      double tick = power * factor;
      if (tick < low || tick > high)
        continue;
      all.push_back(tick);
      if (factor == 1)
        powers.push_back(tick);
    }
  return all.size() > 10 && powers.size() > 1 ? powers : all;
}

/// "10.0 k" -> "10 k", "0.500" -> "0.5".
static std::string tickText(const std::string &text) {
  auto [digits, unit] = llvm::StringRef(text).split(' ');
  if (digits.contains('.'))
    digits = digits.rtrim('0').rtrim('.');
  return digits.str() + (unit.empty() ? "" : " " + unit.str());
}

/// Numbers of devices that are far enough from each other to be written.
static std::vector<int64_t> deviceTicks(const Sweep &sweep,
                                        const Panel &panel) {
  std::vector<int64_t> counts, result;
  for (const SweepPoint &point : sweep.points)
    counts.push_back(point.devices);
  llvm::sort(counts);
  for (int64_t count : counts)
    if (result.empty() || panel.x(static_cast<double>(count)) >
                              panel.x(static_cast<double>(result.back())) + 36)
      result.push_back(count);
  return result;
}

static std::string frame(const Sweep &sweep, const Panel &panel, int index) {
  double right = panel.left + kPanelWidth;
  std::string text;
  for (double tick : ticks(panel.low, panel.high)) {
    double y = panel.y(tick);
    text += segment(panel.left, y, right, y, kGrid);
    text += label(panel.left - 8, y + 4, "end",
                  tickText(index == 0 ? counted(tick) : seconds(tick)));
  }
  for (int64_t tick : deviceTicks(sweep, panel)) {
    double x = panel.x(static_cast<double>(tick));
    text += segment(x, kTop, x, kBottom, kGrid);
    text += label(x, kBottom + 18, "middle", grouped(tick));
  }
  text += "<path d=\"M" + number(panel.left) + " " + number(kTop) + "V" +
          number(kBottom) + "H" + number(right) + "\" fill=\"none\" stroke=\"" +
          kAxis + "\"/>\n";
  text += label((panel.left + right) / 2, kBottom + 40, "middle", "devices");
  return text + label(panel.left, kTop - 12, "start",
                      index == 0 ? "tokens per second" : "time of a step",
                      "font-weight=\"bold\"");
}

/// A line with its points: filled where on the front; a cross on the axis where
/// nothing fits.
static std::string drawLine(const Line &line, const Panel &panel, int index) {
  std::string text, path, perfect;
  for (const SweepPoint *point : line.points) {
    double x = panel.x(static_cast<double>(point->devices));
    std::string color = line.color;
    if (!point->fits) {
      double y = line.crossY;
      text += segment(x - 4, y - 4, x + 4, y + 4, color, "stroke-width=\"2\"");
      text += segment(x - 4, y + 4, x + 4, y - 4, color, "stroke-width=\"2\"");
      continue;
    }
    double y = panel.y(valueOf(*point, index));
    path += number(x) + "," + number(y) + " ";
    perfect +=
        number(x) + "," + number(panel.y(perfectOf(*point, index))) + " ";
    text += "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) +
            "\" r=\"4.5\" stroke-width=\"2\" stroke=\"" + color + "\" fill=\"" +
            (point->pareto ? color : "#ffffff") + "\"><title>" +
            escapeMarkup(point->layout) + "</title></circle>\n";
    if (index == 0)
      text += label(x + 8, y + 15, "start", percent(point->mfu, 0),
                    "font-size=\"10\" fill=\"" + color + "\"");
  }
  std::string open = "<polyline fill=\"none\" stroke=\"" +
                     std::string(line.color) + "\" points=\"";
  return open + perfect + "\" stroke-dasharray=\"3 4\" opacity=\"0.7\"/>\n" +
         open + path + "\" stroke-width=\"2\"/>\n" + text;
}

static std::string legend(llvm::ArrayRef<Line> lines) {
  std::string text;
  double x = kLeft[0];
  for (const Line &line : lines) {
    text += segment(x, 66, x + 24, 66, line.color, "stroke-width=\"2\"");
    text += label(x + 30, 70, "start", line.machine);
    x += 56 + 7.5 * static_cast<double>(line.machine.size());
  }
  return text;
}

std::string kerf::svgOf(const Sweep &sweep) {
  std::string size = fixed(kWidth, 0) + "\" height=\"" + fixed(kHeight, 0);
  std::string text =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + size +
      "\" viewBox=\"0 0 " + fixed(kWidth, 0) + " " + fixed(kHeight, 0) +
      "\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#111827\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  text += label(kLeft[0], 36, "start",
                sweep.model + ": how many devices, and which",
                "font-size=\"18\" font-weight=\"bold\"");
  std::vector<Line> lines = linesOf(sweep);
  text += legend(lines);
  for (int index = 0; index < 2; ++index) {
    Panel panel = panelOf(sweep, index);
    text += frame(sweep, panel, index);
    for (const Line &line : lines)
      text += drawLine(line, panel, index);
  }
  text += label(kLeft[0], kHeight - 8, "start",
                "percentages: MFU. filled: no other is sooner done for less. "
                "dashed: without any loss. crosses: nothing fits.",
                "font-size=\"11\" fill=\"" + std::string(kSoft) + "\"");
  return text + "</svg>\n";
}
