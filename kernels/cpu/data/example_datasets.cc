// ParseExampleDatasetV2: the features of each element, which is a vector of serialized tf.Examples, in the
// order of their keys. A sparse one is a vector of three variants that are tensors, a ragged one is a
// variant.
//
// An element is parsed when it is asked for, its examples by several threads, whatever num_parallel_calls
// says. An iterator holds no element.
#include <map>
#include <memory>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data_flow/held_tensor.h"
#include "kernels/cpu/data_flow/ragged_tensor.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/io/example_parser.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using Names = ExampleParser::Names;
using DTypes = ExampleParser::DTypes;

// What a node says of the features; shared by its datasets.
struct ExampleFeatures {
  ExampleFeatures(const KernelConstruction& construction, const DTypes& ragged_types, const DTypes& splits)
      : parser(construction, ragged_types) {
    const auto& sparse_types = construction.attr<DTypes>("sparse_types");
    const auto& dense_types = construction.attr<DTypes>("Tdense");
    output_types.assign(sparse_types.size(), DType::kInt64);
    output_types.insert(output_types.end(), sparse_types.begin(), sparse_types.end());
    output_types.insert(output_types.end(), sparse_types.size(), DType::kInt64);
    for (const DTypes* types : {&dense_types, &ragged_types, &splits}) {
      output_types.insert(output_types.end(), types->begin(), types->end());
    }
  }

  const ExampleParser parser;
  DTypes output_types;               // of the parser
  Names keys;                        // of sparse, dense and ragged features
  std::map<std::string, int> order;  // of the keys by name
};

class ExamplesDataset;
class ExamplesIterator final : public IteratorOverInput {
 public:
  ExamplesIterator(RefPtr<const ExamplesDataset> dataset, IteratorPtr input)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}
  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;

 private:
  const RefPtr<const ExamplesDataset> dataset_;
};

class ExamplesDataset final : public DatasetOverInput<ExamplesDataset, ExamplesIterator> {
 public:
  ExamplesDataset(Signature signature, DatasetPtr input, std::shared_ptr<const ExampleFeatures> features,
                  Element defaults)
      : DatasetOverInput(std::move(signature), std::move(input)),
        features_(std::move(features)),
        defaults_(std::move(defaults)) {}

  absl::Status CheckAnyOrder() const override { return input().CheckAnyOrder(); }

  absl::StatusOr<Element> Parsed(IteratorContext& context, const Element& examples) const {
    if (examples.size() != 1 || examples[0].dtype() != DType::kString || examples[0].shape().rank() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ParseExampleDataset takes vectors of serialized examples, not ",
          examples.size() == 1 ? examples[0].ToString(4) : absl::StrCat(examples.size(), " tensors")));
    }
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> parsed, Outputs(context, examples[0]));
    WEIR_ASSIGN_OR_RETURN(Element element, InOrder(parsed));
    WEIR_RETURN_IF_ERROR(CheckElement(signature(), element));
    return element;
  }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    WEIR_ASSIGN_OR_RETURN(const Element examples, input().Get(context, index));
    return Parsed(context, examples);
  }

  // What the parser, which is written for steps, makes of the examples.
  absl::StatusOr<std::vector<Tensor>> Outputs(IteratorContext& context, const Tensor& serialized) const {
    std::vector<Tensor> slots = {serialized};
    slots.insert(slots.end(), defaults_.begin(), defaults_.end());
    const size_t num_inputs = slots.size(), num_outputs = features_->output_types.size();
    slots.resize(num_inputs + num_outputs);
    std::vector<int32_t> input_slots(num_inputs);
    for (size_t i = 0; i < num_inputs; ++i) input_slots[i] = static_cast<int32_t>(i);
    const auto last_use = std::make_unique<bool[]>(num_inputs);  // all false: nothing runs in place
    StepContext step;
    step.cancellation = &context.cancellation;
    step.threads = context.threads;
    KernelContext parse(step, context.run.device(), slots.data(), input_slots.data(), last_use.get(),
                        static_cast<int>(num_inputs), static_cast<int32_t>(num_inputs),
                        features_->output_types.data(), static_cast<int>(num_outputs));
    WEIR_RETURN_IF_ERROR(features_->parser.Parse(parse, {serialized.flat<std::string>(), {}, true},
                                                 features_->keys, /*first_default=*/1));
    return std::vector<Tensor>(slots.begin() + static_cast<int64_t>(num_inputs), slots.end());
  }

  absl::StatusOr<Element> InOrder(const std::vector<Tensor>& parsed) const {
    const ExampleParser& parser = features_->parser;
    const auto num_sparse = static_cast<int>(parser.num_sparse());
    const auto num_dense = static_cast<int>(parser.num_dense());
    const auto num_ragged = static_cast<int>(parser.num_ragged());
    Element element;
    for (const auto& [key, i] : features_->order) {
      if (i < num_sparse) {
        Tensor parts(DType::kVariant, Shape({3}));
        for (int part = 0; part < 3; ++part) {
          const Tensor& tensor = parsed[part * num_sparse + i];
          WEIR_ASSIGN_OR_RETURN(const int depth, DepthAround(tensor));
          parts.flat<ResourceHandle>()[part].resource = MakeRef<HeldTensor>(tensor, depth);
        }
        element.push_back(std::move(parts));
      } else if (i < num_sparse + num_dense) {
        element.push_back(parsed[2 * num_sparse + i]);
      } else {
        const int values = 2 * num_sparse + i;
        element.push_back(VariantOf(
            MakeRef<RaggedTensor>(std::vector<Tensor>{parsed[values + num_ragged]}, parsed[values])));
      }
    }
    return element;
  }

  const std::shared_ptr<const ExampleFeatures> features_;
  const Element defaults_;
};

