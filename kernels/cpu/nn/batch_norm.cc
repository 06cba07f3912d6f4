// FusedBatchNorm and FusedBatchNormGrad in all their versions, alone and with what follows or comes before
// them: Ioffe, Szegedy, Batch Normalization (2015).
//
// Moments are taken piece by piece, each from its own mean, and put together in double (Chan, Golub, LeVeque,
// Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979): the tensor is read once,
// large means cost no digits, and the number of threads does not show in the result.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/fused_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/float16_rows.h"
#include "kernels/cpu/nn/batch_norm_loops.h"
#include "kernels/cpu/nn/batch_norm_operands.h"
#include "kernels/cpu/nn/nn_math.h"
#include "kernels/cpu/widened_piece.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 0.3;  // nanoseconds per element on one core
// A piece of this many elements stays in a core's cache while it is read twice; of 16-bit types less, for
// copies in single precision stand beside it.
template <typename T>
inline constexpr int64_t kPieceElements = sizeof(T) == 2 ? 1 << 12 : 1 << 14;

// The channels, and the pieces that they are computed in.
class ChannelLayout : public NormalizedChannels {
 public:
  static absl::StatusOr<ChannelLayout> Of(const Shape& shape, const std::string& data_format,
                                          int64_t piece_elements) {
    WEIR_ASSIGN_OR_RETURN(const NormalizedChannels dims, ReadNormalizedChannels(shape, data_format));
    ChannelLayout layout;
    static_cast<NormalizedChannels&>(layout) = dims;
    layout.rows_of_piece = std::max<int64_t>(16, piece_elements / std::max<int64_t>(1, layout.channels));
    return layout;
  }

  // A piece is some rows (channels last) or the planes of one of the outer blocks.
  int64_t rows_per_piece() const { return is_last ? rows_of_piece : 1; }
  int64_t num_pieces() const { return (outer + rows_per_piece() - 1) / rows_per_piece(); }
  // Elements of one channel in a piece.
  int64_t PieceCount(int64_t piece) const {
    return is_last ? std::min(rows_per_piece(), outer - piece * rows_per_piece()) : inner;
  }
  int64_t PieceBegin(int64_t piece) const { return piece * rows_per_piece() * channels * inner; }

  // Calls columns(piece) for pieces of rows, or plane(piece, channel) for every plane.
  template <typename Columns, typename Plane>
  void ForEachPiece(ThreadPool& threads, const Columns& columns, const Plane& plane) const {
    if (channels == 0 || count() == 0) return;  // there may be very many pieces of nothing
    if (is_last) {
      threads.ParallelFor(num_pieces(), kCost * static_cast<double>(rows_per_piece() * channels),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t piece = begin; piece < end; ++piece) columns(piece);
                          });
    } else {
      threads.ParallelFor(outer * channels, kCost * static_cast<double>(inner),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i) plane(i / channels, i % channels);
                          });
    }
  }

  int64_t rows_of_piece = 1;  // channels last
};

// Two numbers for each piece and channel.
struct PiecewisePairs {
  explicit PiecewisePairs(Tensor memory)
      : memory(std::move(memory)),
        first(this->memory.flat<float>().data()),
        second(first + this->memory.num_elements() / 2) {}
  static absl::StatusOr<PiecewisePairs> Allocate(KernelContext& context, const ChannelLayout& layout) {
    WEIR_ASSIGN_OR_RETURN(
        Tensor memory,
        context.AllocateTemporary(DType::kFloat32, Shape({2, layout.num_pieces(), layout.channels})));
    return PiecewisePairs(std::move(memory));
  }

  Tensor memory;
  float* first;   // [pieces, channels]
  float* second;  // [pieces, channels]
};

// Of every channel.
struct Moments {
  std::vector<float> mean, variance;  // the variance is not corrected for the sample: squares / count
};

