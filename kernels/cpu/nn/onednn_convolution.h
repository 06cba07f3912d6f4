// One convolution or one of its gradients in float or bfloat16, prepared by oneDNN for one geometry.
//
// The work is cut into parts that run on different threads: the images of the
// batch or, where there are fewer images than threads, bands of rows of each
// image (of a volume: of its images). Images keep the layout they have in
// tensors where channels come last: oneDNN is as fast on it as on its own
// blocked layouts, and nothing is copied. Filters, and images with channels
// first, are reordered on the way in and out. Immutable after Create; any
// number of threads may Run it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/types/dtype.h"
#include "kernels/cpu/nn/parallel_reorder.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cpu/onednn.h"
#include "kernels/kernel_context.h"
#include "kernels/prepared_forms.h"

namespace weir {

class OneDnnConvolution {
 public:
  using Direction = ConvDirection;

  struct Problem {
    Direction direction = Direction::kOutput;
    ConvGeometry geometry;          // no dimension is 0
    DType dtype = DType::kFloat32;  // of all operands; bfloat16 sums in float
    bool has_bias = false;          // added to each output channel; of kOutput only
    // At least 1. More than there are threads: so many looks whether the step is over.
    int max_parts = 1;
    friend bool operator==(const Problem&, const Problem&) = default;
  };

  // True where bfloat16 convolutions are faster than float ones with conversions around them. (On CPUs whose
  // bfloat16 instructions have half the rate of float's they are slower.)
  static bool IsFastInBfloat16();

  // Unimplemented when oneDNN cannot do it.
  static absl::StatusOr<std::shared_ptr<const OneDnnConvolution>> Create(const Problem& problem);

  // `bias`: one element per output channel, null without has_bias.
  absl::Status Run(KernelContext& context, const void* first, const void* second, const void* bias,
                   void* result) const;

 private:
  // A tensor as its owner and as the primitive sees it.
  struct Operand {
    dnnl::memory::desc outer;
    dnnl::memory::desc inner;
    bool is_reordered() const { return outer != inner; }
  };
  // What parts of one geometry share.
  struct Form {
    ConvGeometry geometry;
    dnnl::primitive primitive;
    dnnl::memory::desc scratchpad;
    Operand first, second, result;
    // Of images, where they are reordered; filters have filter_reorder_.
    dnnl::reorder enter_first, enter_second, leave_result;
  };
  // Images and rows of them; rows of the input and of the output belong together.
  struct Part {
    int form = 0;
    int64_t first_image = 0;
    int64_t input_row = 0;
    int64_t output_row = 0;
  };
  struct Descriptions;
  struct Buffers;

  explicit OneDnnConvolution(const Problem& problem) : problem_(problem) {}

  void Prepare();
  void CutBatch(int64_t parts);
  bool CutRows(int64_t parts_of_image);
  bool AddRows(int64_t image, int64_t begin, int64_t end);
  void AddPart(const ConvGeometry& geometry, Part part);
  Form MakeForm(const ConvGeometry& geometry) const;
  Descriptions Describe(const ConvGeometry& geometry) const;
  const Operand& Filter() const { return filter_is_result() ? forms_[0].result : forms_[0].second; }
  bool filter_is_result() const { return problem_.direction == Direction::kFilterGradient; }
  double CostOfPart() const;

  absl::StatusOr<Buffers> Allocate(KernelContext& context) const;
  void RunPart(const Part& part, const Buffers& buffers, int index, const void* first, const void* second,
               const void* bias, void* result) const;
  absl::Status CollectFilterGradient(KernelContext& context, const Buffers& buffers, void* result) const;

  const Problem problem_;
  std::vector<Form> forms_;
  std::vector<Part> parts_;
  std::optional<ParallelReorder> filter_reorder_;  // inwards, or outwards where the filter is the result
};

// The convolutions of one kernel, prepared at first use. Thread safety: all methods.
class OneDnnConvolutions {
 public:
  explicit OneDnnConvolutions(OneDnnConvolution::Direction direction, bool has_bias = false)
      : direction_(direction), has_bias_(has_bias) {}

  // Unimplemented, and nothing is written, where oneDNN cannot do it.
  absl::Status Run(KernelContext& context, const ConvGeometry& geometry, DType dtype, const void* first,
                   const void* second, const void* bias, void* result);

 private:
  const OneDnnConvolution::Direction direction_;
  const bool has_bias_;
  PreparedForms<OneDnnConvolution::Problem, OneDnnConvolution> prepared_;
};

}  // namespace weir
