#include "kernels/cpu/nn/onednn_convolution.h"

#include <algorithm>
#include <atomic>

#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

constexpr auto kFloat = memory::data_type::f32;

memory::desc ImageDesc(int64_t images, int64_t channels, const int64_t (&size)[2], Tag tag) {
  return {{images, channels, size[0], size[1]}, kFloat, tag};
}

bool IsGrouped(const ConvGeometry& geometry) { return geometry.groups() > 1; }

// TensorFlow's filter [height, width, group_channels, output_channels].
memory::desc FilterDesc(const ConvGeometry& geometry) {
  const int64_t groups = geometry.groups(), in = geometry.group_channels, out = geometry.output_channels;
  const int64_t height = geometry.windows.window[0], width = geometry.windows.window[1];
  if (!IsGrouped(geometry)) return {{out, in, height, width}, kFloat, Tag::hwio};
  return {{groups, out / groups, in, height, width},
          kFloat,
          memory::dims{out / groups, 1, out, width * in * out, in * out}};
}

memory::desc AnyFilterDesc(const ConvGeometry& geometry) {
  return {FilterDesc(geometry).dims(), kFloat, Tag::any};
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// A reorder is run with a scratchpad of its own making: it needs none for the layouts used here.
dnnl::reorder MakeReorder(const memory::desc& from, const memory::desc& to, bool add = false) {
  dnnl::primitive_attr attributes;
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  return dnnl::reorder(dnnl::reorder::primitive_desc(HostEngine(), from, HostEngine(), to, attributes));
}

memory At(const memory::desc& desc, const void* data) {
  return memory(desc, HostEngine(), const_cast<void*>(data));
}

}  // namespace

struct OneDnnConvolution::Descriptions {
  memory::desc outer_input, outer_output, outer_filter;
  memory::desc input, output, filter;  // what the primitive may choose: `any` where reordering is expected
  memory::dims strides, dilations, padding_before, padding_after;
};

OneDnnConvolution::Descriptions OneDnnConvolution::Describe(int64_t images) const {
  const WindowGeometry& w = geometry_.windows;
  const Tag outer = w.channels_first ? Tag::nchw : Tag::nhwc;
  const Tag inner = w.channels_first ? Tag::any : Tag::nhwc;
  Descriptions d;
  d.outer_input = ImageDesc(images, w.channels, w.input, outer);
  d.outer_output = ImageDesc(images, geometry_.output_channels, w.output, outer);
  d.outer_filter = FilterDesc(geometry_);
  d.input = ImageDesc(images, w.channels, w.input, inner);
  d.output = ImageDesc(images, geometry_.output_channels, w.output, inner);
  d.filter = AnyFilterDesc(geometry_);
  for (int i = 0; i < 2; ++i) {
    d.strides.push_back(w.stride[i]);
    d.dilations.push_back(w.dilation[i] - 1);
    d.padding_before.push_back(w.padding_before[i]);
    // What SlideWindow leaves out at the far edge of a VALID input is not padding.
    d.padding_after.push_back(w.padding_after[i]);
  }
  return d;
}

void OneDnnConvolution::FinishPiece(Piece* piece, const memory::desc& scratchpad) const {
  piece->scratchpad = scratchpad;
  for (Operand* operand : {&piece->first, &piece->second}) {
    if (operand->inner != operand->outer) operand->reorder = MakeReorder(operand->outer, operand->inner);
  }
  if (piece->result.inner != piece->result.outer) {
    piece->result.reorder = MakeReorder(piece->result.inner, piece->result.outer);
  }
}

