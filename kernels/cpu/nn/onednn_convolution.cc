#include "kernels/cpu/nn/onednn_convolution.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;
using DataType = memory::data_type;

DataType DataTypeOf(DType dtype) { return dtype == DType::kBfloat16 ? DataType::bf16 : DataType::f32; }

// Images [batch, size..., channels] or, with channels first, [batch, channels,
// size...].
memory::desc ImageDesc(const WindowGeometry& w, int64_t channels, const SpatialSizes& size, DataType type,
                       bool in_any_layout = false) {
  memory::dims dims = {w.batch, channels};
  dims.insert(dims.end(), size, size + w.spatial_rank);
  const Tag last = w.spatial_rank == 3 ? Tag::ndhwc : Tag::nhwc,
            first = w.spatial_rank == 3 ? Tag::ncdhw : Tag::nchw;
  return {dims, type, in_any_layout ? Tag::any : w.channels_first ? first : last};
}

// TensorFlow's filter [window..., group_channels, output_channels]. Those of
// volumes have one group.
memory::desc FilterDesc(const ConvGeometry& geometry, DataType type) {
  const int64_t groups = geometry.groups(), in = geometry.group_channels, out = geometry.output_channels;
  const int64_t height = geometry.windows.window[0], width = geometry.windows.window[1];
  if (geometry.windows.spatial_rank == 3) {
    return {{out, in, height, width, geometry.windows.window[2]}, type, Tag::dhwio};
  }
  if (groups == 1) return {{out, in, height, width}, type, Tag::hwio};
  return {{groups, out / groups, in, height, width},
          type,
          memory::dims{out / groups, 1, out, width * in * out, in * out}};
}

memory::desc InAnyLayout(const memory::desc& desc, DataType type) { return {desc.dims(), type, Tag::any}; }

memory At(const memory::desc& desc, const void* data) {
  return memory(desc, HostEngine(), const_cast<void*>(data));
}

dnnl::primitive_attr OwnScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// oneDNN's reference takes minutes where windows are large on a CPU without AVX-512, and cannot be stopped:
// plain_convolution.h can.
template <typename Description>
const Description& NoReference(const Description& description) {
  if (absl::StartsWith(description.impl_info_str(), "ref")) {
    throw dnnl::error(dnnl_unimplemented, "oneDNN has no code of its own for this convolution");
  }
  return description;
}

const char* Offset(const void* data, int64_t bytes) { return static_cast<const char*>(data) + bytes; }

}  // namespace

struct OneDnnConvolution::Descriptions {
  memory::desc outer_input, outer_output, outer_filter;
  memory::desc input, output, filter, bias;  // what the primitive may choose: `any` where it is reordered
  memory::dims strides, dilations, padding_before, padding_after;
};

OneDnnConvolution::Descriptions OneDnnConvolution::Describe(const ConvGeometry& geometry) const {
  const WindowGeometry& w = geometry.windows;
  const DataType type = DataTypeOf(problem_.dtype);
  Descriptions d;
  d.outer_input = ImageDesc(w, w.channels, w.input, type);
  d.outer_output = ImageDesc(w, geometry.output_channels, w.output, type);
  d.outer_filter = FilterDesc(geometry, type);
  d.input = ImageDesc(w, w.channels, w.input, type, w.channels_first);
  d.output = ImageDesc(w, geometry.output_channels, w.output, type, w.channels_first);
  // All parts share one layout of the filter. Their gradients of it are summed
  // in float.
  d.filter = forms_.empty() ? InAnyLayout(d.outer_filter, filter_is_result() ? DataType::f32 : type)
                            : Filter().inner;
  d.bias = {{geometry.output_channels}, type, Tag::x};
  for (int i = 0; i < w.spatial_rank; ++i) {
    d.strides.push_back(w.stride[i]);
    d.dilations.push_back(w.dilation[i] - 1);
    d.padding_before.push_back(w.padding_before[i]);
    // What SlideWindow leaves out at the far edge of a VALID input is not padding.
    d.padding_after.push_back(w.padding_after[i]);
  }
  return d;
}

