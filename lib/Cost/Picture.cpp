//===- Picture.cpp - a pipeline schedule as SVG ---------------------------===//
//
// From top to bottom: title, figures, legend, one row per stage, a time axis.
// A row has the boxes of the compute engine and, below, a strip of what the
// data link does. Few boxes are drawn one by one, with numbers and tool tips;
// of many, each column of two pixels shows what fills most of it, and equal
// columns merge.
//
//===----------------------------------------------------------------------===//

#include "kerf/Cost/Timeline.h"

#include "kerf/Support/Screen.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace kerf;

namespace {
constexpr double kWidth = 1200, kLeft = 84, kRight = 66, kTop = 104;
constexpr double kPlot = kWidth - kLeft - kRight;
constexpr size_t kMostBoxes = 2000;
constexpr double kColumn = 3; ///< pixels

struct Rgb {
  int r, g, b;
};

/// What boxes of equal colour share.
struct Paint {
  EventKind kind;
  int chunk;
  bool operator==(const Paint &o) const {
    return kind == o.kind && chunk == o.chunk;
  }
  bool operator<(const Paint &o) const {
    return std::pair(kind, chunk) < std::pair(o.kind, o.chunk);
  }
};

/// What a kind fills of a column: its part of the time, and the chunk that has
/// most of that.
struct Fill {
  double part = 0;
  std::map<int, double> chunks;
};

/// Shares of kinds of event in columns of pixels.
class Columns {
public:
  void add(double from, double to, const Event &event);
  /// SVG paths of stacks that are `height` high, by paint.
  std::map<Paint, std::string> paths(double left, double top,
                                     double height) const;

private:
  std::map<int, std::map<EventKind, Fill>> columns;
};

class Picture {
public:
  Picture(const Timeline &timeline, llvm::StringRef title,
          llvm::StringRef facts)
      : timeline(timeline), title(title), facts(facts), os(text) {}
  std::string draw();

private:
  void measure();
  void chooseSize();
  void drawHead();
  void drawLegend();
  void drawAxis();
  void drawRow(int stage);
  void drawBox(const Event &event);
  void drawTasks(int stage);
  void drawStrip(int stage);
  void drawColumns(int stage, Engine engine, double top, double height);
  std::string colour(Paint paint) const;
  double x(double sec) const { return kLeft + sec * scale; }
  double y(int stage) const { return kTop + stage * pitch; }
  int rows() const { return int(timeline.busySec.size()); }
  double bottom() const { return y(rows()) - 5; }

  const Timeline &timeline;
  llvm::StringRef title, facts;
  std::string text;
  llvm::raw_string_ostream os;
  double lastSec = 0, scale = 0; ///< pixels per second
  double box = 0, strip = 0, pitch = 0;
  int chunks = 1;
  size_t boxes = 0;
  double size = 12; ///< of numbers in boxes
};
} // namespace

/// Colours of the first and of the last chunk.
static std::pair<Rgb, Rgb> rangeOf(EventKind kind) {
  switch (kind) {
  case EventKind::Forward:
    return {{47, 109, 179}, {176, 208, 240}};
  case EventKind::Backward:
    return {{222, 126, 40}, {248, 214, 170}};
  case EventKind::WeightGradient:
    return {{38, 148, 134}, {170, 222, 214}};
  case EventKind::Update:
    return {{88, 80, 141}, {88, 80, 141}};
  case EventKind::Gather:
    return {{112, 146, 190}, {112, 146, 190}};
  case EventKind::GradientSync:
    return {{196, 78, 96}, {196, 78, 96}};
  case EventKind::WeightGather:
    return {{151, 117, 190}, {151, 117, 190}};
  case EventKind::Send:
    break;
  }
  return {{140, 140, 140}, {140, 140, 140}};
}

std::string Picture::colour(Paint paint) const {
  auto [first, last] = rangeOf(paint.kind);
  double part = chunks > 1 ? double(paint.chunk) / (chunks - 1) : 0;
  auto mix = [part](int a, int b) {
    return int(std::lround(a + (b - a) * part));
  };
  std::string result;
  llvm::raw_string_ostream(result)
      << llvm::format("#%02x%02x%02x", mix(first.r, last.r),
                      mix(first.g, last.g), mix(first.b, last.b));
  return result;
}

/// Width of a number in pixels.
static double widthOf(size_t digits, double size) {
  return 0.58 * size * double(digits);
}

/// A size at which most numbers fit into their boxes, if it can be read.
void Picture::chooseSize() {
  std::vector<double> sizes;
  for (const Event &event : timeline.events)
    if (event.engine == Engine::Compute && event.microBatch >= 0)
      sizes.push_back(((event.endSec - event.startSec) * scale - 2) /
                      widthOf(std::to_string(event.microBatch).size(), 1));
  std::sort(sizes.begin(), sizes.end());
  double most = std::min(12.0, box - 2);
  size = sizes.empty() ? most : std::min(most, sizes[sizes.size() / 20]);
  size = std::max(size, std::min(most, 8.0));
}

