// SPDX-License-Identifier: Apache-2.0
// What all optimizers share: a list of parameters, their state in flat buffers, one launch for parameters that lie
// together.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/autograd/pending_sum.h"
#include "runtime/autograd/sparse.h"
#include "runtime/tensor/flat.h"
#include "runtime/tensor/tensor.h"

namespace fanout {

/// Updates parameters from their gradients. Parameters without a gradient are skipped, as in torch. State is made at
/// the first step and follows when a parameter moves to another device; a step that needs neither allocates nothing.
/// The parameters may be on several devices. After to(module, device) a whole module is one launch.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update of every parameter that has a gradient. Queued on the compute streams, does not wait. Throws
  /// InvalidArgument, before any update, for a sparse gradient where the optimizer takes none.
  void step();
  /// Forgets the gradients; nothing is written.
  void zero_grad();

  double learning_rate() const { return learning_rate_; }
  /// Throws InvalidArgument for a negative one.
  void set_learning_rate(double learning_rate);
  const std::vector<Tensor>& parameters() const { return parameters_; }

 protected:
  static constexpr std::size_t kMaxStates = 2;
  static constexpr std::int64_t kCountsForever = std::numeric_limits<std::int64_t>::max();

  /// `states`: values kept for each parameter element. `count_limit`: steps are counted up to here; parameters with
  /// different counts are updated by launches of their own. Throws InvalidArgument for no parameters, one that is given
  /// twice, is a result of operators, or is not f32 or f64.
  Optimizer(std::string_view name, std::vector<Tensor> parameters, double learning_rate, std::size_t states,
            std::int64_t count_limit = kCountsForever);

  /// Parameters that lie one behind the other, as their gradients and states do. Gaps between them are zero and stay
  /// so.
  struct Run {
    Device device;
    cudaStream_t stream;
    DType dtype;
    char* parameter;
    const char* gradient;
    std::array<char*, kMaxStates> states;
    std::int64_t elements;
    std::int64_t steps_before;
  };

  /// Queues the update of a run on its stream; the run's device is current. May be called by several threads at once.
  virtual void update(const Run& run) = 0;
  /// Whether update_sparse is there, with the options as they are: else step refuses sparse gradients.
  virtual bool takes_sparse() const { return false; }
  /// Queues the update of the rows of a parameter that its gradient names.
  virtual void update_sparse(const Tensor& /*parameter*/, const SparseRows& /*gradient*/) {}

  [[noreturn]] void refuse(const std::string& reason) const;
  /// Throws InvalidArgument "Sgd: invalid momentum -1" unless value is at least 0.
  void require_not_negative(std::string_view what, double value) const;

 private:
  // A parameter and what belongs to it.
  struct Slot {
    Tensor parameter;
    std::array<Tensor, kMaxStates> states;
    Device device = Device::host();  // of the states
    std::size_t offset = 0;          // in the device's state buffers
    std::int64_t steps = 0;
  };

  void check_parameters() const;
  bool placed() const;
  void place();
  void place_on(Device device, const std::vector<std::size_t>& numbers);
  Run run_of(const Slot& slot, const Tensor& gradient) const;
  std::size_t extend(Run& run, std::size_t position) const;
  void finish(const Run& run, std::size_t first, std::size_t last, PendingSum* sum);
  void count_update(Slot& slot) const;
  void require_dense() const;

  std::string_view name_;
  std::vector<Tensor> parameters_;
  double learning_rate_;
  std::size_t states_;
  std::int64_t count_limit_;
  std::vector<Slot> slots_;         // in the order of parameters_
  std::vector<std::size_t> order_;  // of slots by device, then by offset
};

}  // namespace fanout
