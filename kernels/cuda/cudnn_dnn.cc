#include "kernels/cuda/cudnn_dnn.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/cudnn_graph.h"
#include "kernels/prepared_forms.h"

namespace weir {
namespace {

constexpr int64_t kBestAlignment = 16;  // a vector load of a GPU takes as many bytes

// Names of the tensors within a graph.
enum TensorId : int64_t { kInput = 1, kFilter = 2, kOutput = 3 };

struct Types {
  cudnnDataType_t elements, sums;
};

absl::StatusOr<Types> TypesOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return Types{CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT};
    case DType::kFloat64:
      return Types{CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE};
    case DType::kHalf:
      return Types{CUDNN_DATA_HALF, CUDNN_DATA_FLOAT};
    case DType::kBfloat16:
      return Types{CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT};
    default:
      return absl::UnimplementedError(
          absl::StrCat("there are no convolutions of ", DTypeName(dtype), " on GPUs"));
  }
}

// Bytes that addresses of input, filter and output are multiples of.
using Alignments = std::array<int64_t, 3>;

int64_t AlignmentOf(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  int64_t alignment = kBestAlignment;
  while (value % alignment != 0) alignment /= 2;
  return alignment;
}

absl::StatusOr<CudnnDescriptor> MakeTensor(const Cudnn& dnn, TensorId id, const char* what,
                                           cudnnDataType_t type, int64_t alignment, const CudnnTensor& told) {
  WEIR_ASSIGN_OR_RETURN(CudnnDescriptor tensor,
                        CudnnDescriptor::Make(dnn, CUDNN_BACKEND_TENSOR_DESCRIPTOR, what));
  WEIR_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<int64_t>(id)));
  WEIR_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, type));
  WEIR_RETURN_IF_ERROR(tensor.Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment));
  WEIR_RETURN_IF_ERROR(tensor.SetList<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, told.dims));
  WEIR_RETURN_IF_ERROR(tensor.SetList<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, told.strides));
  WEIR_RETURN_IF_ERROR(tensor.Finalize());
  return tensor;
}

// cuDNN has an operation for each of the three, with attributes of its own that mean the same.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, input, filter, output, alpha, beta;
};

Operation OperationOf(ConvDirection direction) {
  switch (direction) {
    case ConvDirection::kInputGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvDirection::kFilterGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }
}

// For whom a plan is made: one of both.
struct Target {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* properties = nullptr;
};

// A graph of one convolution, and how it is computed. The members refer to those before them.
class Graph {
 public:
  explicit Graph(const Cudnn& dnn) : dnn_(dnn) {}