template <typename T>
absl::StatusOr<Moments> ComputeMoments(KernelContext& context, const ChannelLayout& layout, const T* x) {
  WEIR_ASSIGN_OR_RETURN(const PiecewisePairs pairs, PiecewisePairs::Allocate(context, layout));
  const int64_t channels = layout.channels, pieces = layout.num_pieces();
  layout.ForEachPiece(
      context.threads(),
      [&](int64_t piece) {
        const int64_t rows = layout.PieceCount(piece);
        const WidePiece<T> wide(x + layout.PieceBegin(piece), rows * channels);
        ColumnMoments(rows, channels, wide.values(), pairs.first + piece * channels,
                      pairs.second + piece * channels);
      },
      [&](int64_t piece, int64_t c) {
        const int64_t at = piece * channels + c;
        const WidePiece<T> wide(x + at * layout.inner, layout.inner);
        PlaneMoments(layout.inner, wide.values(), pairs.first + at, pairs.second + at);
      });
  Moments moments{std::vector<float>(channels), std::vector<float>(channels)};
  const double count = static_cast<double>(layout.count());
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int64_t p = 0; p < pieces; ++p) {
      sum += static_cast<double>(layout.PieceCount(p)) * pairs.first[p * channels + c];
    }
    const double mean = sum / count;
    double squares = 0;
    for (int64_t p = 0; p < pieces; ++p) {
      const double shift = pairs.first[p * channels + c] - mean;
      squares += pairs.second[p * channels + c] + static_cast<double>(layout.PieceCount(p)) * shift * shift;
    }
    moments.mean[c] = static_cast<float>(mean);
    moments.variance[c] = static_cast<float>(squares / count);
  }
  return moments;
}

std::vector<float> Floats(const Tensor& tensor) {
  return {tensor.flat<float>().begin(), tensor.flat<float>().end()};
}

// What the ops that fusion makes (graph/fused_ops.h) do beside normalizing; the others do none of it.
struct FusedParts {
  static absl::StatusOr<FusedParts> Of(const KernelConstruction& construction) {
    FusedParts parts;
    const std::string& op = construction.node().op_name();
    parts.is_fused = op == kFusedBatchNormOp || op == kFusedBatchNormGradOp;
    if (!parts.is_fused) return parts;
    const auto& activation = construction.attr<std::string>("activation_mode");
    const int64_t num_sides = construction.attr<int64_t>("num_side_inputs");
    if ((activation != "Identity" && activation != "Relu") || num_sides > 1) {
      return absl::UnimplementedError(
          absl::StrCat(op, " has activations Identity and Relu and at most one side input; asked for ",
                       activation, " and ", num_sides));
    }
    parts.has_relu = activation == "Relu";
    parts.has_side = num_sides == 1;
    return parts;
  }

  bool is_fused = false;
  bool has_relu = false;
  bool has_side = false;
};

