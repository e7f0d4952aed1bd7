// SPDX-License-Identifier: Apache-2.0
// Whether operators of this thread build the graph.
#pragma once

namespace fanout {

namespace detail {
inline thread_local bool grad_mode_of_thread = true;
inline thread_local bool in_replica_of_thread = false;

/// Says that this thread runs a replica's forward, until the end of the scope: it may not go back through nodes that
/// replicas share, since the others are still at work.
class ReplicaScope {
 public:
  ReplicaScope() { in_replica_of_thread = true; }
  ~ReplicaScope() { in_replica_of_thread = former_; }
  ReplicaScope(const ReplicaScope&) = delete;
  ReplicaScope& operator=(const ReplicaScope&) = delete;

 private:
  bool former_ = in_replica_of_thread;
};
}  // namespace detail

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