OneDnnConvolution::Form OneDnnConvolution::MakeForm(const ConvGeometry& geometry) const {
  const Descriptions d = Describe(geometry);
  const dnnl::primitive_attr attributes = OwnScratchpad();
  const bool is_forward = problem_.direction == Direction::kOutput;
  const memory::desc forward_filter =
      is_forward ? d.filter : InAnyLayout(d.outer_filter, DataTypeOf(problem_.dtype));
  const auto describe_forward = [&] {
    using Desc = dnnl::convolution_forward::desc;
    constexpr auto kDirect = algorithm::convolution_direct;
    if (problem_.has_bias) {
      return Desc(prop_kind::forward_training, kDirect, d.input, forward_filter, d.bias, d.output, d.strides,
                  d.dilations, d.padding_before, d.padding_after);
    }
    return Desc(prop_kind::forward_training, kDirect, d.input, forward_filter, d.output, d.strides,
                d.dilations, d.padding_before, d.padding_after);
  };
  const dnnl::convolution_forward::primitive_desc forward(describe_forward(), attributes, HostEngine());
  Form form;
  form.geometry = geometry;
  if (is_forward) {
    form.primitive = dnnl::convolution_forward(NoReference(forward));
    form.first = {d.outer_input, forward.src_desc()};
    form.second = {d.outer_filter, forward.weights_desc()};
    form.result = {d.outer_output, forward.dst_desc()};
    form.scratchpad = forward.scratchpad_desc();
  } else if (problem_.direction == Direction::kInputGradient) {
    const dnnl::convolution_backward_data::primitive_desc backward(
        dnnl::convolution_backward_data::desc(algorithm::convolution_direct, d.input, d.filter, d.output,
                                              d.strides, d.dilations, d.padding_before, d.padding_after),
        attributes, HostEngine(), forward);
    form.primitive = dnnl::convolution_backward_data(NoReference(backward));
    form.first = {d.outer_output, backward.diff_dst_desc()};
    form.second = {d.outer_filter, backward.weights_desc()};
    form.result = {d.outer_input, backward.diff_src_desc()};
    form.scratchpad = backward.scratchpad_desc();
  } else {
    const dnnl::convolution_backward_weights::primitive_desc backward(
        dnnl::convolution_backward_weights::desc(algorithm::convolution_direct, d.input, d.filter, d.output,
                                                 d.strides, d.dilations, d.padding_before, d.padding_after),
        attributes, HostEngine(), forward);
    form.primitive = dnnl::convolution_backward_weights(NoReference(backward));
    form.first = {d.outer_input, backward.src_desc()};
    form.second = {d.outer_output, backward.diff_dst_desc()};
    form.result = {d.outer_filter, backward.diff_weights_desc()};
    form.scratchpad = backward.scratchpad_desc();
  }
  const auto enter = [](const Operand& o) { return MakeReorder(o.outer, o.inner); };
  if (form.first.is_reordered()) form.enter_first = enter(form.first);
  if (filter_is_result() && form.second.is_reordered()) form.enter_second = enter(form.second);
  if (!filter_is_result() && form.result.is_reordered()) {
    form.leave_result = MakeReorder(form.result.inner, form.result.outer);
  }
  return form;
}

void OneDnnConvolution::AddPart(const ConvGeometry& geometry, Part part) {
  const auto known =
      std::find_if(forms_.begin(), forms_.end(), [&](const Form& form) { return form.geometry == geometry; });
  part.form = static_cast<int>(known - forms_.begin());
  if (known == forms_.end()) forms_.push_back(MakeForm(geometry));
  parts_.push_back(part);
}

// The first parts have one image more than the others where they cannot be equal.
void OneDnnConvolution::CutBatch(int64_t parts) {
  const int64_t batch = problem_.geometry.windows.batch;
  for (int64_t i = 0, image = 0; i < parts; ++i) {
    ConvGeometry geometry = problem_.geometry;
    geometry.windows.batch = batch / parts + (i < batch % parts ? 1 : 0);
    AddPart(geometry, {.first_image = image});
    image += geometry.windows.batch;
  }
}