template <typename T>
class FusedBatchNorm final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const FusedParts parts, FusedParts::Of(construction));
    return std::unique_ptr<Kernel>(new FusedBatchNorm(construction, parts));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const ChannelLayout layout,
                          ChannelLayout::Of(x.shape(), data_format_, kPieceElements<T>));
    WEIR_RETURN_IF_ERROR(CheckBatchNorm(context, layout.channels, !is_training_ || average_factor_ != 1));
    if (parts_.has_side && context.input(5).shape() != x.shape()) {
      return absl::InvalidArgumentError(absl::StrCat("side_input is ", context.input(5).shape().ToString(),
                                                     " but x is ", x.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * y, context.AllocateOutput(0, x.shape()));
    Tensor* statistics[4];  // batch_mean, batch_variance, and what the gradient will want
    for (int i = 0; i < 4; ++i) {
      WEIR_ASSIGN_OR_RETURN(statistics[i], context.AllocateOutput(1 + i, Shape({layout.channels})));
    }
    if (context.num_outputs() == 6) {
      WEIR_ASSIGN_OR_RETURN(Tensor * reserve, context.AllocateOutput(5, Shape()));
      reserve->flat<float>()[0] = 0;
    }
    if (x.num_elements() == 0) {  // of nothing there is no mean
      for (Tensor* tensor : statistics) Fill(*tensor, std::numeric_limits<float>::quiet_NaN());
      return absl::OkStatus();
    }
    Moments moments;
    if (is_training_) {
      WEIR_ASSIGN_OR_RETURN(moments, ComputeMoments(context, layout, x.flat<T>().data()));
    } else {
      moments = {Floats(context.input(3)), Floats(context.input(4))};
    }
    SetStatistics(context, layout, moments, statistics);
    Normalize(context, layout, moments, x.flat<T>().data(), y->flat<T>().data());
    return absl::OkStatus();
  }

 private:
  FusedBatchNorm(const KernelConstruction& construction, const FusedParts& parts)
      : data_format_(construction.attr<std::string>("data_format")),
        epsilon_(construction.attr<float>("epsilon")),
        average_factor_(construction.attr<float>("exponential_avg_factor")),
        is_training_(construction.attr<bool>("is_training")),
        parts_(parts) {}

  static void Fill(Tensor& tensor, float value) {
    std::fill_n(tensor.flat<float>().data(), tensor.num_elements(), value);
  }

  void SetStatistics(KernelContext& context, const ChannelLayout& layout, const Moments& moments,
                     Tensor* (&statistics)[4]) const {
    const float count = static_cast<float>(layout.count());
    const float correction = count / std::max(1.0f, count - 1);  // of the variance of a sample
    for (int64_t c = 0; c < layout.channels; ++c) {
      float mean = moments.mean[c], variance = moments.variance[c];
      if (is_training_) variance *= correction;
      if (is_training_ && average_factor_ != 1) {
        mean = (1 - average_factor_) * context.input(3).flat<float>()[c] + average_factor_ * mean;
        variance = (1 - average_factor_) * context.input(4).flat<float>()[c] + average_factor_ * variance;
      }
      statistics[0]->flat<float>()[c] = mean;
      statistics[1]->flat<float>()[c] = variance;
      statistics[2]->flat<float>()[c] = moments.mean[c];
      statistics[3]->flat<float>()[c] = moments.variance[c];
    }
  }

  void Normalize(KernelContext& context, const ChannelLayout& layout, const Moments& moments, const T* x,
                 T* y) const {
    std::vector<float> scale = Floats(context.input(1));
    const float* offset = context.input(2).flat<float>().data();
    for (int64_t c = 0; c < layout.channels; ++c) scale[c] /= std::sqrt(moments.variance[c] + epsilon_);
    const ChannelAffine affine = {moments.mean.data(), scale.data(), offset};
    const Ends ends = {parts_.has_side ? context.input(5).flat<T>().data() : nullptr, parts_.has_relu};
    layout.ForEachPiece(
        context.threads(),
        [&](int64_t piece) {
          const int64_t at = layout.PieceBegin(piece), rows = layout.PieceCount(piece);
          const WidePiece<T> wide_x(x + at, rows * layout.channels);
          NormalizePiece(ends, at, rows * layout.channels, y, [&](const NormalizedEnd& end, float* wide_y) {
            NormalizeColumns(rows, layout.channels, wide_x.values(), affine, end, wide_y);
          });
        },
        [&](int64_t piece, int64_t c) {
          const int64_t at = (piece * layout.channels + c) * layout.inner;
          const WidePiece<T> wide_x(x + at, layout.inner);
          NormalizePiece(ends, at, layout.inner, y, [&](const NormalizedEnd& end, float* wide_y) {
            NormalizePlane(layout.inner, wide_x.values(), affine.center[c], affine.scale[c], affine.offset[c],
                           end, wide_y);
          });
        });
  }

  // NormalizedEnd of the whole tensor.
  struct Ends {
    const T* side;
    bool has_relu;
  };

  // y[at, at + count) by normalize(end, result). 16-bit types go through their ends after rounding, as they
  // would in nodes of their own.
  template <typename Normalize>
  static void NormalizePiece(const Ends& ends, int64_t at, int64_t count, T* y, const Normalize& normalize) {
    if constexpr (std::is_same_v<T, float>) {
      normalize(NormalizedEnd{ends.side == nullptr ? nullptr : ends.side + at, ends.has_relu}, y + at);
    } else {
      const std::unique_ptr<float[]> wide(new float[count]);
      normalize(NormalizedEnd(), wide.get());
      FromFloats(wide.get(), y + at, count);
      if (ends.side != nullptr) {
        const WidePiece<T> side(ends.side + at, count);
        ToFloats(y + at, wide.get(), count);
        AddToRows<float>(1, count, wide.get(), side.values(), wide.get());
        FromFloats(wide.get(), y + at, count);
      }
      if (ends.has_relu) Rectify(y + at, count);
    }
  }

  const std::string data_format_;
  const float epsilon_;
  const float average_factor_;
  const bool is_training_;
  const FusedParts parts_;
};