  // `handle` may be null.
  absl::Status Describe(const Convolution& convolution, const Alignments& alignments, cudnnHandle_t handle) {
    WEIR_ASSIGN_OR_RETURN(const Types types, TypesOf(convolution.dtype));
    const CudnnConvolution told = AsCudnn(convolution.geometry);
    WEIR_ASSIGN_OR_RETURN(input_,
                          MakeTensor(dnn_, kInput, "the input", types.elements, alignments[0], told.input));
    WEIR_ASSIGN_OR_RETURN(
        filter_, MakeTensor(dnn_, kFilter, "the filter", types.elements, alignments[1], told.filter));
    WEIR_ASSIGN_OR_RETURN(
        output_, MakeTensor(dnn_, kOutput, "the output", types.elements, alignments[2], told.output));
    WEIR_RETURN_IF_ERROR(DescribeWindows(told, types.sums));
    WEIR_RETURN_IF_ERROR(DescribeOperation(convolution));
    WEIR_ASSIGN_OR_RETURN(graph_,
                          CudnnDescriptor::Make(dnn_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "the graph"));
    WEIR_RETURN_IF_ERROR(graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_));
    if (handle != nullptr) WEIR_RETURN_IF_ERROR(graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle));
    return graph_.Finalize();
  }

  // After Describe. The heuristics' own list has the faster engines, the other one those that always work.
  absl::Status Plan(const Target& target, DType dtype) {
    absl::Status last = absl::OkStatus();
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      absl::StatusOr<std::vector<CudnnDescriptor>> engines = Propose(target, mode);
      if (!engines.ok()) {
        last = engines.status();
        continue;
      }
      for (CudnnDescriptor& engine : *engines) {
        const absl::Status status = TryEngine(target, dtype, engine);
        if (status.ok()) {
          engine_ = std::move(engine);
          return status;
        }
        if (!status.message().empty()) last = status;
      }
    }
    return absl::UnimplementedError(
        absl::StrCat("cuDNN has no engine for it that counts",
                     last.ok() ? "" : absl::StrCat(" (the last one: ", last.message(), ")")));
  }

  const CudnnDescriptor& plan() const { return plan_; }
  const CudnnPlan& chosen() const { return chosen_; }

 private:
  absl::Status DescribeWindows(const CudnnConvolution& told, cudnnDataType_t sums) {
    WEIR_ASSIGN_OR_RETURN(windows_, CudnnDescriptor::Make(dnn_, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
                                                          "the convolution's windows"));
    WEIR_RETURN_IF_ERROR(windows_.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, sums));
    WEIR_RETURN_IF_ERROR(windows_.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION));
    WEIR_RETURN_IF_ERROR(windows_.Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2}));
    WEIR_RETURN_IF_ERROR(windows_.SetList<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, told.stride));
    WEIR_RETURN_IF_ERROR(windows_.SetList<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, told.dilation));
    WEIR_RETURN_IF_ERROR(windows_.SetList<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, told.padding_before));
    WEIR_RETURN_IF_ERROR(windows_.SetList<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, told.padding_after));
    return windows_.Finalize();
  }

  absl::Status DescribeOperation(const Convolution& convolution) {
    const Operation names = OperationOf(convolution.direction);
    WEIR_ASSIGN_OR_RETURN(operation_, CudnnDescriptor::Make(dnn_, names.type, "the operation"));
    WEIR_RETURN_IF_ERROR(operation_.Set(names.convolution, windows_));
    WEIR_RETURN_IF_ERROR(operation_.Set(names.input, input_));
    WEIR_RETURN_IF_ERROR(operation_.Set(names.filter, filter_));
    WEIR_RETURN_IF_ERROR(operation_.Set(names.output, output_));
    if (convolution.dtype == DType::kFloat64) {
      WEIR_RETURN_IF_ERROR(operation_.Set(names.alpha, 1.0));
      WEIR_RETURN_IF_ERROR(operation_.Set(names.beta, 0.0));
    } else {
      WEIR_RETURN_IF_ERROR(operation_.Set(names.alpha, 1.0f));
      WEIR_RETURN_IF_ERROR(operation_.Set(names.beta, 0.0f));
    }
    return operation_.Finalize();
  }

  // Configurations of engines, the best first.
  absl::StatusOr<std::vector<CudnnDescriptor>> Propose(const Target& target, cudnnBackendHeurMode_t mode) {
    WEIR_ASSIGN_OR_RETURN(heuristics_, CudnnDescriptor::Make(dnn_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
                                                             "the choice of engines"));
    WEIR_RETURN_IF_ERROR(heuristics_.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_));
    WEIR_RETURN_IF_ERROR(heuristics_.Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode));
    if (target.properties != nullptr) {
      WEIR_RETURN_IF_ERROR(heuristics_.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties));
    }
    WEIR_RETURN_IF_ERROR(heuristics_.Finalize());
    WEIR_ASSIGN_OR_RETURN(const int64_t count,
                          heuristics_.GetDescriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, 0, nullptr));
    std::vector<CudnnDescriptor> engines;
    std::vector<cudnnBackendDescriptor_t> handles;
    for (int64_t i = 0; i < count; ++i) {
      WEIR_ASSIGN_OR_RETURN(
          CudnnDescriptor engine,
          CudnnDescriptor::Make(dnn_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "a configuration"));
      handles.push_back(engine.handle());
      engines.push_back(std::move(engine));
    }
    if (count == 0) return engines;
    WEIR_ASSIGN_OR_RETURN(const int64_t filled,
                          heuristics_.GetDescriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, count, handles.data()));
    engines.resize(std::min(count, filled));
    return engines;
  }

  // Ok makes it the plan. An empty message: it does not count.
  absl::Status TryEngine(const Target& target, DType dtype, const CudnnDescriptor& configuration) {
    WEIR_ASSIGN_OR_RETURN(CudnnDescriptor engine,
                          CudnnDescriptor::Make(dnn_, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine"));
    cudnnBackendDescriptor_t handle = engine.handle();
    WEIR_RETURN_IF_ERROR(configuration.GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE, 1, &handle).status());
    CudnnPlan chosen;
    WEIR_ASSIGN_OR_RETURN(chosen.notes, NotesOf(engine));
    if (!Counts(chosen.notes, dtype)) return absl::UnimplementedError("");
    WEIR_ASSIGN_OR_RETURN(CudnnDescriptor plan,
                          CudnnDescriptor::Make(dnn_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "the plan"));
    WEIR_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration));
    if (target.properties != nullptr) {
      WEIR_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties));
    } else {
      WEIR_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle));
    }
    WEIR_RETURN_IF_ERROR(plan.Finalize());
    WEIR_RETURN_IF_ERROR(engine.Get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1, &chosen.engine).status());
    WEIR_RETURN_IF_ERROR(
        plan.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1, &chosen.workspace_bytes).status());
    if (chosen.workspace_bytes > kMostCudnnWorkspace) {
      return absl::UnimplementedError(
          absl::StrCat("engine ", chosen.engine, " wants a workspace of ", chosen.workspace_bytes, " bytes"));
    }
    plan_ = std::move(plan);
    chosen_ = chosen;
    return absl::OkStatus();
  }

  static absl::StatusOr<CudnnNotes> NotesOf(const CudnnDescriptor& engine) {
    cudnnBackendNumericalNote_t found[CUDNN_NUMERICAL_NOTE_TYPE_COUNT] = {};
    WEIR_ASSIGN_OR_RETURN(const int64_t count, engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, found));
    const auto has = [&](cudnnBackendNumericalNote_t note) {
      return std::find(found, found + count, note) != found + count;
    };
    return CudnnNotes{.varies = has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
                      .uses_tensor_cores = has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE),
                      .rounds_operands = has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS),
                      .rounds_sums = has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)};
  }

  static bool Counts(const CudnnNotes& notes, DType dtype) {
    if (notes.varies || notes.rounds_operands || notes.rounds_sums) return false;
    return !notes.uses_tensor_cores || dtype != DType::kFloat32;  // they take float only with fewer digits
  }

  const Cudnn& dnn_;
  CudnnDescriptor input_, filter_, output_, windows_, operation_, graph_, heuristics_, engine_, plan_;
  CudnnPlan chosen_;
};

