#include "kernels/cuda/cublaslt_blas.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"

namespace weir {
namespace {

// What NVIDIA recommends for this generation of GPUs.
constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;
constexpr uint32_t kBestAlignment = 256;

// The functions that are used, from the opened library.
struct CublasLt {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetStatusName) status_name = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_operation = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;

  absl::Status ToStatus(const char* call, cublasStatus_t status) const {
    if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
    const std::string text = absl::StrCat(call, ": ", status_name(status));
    if (status == CUBLAS_STATUS_ALLOC_FAILED) return absl::ResourceExhaustedError(text);
    return absl::InternalError(text);
  }
};

const CudaLibrary& TheLibrary() { return CudaLibraryList()[kCublasLt]; }

template <typename F>
absl::Status Find(CudaLibraries& libraries, const char* name, F* function) {
  WEIR_ASSIGN_OR_RETURN(void* const address, libraries.Function(TheLibrary(), name));
  *function = reinterpret_cast<F>(address);
  return absl::OkStatus();
}

absl::StatusOr<CublasLt> OpenCublasLt(CudaLibraries& libraries) {
  CublasLt lt;
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtCreate", &lt.create));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtDestroy", &lt.destroy));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtGetStatusName", &lt.status_name));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtMatmulDescCreate", &lt.create_operation));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtMatmulDescDestroy", &lt.destroy_operation));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtMatmulDescSetAttribute", &lt.set_operation));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtMatrixLayoutCreate", &lt.create_layout));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtMatrixLayoutDestroy", &lt.destroy_layout));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtMatmulPreferenceCreate", &lt.create_preference));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtMatmulPreferenceDestroy", &lt.destroy_preference));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtMatmulPreferenceSetAttribute", &lt.set_preference));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtMatmulAlgoGetHeuristic", &lt.choose));
  WEIR_RETURN_IF_ERROR(Find(libraries, "cublasLtMatmul", &lt.multiply));
  return lt;
}

struct Types {
  cudaDataType_t elements, scale;
  cublasComputeType_t compute;
};

absl::StatusOr<Types> TypesOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return Types{CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::kFloat64:
      return Types{CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DType::kHalf:
      return Types{CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::kBfloat16:
      return Types{CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    default:
      return absl::UnimplementedError(
          absl::StrCat("there are no products of matrices of ", DTypeName(dtype), " on GPUs"));
  }
}

// What cuBLASLt is told of one product.
class Description {
 public:
  explicit Description(const CublasLt& lt) : lt_(lt) {}
  ~Description() {
    for (const cublasLtMatrixLayout_t layout : layouts) {
      if (layout != nullptr) lt_.destroy_layout(layout);
    }
    if (operation != nullptr) lt_.destroy_operation(operation);
    if (preference != nullptr) lt_.destroy_preference(preference);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  absl::Status Make(const MatrixProduct& product, const std::array<uint32_t, 3>& alignments) {
    WEIR_ASSIGN_OR_RETURN(const Types types, TypesOf(product.dtype));
    const ColumnMajorProduct told = AsColumnMajor(product);
    WEIR_RETURN_IF_ERROR(lt_.ToStatus("cublasLtMatmulDescCreate",
                                      lt_.create_operation(&operation, types.compute, types.scale)));
    WEIR_RETURN_IF_ERROR(SetTransposed(CUBLASLT_MATMUL_DESC_TRANSA, told.first.is_transposed));
    WEIR_RETURN_IF_ERROR(SetTransposed(CUBLASLT_MATMUL_DESC_TRANSB, told.second.is_transposed));
    const ColumnMajorMatrix* const matrices[] = {&told.first, &told.second, &told.result};
    for (int i = 0; i < 3; ++i) {
      WEIR_RETURN_IF_ERROR(lt_.ToStatus(
          "cublasLtMatrixLayoutCreate",
          lt_.create_layout(&layouts[i], types.elements, static_cast<uint64_t>(matrices[i]->rows),
                            static_cast<uint64_t>(matrices[i]->columns), matrices[i]->leading)));
    }
    WEIR_RETURN_IF_ERROR(lt_.ToStatus("cublasLtMatmulPreferenceCreate", lt_.create_preference(&preference)));
    WEIR_RETURN_IF_ERROR(SetPreference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace));
    WEIR_RETURN_IF_ERROR(SetPreference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments[0]));
    WEIR_RETURN_IF_ERROR(SetPreference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments[1]));
    WEIR_RETURN_IF_ERROR(SetPreference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments[2]));
    return SetPreference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments[2]);
  }

  cublasLtMatmulDesc_t operation = nullptr;
  std::array<cublasLtMatrixLayout_t, 3> layouts = {};  // of the first, the second, the result
  cublasLtMatmulPreference_t preference = nullptr;

 private:
  absl::Status SetTransposed(cublasLtMatmulDescAttributes_t attribute, bool is_transposed) const {
    const cublasOperation_t value = is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    return lt_.ToStatus("cublasLtMatmulDescSetAttribute",
                        lt_.set_operation(operation, attribute, &value, sizeof(value)));
  }
  template <typename T>
  absl::Status SetPreference(cublasLtMatmulPreferenceAttributes_t attribute, T value) const {
    return lt_.ToStatus("cublasLtMatmulPreferenceSetAttribute",
                        lt_.set_preference(preference, attribute, &value, sizeof(value)));
  }

  const CublasLt& lt_;
};

// The largest power of two, up to kBestAlignment, that the address is a multiple of.
uint32_t AlignmentOf(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  uint32_t alignment = kBestAlignment;
  while (value % alignment != 0) alignment /= 2;
  return alignment;
}