// Rows (of a volume: images) [begin, end) of what is written or, for a filter's
// gradient, of the output. False where they are not a convolution of their own:
// some of them see nothing but padding.
bool OneDnnConvolution::AddRows(int64_t image, int64_t begin, int64_t end) {
  ConvGeometry geometry = problem_.geometry;
  WindowGeometry& w = geometry.windows;
  const int64_t reach = (w.window[0] - 1) * w.dilation[0] + 1, stride = w.stride[0];
  int64_t input_begin, input_end, output_begin, output_end;
  if (problem_.direction == Direction::kInputGradient) {
    const int64_t first_seen = begin + w.padding_before[0] - (reach - 1);
    input_begin = begin;
    input_end = end;
    output_begin = std::max<int64_t>(0, (first_seen + stride - 1) / stride);
    output_end = std::min(w.output[0], (end - 1 + w.padding_before[0]) / stride + 1);
  } else {
    output_begin = begin;
    output_end = end;
    input_begin = std::max<int64_t>(0, begin * stride - w.padding_before[0]);
    input_end = std::min(w.input[0], (end - 1) * stride - w.padding_before[0] + reach);
  }
  if (input_begin >= input_end || output_begin >= output_end) return false;
  const int64_t before = input_begin - (output_begin * stride - w.padding_before[0]);
  const int64_t after = (output_end - output_begin - 1) * stride + reach - before - (input_end - input_begin);
  if (before < 0 || before >= reach || after >= reach || after <= -stride) return false;
  w.batch = 1;
  w.input[0] = input_end - input_begin;
  w.output[0] = output_end - output_begin;
  w.padding_before[0] = before;
  w.padding_after[0] = after;
  AddPart(geometry, {.first_image = image, .input_row = input_begin, .output_row = output_begin});
  return true;
}

bool OneDnnConvolution::CutRows(int64_t parts_of_image) {
  constexpr int64_t kMinRows = 4;
  const WindowGeometry& w = problem_.geometry.windows;
  const int64_t rows = problem_.direction == Direction::kInputGradient ? w.input[0] : w.output[0];
  const int64_t parts = std::min(parts_of_image, rows / kMinRows);
  if (w.channels_first || parts < 2) return false;
  for (int64_t image = 0; image < w.batch; ++image) {
    for (int64_t i = 0; i < parts; ++i) {
      if (!AddRows(image, rows * i / parts, rows * (i + 1) / parts)) return false;
    }
  }
  return true;
}

void OneDnnConvolution::Prepare() {
  const int64_t batch = problem_.geometry.windows.batch;
  const bool has_rows = batch < problem_.max_parts && CutRows((problem_.max_parts + batch - 1) / batch);
  if (!has_rows) {
    parts_.clear();
    forms_.clear();
    CutBatch(std::min<int64_t>(batch, problem_.max_parts));
  }
  const Operand& filter = Filter();
  if (!filter.is_reordered()) return;
  if (filter_is_result()) {
    filter_reorder_.emplace(filter.inner, filter.outer);
  } else {
    filter_reorder_.emplace(filter.outer, filter.inner);
  }
}

namespace {

// oneDNN computes addresses in 32 bits: windows, steps and margins that are far
// larger than the image wrap around there, and its code reads elsewhere.
bool ReachesFarBeyondImage(const WindowGeometry& w) {
  for (int i = 0; i < w.spatial_rank; ++i) {
    const int64_t near = std::max<int64_t>(64, 2 * w.input[i]);
    const int64_t window = (w.window[i] - 1) * w.dilation[i] + 1;
    if (std::max({window, w.stride[i], w.dilation[i], w.padding_before[i], w.padding_after[i]}) > near)
      return true;
  }
  return false;
}

}  // namespace

bool OneDnnConvolution::IsFastInBfloat16() {
  static const bool is_fast = [] {
    const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
    if (isa == dnnl::cpu_isa::avx512_core_amx) return true;
    return isa == dnnl::cpu_isa::avx512_core_bf16 && __builtin_cpu_is("amd");
  }();
  return is_fast;
}

absl::StatusOr<std::shared_ptr<const OneDnnConvolution>> OneDnnConvolution::Create(const Problem& problem) {
  if (ReachesFarBeyondImage(problem.geometry.windows)) {
    return absl::UnimplementedError("the convolution's window reaches far beyond the image");
  }
  std::shared_ptr<OneDnnConvolution> convolution(new OneDnnConvolution(problem));
  WEIR_RETURN_IF_ERROR(CatchOneDnnErrors([&] {
    const SingleThreadedOneDnn single_threaded;
    convolution->Prepare();
    return absl::OkStatus();
  }));
  return std::shared_ptr<const OneDnnConvolution>(std::move(convolution));
}

// The memory of one run beside its operands: the filter in oneDNN's layout, and for every part a scratchpad
// and room for reordered images or for its share of the filter's gradient.
struct OneDnnConvolution::Buffers {
  struct OfPart {
    Tensor scratchpad, first, second, result;
  };
  Tensor filter;
  std::vector<OfPart> parts;
};