// With n elements in a channel, s = scale / sqrt(variance + epsilon), c = x - mean:
//   scale_backprop = sum(dy * c) / sqrt(variance + epsilon), offset_backprop = sum(dy),
//   dx = s * (dy - sum(dy) / n - c * sum(dy * c) / n / (variance + epsilon)) in training, else s * dy.
// After an activation (_FusedBatchNormGradEx) dy is multiplied by 0 where its result y, input 7, is not
// positive; the side input's gradient is that dy.
template <typename T>
class FusedBatchNormGrad final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const FusedParts parts, FusedParts::Of(construction));
    if (parts.is_fused && !parts.has_relu) {
      return absl::UnimplementedError(absl::StrCat(kFusedBatchNormGradOp, " needs the activation Relu"));
    }
    return std::unique_ptr<Kernel>(new FusedBatchNormGrad(construction, parts));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& dy = context.input(0);
    const Tensor& x = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const ChannelLayout layout,
                          ChannelLayout::Of(x.shape(), data_format_, kPieceElements<T>));
    WEIR_RETURN_IF_ERROR(CheckBatchNormGrad(context, layout.channels));
    if (parts_.has_relu && context.input(7).shape() != x.shape()) {
      return absl::InvalidArgumentError(
          absl::StrCat("y is ", context.input(7).shape().ToString(), " but x is ", x.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * dx, context.AllocateOutput(0, x.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * scale_backprop, context.AllocateOutput(1, Shape({layout.channels})));
    WEIR_ASSIGN_OR_RETURN(Tensor * offset_backprop, context.AllocateOutput(2, Shape({layout.channels})));
    for (int i = 3; i < 5; ++i) {  // mean and variance get no gradient
      WEIR_RETURN_IF_ERROR(context.AllocateOutput(i, Shape({0})).status());
    }
    const T* const y = parts_.has_relu ? context.input(7).flat<T>().data() : nullptr;
    T* kept = nullptr;
    if (parts_.has_side) {
      WEIR_ASSIGN_OR_RETURN(Tensor * side_backprop, context.AllocateOutput(5, x.shape()));
      kept = side_backprop->flat<T>().data();
    }
    return Backprop(context, layout, {dy.flat<T>().data(), y, x.flat<T>().data()}, kept, dx->flat<T>().data(),
                    scale_backprop->flat<float>().data(), offset_backprop->flat<float>().data());
  }

 private:
  FusedBatchNormGrad(const KernelConstruction& construction, const FusedParts& parts)
      : data_format_(construction.attr<std::string>("data_format")),
        epsilon_(construction.attr<float>("epsilon")),
        is_training_(construction.attr<bool>("is_training")),
        parts_(parts) {}

  // What the gradient is computed from; y is null without an activation.
  struct Operands {
    const T* dy;
    const T* y;
    const T* x;
  };

  // Some of them, as the loops take them. Of 16-bit types the gradient is masked before it is widened, into
  // `kept` if that is there.
  class WideOperands {
   public:
    WideOperands(const Operands& operands, T* kept, int64_t at, int64_t count)
        : dy_(Masked(operands, kept, at, count), count), x_(operands.x + at, count) {
      if constexpr (std::is_same_v<T, float>) {
        if (operands.y != nullptr) y_ = operands.y + at;
        if (kept != nullptr) kept_ = kept + at;
      }
    }
    MaskedGradient dy() const { return {dy_.values(), y_}; }
    const float* x() const { return x_.values(); }
    // Where the loops put the gradient that counts.
    float* kept() const { return kept_; }

   private:
    const T* Masked(const Operands& operands, T* kept, int64_t at, int64_t count) {
      if constexpr (!std::is_same_v<T, float>) {
        if (operands.y != nullptr) {
          if (kept == nullptr) masked_.reset(new T[count]);
          T* const masked = kept == nullptr ? masked_.get() : kept + at;
          KeepWherePositive(operands.dy + at, operands.y + at, masked, count);
          return masked;
        }
      }
      return operands.dy + at;
    }

    std::unique_ptr<T[]> masked_;  // before dy_, which is made of it
    const WidePiece<T> dy_, x_;
    const float* y_ = nullptr;
    float* kept_ = nullptr;
  };

  absl::Status Backprop(KernelContext& context, const ChannelLayout& layout, Operands operands, T* kept,
                        T* dx, float* scale_backprop, float* offset_backprop) const {
    const int64_t channels = layout.channels;
    const float* mean = context.input(3).flat<float>().data();
    WEIR_ASSIGN_OR_RETURN(const PiecewisePairs pairs, PiecewisePairs::Allocate(context, layout));
    if (layout.count() > 0) {
      layout.ForEachPiece(
          context.threads(),
          [&](int64_t piece) {
            const int64_t at = layout.PieceBegin(piece), rows = layout.PieceCount(piece);
            const WideOperands wide(operands, kept, at, rows * channels);
            ColumnGradientSums(rows, channels, wide.dy(), wide.x(), mean, pairs.first + piece * channels,
                               pairs.second + piece * channels, wide.kept());
          },
          [&](int64_t piece, int64_t c) {
            const int64_t plane = piece * channels + c, at = plane * layout.inner;
            const WideOperands wide(operands, kept, at, layout.inner);
            PlaneGradientSums(layout.inner, wide.dy(), wide.x(), mean[c], pairs.first + plane,
                              pairs.second + plane, wide.kept());
          });
    }
    if (kept != nullptr) operands = {kept, nullptr, operands.x};
    std::vector<float> scale = Floats(context.input(2)), offset(channels), slope(channels);
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0, product = 0;
      for (int64_t p = 0; p < layout.num_pieces() && layout.count() > 0; ++p) {
        sum += pairs.first[p * channels + c];
        product += pairs.second[p * channels + c];
      }
      const double variance = static_cast<double>(context.input(4).flat<float>()[c]) + epsilon_;
      const double count = static_cast<double>(layout.count());
      // Of nothing the variance is NaN, but the gradient 0.
      scale_backprop[c] = layout.count() == 0 ? 0 : static_cast<float>(product / std::sqrt(variance));
      offset_backprop[c] = static_cast<float>(sum);
      scale[c] = static_cast<float>(scale[c] / std::sqrt(variance));
      offset[c] = is_training_ ? static_cast<float>(sum / count) : 0;
      slope[c] = is_training_ ? static_cast<float>(product / count / variance) : 0;
    }
    const ChannelGradient gradient = {mean, scale.data(), offset.data(), slope.data()};
    layout.ForEachPiece(
        context.threads(),
        [&](int64_t piece) {
          const int64_t at = layout.PieceBegin(piece), rows = layout.PieceCount(piece);
          const WideOperands wide(operands, nullptr, at, rows * channels);
          WideResult<T> wide_dx(dx + at, rows * channels);
          BackpropColumns(rows, channels, wide.dy(), wide.x(), gradient, wide_dx.values());
        },
        [&](int64_t piece, int64_t c) {
          const int64_t at = (piece * channels + c) * layout.inner;
          const WideOperands wide(operands, nullptr, at, layout.inner);
          WideResult<T> wide_dx(dx + at, layout.inner);
          BackpropPlane(layout.inner, wide.dy(), wide.x(), gradient, c, wide_dx.values());
        });
    return absl::OkStatus();
  }

  const std::string data_format_;
  const float epsilon_;
  const bool is_training_;
  const FusedParts parts_;
};

}  // namespace

void RegisterBatchNormKernels(DeviceKernels& kernels) {
  kernels.Add<FusedBatchNorm<float>>("FusedBatchNorm");
  kernels.Add<FusedBatchNormGrad<float>>("FusedBatchNormGrad");
  const auto types = Types<float, Half, Bfloat16>("T");
  const DeviceKernels::TypeAttrs statistics = {{"U", {DType::kFloat32}}};
  kernels.Add<FusedBatchNorm>(kFusedBatchNormOp, types, statistics);
  kernels.Add<FusedBatchNormGrad>(kFusedBatchNormGradOp, types, statistics);
  for (const char* version : {"V2", "V3"}) {
    kernels.Add<FusedBatchNorm>(absl::StrCat("FusedBatchNorm", version), types, statistics);
    kernels.Add<FusedBatchNormGrad>(absl::StrCat("FusedBatchNormGrad", version), types, statistics);
  }
}

}  // namespace weir