void Picture::measure() {
  bool hasData = false;
  for (const Event &event : timeline.events) {
    lastSec = std::max(lastSec, event.endSec);
    chunks = std::max(chunks, event.chunk + 1);
    hasData |= event.engine == Engine::DataLink;
    boxes += event.engine == Engine::Compute;
  }
  scale = lastSec > 0 ? kPlot / lastSec : 0;
  box = std::clamp(560.0 / std::max(1, rows()), 11.0, 34.0);
  strip = hasData ? std::max(3.0, box / 5) : 0;
  pitch = box + strip + (hasData ? 1 : 0) + std::max(3.0, box / 5);
  chooseSize();
}

void Picture::drawHead() {
  double height = bottom() + 46;
  os << llvm::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
                     "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" ",
                     kWidth, height, kWidth, height)
     << "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" "
        "fill=\"#33404d\">\n"
     << "<rect width=\"100%\" height=\"100%\" fill=\"#fcfcfa\"/>\n"
     << "<text x=\"24\" y=\"34\" font-size=\"19\" font-weight=\"bold\" "
        "fill=\"#1b2733\">"
     << report::escapeMarkup(title) << "</text>\n";
  os << "<text x=\"24\" y=\"56\" fill=\"#5c6873\">"
     << report::escapeMarkup(facts) << "</text>\n";
}

void Picture::drawLegend() {
  std::map<EventKind, bool> present;
  for (const Event &event : timeline.events)
    if (event.kind != EventKind::Send)
      present[event.kind] = true;
  double at = 24;
  for (const auto &[kind, unused] : present) {
    int shades = kind <= EventKind::WeightGradient ? chunks : 1;
    double width = std::clamp(48.0 / shades, 3.0, 14.0);
    for (int chunk = 0; chunk < shades; ++chunk, at += width)
      os << llvm::format("<rect x=\"%.1f\" y=\"74\" width=\"%.1f\" "
                         "height=\"12\" fill=\"%s\"/>\n",
                         at, width, colour({kind, chunk}).c_str());
    std::string label = nameOf(kind).str();
    if (shades > 1)
      label += " (chunks 0 to " + std::to_string(chunks - 1) + ")";
    os << llvm::format("<text x=\"%.1f\" y=\"84\">%s</text>\n", at + 6,
                       label.c_str());
    at += 26 + 6.2 * double(label.size());
  }
}

/// 1, 2 or 5 times a power of ten, so that about eight of them fill `range`.
static double roundStep(double range) {
  double power = std::pow(10, std::floor(std::log10(range / 8)));
  for (double factor : {1.0, 2.0, 5.0})
    if (range / (factor * power) <= 10)
      return factor * power;
  return 10 * power;
}

void Picture::drawAxis() {
  double rangeMs = lastSec * 1e3;
  if (rangeMs <= 0)
    return;
  double step = roundStep(rangeMs), end = bottom();
  os << "<g stroke=\"#dfe3e6\">\n";
  for (int i = 0; i * step <= rangeMs; ++i)
    os << llvm::format("<path d=\"M%.1f,%.1fV%.1f\"/>\n", x(i * step / 1e3),
                       kTop - 6, end + 6);
  os << "</g>\n<g text-anchor=\"middle\" fill=\"#5c6873\">\n";
  for (int i = 0; i * step <= rangeMs; ++i)
    os << llvm::format("<text x=\"%.1f\" y=\"%.1f\">%.6g</text>\n",
                       x(i * step / 1e3), end + 21, i * step);
  os << llvm::format("<text x=\"%.1f\" y=\"%.1f\">ms</text>\n</g>\n",
                     kWidth - kRight + 36, end + 21);
}

void Picture::drawBox(const Event &event) {
  double from = x(event.startSec), width = x(event.endSec) - from;
  Paint paint{event.kind, event.chunk};
  os << llvm::format("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
                     "height=\"%.1f\" fill=\"%s\"",
                     from, y(event.stage), width, box, colour(paint).c_str());
  if (width > 3)
    os << " stroke=\"#fcfcfa\" stroke-width=\"0.8\"";
  os << "><title>" << nameOf(event.kind);
  if (event.microBatch >= 0)
    os << ' ' << event.microBatch;
  if (chunks > 1 && event.microBatch >= 0)
    os << ", chunk " << event.chunk;
  os << llvm::format(": %.4g to %.4g ms</title></rect>\n", event.startSec * 1e3,
                     event.endSec * 1e3);
  std::string label =
      event.microBatch >= 0 ? std::to_string(event.microBatch) : "";
  if (label.empty() || width < widthOf(label.size(), size) + 1.9)
    return;
  bool light = chunks > 1 && 2 * event.chunk >= chunks;
  os << llvm::format("<text x=\"%.2f\" y=\"%.1f\" font-size=\"%.1f\" "
                     "text-anchor=\"middle\" fill=\"%s\">%s</text>\n",
                     from + width / 2, y(event.stage) + box / 2 + 0.36 * size,
                     size, light ? "#1b2733" : "#ffffff", label.c_str());
}

