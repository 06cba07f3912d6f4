// What oneDNN's convolutions alone take of a training step of ResNet-20: the floor under resnet20_step. A
// thread per core computes its share of the batch, images with channels last, filters in oneDNN's layout.
#include <algorithm>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/onednn.h"
#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/measure.h"

namespace weir::bench {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

struct Layer {
  int64_t in, out, window, stride, size;
  int count;
};

// examples/resnet/model.h at depth 20; TensorFlow's SAME padding.
constexpr Layer kLayers[] = {{3, 16, 3, 1, 32, 1},  {16, 16, 3, 1, 32, 6}, {16, 32, 3, 2, 32, 1},
                             {16, 32, 1, 2, 32, 1}, {32, 32, 3, 1, 16, 5}, {32, 64, 3, 2, 16, 1},
                             {32, 64, 1, 2, 16, 1}, {64, 64, 3, 1, 8, 5}};
constexpr int64_t kBatch = 128;

// A primitive and the arguments that it runs on, with memory of its own.
class Computation {
 public:
  template <typename Primitive, typename Description>
  static Computation Of(const Description& description, std::vector<std::pair<int, memory::desc>> args) {
    Computation computation;
    computation.primitive_ = Primitive(description);
    args.emplace_back(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
    for (const auto& [index, desc] : args) computation.args_.insert({index, memory(desc, HostEngine())});
    return computation;
  }

  void Run() const { primitive_.execute(ThreadStream(), args_); }

 private:
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> args_;
};

// The convolution and its gradients for some images; the input of the first layer has no gradient.
std::vector<Computation> ComputationsOf(const Layer& layer, int64_t images, memory::data_type type) {
  const int64_t out_size = (layer.size - 1) / layer.stride + 1;
  const int64_t padding = std::max<int64_t>(0, (out_size - 1) * layer.stride + layer.window - layer.size);
  const memory::dims strides = {layer.stride, layer.stride}, dilations = {0, 0};
  const memory::dims before = {padding / 2, padding / 2}, after = {padding - before[0], padding - before[0]};
  const memory::desc input({images, layer.in, layer.size, layer.size}, type, Tag::nhwc);
  const memory::desc output({images, layer.out, out_size, out_size}, type, Tag::nhwc);
  const memory::desc filter({layer.out, layer.in, layer.window, layer.window}, type, Tag::any);
  const memory::desc gradient(filter.dims(), memory::data_type::f32, Tag::any);
  dnnl::primitive_attr own_scratchpad;
  own_scratchpad.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  constexpr auto kDirect = algorithm::convolution_direct;

  const dnnl::convolution_forward::primitive_desc forward(
      {prop_kind::forward_training, kDirect, input, filter, output, strides, dilations, before, after},
      own_scratchpad, HostEngine());
  const dnnl::convolution_backward_weights::primitive_desc of_filter(
      {kDirect, input, gradient, output, strides, dilations, before, after}, own_scratchpad, HostEngine(),
      forward);
  std::vector<Computation> result = {
      Computation::Of<dnnl::convolution_forward>(forward, {{DNNL_ARG_SRC, forward.src_desc()},
                                                           {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                                                           {DNNL_ARG_DST, forward.dst_desc()}}),
      Computation::Of<dnnl::convolution_backward_weights>(
          of_filter, {{DNNL_ARG_SRC, of_filter.src_desc()},
                      {DNNL_ARG_DIFF_DST, of_filter.diff_dst_desc()},
                      {DNNL_ARG_DIFF_WEIGHTS, of_filter.diff_weights_desc()}})};
  if (layer.in == 3) return result;
  const dnnl::convolution_backward_data::primitive_desc of_input(
      {kDirect, input, filter, output, strides, dilations, before, after}, own_scratchpad, HostEngine(),
      forward);
  result.push_back(Computation::Of<dnnl::convolution_backward_data>(
      of_input, {{DNNL_ARG_DIFF_DST, of_input.diff_dst_desc()},
                 {DNNL_ARG_WEIGHTS, of_input.weights_desc()},
                 {DNNL_ARG_DIFF_SRC, of_input.diff_src_desc()}}));
  return result;
}

// All convolutions of one step, for the share of one thread.
std::vector<Computation> Share(int64_t images, memory::data_type type) {
  const SingleThreadedOneDnn single_threaded;
  std::vector<Computation> share;
  for (const Layer& layer : kLayers) {
    for (const Computation& computation : ComputationsOf(layer, images, type)) {
      share.insert(share.end(), layer.count, computation);
    }
  }
  return share;
}

double StepsPerSecond(memory::data_type type) {
  const int num_threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::vector<Computation>> shares;
  for (int i = 0; i < num_threads; ++i)
    shares.push_back(Share((kBatch + num_threads - 1) / num_threads, type));
  const auto run = [&] {
    std::vector<std::thread> threads;
    for (const auto& share : shares) {
      threads.emplace_back([&share] {
        const SingleThreadedOneDnn single_threaded;
        for (const Computation& computation : share) computation.Run();
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  return 1 / MedianSeconds(run, 4.0);
}

}  // namespace

void ResNet20Convolutions() {
  const std::pair<const char*, memory::data_type> types[] = {{"fp32", memory::data_type::f32},
                                                             {"bf16", memory::data_type::bf16}};
  for (const auto& [name, type] : types) {
    const absl::StatusOr<double> rate =
        CatchOneDnnErrors([type = type]() -> absl::StatusOr<double> { return StepsPerSecond(type); });
    if (absl::IsUnimplemented(rate.status())) continue;  // the CPU has no instructions for bfloat16
    Emit(absl::StrCat("resnet20_b128_convolutions_", name), Must(rate), "steps/s");
  }
}

}  // namespace weir::bench
