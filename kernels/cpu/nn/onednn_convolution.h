// One convolution or one of its gradients in single precision, prepared by oneDNN for one geometry.
//
// The batch is cut into pieces that run on different threads. Images keep the layout they have in tensors
// where channels come last: oneDNN is as fast on it as on its own blocked layouts (AVX2, AVX-512: 90 to 135
// GFLOP/s a core), and nothing is copied. Filters, and images with channels first, are reordered on the way
// in and out. Immutable after Create; any number of threads may Run it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cpu/onednn.h"
#include "kernels/kernel_context.h"

namespace weir {

class OneDnnConvolution {
 public:
  enum class Direction {
    kOutput,         // of input and filter
    kInputGradient,  // of output gradient and filter
    kFilterGradient  // of input and output gradient
  };

  // Precondition: no dimension is 0, 1 <= pieces <= batch. Unimplemented when oneDNN cannot do it.
  static absl::StatusOr<std::shared_ptr<const OneDnnConvolution>> Create(Direction direction,
                                                                         const ConvGeometry& geometry,
                                                                         int pieces);

  absl::Status Run(KernelContext& context, const float* first, const float* second, float* result) const;

 private:
  // A tensor as its owner and as the primitive sees it.
  struct Operand {
    dnnl::memory::desc outer;
    dnnl::memory::desc inner;
    std::optional<dnnl::reorder> reorder;  // empty when both are the same
  };
  // The primitive for some number of images.
  struct Piece {
    int64_t images = 0;
    dnnl::primitive primitive;
    dnnl::memory::desc scratchpad;
    Operand first, second, result;
  };
  struct Buffers;
  struct Descriptions;

  OneDnnConvolution(Direction direction, const ConvGeometry& geometry)
      : direction_(direction), geometry_(geometry) {}

  absl::Status Prepare(int pieces);
  Piece MakePiece(int64_t images, const dnnl::memory::desc* filter) const;
  Descriptions Describe(int64_t images) const;
  void FinishPiece(Piece* piece, const dnnl::memory::desc& scratchpad) const;
  const Piece& PieceOf(int index) const { return index < num_large_ ? large_ : small_; }
  int64_t FirstImage(int index) const {
    return index < num_large_ ? index * large_.images
                              : num_large_ * large_.images + (index - num_large_) * small_.images;
  }

  absl::StatusOr<Buffers> Allocate(KernelContext& context) const;
  void ConvertFilter(const Buffers& buffers, const float* filter) const;
  void RunPiece(int index, const Buffers& buffers, const float* first, const float* second,
                float* result) const;
  void CollectFilterGradient(const Buffers& buffers, float* result) const;

  const Direction direction_;
  const ConvGeometry geometry_;
  int num_pieces_ = 0;
  int num_large_ = 0;  // the first pieces have one image more than the others
  Piece large_;
  Piece small_;
  std::optional<dnnl::reorder> add_filter_gradient_;
};

}  // namespace weir