// A product with an algorithm for it.
struct Plan {
  explicit Plan(const CublasLt& lt) : description(lt) {}
  Description description;
  cublasLtMatmulHeuristicResult_t chosen = {};
};

class RealCublasLtBlas final : public CublasLtBlas {
 public:
  RealCublasLtBlas(CudaApi& api, CudaLibraries& libraries) : api_(api), libraries_(libraries) {}

  ~RealCublasLtBlas() override {
    absl::MutexLock lock(&mutex_);
    plans_.clear();
    for (const auto& [device, handle] : handles_) lt_->destroy(handle);
  }

  absl::Status Check(const MatrixProduct& product) override {
    absl::MutexLock lock(&mutex_);
    WEIR_ASSIGN_OR_RETURN(const CublasLt* const lt, Open());
    return Description(*lt).Make(product, {kBestAlignment, kBestAlignment, kBestAlignment});
  }

  absl::Status Multiply(CudaStream& stream, Allocator& allocator, const MatrixProduct& product) override {
    absl::MutexLock lock(&mutex_);
    WEIR_ASSIGN_OR_RETURN(const CublasLt* const lt, Open());
    WEIR_RETURN_IF_ERROR(api_.Select(stream.device()));
    WEIR_ASSIGN_OR_RETURN(const cublasLtHandle_t handle, HandleOf(*lt, stream.device()));
    WEIR_ASSIGN_OR_RETURN(const Plan* const plan, PlanOf(*lt, handle, stream.device(), product));
    const size_t workspace_bytes = plan->chosen.workspaceSize;
    WEIR_ASSIGN_OR_RETURN(
        Tensor workspace,
        Tensor::Allocate(DType::kUint8, Shape({static_cast<int64_t>(workspace_bytes)}), allocator));
    const auto& layouts = plan->description.layouts;
    const bool is_double = product.dtype == DType::kFloat64;
    const float one = 1, zero = 0;
    const double double_one = 1, double_zero = 0;
    return lt->ToStatus(
        "cublasLtMatmul",
        lt->multiply(handle, plan->description.operation,
                     is_double ? static_cast<const void*>(&double_one) : &one, product.b, layouts[0],
                     product.a, layouts[1], is_double ? static_cast<const void*>(&double_zero) : &zero,
                     product.c, layouts[2], product.c, layouts[2], &plan->chosen.algo, workspace.data(),
                     workspace_bytes, static_cast<cudaStream_t>(stream.handle().stream)));
  }

 private:
  // Device, dtype, m, n, k, transpositions, alignments.
  using Key = std::tuple<int, DType, int64_t, int64_t, int64_t, bool, bool, std::array<uint32_t, 3>>;
  // Shapes may be as many as there are batches; a plan can be made again.
  static constexpr size_t kMostPlans = 4096;

  absl::StatusOr<const CublasLt*> Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!lt_) {
      absl::StatusOr<CublasLt> opened = OpenCublasLt(libraries_);
      if (!opened.ok()) return opened.status();
      lt_ = std::make_unique<const CublasLt>(*opened);
    }
    return lt_.get();
  }

  // A handle belongs to the device that is current when it is made.
  absl::StatusOr<cublasLtHandle_t> HandleOf(const CublasLt& lt, int device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = handles_.find(device);
    if (found != handles_.end()) return found->second;
    cublasLtHandle_t handle = nullptr;
    WEIR_RETURN_IF_ERROR(lt.ToStatus("cublasLtCreate", lt.create(&handle)));
    return handles_.emplace(device, handle).first->second;
  }

  absl::StatusOr<const Plan*> PlanOf(const CublasLt& lt, cublasLtHandle_t handle, int device,
                                     const MatrixProduct& product) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::array<uint32_t, 3> alignments = {AlignmentOf(product.b), AlignmentOf(product.a),
                                                AlignmentOf(product.c)};
    const Key key = {device,    product.dtype,       product.m,           product.n,
                     product.k, product.transpose_a, product.transpose_b, alignments};
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second.get();
    auto plan = std::make_unique<Plan>(lt);
    WEIR_RETURN_IF_ERROR(plan->description.Make(product, alignments));
    const auto& layouts = plan->description.layouts;
    int num_found = 0;
    WEIR_RETURN_IF_ERROR(
        lt.ToStatus("cublasLtMatmulAlgoGetHeuristic",
                    lt.choose(handle, plan->description.operation, layouts[0], layouts[1], layouts[2],
                              layouts[2], plan->description.preference, 1, &plan->chosen, &num_found)));
    if (num_found == 0) {
      return absl::UnimplementedError(absl::StrCat("cuBLASLt has no algorithm for a product of ",
                                                   DTypeName(product.dtype), " matrices of ", product.m,
                                                   " x ", product.k, " and ", product.k, " x ", product.n));
    }
    if (plans_.size() >= kMostPlans) plans_.erase(plans_.begin());
    return plans_.emplace(key, std::move(plan)).first->second.get();
  }

  CudaApi& api_;
  CudaLibraries& libraries_;
  absl::Mutex mutex_;
  std::unique_ptr<const CublasLt> lt_ ABSL_GUARDED_BY(mutex_);
  std::map<int, cublasLtHandle_t> handles_ ABSL_GUARDED_BY(mutex_);  // by device
  std::map<Key, std::unique_ptr<const Plan>> plans_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<CublasLtBlas> MakeCublasLtBlas(CudaApi& api, CudaLibraries& libraries) {
  return std::make_unique<RealCublasLtBlas>(api, libraries);
}

}  // namespace weir
