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
constexpr double kWidth = 1080, kHeight = 534;
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

/// Days, or hours where the whole chart is shorter than some days.
static bool isInHours(const Sweep &sweep) {
  double longest = 0;
  for (const SweepPoint &point : sweep.points)
    longest = std::max(longest, point.run.seconds);
  return longest < 5 * 86400;
}

/// What a run costs in the second panel: money, or device-hours.
static double costOf(const Sweep &sweep, const SweepPoint &point) {
  return sweep.currency.empty() ? point.run.deviceHours : point.run.price;
}

/// Where a point stands: tokens per second over devices, price over days.
static double xOf(const Sweep &sweep, const SweepPoint &point, int panel) {
  if (panel == 0)
    return static_cast<double>(point.devices);
  return point.run.seconds / (isInHours(sweep) ? 3600 : 86400);
}
static double yOf(const Sweep &sweep, const SweepPoint &point, int panel) {
  return panel == 0 ? point.run.tokensPerSec : costOf(sweep, point);
}

/// Tokens per second without any loss.
static double perfectOf(const SweepPoint &point) {
  return point.ofIdeal <= 0 ? point.run.tokensPerSec
                            : point.run.tokensPerSec / point.ofIdeal;
}

/// The limits of the run in the second panel; 0: none.
static double limitDays(const Sweep &sweep) {
  return sweep.limits.seconds / (isInHours(sweep) ? 3600 : 86400);
}
static double limitPrice(const Sweep &sweep) {
  return sweep.currency.empty() ? 0 : sweep.limits.price;
}