// `filter`: the layout to use for it, so that all pieces share one; null to let oneDNN choose.
OneDnnConvolution::Piece OneDnnConvolution::MakePiece(int64_t images, const memory::desc* filter) const {
  Descriptions d = Describe(images);
  if (filter != nullptr) d.filter = *filter;
  const auto attributes = UserScratchpad();
  const dnnl::convolution_forward::primitive_desc forward(
      dnnl::convolution_forward::desc(prop_kind::forward_training, algorithm::convolution_direct, d.input,
                                      direction_ == Direction::kOutput ? d.filter : AnyFilterDesc(geometry_),
                                      d.output, d.strides, d.dilations, d.padding_before, d.padding_after),
      attributes, HostEngine());
  Piece piece;
  piece.images = images;
  if (direction_ == Direction::kOutput) {
    piece.primitive = dnnl::convolution_forward(forward);
    piece.first = {d.outer_input, forward.src_desc(), {}};
    piece.second = {d.outer_filter, forward.weights_desc(), {}};
    piece.result = {d.outer_output, forward.dst_desc(), {}};
    FinishPiece(&piece, forward.scratchpad_desc());
  } else if (direction_ == Direction::kInputGradient) {
    const dnnl::convolution_backward_data::primitive_desc backward(
        dnnl::convolution_backward_data::desc(algorithm::convolution_direct, d.input, d.filter, d.output,
                                              d.strides, d.dilations, d.padding_before, d.padding_after),
        attributes, HostEngine(), forward);
    piece.primitive = dnnl::convolution_backward_data(backward);
    piece.first = {d.outer_output, backward.diff_dst_desc(), {}};
    piece.second = {d.outer_filter, backward.weights_desc(), {}};
    piece.result = {d.outer_input, backward.diff_src_desc(), {}};
    FinishPiece(&piece, backward.scratchpad_desc());
  } else {
    const dnnl::convolution_backward_weights::primitive_desc backward(
        dnnl::convolution_backward_weights::desc(algorithm::convolution_direct, d.input, d.filter, d.output,
                                                 d.strides, d.dilations, d.padding_before, d.padding_after),
        attributes, HostEngine(), forward);
    piece.primitive = dnnl::convolution_backward_weights(backward);
    piece.first = {d.outer_input, backward.src_desc(), {}};
    piece.second = {d.outer_output, backward.diff_dst_desc(), {}};
    piece.result = {d.outer_filter, backward.diff_weights_desc(), {}};
    FinishPiece(&piece, backward.scratchpad_desc());
  }
  return piece;
}

absl::Status OneDnnConvolution::Prepare(int pieces) {
  const int64_t batch = geometry_.windows.batch;
  num_pieces_ = pieces;
  num_large_ = static_cast<int>(batch % pieces == 0 ? pieces : batch % pieces);
  large_ = MakePiece((batch + pieces - 1) / pieces, nullptr);
  const bool filter_is_result = direction_ == Direction::kFilterGradient;
  const memory::desc& filter = filter_is_result ? large_.result.inner : large_.second.inner;
  if (num_large_ < pieces) small_ = MakePiece(batch / pieces, &filter);
  if (filter_is_result) add_filter_gradient_ = MakeReorder(filter, FilterDesc(geometry_), /*add=*/true);
  return absl::OkStatus();
}