absl::StatusOr<bool> ExamplesIterator::Next(IteratorContext& context, Element* element) {
  Element examples;
  WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, &examples));
  if (!has_element) return false;
  WEIR_ASSIGN_OR_RETURN(*element, dataset_->Parsed(context, examples));
  return true;
}

// Inputs: dataset, num_parallel_calls, default values.
class ParseExamples final : public DatasetKernel {
 public:
  explicit ParseExamples(const KernelConstruction& construction)
      : DatasetKernel(construction), features_(FeaturesOf(construction)) {}

 private:
  static absl::StatusOr<std::shared_ptr<const ExampleFeatures>> FeaturesOf(
      const KernelConstruction& construction) {
    const auto& ragged_types = construction.attr<DTypes>("ragged_value_types");
    const auto& splits = construction.attr<DTypes>("ragged_split_types");
    auto features = std::make_shared<ExampleFeatures>(construction, ragged_types, splits);
    const std::tuple<const char*, size_t> lists[] = {{"sparse_keys", features->parser.num_sparse()},
                                                     {"dense_keys", features->parser.num_dense()},
                                                     {"ragged_keys", ragged_types.size()}};
    for (const auto& [attr, count] : lists) {
      const auto& keys = construction.attr<Names>(attr);
      if (keys.size() != count) {
        return absl::InvalidArgumentError(
            absl::StrCat("there are ", keys.size(), " ", attr, ", and ", count, " types of them"));
      }
      features->keys.insert(features->keys.end(), keys.begin(), keys.end());
    }
    if (splits.size() != ragged_types.size()) {
      return absl::InvalidArgumentError(absl::StrCat("there are ", splits.size(), " ragged_split_types, and ",
                                                     ragged_types.size(), " ragged_value_types"));
    }
    for (size_t i = 0; i < features->keys.size(); ++i) {
      if (features->order.emplace(features->keys[i], static_cast<int>(i)).second) continue;
      return absl::InvalidArgumentError(absl::StrCat("two features have the key ", features->keys[i]));
    }
    return features;
  }

  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_RETURN_IF_ERROR(features_.status());
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0));
    WEIR_ASSIGN_OR_RETURN(const int64_t num_calls, ReadInteger(context.input(1), "num_parallel_calls"));
    if (num_calls < 1 && num_calls != -1) {
      return absl::InvalidArgumentError("num_parallel_calls must be greater than zero.");
    }
    if (signature.types.size() != (*features_)->keys.size()) {
      return absl::InvalidArgumentError(absl::StrCat("there are ", signature.types.size(),
                                                     " output_types for ", (*features_)->keys.size(),
                                                     " features"));
    }
    Element defaults;
    for (int i = 2; i < context.num_inputs(); ++i) defaults.push_back(context.input(i));
    return SetDataset<ExamplesDataset>(context, signature, std::move(input), *features_, std::move(defaults));
  }

  const absl::StatusOr<std::shared_ptr<const ExampleFeatures>> features_;
};

}  // namespace

void RegisterExampleDatasetsKernels(DeviceKernels& kernels) {
  kernels.Add<ParseExamples>("ParseExampleDatasetV2");
}

}  // namespace weir