void Columns::add(double from, double to, const Event &event) {
  for (int c = int(from / kColumn); c * kColumn < to; ++c) {
    double sec = std::min(to, (c + 1) * kColumn) - std::max(from, c * kColumn);
    if (sec <= 0)
      continue;
    Fill &fill = columns[c][event.kind];
    fill.part += sec / kColumn;
    fill.chunks[event.chunk] += sec;
  }
}

static int mostOf(const std::map<int, double> &chunks) {
  auto less = [](auto &a, auto &b) { return a.second < b.second; };
  return std::max_element(chunks.begin(), chunks.end(), less)->first;
}

namespace {
/// A rectangle that may grow to the right.
struct Bar {
  Paint paint;
  int from, to; ///< columns
  double top, height;
};
} // namespace

static std::string pathOf(const Bar &bar, double left) {
  double width = (bar.to - bar.from) * kColumn;
  std::string path;
  llvm::raw_string_ostream(path)
      << llvm::format("M%.0f,%.1fh%.0fv%.1fh-%.0fz", left + bar.from * kColumn,
                      bar.top, width, bar.height, width);
  return path;
}

std::map<Paint, std::string> Columns::paths(double left, double top,
                                            double height) const {
  std::map<Paint, std::string> paths;
  std::map<EventKind, Bar> open; // not written yet
  for (const auto &[c, kinds] : columns) {
    double below = top;
    for (const auto &[kind, fill] : kinds) {
      // Half pixels: steady states merge.
      double part = std::round(2 * fill.part * height) / 2;
      Bar bar{{kind, mostOf(fill.chunks)}, c, c + 1, below, part};
      below += part;
      auto [it, fresh] = open.try_emplace(kind, bar);
      Bar &last = it->second;
      if (!fresh && last.to == c && last.paint == bar.paint &&
          last.top == bar.top && last.height == bar.height) {
        last.to = c + 1;
      } else if (!fresh) {
        paths[last.paint] += pathOf(last, left);
        last = bar;
      }
    }
  }
  for (const auto &[kind, bar] : open)
    paths[bar.paint] += pathOf(bar, left);
  return paths;
}

/// The events of one engine of a stage as columns from `top` on.
void Picture::drawColumns(int stage, Engine engine, double top, double height) {
  Columns columns;
  for (const Event &event : timeline.events)
    if (event.stage == stage && event.engine == engine)
      columns.add(event.startSec * scale, event.endSec * scale, event);
  for (const auto &[paint, path] : columns.paths(kLeft, top, height))
    os << "<path fill=\"" << colour(paint) << "\" d=\"" << path << "\"/>\n";
}

void Picture::drawStrip(int stage) {
  for (const Event &event : timeline.events)
    if (event.stage == stage && event.engine == Engine::DataLink)
      os << llvm::format("<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
                         "height=\"%.1f\" fill=\"%s\"/>\n",
                         x(event.startSec), y(stage) + box + 1,
                         x(event.endSec) - x(event.startSec), strip,
                         colour({event.kind, 0}).c_str());
}

void Picture::drawTasks(int stage) {
  if (boxes > kMostBoxes) {
    drawColumns(stage, Engine::Compute, y(stage), box);
    drawColumns(stage, Engine::DataLink, y(stage) + box + 1, strip);
    return;
  }
  for (const Event &event : timeline.events)
    if (event.stage == stage && event.engine == Engine::Compute)
      drawBox(event);
  drawStrip(stage);
}

void Picture::drawRow(int stage) {
  double middle = y(stage) + box / 2 + 4;
  os << llvm::format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                     "height=\"%.1f\" fill=\"#eceff1\"/>\n",
                     kLeft, y(stage), kPlot, box);
  os << llvm::format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">"
                     "stage %d</text>\n",
                     kLeft - 10, middle, stage);
  double end = lastSec > 0 ? lastSec : 1;
  os << llvm::format("<text x=\"%.1f\" y=\"%.1f\" fill=\"#5c6873\">"
                     "%.0f %%<title>busy</title></text>\n",
                     kWidth - kRight + 10, middle,
                     100 * timeline.busySec[size_t(stage)] / end);
  drawTasks(stage);
}

std::string Picture::draw() {
  measure();
  drawHead();
  drawLegend();
  os << llvm::format("<text x=\"%.1f\" y=\"84\" fill=\"#5c6873\">busy</text>\n",
                     kWidth - kRight + 10);
  drawAxis();
  for (int stage = 0; stage < rows(); ++stage)
    drawRow(stage);
  os << "</svg>\n";
  return text;
}

std::string kerf::svgOf(const Timeline &timeline, llvm::StringRef title,
                        llvm::StringRef facts) {
  return Picture(timeline, title, facts).draw();
}