namespace {

// oneDNN computes addresses in 32 bits: windows, steps and margins that are far larger than the image wrap
// around there, and its code reads elsewhere.
bool ReachesFarBeyondImage(const WindowGeometry& w) {
  for (int i = 0; i < 2; ++i) {
    const int64_t near = std::max<int64_t>(64, 2 * w.input[i]);
    const int64_t window = (w.window[i] - 1) * w.dilation[i] + 1;
    if (std::max({window, w.stride[i], w.dilation[i], w.padding_before[i], w.padding_after[i]}) > near)
      return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const OneDnnConvolution>> OneDnnConvolution::Create(
    Direction direction, const ConvGeometry& geometry, int pieces) {
  if (ReachesFarBeyondImage(geometry.windows)) {
    return absl::UnimplementedError("the convolution's window reaches far beyond the image");
  }
  std::shared_ptr<OneDnnConvolution> convolution(new OneDnnConvolution(direction, geometry));
  WEIR_RETURN_IF_ERROR(CatchOneDnnErrors([&] {
    const SingleThreadedOneDnn single_threaded;
    return convolution->Prepare(pieces);
  }));
  return std::shared_ptr<const OneDnnConvolution>(std::move(convolution));
}

// The memory of one run beside its operands: the filter in oneDNN's layout, and for every piece a scratchpad
// and room for reordered images.
struct OneDnnConvolution::Buffers {
  struct OfPiece {
    Tensor scratchpad, first, second, result;
  };
  Tensor filter;
  std::vector<OfPiece> pieces;
};

absl::StatusOr<OneDnnConvolution::Buffers> OneDnnConvolution::Allocate(KernelContext& context) const {
  const auto allocate = [&](const memory::desc& desc) {
    return context.AllocateTemporary(DType::kUint8, {static_cast<int64_t>(desc.get_size())});
  };
  const auto allocate_inner = [&](const Operand& operand, Tensor* tensor) -> absl::Status {
    if (!operand.reorder) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(*tensor, allocate(operand.inner));
    return absl::OkStatus();
  };
  const bool filter_is_result = direction_ == Direction::kFilterGradient;
  Buffers buffers;
  if (!filter_is_result) WEIR_RETURN_IF_ERROR(allocate_inner(large_.second, &buffers.filter));
  for (int i = 0; i < num_pieces_; ++i) {
    const Piece& piece = PieceOf(i);
    Buffers::OfPiece& of_piece = buffers.pieces.emplace_back();
    WEIR_ASSIGN_OR_RETURN(of_piece.scratchpad, allocate(piece.scratchpad));
    WEIR_RETURN_IF_ERROR(allocate_inner(piece.first, &of_piece.first));
    if (filter_is_result) {
      WEIR_RETURN_IF_ERROR(allocate_inner(piece.second, &of_piece.second));
      WEIR_ASSIGN_OR_RETURN(of_piece.result, allocate(piece.result.inner));
    } else {
      WEIR_RETURN_IF_ERROR(allocate_inner(piece.result, &of_piece.result));
    }
  }
  return buffers;
}

void OneDnnConvolution::ConvertFilter(const Buffers& buffers, const float* filter) const {
  memory from = At(large_.second.outer, filter);
  memory to = At(large_.second.inner, buffers.filter.data());
  large_.second.reorder->execute(ThreadStream(), from, to);
}

void OneDnnConvolution::RunPiece(int index, const Buffers& buffers, const float* first, const float* second,
                                 float* result) const {
  const Piece& piece = PieceOf(index);
  const Buffers::OfPiece& own = buffers.pieces[index];
  const int64_t image = FirstImage(index);
  dnnl::stream& stream = ThreadStream();
  // The part of a batch of images that this piece takes, and its form for the primitive.
  const auto part = [&](const Operand& operand, const float* batch) {
    return At(operand.outer,
              batch + image * static_cast<int64_t>(operand.outer.get_size() / sizeof(float)) / piece.images);
  };
  const auto enter = [&](const Operand& operand, const float* batch, const Tensor& converted) {
    memory outer = part(operand, batch);
    if (!operand.reorder) return outer;
    memory inner = At(operand.inner, converted.data());
    operand.reorder->execute(stream, outer, inner);
    return inner;
  };
  const memory scratchpad = At(piece.scratchpad, own.scratchpad.data());
  if (direction_ == Direction::kFilterGradient) {
    piece.primitive.execute(stream, {{DNNL_ARG_SRC, enter(piece.first, first, own.first)},
                                     {DNNL_ARG_DIFF_DST, enter(piece.second, second, own.second)},
                                     {DNNL_ARG_DIFF_WEIGHTS, At(piece.result.inner, own.result.data())},
                                     {DNNL_ARG_SCRATCHPAD, scratchpad}});
    return;
  }
  const bool forward = direction_ == Direction::kOutput;
  const void* filter = piece.second.reorder ? buffers.filter.data() : second;
  memory outer = part(piece.result, result);
  memory inner = piece.result.reorder ? At(piece.result.inner, own.result.data()) : outer;
  piece.primitive.execute(stream,
                          {{forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_DST, enter(piece.first, first, own.first)},
                           {DNNL_ARG_WEIGHTS, At(piece.second.inner, filter)},
                           {forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_SRC, inner},
                           {DNNL_ARG_SCRATCHPAD, scratchpad}});
  if (piece.result.reorder) piece.result.reorder->execute(stream, inner, outer);
}

void OneDnnConvolution::CollectFilterGradient(const Buffers& buffers, float* result) const {
  const Operand& operand = large_.result;
  memory sum = At(operand.outer, result);
  for (int i = 0; i < num_pieces_; ++i) {
    memory part = At(operand.inner, buffers.pieces[i].result.data());
    if (i > 0) {
      add_filter_gradient_->execute(ThreadStream(), part, sum);
    } else if (operand.reorder) {
      operand.reorder->execute(ThreadStream(), part, sum);
    } else {
      std::copy_n(static_cast<const float*>(buffers.pieces[i].result.data()),
                  operand.outer.get_size() / sizeof(float), result);
    }
  }
}

absl::Status OneDnnConvolution::Run(KernelContext& context, const float* first, const float* second,
                                    float* result) const {
  WEIR_ASSIGN_OR_RETURN(const Buffers buffers, Allocate(context));
  const bool filter_is_result = direction_ == Direction::kFilterGradient;
  const auto run = [&](const auto& body) {
    return CatchOneDnnErrors([&] {
      const SingleThreadedOneDnn single_threaded;
      body();
      return absl::OkStatus();
    });
  };
  if (!filter_is_result && large_.second.reorder) {
    WEIR_RETURN_IF_ERROR(run([&] { ConvertFilter(buffers, second); }));
  }
  constexpr double kOperationsPerNanosecond = 80;
  const double cost =
      geometry_.OperationsPerImage() * static_cast<double>(large_.images) / kOperationsPerNanosecond;
  absl::Mutex mutex;
  absl::Status status;
  context.threads().ParallelFor(num_pieces_, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      absl::Status of_piece = run([&] { RunPiece(static_cast<int>(i), buffers, first, second, result); });
      if (of_piece.ok()) continue;
      absl::MutexLock lock(&mutex);
      status.Update(std::move(of_piece));
    }
  });
  WEIR_RETURN_IF_ERROR(status);
  return filter_is_result ? run([&] { CollectFilterGradient(buffers, result); }) : absl::OkStatus();
}

}  // namespace weir
