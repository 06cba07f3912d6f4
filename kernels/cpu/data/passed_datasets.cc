// Datasets of the elements of others, as they are: options; assertions about the pipeline; what ends a
// rewrite of it; what a device that holds no datasets is handed (Wrap, Unwrap); waits (Sleep).
//
// Options are kept as they are: none of them changes elements, and which rewrites they ask for is read when
// an iterator is made (pipeline.h). Those of a dataset are its inputs', one after another, and then its own;
// a serialized message behind another one is what both say.
#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

absl::Status PassOn(KernelContext& context) {
  WEIR_RETURN_IF_ERROR(DatasetInput(context, 0).status());
  context.set_output(0, context.input(0));
  return absl::OkStatus();
}

// Its iterators are the input's.
class PassedDataset final : public DatasetOfInput {
 public:
  using DatasetOfInput::DatasetOfInput;
  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override {
    return input().MakeIterator(context);
  }
  absl::Status CheckAnyOrder() const override { return input().CheckAnyOrder(); }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    return input().Get(context, index);
  }
};

class Options final : public DatasetKernel {
 public:
  explicit Options(const KernelConstruction& construction)
      : DatasetKernel(construction), options_(construction.attr<std::string>("serialized_options")) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    auto dataset = MakeRef<PassedDataset>(signature, std::move(input));
    WEIR_RETURN_IF_ERROR(dataset->CountParts(context));
    WEIR_RETURN_IF_ERROR(dataset->AddOptions(options_));
    context.set_output(0, VariantOf(std::move(dataset)));
    return absl::OkStatus();
  }

  const std::string options_;
};

// Without a node: a rewrite of the pipeline ends there.
absl::Status NonSerializable(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0));
  Dataset::Signature signature = input->signature();
  return SetDataset<PassedDataset>(context, std::move(signature), std::move(input));
}

// Of AssertNext and AssertPrev: transformations is what pipeline_checks.h reads.
class Assertion final : public DatasetKernel {
 public:
  using DatasetKernel::DatasetKernel;

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    if (context.input(1).shape().rank() > 1) {
      return absl::InvalidArgumentError("transformations must be a scalar or a vector");
    }
    auto dataset = MakeRef<PassedDataset>(signature, std::move(input));
    WEIR_RETURN_IF_ERROR(dataset->CountParts(context));
    dataset->set_has_assertions();
    context.set_output(0, VariantOf(std::move(dataset)));
    return absl::OkStatus();
  }
};

absl::Status GetOptions(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 0));
  context.set_output(0, Tensor::Scalar(std::string(dataset->options())));
  return absl::OkStatus();
}

class WrappedDataset final : public VariantValue {
 public:
  static constexpr char kTypeName[] = "WrappedDataset";
  explicit WrappedDataset(Tensor dataset, int depth) : dataset_(std::move(dataset)), depth_(depth) {}

  const Tensor& dataset() const { return dataset_; }
  std::string ToString() const override { return "WrappedDataset"; }
  int depth() const override { return depth_; }
  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext&) const override {
    return absl::InvalidArgumentError("a dataset has no zeros");
  }
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue&, KernelContext&) const override {
    return absl::InvalidArgumentError("datasets cannot be added");
  }

 private:
  const Tensor dataset_;
  const int depth_;
};

absl::Status Wrap(KernelContext& context) {
  WEIR_RETURN_IF_ERROR(DatasetInput(context, 0).status());
  WEIR_ASSIGN_OR_RETURN(const int depth, DepthAround(context.input(0)));
  context.set_output(0, VariantOf(MakeRef<WrappedDataset>(context.input(0), depth)));
  return absl::OkStatus();
}

absl::Status Unwrap(KernelContext& context) {
  const absl::StatusOr<const WrappedDataset*> wrapped = VariantInput<WrappedDataset>(context, 0);
  if (!wrapped.ok()) {
    return absl::InvalidArgumentError("Tensor must be a WrappedDataset variant object.");
  }
  context.set_output(0, Tensor((*wrapped)->dataset()));
  return absl::OkStatus();
}

// Waits before each element.
class SleepDataset;
class SleepIterator final : public IteratorOverInput {
 public:
  SleepIterator(RefPtr<const SleepDataset> dataset, IteratorPtr input)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}
  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;

 private:
  // False when the caller was cancelled before.
  static bool Sleep(IteratorContext& context, absl::Duration duration) {
    absl::Mutex mutex;
    bool is_cancelled = false;
    const uint64_t callback = context.cancellation.OnCancel([&](const absl::Status&) {
      absl::MutexLock lock(&mutex);
      is_cancelled = true;
    });
    bool was_cancelled = false;
    {
      absl::MutexLock lock(&mutex);
      Environment& environment = context.environment();
      environment.Await(mutex, absl::Condition(&is_cancelled), environment.Now() + duration);
      was_cancelled = is_cancelled;
    }
    context.cancellation.Remove(callback);
    return !was_cancelled;
  }

  const RefPtr<const SleepDataset> dataset_;
};

class SleepDataset final : public DatasetOverInput<SleepDataset, SleepIterator> {
 public:
  SleepDataset(Signature signature, DatasetPtr input, absl::Duration duration)
      : DatasetOverInput(std::move(signature), std::move(input)), duration_(duration) {}
  absl::Duration duration() const { return duration_; }

 private:
  const absl::Duration duration_;
};

absl::StatusOr<bool> SleepIterator::Next(IteratorContext& context, Element* element) {
  if (!Sleep(context, dataset_->duration())) return context.cancellation.reason();
  return input_->Next(context, element);
}

class Sleep final : public DatasetKernel {
 public:
  explicit Sleep(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(const int64_t microseconds, ReadInteger(context.input(1), "sleep_microseconds"));
    if (microseconds < 0) {
      return absl::InvalidArgumentError(absl::StrCat("`sleep_microseconds` must be >= 0, is ", microseconds));
    }
    return SetDataset<SleepDataset>(context, signature, std::move(input), absl::Microseconds(microseconds));
  }
};

}  // namespace

void RegisterPassedDatasetsKernels(DeviceKernels& kernels) {
  for (const char* op : {"ModelDataset", "RewriteDataset", "FinalizeDataset"}) kernels.Add<&PassOn>(op);
  for (const char* op : {"NonSerializableDataset", "ExperimentalNonSerializableDataset"}) {
    kernels.Add<&NonSerializable>(op);
  }
  for (const char* op : {"AssertNextDataset", "ExperimentalAssertNextDataset", "AssertPrevDataset"}) {
    kernels.Add<Assertion>(op);
  }
  kernels.Add<Options>("OptionsDataset");
  kernels.Add<&GetOptions>("GetOptions");
  kernels.Add<&Wrap>("WrapDatasetVariant");
  kernels.Add<&Unwrap>("UnwrapDatasetVariant");
  for (const char* op : {"SleepDataset", "ExperimentalSleepDataset"}) kernels.Add<Sleep>(op);
}

}  // namespace weir
