// Samples of distributions with a parameter each, many for every parameter: gamma, Poisson.
//
// Sample number i of parameter p has kReservedBlocksPerOutput blocks of the stream to itself, those at
// p * samples + i, and lies at [i, p] of the output. These are TensorFlow's choices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/timely_loop.h"

namespace weir {

constexpr double kSlowSample =
    10e3;  // nanoseconds, beside which it is nothing to look whether the step is over

// `Sampler` is made from a parameter as a double, and gives a sample of a stream. Its CostOf<T>(parameter) is
// what a sample of dtype T takes, in ns. An error when the step is over before the output is full.
template <typename Sampler, typename P, typename T>
absl::Status FillPerParameter(const TimelyThreads& threads, const Philox& start,
                              absl::Span<const P> parameters, absl::Span<T> output) {
  const auto count = static_cast<int64_t>(output.size());
  const auto num_parameters = static_cast<int64_t>(parameters.size());
  if (count == 0 || num_parameters == 0) return absl::OkStatus();
  const int64_t num_samples = count / num_parameters;
  // Of a thousand parameters: an estimate need not look at all.
  const int64_t step = (num_parameters + 999) / 1000;
  double cost = 0;
  for (int64_t p = 0; p < num_parameters; p += step) {
    cost += Sampler::template CostOf<T>(static_cast<double>(parameters[p])) * static_cast<double>(step);
  }
  return ParallelForInTime(
      threads, count, cost / static_cast<double>(num_parameters), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end;) {
          const int64_t which = i / num_samples, first = which * num_samples;
          const auto parameter = static_cast<double>(parameters[which]);
          const Sampler sampler(parameter);
          // One of many parameters may be that whose samples take nearly all of the time.
          const bool is_slow = Sampler::template CostOf<T>(parameter) > kSlowSample;
          for (; i < std::min(end, first + num_samples); ++i) {
            if (is_slow && threads.is_over()) return;
            Philox bits = start;
            bits.Skip(static_cast<uint64_t>(i) * kReservedBlocksPerOutput);
            output[(i - first) * num_parameters + which] = sampler.template Sample<T>(bits);
          }
        }
      });
}

// The shape `asked` with the parameters' dimensions behind it.
inline absl::StatusOr<Shape> WithParameters(const Shape& asked, const Shape& parameters) {
  Dims dims(asked.dims().begin(), asked.dims().end());
  dims.insert(dims.end(), parameters.dims().begin(), parameters.dims().end());
  return Shape::FromDims(dims);
}

// InvalidArgument unless `asked` ends with the parameters' dimensions.
inline absl::Status CheckEndsWith(const Shape& asked, const Shape& parameters) {
  const int before = asked.rank() - parameters.rank();
  if (before >= 0 && asked.dims().subspan(before) == parameters.dims()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Shape passed in must end with broadcasted shape: shape is ",
                                                 asked.ToString(), ", the parameters are ",
                                                 parameters.ToString()));
}

}  // namespace weir
