#include "kernels/cpu/math/bfloat16_product.h"

#include <utility>

#include "graph/types/status_macros.h"

namespace weir {

struct Bfloat16Products::Prepared {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
};

namespace {

dnnl::memory::desc Describe(int64_t rows, int64_t columns, bool transposed) {
  return {{rows, columns},
          dnnl::memory::data_type::bf16,
          transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1}};
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Bfloat16Products::Prepared>> Bfloat16Products::Prepare(
    const ProductShape& shape) {
  auto prepared = std::make_shared<Prepared>();
  WEIR_RETURN_IF_ERROR(CatchOneDnnErrors([&] {
    const SingleThreadedOneDnn single_threaded;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    prepared->description = dnnl::matmul::primitive_desc(
        dnnl::matmul::desc(Describe(shape.m, shape.k, shape.transpose_a),
                           Describe(shape.k, shape.n, shape.transpose_b), Describe(shape.m, shape.n, false)),
        attributes, HostEngine());
    prepared->primitive = dnnl::matmul(prepared->description);
    return absl::OkStatus();
  }));
  return std::shared_ptr<const Prepared>(std::move(prepared));
}

absl::Status Bfloat16Products::Run(KernelContext& context, const ProductShape& shape, const Tensor& a,
                                   const Tensor& b, Tensor* c) {
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) return absl::UnimplementedError("a product of nothing");
  WEIR_ASSIGN_OR_RETURN(const auto prepared, prepared_.FindOrCreate(shape, [&] { return Prepare(shape); }));
  const auto& description = prepared->description;
  WEIR_ASSIGN_OR_RETURN(Tensor scratchpad,
                        context.AllocateTemporary(
                            DType::kUint8, {static_cast<int64_t>(description.scratchpad_desc().get_size())}));
  return CatchOneDnnErrors([&] {
    const SingleThreadedOneDnn single_threaded;
    const auto memory = [](const dnnl::memory::desc& desc, const Tensor& tensor) {
      return dnnl::memory(desc, HostEngine(), const_cast<void*>(tensor.data()));
    };
    prepared->primitive.execute(ThreadStream(),
                                {{DNNL_ARG_SRC, memory(description.src_desc(), a)},
                                 {DNNL_ARG_WEIGHTS, memory(description.weights_desc(), b)},
                                 {DNNL_ARG_DST, memory(description.dst_desc(), *c)},
                                 {DNNL_ARG_SCRATCHPAD, memory(description.scratchpad_desc(), scratchpad)}});
    return absl::OkStatus();
  });
}

}  // namespace weir
