// What is made of a whole dataset in one step: Reduce, DatasetToSingleElement, a file of records.
#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/compression.h"
#include "kernels/cpu/data/pipeline.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/record_io.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

// (state, element) -> state, over all elements.
class Reduce final : public Kernel {
 public:
  explicit Reduce(const KernelConstruction& construction)
      : function_(construction, "f"),
        num_states_(static_cast<int>(construction.attr<std::vector<DType>>("Tstate").size())),
        num_captured_(static_cast<int>(construction.attr<std::vector<DType>>("Targuments").size())),
        signature_(SignatureOf(construction)) {}

  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    if (!signature_.ok()) return signature_.status();
    WEIR_ASSIGN_OR_RETURN(DatasetPtr dataset, DatasetInput(context, 0));
    Element state;
    for (int i = 0; i < num_states_; ++i) state.push_back(context.input(1 + i));
    WEIR_ASSIGN_OR_RETURN(const CapturedFunction captured,
                          CapturedFunction::Create(function_, context, 1 + num_states_, num_captured_));
    const auto run = std::make_shared<IteratorRun>(context.device(), function_.caller());
    IteratorContext iteration = {*run, context.cancellation(), context.step_threads()};
    WEIR_ASSIGN_OR_RETURN(dataset, Finalized(std::move(dataset), iteration, function_.files()));
    WEIR_ASSIGN_OR_RETURN(const PreparedFunction function, captured.Prepare(iteration));
    WEIR_ASSIGN_OR_RETURN(const IteratorPtr iterator, dataset->MakeIterator(iteration));
    while (true) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      Element element;
      WEIR_ASSIGN_OR_RETURN(const bool has_element, AskTop(*iterator, iteration, &element));
      if (!has_element) break;
      Element arguments = std::move(state);
      for (Tensor& tensor : element) arguments.push_back(std::move(tensor));
      WEIR_ASSIGN_OR_RETURN(state, function.Run(std::move(arguments), context.cancellation()));
      WEIR_RETURN_IF_ERROR(CheckResults(state, *signature_));
    }
    // Shapes may change on the way.
    return SetElement(context, *signature_, std::move(state));
  }

 private:
  const FunctionOfNode function_;
  const int num_states_;
  const int num_captured_;
  const absl::StatusOr<Dataset::Signature> signature_;
};

class ToSingleElement final : public Kernel {
 public:
  explicit ToSingleElement(const KernelConstruction& construction)
      : functions_(construction.session() == nullptr ? nullptr : construction.session()->functions()),
        files_(construction.session() == nullptr ? nullptr : construction.session()->files()),
        signature_(SignatureOf(construction)) {}

  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    if (!signature_.ok()) return signature_.status();
    WEIR_ASSIGN_OR_RETURN(DatasetPtr dataset, DatasetInput(context, 0));
    const auto run = std::make_shared<IteratorRun>(context.device(), functions_);
    IteratorContext iteration = {*run, context.cancellation(), context.step_threads()};
    WEIR_ASSIGN_OR_RETURN(dataset, Finalized(std::move(dataset), iteration, files_));
    WEIR_ASSIGN_OR_RETURN(const IteratorPtr iterator, dataset->MakeIterator(iteration));
    Element element, another;
    WEIR_ASSIGN_OR_RETURN(const bool has_element, AskTop(*iterator, iteration, &element));
    if (!has_element) return absl::InvalidArgumentError("Dataset was empty.");
    WEIR_ASSIGN_OR_RETURN(const bool has_another, AskTop(*iterator, iteration, &another));
    if (has_another) return absl::InvalidArgumentError("Dataset had more than one element.");
    return SetElement(context, *signature_, std::move(element));
  }

 private:
  const std::shared_ptr<FunctionCaller> functions_;
  const std::shared_ptr<FileSystem> files_;
  const absl::StatusOr<Dataset::Signature> signature_;
};

class ToTFRecord final : public Kernel {
 public:
  explicit ToTFRecord(const KernelConstruction& construction)
      : functions_(construction.session() == nullptr ? nullptr : construction.session()->functions()),
        files_(FilesOf(construction)) {}

  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 0));
    for (const int i : {1, 2}) {
      if (context.input(i).num_elements() == 1) continue;
      return absl::InvalidArgumentError(i == 1 ? "filename must be a scalar"
                                               : "compression_type must be a scalar");
    }
    WEIR_ASSIGN_OR_RETURN(const Compression compression,
                          CompressionCalled(context.input(2).flat<std::string>()[0]));
    const std::vector<DType>& types = dataset->signature().types;
    if (types.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ToTFRecordOp currently only support datasets of 1 single column, but got ", types.size()));
    }
    if (types[0] != DType::kString) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ToTFRecordOp currently only supports DT_STRING dataypes, but got ", DTypeName(types[0])));
    }
    WEIR_ASSIGN_OR_RETURN(
        const std::unique_ptr<RecordWriter> writer,
        RecordWriter::Create(context.input(1).flat<std::string>()[0], compression, *files_));
    const auto run = std::make_shared<IteratorRun>(context.device(), functions_);
    IteratorContext iteration = {*run, context.cancellation(), context.step_threads()};
    WEIR_ASSIGN_OR_RETURN(const IteratorPtr iterator, dataset->MakeIterator(iteration));
    while (true) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      Element element;
      WEIR_ASSIGN_OR_RETURN(const bool has_element, AskTop(*iterator, iteration, &element));
      if (!has_element) return writer->Close();
      if (element[0].num_elements() != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("a record is one string, not ", element[0].ToString(4)));
      }
      WEIR_RETURN_IF_ERROR(writer->Write(element[0].flat<std::string>()[0]));
    }
  }

 private:
  const std::shared_ptr<FunctionCaller> functions_;
  const std::shared_ptr<FileSystem> files_;
};

}  // namespace

void RegisterWholeDatasetsKernels(DeviceKernels& kernels) {
  kernels.Add<Reduce>("ReduceDataset");
  kernels.Add<ToSingleElement>("DatasetToSingleElement");
  for (const char* op : {"DatasetToTFRecord", "ExperimentalDatasetToTFRecord"}) kernels.Add<ToTFRecord>(op);
}

}  // namespace weir