// "Conv2D of float images [8,32,32,3] and a filter of 3 x 3 to 16 channels: ..."
absl::Status Named(const absl::Status& status, const Convolution& convolution) {
  if (status.ok()) return status;
  const ConvGeometry& geometry = convolution.geometry;
  const WindowGeometry& w = geometry.windows;
  return absl::Status(
      status.code(),
      absl::StrCat(OpNameOf(convolution.direction), " on a GPU, of ", DTypeName(convolution.dtype),
                   ", input ", geometry.InputShape().ToString(), ", filter ",
                   geometry.FilterShape().ToString(), ", output ", geometry.OutputShape().ToString(),
                   ", strides ", w.stride[0], " and ", w.stride[1], ", dilations ", w.dilation[0], " and ",
                   w.dilation[1], ": ", status.message()));
}

class RealCudnnDnn final : public CudnnDnn {
 public:
  RealCudnnDnn(CudaApi& api, CudaLibraries& libraries) : api_(api), libraries_(libraries) {}

  ~RealCudnnDnn() override {
    absl::MutexLock lock(&mutex_);
    plans_.Clear();
    for (const auto& [device, handle] : handles_) dnn_->destroy(handle);
  }

  absl::StatusOr<CudnnPlan> Check(const Convolution& convolution, absl::string_view properties) override {
    absl::MutexLock lock(&mutex_);
    absl::StatusOr<CudnnPlan> plan = CheckLocked(convolution, properties);
    if (!plan.ok()) return Named(plan.status(), convolution);
    return plan;
  }

  absl::Status Convolve(CudaStream& stream, Allocator& allocator, const Convolution& convolution) override {
    absl::MutexLock lock(&mutex_);
    return Named(ConvolveLocked(stream, allocator, convolution), convolution);
  }

 private:
  // Without the addresses, which do not matter but for their alignments.
  struct Key {
    int device;
    ConvDirection direction;
    DType dtype;
    ConvGeometry geometry;
    Alignments alignments;
    friend bool operator==(const Key&, const Key&) = default;
  };

