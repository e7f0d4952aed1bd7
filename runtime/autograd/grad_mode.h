// SPDX-License-Identifier: Apache-2.0
// Whether operators of this thread build the graph.
#pragma once

namespace fanout {

namespace detail {
inline thread_local bool grad_mode_of_thread = true;
}

inline bool grad_enabled() {
  return detail::grad_mode_of_thread;
}

/// Sets whether operators of this thread build the graph, until the end of the scope.
class GradMode {
 public:
  explicit GradMode(bool enabled) : former_(detail::grad_mode_of_thread) { detail::grad_mode_of_thread = enabled; }
  ~GradMode() { detail::grad_mode_of_thread = former_; }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool former_;
};

/// No graph until the end of the scope: for evaluation, and for writing parameters.
class NoGrad : public GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace fanout
