// Tables: their handles, and what steps do with them.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/lookup/lookup_table.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

using CreateTable = absl::FunctionRef<absl::StatusOr<RefPtr<LookupTable>>()>;

// A table without shared_name belongs to one node of one session.
class PrivateTable final : public NodeState {
 public:
  absl::StatusOr<RefPtr<LookupTable>> FindOrCreate(CreateTable create) {
    absl::MutexLock lock(&mutex_);
    if (table_ == nullptr) {
      WEIR_ASSIGN_OR_RETURN(table_, create());
    }
    return table_;
  }

 private:
  absl::Mutex mutex_;
  RefPtr<LookupTable> table_ ABSL_GUARDED_BY(mutex_);
};

// The handle of a table, which the first step makes.
class TableHandle final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    std::unique_ptr<TableHandle> kernel(new TableHandle(construction));
    LookupTable::Spec& spec = kernel->spec_;
    const bool has_vectors = spec.kind == "MutableHashTableOfTensorsV2";
    if (has_vectors || kernel->is_dense_) {
      const auto& shape = construction.attr<PartialShape>("value_shape");
      if (has_vectors && shape.rank() != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("Default value must be a vector, got shape ", shape.ToString()));
      }
      if (!shape.is_fully_known()) {
        return absl::InvalidArgumentError(
            absl::StrCat("value_shape must be fully known, is ", shape.ToString()));
      }
      spec.value_shape = shape.ToShape();
    }
    if (construction.session() == nullptr) {
      kernel->private_ = std::make_shared<PrivateTable>();
    } else if (kernel->shared_name_.empty()) {
      WEIR_ASSIGN_OR_RETURN(kernel->private_, construction.session()->FindOrCreate<PrivateTable>(
                                                  kernel->device_name_, construction.node().name(),
                                                  [] { return std::make_shared<PrivateTable>(); }));
    }
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  absl::Status Compute(KernelContext& context) override {
    const auto create = [&] { return Make(context); };
    absl::StatusOr<RefPtr<LookupTable>> table =
        shared_name_.empty()
            ? private_->FindOrCreate(create)
            : context.resources().LookupOrCreate<LookupTable>(container_, shared_name_, create);
    if (!table.ok()) return table.status();
    LookupTable::Spec wanted = spec_;
    if (is_dense_) wanted.key_shape = context.input(0).shape();
    if (!((*table)->spec() == wanted)) {
      return absl::InvalidArgumentError(
          absl::StrCat("table '", wanted.name, "' is there as a ", (*table)->ToString(), ", asked for as a ",
                       wanted.kind, " from ", TypeString(wanted.key_dtype, wanted.key_shape), " to ",
                       TypeString(wanted.value_dtype, wanted.value_shape)));
    }
    ResourceHandle handle;
    handle.device = device_name_;
    handle.container = container_;
    handle.name = spec_.name;
    handle.type_name = LookupTable::kTypeName;
    handle.resource = RefPtr<Resource>(table->release());
    context.set_output(0, Tensor::Scalar(std::move(handle)));
    return absl::OkStatus();
  }

 private:
  explicit TableHandle(const KernelConstruction& construction)
      : device_name_(construction.device().name().ToString()),
        container_(construction.attr<std::string>("container")),
        shared_name_(construction.attr<std::string>("shared_name")),
        is_dense_(construction.node().op_name() == "MutableDenseHashTableV2") {
    const bool shares_node_name = shared_name_.empty() && construction.attr<bool>("use_node_name_sharing");
    if (shares_node_name) shared_name_ = construction.node().name();
    spec_.kind = construction.node().op_name();
    spec_.name = shared_name_.empty() ? construction.node().name() : shared_name_;
    spec_.key_dtype = construction.attr<DType>("key_dtype");
    spec_.value_dtype = construction.attr<DType>("value_dtype");
    if (is_dense_) {
      num_buckets_ = construction.attr<int64_t>("initial_num_buckets");
      max_load_factor_ = construction.attr<float>("max_load_factor");
    }
  }

  absl::StatusOr<RefPtr<LookupTable>> Make(KernelContext& context) const {
    if (is_dense_) {
      return MutableDenseHashTable::Create(spec_, context.input(0), context.input(1), num_buckets_,
                                           max_load_factor_, context.allocator());
    }
    if (spec_.kind == "HashTableV2") return RefPtr<LookupTable>(MakeRef<HashTable>(spec_).release());
    return RefPtr<LookupTable>(MakeRef<MutableHashTable>(spec_).release());
  }

  const std::string device_name_, container_;
  std::string shared_name_;
  const bool is_dense_;
  LookupTable::Spec spec_;
  int64_t num_buckets_ = 0;
  float max_load_factor_ = 0;
  std::shared_ptr<PrivateTable> private_;
};