  absl::StatusOr<const Cudnn*> Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!dnn_) {
      absl::StatusOr<Cudnn> opened = OpenCudnn(libraries_);
      if (!opened.ok()) return opened.status();
      dnn_ = std::make_unique<const Cudnn>(*opened);
    }
    return dnn_.get();
  }

  absl::StatusOr<CudnnPlan> CheckLocked(const Convolution& convolution, absl::string_view properties)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    WEIR_ASSIGN_OR_RETURN(const Cudnn* const dnn, Open());
    Graph graph(*dnn);
    WEIR_RETURN_IF_ERROR(
        graph.Describe(convolution, {kBestAlignment, kBestAlignment, kBestAlignment}, nullptr));
    if (properties.empty()) return CudnnPlan();
    WEIR_ASSIGN_OR_RETURN(
        CudnnDescriptor device,
        CudnnDescriptor::Make(*dnn, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "the GPU's properties"));
    WEIR_RETURN_IF_ERROR(device.SetList<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                              absl::MakeConstSpan(properties.data(), properties.size())));
    WEIR_RETURN_IF_ERROR(device.Finalize());
    WEIR_RETURN_IF_ERROR(graph.Plan({.properties = &device}, convolution.dtype));
    return graph.chosen();
  }

  absl::Status ConvolveLocked(CudaStream& stream, Allocator& allocator, const Convolution& convolution)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    WEIR_ASSIGN_OR_RETURN(const Cudnn* const dnn, Open());
    WEIR_RETURN_IF_ERROR(api_.Select(stream.device()));
    WEIR_ASSIGN_OR_RETURN(const cudnnHandle_t handle, HandleOf(*dnn, stream.device()));
    WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<const Graph> graph,
                          PlanOf(*dnn, handle, stream.device(), convolution));
    WEIR_ASSIGN_OR_RETURN(
        Tensor workspace,
        Tensor::Allocate(DType::kUint8, Shape({graph->chosen().workspace_bytes}), allocator));
    WEIR_ASSIGN_OR_RETURN(
        CudnnDescriptor arguments,
        CudnnDescriptor::Make(*dnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "the arguments"));
    const int64_t ids[] = {kInput, kFilter, kOutput};
    void* const addresses[] = {convolution.input, convolution.filter, convolution.output};
    WEIR_RETURN_IF_ERROR(arguments.SetList<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids));
    WEIR_RETURN_IF_ERROR(arguments.SetList<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses));
    void* const workspace_address =
        graph->chosen().workspace_bytes == 0 ? nullptr : const_cast<void*>(workspace.data());
    WEIR_RETURN_IF_ERROR(arguments.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace_address));
    WEIR_RETURN_IF_ERROR(arguments.Finalize());
    WEIR_RETURN_IF_ERROR(
        dnn->ToStatus("cudnnSetStream", "the handle",
                      dnn->set_stream(handle, static_cast<cudaStream_t>(stream.handle().stream))));
    return dnn->ToStatus("cudnnBackendExecute", "the plan",
                         dnn->execute(handle, graph->plan().handle(), arguments.handle()));
  }

  // A handle belongs to the device that is current when it is made.
  absl::StatusOr<cudnnHandle_t> HandleOf(const Cudnn& dnn, int device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = handles_.find(device);
    if (found != handles_.end()) return found->second;
    cudnnHandle_t handle = nullptr;
    WEIR_RETURN_IF_ERROR(dnn.ToStatus("cudnnCreate", "a handle", dnn.create(&handle)));
    return handles_.emplace(device, handle).first->second;
  }

  absl::StatusOr<std::shared_ptr<const Graph>> PlanOf(const Cudnn& dnn, cudnnHandle_t handle, int device,
                                                      const Convolution& convolution)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Alignments alignments = {AlignmentOf(convolution.input), AlignmentOf(convolution.filter),
                                   AlignmentOf(convolution.output)};
    const Key key = {device, convolution.direction, convolution.dtype, convolution.geometry, alignments};
    return plans_.FindOrCreate(key, [&]() -> absl::StatusOr<std::shared_ptr<const Graph>> {
      auto graph = std::make_shared<Graph>(dnn);
      WEIR_RETURN_IF_ERROR(graph->Describe(convolution, alignments, handle));
      WEIR_RETURN_IF_ERROR(graph->Plan({.handle = handle}, convolution.dtype));
      return graph;
    });
  }

  CudaApi& api_;
  CudaLibraries& libraries_;
  absl::Mutex mutex_;
  std::unique_ptr<const Cudnn> dnn_ ABSL_GUARDED_BY(mutex_);
  std::map<int, cudnnHandle_t> handles_ ABSL_GUARDED_BY(mutex_);  // by device
  PreparedForms<Key, Graph> plans_{kMostCudnnPlans};
};

}  // namespace

std::unique_ptr<CudnnDnn> MakeCudnnDnn(CudaApi& api, CudaLibraries& libraries) {
  return std::make_unique<RealCudnnDnn>(api, libraries);
}

}  // namespace weir
