#include "kernels/cpu/math/bfloat16_product.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/types/status_macros.h"
#include "kernels/cpu/timely_loop.h"

namespace weir {

struct Bfloat16Products::Prepared {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
};

namespace {

// A piece begins at a multiple of this, the rows or columns of a register tile, and has at least this many
// operations: some 20 microseconds.
constexpr int64_t kGrain = 16;
constexpr double kMinPieceOperations = 4e6;
constexpr double kOperationsPerNanosecond = 200;
constexpr int kPiecesPerThread = 2;
// oneDNN cannot be stopped: products that take seconds come in pieces of some tenths of one.
constexpr double kLongPieceOperations = 5e10;

double Operations(const ProductShape& shape) {
  return 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.k) * static_cast<double>(shape.n);
}

// How many rows or columns of the `side` a piece takes.
int64_t PieceSide(const ProductShape& shape, int64_t side, int num_threads) {
  const double most = std::max<double>(num_threads == 1 ? 1 : num_threads * kPiecesPerThread,
                                       Operations(shape) / kLongPieceOperations);
  const auto pieces = static_cast<int64_t>(std::clamp(Operations(shape) / kMinPieceOperations, 1.0, most));
  return (side + pieces * kGrain - 1) / (pieces * kGrain) * kGrain;
}

dnnl::memory::desc Describe(int64_t rows, int64_t columns, int64_t stride, bool transposed) {
  return {{rows, columns},
          dnnl::memory::data_type::bf16,
          transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1}};
}

dnnl::memory MemoryAt(const dnnl::memory::desc& description, const Tensor& tensor, int64_t offset) {
  return dnnl::memory(description, HostEngine(),
                      const_cast<Bfloat16*>(tensor.flat<Bfloat16>().data()) + offset);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Bfloat16Products::Prepared>> Bfloat16Products::Prepare(
    const Piece& piece) {
  auto prepared = std::make_shared<Prepared>();
  const ProductShape& shape = piece.shape;
  WEIR_RETURN_IF_ERROR(CatchOneDnnErrors([&] {
    const SingleThreadedOneDnn single_threaded;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    prepared->description = dnnl::matmul::primitive_desc(
        dnnl::matmul::desc(Describe(shape.m, shape.k, piece.a_stride, shape.transpose_a),
                           Describe(shape.k, shape.n, piece.b_stride, shape.transpose_b),
                           Describe(shape.m, shape.n, piece.c_stride, false)),
        attributes, HostEngine());
    prepared->primitive = dnnl::matmul(prepared->description);
    return absl::OkStatus();
  }));
  return std::shared_ptr<const Prepared>(std::move(prepared));
}

absl::StatusOr<std::shared_ptr<const Bfloat16Products::Prepared>> Bfloat16Products::FindOrPrepare(
    const ProductShape& whole, bool splits_rows, int64_t side) {
  Piece piece{.shape = whole,
              .a_stride = whole.transpose_a ? whole.m : whole.k,
              .b_stride = whole.transpose_b ? whole.k : whole.n,
              .c_stride = whole.n};
  (splits_rows ? piece.shape.m : piece.shape.n) = side;
  return prepared_.FindOrCreate(piece, [&] { return Prepare(piece); });
}

absl::Status Bfloat16Products::Run(KernelContext& context, const ProductShape& shape, const Tensor& a,
                                   const Tensor& b, Tensor* c) {
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) return absl::UnimplementedError("a product of nothing");
  // The longer side is split, so that what all pieces read again is the smaller matrix.
  const bool splits_rows = shape.m >= shape.n;
  const int64_t side = splits_rows ? shape.m : shape.n;
  const int64_t piece_side = PieceSide(shape, side, context.threads().num_threads());
  const int64_t pieces = (side + piece_side - 1) / piece_side;
  WEIR_ASSIGN_OR_RETURN(const auto first, FindOrPrepare(shape, splits_rows, std::min(side, piece_side)));
  WEIR_ASSIGN_OR_RETURN(const auto last, FindOrPrepare(shape, splits_rows, side - (pieces - 1) * piece_side));
  const size_t most_scratch = std::max(first->description.scratchpad_desc().get_size(),
                                       last->description.scratchpad_desc().get_size());
  const auto scratch_bytes = static_cast<int64_t>((most_scratch + Allocator::kAlignment - 1) /
                                                  Allocator::kAlignment * Allocator::kAlignment);
  // Pieces of one range run one after another, in one scratchpad.
  const int64_t ranges = std::min<int64_t>(pieces, context.threads().num_threads() * kPiecesPerThread);
  WEIR_ASSIGN_OR_RETURN(Tensor scratch,
                        context.AllocateTemporary(DType::kUint8, Shape({ranges, scratch_bytes})));
  const int64_t a_step = !splits_rows ? 0 : shape.transpose_a ? 1 : shape.k;
  const int64_t b_step = splits_rows ? 0 : shape.transpose_b ? shape.k : 1;
  const int64_t c_step = splits_rows ? shape.n : 1;

  const auto run_piece = [&](int64_t index, int64_t range) {
    const Prepared& prepared = index + 1 < pieces ? *first : *last;
    const auto& description = prepared.description;
    const int64_t begin = index * piece_side;
    return CatchOneDnnErrors([&] {
      const SingleThreadedOneDnn single_threaded;
      prepared.primitive.execute(
          ThreadStream(),
          {{DNNL_ARG_SRC, MemoryAt(description.src_desc(), a, begin * a_step)},
           {DNNL_ARG_WEIGHTS, MemoryAt(description.weights_desc(), b, begin * b_step)},
           {DNNL_ARG_DST, MemoryAt(description.dst_desc(), *c, begin * c_step)},
           {DNNL_ARG_SCRATCHPAD, dnnl::memory(description.scratchpad_desc(), HostEngine(),
                                              scratch.flat<uint8_t>().data() + range * scratch_bytes)}});
      return absl::OkStatus();
    });
  };
  std::vector<absl::Status> statuses(pieces);
  const TimelyThreads threads(context);
  context.threads().ParallelFor(
      ranges, Operations(shape) / kOperationsPerNanosecond / static_cast<double>(ranges),
      [&](int64_t begin, int64_t end) {
        for (int64_t range = begin; range < end; ++range) {
          const int64_t first = range * pieces / ranges, last = (range + 1) * pieces / ranges;
          for (int64_t i = first; i < last && !threads.is_over(); ++i) statuses[i] = run_piece(i, range);
        }
      });
  WEIR_RETURN_IF_ERROR(threads.status());
  for (const absl::Status& status : statuses) WEIR_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace weir
