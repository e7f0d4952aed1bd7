// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/gnuplot.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "runtime/device/error.h"
#include "tools/bench/report.h"

namespace fanout::bench {
namespace {

// In single quotes gnuplot takes everything as it is, but for the quote itself.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) result += letter == '\'' ? std::string("''") : std::string(1, letter);
  return result + "'";
}

std::vector<std::string> series_of(const std::vector<PlotPoint>& points) {
  std::vector<std::string> names;
  for (const PlotPoint& point : points) {
    if (std::find(names.begin(), names.end(), point.series) == names.end()) names.push_back(point.series);
  }
  return names;
}

}  // namespace

void require_gnuplot() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/gnuplot").c_str(), X_OK) == 0) return;
  }
  throw Error("--plot draws with gnuplot, which is not on the path; Debian has it as gnuplot-nox");
}

std::string gnuplot_script(const std::string& path, const Plot& plot, const std::vector<PlotPoint>& points) {
  const std::vector<std::string> names = series_of(points);
  std::string script = fmt::format("set terminal {} size 900,540\n", path.ends_with(".svg") ? "svg" : "png");
  script += fmt::format("set output {}\n", quoted(path + ".part"));
  script += fmt::format("set title {} noenhanced\nset xlabel {}\nset ylabel {}\n", quoted(plot.title),
                        quoted(plot.x_label), quoted(plot.y_label));
  script += "set grid\nset key outside below noenhanced\nset yrange [0:*]\n";
  if (plot.is_logarithmic) script += "set logscale x 2\nset format x '%.0b %B'\n";
  for (std::size_t number = 0; number < names.size(); ++number) {
    script += fmt::format("$series{} << END\n", number);
    for (const PlotPoint& point : points) {
      if (point.series == names[number]) script += fmt::format("\"{}\" {}\n", point.x, point.y);
    }
    script += "END\n";
  }
  const char* const style = plot.is_logarithmic ? "1:2 with linespoints" : "2:xtic(1) with histograms fill solid 0.6";
  script += "plot ";
  for (std::size_t number = 0; number < names.size(); ++number) {
    script +=
        fmt::format("{}$series{} using {} title {}", number == 0 ? "" : ", ", number, style, quoted(names[number]));
  }
  return script + "\n";
}

void draw(const std::string& path, const Plot& plot, const std::vector<PlotPoint>& points) {
  if (points.empty()) return;
  std::FILE* const gnuplot = popen("gnuplot", "w");
  if (gnuplot == nullptr) throw Error("--plot: gnuplot could not be started");
  const std::string script = gnuplot_script(path, plot, points);
  const bool is_told = std::fputs(script.c_str(), gnuplot) >= 0;
  const std::string part = path + ".part";
  if (pclose(gnuplot) != 0 || !is_told || std::rename(part.c_str(), path.c_str()) != 0) {
    (void)std::remove(part.c_str());
    throw Error(fmt::format("--plot {}: gnuplot could not draw it; its own words are above", path));
  }
}

}  // namespace fanout::bench