/// Bounds around all values, a little apart from the frame. A limit of the run
/// that is far from them all is left out.
static Panel panelOf(const Sweep &sweep, int index) {
  Panel panel;
  panel.left = kLeft[index];
  constexpr double kNear = 3;
  double first = 1e300, last = 0, low = 1e300, high = 0;
  auto holdX = [&](double value) {
    first = std::min(first, value);
    last = std::max(last, value);
  };
  auto holdY = [&](double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const SweepPoint &point : sweep.points) {
    if (point.fits || index == 0)
      holdX(xOf(sweep, point, index));
    if (!point.fits)
      continue;
    holdY(yOf(sweep, point, index));
    if (index == 0)
      holdY(perfectOf(point));
  }
  if (index == 1) {
    double limit = limitDays(sweep), most = limitPrice(sweep);
    if (limit > 0 && limit >= first / kNear && limit <= last * kNear)
      holdX(limit);
    if (most > 0 && most >= low / kNear && most <= high * kNear)
      holdY(most);
  }
  if (last > 0) {
    panel.firstX = first / 1.15;
    panel.lastX = last * 1.15;
  }
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

/// Values along the bottom that are far enough from each other to be written:
/// the numbers of devices; round numbers of days.
static std::vector<double> bottomTicks(const Sweep &sweep, const Panel &panel,
                                       int index) {
  std::vector<double> all, result;
  if (index == 1)
    all = ticks(panel.firstX, panel.lastX);
  else
    for (const SweepPoint &point : sweep.points)
      all.push_back(static_cast<double>(point.devices));
  llvm::sort(all);
  for (double value : all)
    if (result.empty() || panel.x(value) > panel.x(result.back()) + 36)
      result.push_back(value);
  return result;
}

static std::string frame(const Sweep &sweep, const Panel &panel, int index) {
  double right = panel.left + kPanelWidth;
  std::string text;
  for (double value : ticks(panel.low, panel.high)) {
    double y = panel.y(value);
    text += segment(panel.left, y, right, y, kGrid);
    text += label(panel.left - 8, y + 4, "end", tick(value));
  }
  for (double value : bottomTicks(sweep, panel, index)) {
    double x = panel.x(value);
    text += segment(x, kTop, x, kBottom, kGrid);
    text += label(x, kBottom + 18, "middle", tick(value));
  }
  text += "<path d=\"M" + number(panel.left) + " " + number(kTop) + "V" +
          number(kBottom) + "H" + number(right) + "\" fill=\"none\" stroke=\"" +
          kAxis + "\"/>\n";
  std::string bottom = index == 0         ? "devices"
                       : isInHours(sweep) ? "hours of the run"
                                          : "days of the run";
  text += label((panel.left + right) / 2, kBottom + 40, "middle", bottom);
  std::string title = "tokens per second";
  if (index == 1)
    title = sweep.currency.empty()
                ? "device-hours of the run"
                : "price of the run, " + clean(sweep.currency);
  return text +
         label(panel.left, kTop - 12, "start", title, "font-weight=\"bold\"");
}

/// The limits of a run, in the panel of its price.
static std::string drawLimits(const Sweep &sweep, const Panel &panel) {
  constexpr const char *kDashed = "stroke-width=\"1.5\" "
                                  "stroke-dasharray=\"7 4\"";
  std::string text;
  if (double most = limitDays(sweep);
      most > panel.firstX && most < panel.lastX) {
    double x = panel.x(most);
    std::string words = "within " + duration(sweep.limits.seconds);
    bool isLeft = x - 4 - 6.2 * double(words.size()) > panel.left;
    text += segment(x, kTop, x, kBottom, kAxis, kDashed);
    text += label(isLeft ? x - 4 : x + 4, kTop + 10, isLeft ? "end" : "start",
                  words, "font-size=\"11\"");
  }
  if (double most = limitPrice(sweep); most > panel.low && most < panel.high) {
    double y = panel.y(most);
    text += segment(panel.left, y, panel.left + kPanelWidth, y, kAxis, kDashed);
    text += label(panel.left + 6, y - 4, "start",
                  "at most " + grouped(most) + " " + clean(sweep.currency),
                  "font-size=\"11\"");
  }
  return text;
}

namespace {
/// Draws lines one after the other; labels that would lie over what is written
/// are left out.
struct Pen {
  const Sweep &sweep;
  const Panel &panel;
  int index;
  struct Box {
    double left, top, right, bottom;
  };
  std::vector<Box> written;
  std::string names; ///< labels of points, over all lines

  std::string draw(const Line &line);

private:
  std::string drawMisfit(const Line &line, const SweepPoint &point) const;
  std::string drawPoint(const Line &line, const SweepPoint &point);
  void name(double x, double y, const std::string &text, const char *color);
};
} // namespace

/// A small label beside a point: first where the lines do not go, which rise in
/// the left panel and fall in the right one.
void Pen::name(double x, double y, const std::string &text, const char *color) {
  double width = 6.2 * double(text.size());
  constexpr std::pair<double, double> places[2][4] = {
      {{11, 15}, {-11, -8}, {11, -8}, {-11, 15}},
      {{11, -8}, {-11, 15}, {11, 15}, {-11, -8}}};
  for (auto [beside, below] : places[index]) {
    double left = beside > 0 ? x + beside : x + beside - width;
    Box box{left, y + below - 9, left + width, y + below + 2};
    if (box.left < panel.left || box.right > kWidth)
      continue;
    bool isFree = llvm::none_of(written, [&](const Box &other) {
      return box.left < other.right && other.left < box.right &&
             box.top < other.bottom && other.top < box.bottom;
    });
    if (!isFree)
      continue;
    written.push_back(box);
    names += label(left, y + below, "start", text,
                   "font-size=\"10\" paint-order=\"stroke\" "
                   "stroke=\"#ffffff\" stroke-width=\"3\" fill=\"" +
                       std::string(color) + "\"");
    return;
  }
}

/// A cross on the axis where nothing fits.
std::string Pen::drawMisfit(const Line &line, const SweepPoint &point) const {
  double x = panel.x(static_cast<double>(point.devices)), y = line.crossY;
  return segment(x - 4, y - 4, x + 4, y + 4, line.color, "stroke-width=\"2\"") +
         segment(x - 4, y + 4, x + 4, y - 4, line.color, "stroke-width=\"2\"");
}

/// Filled where on the front, ringed where it is what the limits leave.
std::string Pen::drawPoint(const Line &line, const SweepPoint &point) {
  double x = panel.x(xOf(sweep, point, index));
  double y = panel.y(yOf(sweep, point, index));
  std::string place =
      "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) + "\"";
  std::string text = place + " r=\"4.5\" stroke-width=\"2\" stroke=\"" +
                     line.color + "\" fill=\"" +
                     (point.pareto ? line.color : "#ffffff") + "\"><title>" +
                     escapeMarkup(point.layout) + "</title></circle>\n";
  if (point.cheapest)
    text += place + " r=\"9\" fill=\"none\" stroke=\"" + kAxis +
            "\" stroke-width=\"1.5\"/>\n";
  std::string word =
      index == 0 ? percent(point.mfu, 0) : grouped(point.devices);
  name(x, y, word, line.color);
  return text;
}

std::string Pen::draw(const Line &line) {
  std::string text, path, perfect;
  for (const SweepPoint *point : line.points) {
    if (!point->fits) {
      text += index == 0 ? drawMisfit(line, *point) : "";
      continue;
    }
    double x = panel.x(xOf(sweep, *point, index));
    path += number(x) + "," + number(panel.y(yOf(sweep, *point, index))) + " ";
    if (index == 0)
      perfect += number(x) + "," + number(panel.y(perfectOf(*point))) + " ";
    text += drawPoint(line, *point);
  }
  std::string open = "<polyline fill=\"none\" stroke=\"" +
                     std::string(line.color) + "\" points=\"";
  return open + perfect + "\" stroke-dasharray=\"3 4\" opacity=\"0.7\"/>\n" +
         open + path + "\" stroke-width=\"2\"/>\n" + text;
}

/// In as many rows as there is place for.
static std::string legend(llvm::ArrayRef<Line> lines) {
  std::string text;
  double x = kLeft[0], y = 56;
  for (const Line &line : lines) {
    double width = 56 + 7.5 * static_cast<double>(line.machine.size());
    if (x > kLeft[0] && x + width > kWidth) {
      x = kLeft[0];
      y += 16;
    }
    text += segment(x, y, x + 24, y, line.color, "stroke-width=\"2\"");
    text += label(x + 30, y + 4, "start", line.machine);
    x += width;
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
    text += index == 1 ? drawLimits(sweep, panel) : "";
    Pen pen{sweep, panel, index, {}, ""};
    for (const Line &line : lines)
      text += pen.draw(line);
    text += pen.names;
  }
  auto note = [&](double y, const char *words) {
    return label(kLeft[0], y, "start", words,
                 "font-size=\"11\" fill=\"" + std::string(kSoft) + "\"");
  };
  text += note(kHeight - 22, "left: MFU beside each point, dotted without any "
                             "loss, crosses where nothing fits. right: numbers "
                             "of devices beside each point.");
  text += note(kHeight - 8, "filled: no other is sooner done for less. ringed: "
                            "the cheapest within the limits (dashed).");
  return text + "</svg>\n";
}
