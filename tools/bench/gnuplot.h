// SPDX-License-Identifier: Apache-2.0
// Pictures of a report, drawn by gnuplot.
#pragma once

#include <string>
#include <vector>

namespace fanout::bench {

struct Plot;

struct PlotPoint {
  std::string series;
  std::string x;
  double y;
};

/// Throws fanout::Error, with the way to get it, if there is no gnuplot on the path.
void require_gnuplot();

/// Draws into `path`, whose end, .svg or .png, says the format. Throws fanout::Error where gnuplot fails.
void draw(const std::string& path, const Plot& plot, const std::vector<PlotPoint>& points);

/// What gnuplot is told.
std::string gnuplot_script(const std::string& path, const Plot& plot, const std::vector<PlotPoint>& points);

}  // namespace fanout::bench