absl::StatusOr<OneDnnConvolution::Buffers> OneDnnConvolution::Allocate(KernelContext& context) const {
  const auto allocate = [&](const memory::desc& desc) {
    return context.AllocateTemporary(DType::kUint8, {static_cast<int64_t>(desc.get_size())});
  };
  const auto allocate_inner = [&](const Operand& operand, Tensor* tensor) -> absl::Status {
    if (!operand.is_reordered()) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(*tensor, allocate(operand.inner));
    return absl::OkStatus();
  };
  Buffers buffers;
  if (!filter_is_result()) WEIR_RETURN_IF_ERROR(allocate_inner(Filter(), &buffers.filter));
  for (const Part& part : parts_) {
    const Form& form = forms_[part.form];
    Buffers::OfPart& of_part = buffers.parts.emplace_back();
    WEIR_ASSIGN_OR_RETURN(of_part.scratchpad, allocate(form.scratchpad));
    WEIR_RETURN_IF_ERROR(allocate_inner(form.first, &of_part.first));
    if (!filter_is_result()) {
      WEIR_RETURN_IF_ERROR(allocate_inner(form.result, &of_part.result));
      continue;
    }
    WEIR_RETURN_IF_ERROR(allocate_inner(form.second, &of_part.second));
    // The first part's share is the result itself where that has oneDNN's layout.
    const bool is_result = buffers.parts.size() == 1 && !form.result.is_reordered();
    if (is_result) continue;
    WEIR_ASSIGN_OR_RETURN(of_part.result, allocate(form.result.inner));
  }
  return buffers;
}

void OneDnnConvolution::RunPart(const Part& part, const Buffers& buffers, int index, const void* first,
                                const void* second, const void* bias, void* result) const {
  const Form& form = forms_[part.form];
  const Buffers::OfPart& own = buffers.parts[index];
  const WindowGeometry& whole = problem_.geometry.windows;
  const int64_t element = problem_.dtype == DType::kBfloat16 ? 2 : 4;
  const int64_t input_row = whole.input[1] * whole.input[2] * whole.channels * element;
  const int64_t output_row = whole.output[1] * whole.output[2] * problem_.geometry.output_channels * element;
  const int64_t input = (part.first_image * whole.input[0] + part.input_row) * input_row;
  const int64_t output = (part.first_image * whole.output[0] + part.output_row) * output_row;
  dnnl::stream& stream = ThreadStream();
  const auto enter = [&](const Operand& operand, const dnnl::reorder& reorder, const char* images,
                         const Tensor& converted) {
    memory outer = At(operand.outer, images);
    if (!operand.is_reordered()) return outer;
    memory inner = At(operand.inner, converted.data());
    reorder.execute(stream, outer, inner);
    return inner;
  };
  const memory scratchpad = At(form.scratchpad, own.scratchpad.data());
  if (filter_is_result()) {
    const void* share = own.result.is_valid() ? own.result.data() : result;
    form.primitive.execute(
        stream,
        {{DNNL_ARG_SRC, enter(form.first, form.enter_first, Offset(first, input), own.first)},
         {DNNL_ARG_DIFF_DST, enter(form.second, form.enter_second, Offset(second, output), own.second)},
         {DNNL_ARG_DIFF_WEIGHTS, At(form.result.inner, share)},
         {DNNL_ARG_SCRATCHPAD, scratchpad}});
    return;
  }
  const bool forward = problem_.direction == Direction::kOutput;
  const void* filter = filter_reorder_ ? buffers.filter.data() : second;
  memory outer = At(form.result.outer, Offset(result, forward ? output : input));
  memory inner = form.result.is_reordered() ? At(form.result.inner, own.result.data()) : outer;
  std::unordered_map<int, memory> args = {
      {forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_DST,
       enter(form.first, form.enter_first, Offset(first, forward ? input : output), own.first)},
      {DNNL_ARG_WEIGHTS, At(form.second.inner, filter)},
      {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_SRC, inner},
      {DNNL_ARG_SCRATCHPAD, scratchpad}};
  if (problem_.has_bias) {
    const memory::desc desc = {{problem_.geometry.output_channels}, DataTypeOf(problem_.dtype), Tag::x};
    args.insert({DNNL_ARG_BIAS, At(desc, bias)});
  }
  form.primitive.execute(stream, args);
  if (form.result.is_reordered()) form.leave_result.execute(stream, inner, outer);
}