// The table of input 0, whose keys and values have the dtypes of the inputs and outputs.
absl::StatusOr<RefPtr<LookupTable>> TableFor(const KernelContext& context, bool has_keys, bool has_values) {
  WEIR_ASSIGN_OR_RETURN(RefPtr<LookupTable> table, LookupResource<LookupTable>(context, 0));
  const DType key = table->spec().key_dtype, value = table->spec().value_dtype;
  const bool fits =
      (!has_keys || context.input(1).dtype() == key) && (!has_values || context.input(2).dtype() == value);
  if (fits) return table;
  const auto signature = [&](DType key, DType value) {
    return absl::StrCat("resource", has_keys ? ", " : "", has_keys ? DTypeName(key) : "",
                        has_values ? ", " : "", has_values ? DTypeName(value) : "", "->",
                        has_values && context.num_outputs() > 0 ? DTypeName(value) : "");
  };
  return absl::InvalidArgumentError(absl::StrCat(
      "Signature mismatch, have: ",
      signature(has_keys ? context.input(1).dtype() : key, has_values ? context.input(2).dtype() : value),
      " expected: ", signature(key, value)));
}

absl::Status ComputeFind(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableFor(context, true, true));
  WEIR_ASSIGN_OR_RETURN(Tensor values, table->Find(context.input(1), context.input(2), context.allocator()));
  context.set_output(0, std::move(values));
  return absl::OkStatus();
}

using ChangeTable = absl::Status (LookupTable::*)(const Tensor&, const Tensor&, Allocator&);

template <ChangeTable change>
absl::Status ComputeChange(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableFor(context, true, true));
  return (table.get()->*change)(context.input(1), context.input(2), context.allocator());
}

absl::Status ComputeRemove(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableFor(context, true, false));
  return table->Remove(context.input(1));
}

absl::Status ComputeTableSize(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableFor(context, false, false));
  WEIR_ASSIGN_OR_RETURN(Tensor * size, context.AllocateOutput(0, Shape()));
  size->flat<int64_t>()[0] = table->size();
  return absl::OkStatus();
}

absl::Status ComputeExport(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableFor(context, false, false));
  const LookupTable::Spec& spec = table->spec();
  if (context.output_type(0) != spec.key_dtype || context.output_type(1) != spec.value_dtype) {
    return absl::InvalidArgumentError(absl::StrCat("Tkeys is ", DTypeName(context.output_type(0)),
                                                   " and Tvalues ", DTypeName(context.output_type(1)),
                                                   ", but the table is a ", table->ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(auto pairs, table->Export(context.allocator()));
  context.set_output(0, std::move(pairs.first));
  context.set_output(1, std::move(pairs.second));
  return absl::OkStatus();
}

constexpr ChangeTable kInitialize = &LookupTable::Initialize;

}  // namespace

void RegisterTablesKernels(DeviceKernels& kernels) {
  const std::vector<DType> keys = {DType::kInt32, DType::kInt64, DType::kString};
  const std::vector<DType> values = {DType::kFloat32, DType::kFloat64, DType::kHalf,      DType::kBfloat16,
                                     DType::kInt8,    DType::kInt16,   DType::kInt32,     DType::kInt64,
                                     DType::kUint8,   DType::kUint16,  DType::kUint32,    DType::kUint64,
                                     DType::kBool,    DType::kString,  DType::kComplex64, DType::kComplex128};
  for (const char* op :
       {"HashTableV2", "MutableHashTableV2", "MutableHashTableOfTensorsV2", "MutableDenseHashTableV2"}) {
    kernels.Add<TableHandle>(op, {{"key_dtype", keys}, {"value_dtype", values}});
  }
  kernels.Add<&ComputeFind>("LookupTableFindV2");
  kernels.Add<&ComputeChange<&LookupTable::Insert>>("LookupTableInsertV2");
  kernels.Add<&ComputeChange<&LookupTable::Import>>("LookupTableImportV2");
  kernels.Add<&ComputeChange<kInitialize>>("InitializeTableV2");
  kernels.Add<&ComputeRemove>("LookupTableRemoveV2");
  kernels.Add<&ComputeTableSize>("LookupTableSizeV2");
  kernels.Add<&ComputeExport>("LookupTableExportV2");
}

}  // namespace weir
