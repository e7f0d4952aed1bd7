// SPDX-License-Identifier: Apache-2.0
// cudaLaunchKernelEx: the one way to launch a kernel.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sim/call_place.h"
#include "sim/lanes.h"
#include "sim/submit.h"
#include "sim/threads.h"

namespace sim {
namespace {

/// The device memory that a parameter reaches: T* is written, const T* only read, from the first element on; anything
/// else reaches none.
template <class Parameter>
[[gnu::always_inline]] inline Access access_of(Parameter value) {
  if constexpr (std::is_pointer_v<Parameter>) {
    using Element = std::remove_pointer_t<Parameter>;
    if constexpr (std::is_void_v<Element>) {
      return {value, !std::is_const_v<Element>};
    } else {
      return {value, !std::is_const_v<Element>, sizeof(Element)};
    }
  } else {
    static_cast<void>(value);
    return {nullptr, false};
  }
}

/// Arguments become the kernel's parameter types, as on CUDA. `call` is a lambda of its own type for every launch site,
/// which names the kernel, so that the kernel can be inlined into the loop over the threads.
template <class... Parameters, class Call, class... Arguments>
[[nodiscard, gnu::always_inline]] inline cudaError_t launch_kernel(const cudaLaunchConfig_t* config, const char* name,
                                                                   void (*)(Parameters...), Call call,
                                                                   Arguments... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "the kernel takes another number of arguments");
  return [&](Parameters... parameters) __attribute__((always_inline)) {
    const Access accesses[] = {access_of<Parameters>(parameters)..., Access{nullptr, false}};
    const auto body = [=]() __attribute__((always_inline)) {
      call(parameters...);
    };
    auto work = [name, grid = config->gridDim, block = config->blockDim, shared = config->dynamicSmemBytes, body] {
      run_grid(name, grid, block, shared, body);
    };
    return submit_launch(*config, name, accesses, static_cast<int>(sizeof...(Parameters)), work_ref(work));
  }
  (static_cast<Parameters>(arguments)...);
}

}  // namespace
}  // namespace sim

// A kernel whose name has a comma needs parentheses: cudaLaunchKernelEx(&config, (kernel<float, 4>), ...).
#define cudaLaunchKernelEx(config, kernel, ...)                                                         \
  (sim::called_at(__FILE__, __LINE__),                                                                  \
   sim::launch_kernel((config),                                                                         \
                      [](const char* fanout_sim_function) {                                             \
                        static const char* const name = sim::kernel_name(#kernel, fanout_sim_function); \
                        return name;                                                                    \
                      }(__PRETTY_FUNCTION__),                                                           \
                      (kernel),                                                                         \
                      [=](auto... fanout_sim_arguments) __attribute__((always_inline)) {                \
                        (kernel)(fanout_sim_arguments...);                                              \
                      } __VA_OPT__(, ) __VA_ARGS__))