// Sums the parts' shares into that of the first and gives it the tensor's layout.
absl::Status OneDnnConvolution::CollectFilterGradient(KernelContext& context, const Buffers& buffers,
                                                      void* result) const {
  constexpr int64_t kBlock = 1024;
  constexpr double kNanosecondsPerAddition = 0.2;
  const Tensor& first = buffers.parts[0].result;
  float* const sum = static_cast<float*>(first.is_valid() ? const_cast<void*>(first.data()) : result);
  const int64_t count = static_cast<int64_t>(Filter().inner.get_size() / sizeof(float));
  const auto add_blocks = [&](int64_t begin, int64_t end) {
    for (int64_t block = begin * kBlock; block < std::min(count, end * kBlock); block += kBlock) {
      const int64_t size = std::min(kBlock, count - block);
      for (size_t i = 1; i < buffers.parts.size(); ++i) {
        const float* __restrict share = static_cast<const float*>(buffers.parts[i].result.data()) + block;
        float* __restrict target = sum + block;
        for (int64_t j = 0; j < size; ++j) target[j] += share[j];
      }
    }
  };
  if (parts_.size() > 1) {
    const double cost = kNanosecondsPerAddition * kBlock * static_cast<double>(parts_.size() - 1);
    context.threads().ParallelFor((count + kBlock - 1) / kBlock, cost, add_blocks);
  }
  return filter_reorder_ ? filter_reorder_->Run(context.threads(), sum, result) : absl::OkStatus();
}

double OneDnnConvolution::CostOfPart() const {
  constexpr double kOperationsPerNanosecond = 80;
  const double images = static_cast<double>(problem_.geometry.windows.batch);
  return problem_.geometry.OperationsPerImage() * images / static_cast<double>(parts_.size()) /
         kOperationsPerNanosecond;
}

absl::Status OneDnnConvolution::Run(KernelContext& context, const void* first, const void* second,
                                    const void* bias, void* result) const {
  WEIR_ASSIGN_OR_RETURN(const Buffers buffers, Allocate(context));
  if (!filter_is_result() && filter_reorder_) {
    WEIR_RETURN_IF_ERROR(
        filter_reorder_->Run(context.threads(), second, const_cast<void*>(buffers.filter.data())));
  }
  absl::Mutex mutex;
  absl::Status status;
  context.threads().ParallelFor(
      static_cast<int64_t>(parts_.size()), CostOfPart(), [&](int64_t begin, int64_t end) {
        absl::Status of_parts = CatchOneDnnErrors([&] {
          const SingleThreadedOneDnn single_threaded;
          for (int64_t i = begin; i < end && !context.cancellation().is_cancelled(); ++i)
            RunPart(parts_[i], buffers, static_cast<int>(i), first, second, bias, result);
          return absl::OkStatus();
        });
        if (of_parts.ok()) return;
        absl::MutexLock lock(&mutex);
        status.Update(std::move(of_parts));
      });
  WEIR_RETURN_IF_ERROR(status);
  if (context.cancellation().is_cancelled()) return context.cancellation().reason();
  return filter_is_result() ? CollectFilterGradient(context, buffers, result) : absl::OkStatus();
}

absl::Status OneDnnConvolutions::Run(KernelContext& context, const ConvGeometry& geometry, DType dtype,
                                     const void* first, const void* second, const void* bias, void* result) {
  constexpr double kOperationsWorthSplitting = 8e6;  // 0.1 ms on one core
  const double operations = geometry.OperationsPerImage() * static_cast<double>(geometry.windows.batch);
  OneDnnConvolution::Problem problem = {direction_, geometry, dtype, has_bias_};
  if (operations >= kOperationsWorthSplitting) problem.max_parts = context.threads().num_threads();
  // oneDNN cannot be stopped: what takes seconds is cut into parts of some tenths of one, if that makes no
  // more than each thread should have scratchpads for. Not a filter's gradient, whose parts are sums that
  // have to be added.
  constexpr double kOperationsOfLongPart = 2e10, kMostParts = 100, kMostPartsOfThread = 8;
  constexpr double kDepthwiseSlowness = 10;  // about: each channel by itself leaves most of a vector idle
  const double weighed = operations * (geometry.group_channels == 1 ? kDepthwiseSlowness : 1);
  const double most_parts =
      std::min(weighed / kOperationsOfLongPart, std::max(kMostParts, kMostPartsOfThread * problem.max_parts));
  if (direction_ != ConvDirection::kFilterGradient && most_parts > 4 * problem.max_parts) {
    problem.max_parts = static_cast<int>(most_parts);
  }
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<const OneDnnConvolution> prepared,
                        prepared_.FindOrCreate(problem, [&] { return OneDnnConvolution::Create(problem); }));
  return prepared->Run(context, first, second, bias, result);
}

}  // namespace weir
