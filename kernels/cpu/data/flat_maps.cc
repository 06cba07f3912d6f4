// Flat maps that can tell which element of their input an element is of: IndexFlatMapDataset and
// WeightedFlatMapDataset.
//
// An iterator holds one element of its input, as the function has mapped it, or nothing.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data/rows.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Which element of the input, and which row of what the function makes of it.
struct Place {
  int64_t element = 0;
  int64_t offset = 0;
};

bool IsNumber(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  return tensor.num_elements() == 1 && (dtype == DType::kInt32 || dtype == DType::kInt64 ||
                                        dtype == DType::kUint32 || dtype == DType::kUint64);
}

// Precondition: IsNumber.
absl::StatusOr<int64_t> NumberIn(const Tensor& tensor) {
  if (tensor.dtype() == DType::kUint32) return int64_t{tensor.flat<uint32_t>()[0]};
  if (tensor.dtype() != DType::kUint64) return IntegerAt(tensor, 0);
  const uint64_t number = tensor.flat<uint64_t>()[0];
  if (number <= INT64_MAX) return static_cast<int64_t>(number);
  return absl::InvalidArgumentError(
      absl::StrCat("invalid `index_map_func` which returns ", number, ", more than ", INT64_MAX));
}

absl::StatusOr<Place> PlaceIn(const Element& results) {
  if (results.size() != 2 || !IsNumber(results[0]) || !IsNumber(results[1])) {
    const auto append = [](std::string* text, const Tensor& tensor) { *text += tensor.ToString(4); };
    return absl::InvalidArgumentError(absl::StrCat(
        "The `index_map_fn` for `index_flat_map` is expected to return two int values representing the "
        "element index and an offset within the element. Got: {",
        absl::StrJoin(results, ", ", append), "}"));
  }
  Place place;
  WEIR_ASSIGN_OR_RETURN(place.element, NumberIn(results[0]));
  WEIR_ASSIGN_OR_RETURN(place.offset, NumberIn(results[1]));
  if (place.element >= 0) return place;
  return absl::InvalidArgumentError(
      absl::StrCat("invalid `index_map_func` which returns element index ", place.element));
}

// Scalars belong to every row.
absl::StatusOr<Element> RowsAt(const Element& mapped, int64_t offset, Allocator& allocator) {
  Element rows;
  for (const Tensor& tensor : mapped) {
    if (tensor.shape().is_scalar()) {
      rows.push_back(tensor);
      continue;
    }
    if (offset < 0 || offset >= tensor.shape().dim(0)) {
      return absl::InvalidArgumentError(absl::StrCat("invalid `index_map_func` which returns offset ", offset,
                                                     " of an element whose tensor has the shape ",
                                                     tensor.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor row, RowOf(tensor, offset, allocator));
    rows.push_back(std::move(row));
  }
  return rows;
}

class IndexFlatMapDataset final : public DatasetOfInput {
 public:
  IndexFlatMapDataset(Signature signature, DatasetPtr input, CapturedFunction map, CapturedFunction index_map,
                      int64_t cardinality)
      : DatasetOfInput(std::move(signature), std::move(input)),
        map_(std::move(map)),
        index_map_(std::move(index_map)),
        cardinality_(cardinality) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override {
    WEIR_ASSIGN_OR_RETURN(PreparedFunction map, map_.Prepare(context));
    WEIR_ASSIGN_OR_RETURN(PreparedFunction index_map, index_map_.Prepare(context));
    WEIR_ASSIGN_OR_RETURN(IteratorPtr input, input().MakeIterator(context));
    return IteratorPtr(new IndexFlatMapIterator(RefPtr<const IndexFlatMapDataset>::Share(this),
                                                std::move(input), std::move(map), std::move(index_map)));
  }
  int64_t cardinality() const override { return cardinality_; }
  absl::Status CheckAnyOrder() const override { return input().CheckAnyOrder(); }

 private:
  class IndexFlatMapIterator final : public IteratorOverInput {
   public:
    IndexFlatMapIterator(RefPtr<const IndexFlatMapDataset> dataset, IteratorPtr input, PreparedFunction map,
                         PreparedFunction index_map)
        : IteratorOverInput(std::move(input)),
          dataset_(std::move(dataset)),
          map_(std::move(map)),
          index_map_(std::move(index_map)) {}

    absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
      WEIR_ASSIGN_OR_RETURN(const Element found,
                            index_map_.Run({Tensor::Scalar(num_given_)}, context.cancellation));
      WEIR_ASSIGN_OR_RETURN(const Place place, PlaceIn(found));
      if (mapped_.empty() || place.element > current_) {
        mapped_.clear();
        Element next;
        WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, &next));
        if (!has_element) return false;
        WEIR_ASSIGN_OR_RETURN(mapped_, map_.Run(std::move(next), context.cancellation));
        WEIR_RETURN_IF_ERROR(CheckResults(mapped_, dataset_->signature()));
        current_ = place.element;
      }
      WEIR_ASSIGN_OR_RETURN(*element, RowsAt(mapped_, place.offset, context.allocator()));
      ++num_given_;
      return true;
    }
    absl::Status Save(IteratorContext& context, PositionWriter& position) override {
      position.Add(num_given_);
      position.Add(current_);
      position.Add(mapped_);
      return IteratorOverInput::Save(context, position);
    }
    absl::Status Restore(IteratorContext& context, PositionReader& position) override {
      WEIR_ASSIGN_OR_RETURN(num_given_, position.NextNumber(0, INT64_MAX - 1));
      WEIR_ASSIGN_OR_RETURN(current_, position.NextNumber(0, INT64_MAX));
      WEIR_ASSIGN_OR_RETURN(mapped_,
                            position.NextElement(dataset_->signature().types, /*may_be_empty=*/true));
      return IteratorOverInput::Restore(context, position);
    }

   private:
    const RefPtr<const IndexFlatMapDataset> dataset_;
    const PreparedFunction map_, index_map_;
    int64_t num_given_ = 0;
    int64_t current_ = 0;  // the number of the input's element
    Element mapped_;       // of that element; empty before the first
  };

  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    WEIR_ASSIGN_OR_RETURN(const PreparedFunction index_map, index_map_.Prepare(context));
    WEIR_ASSIGN_OR_RETURN(const Element found, index_map.Run({Tensor::Scalar(index)}, context.cancellation));
    WEIR_ASSIGN_OR_RETURN(const Place place, PlaceIn(found));
    WEIR_ASSIGN_OR_RETURN(Element arguments, input().Get(context, place.element));
    WEIR_ASSIGN_OR_RETURN(const PreparedFunction map, map_.Prepare(context));
    WEIR_ASSIGN_OR_RETURN(const Element mapped, map.Run(std::move(arguments), context.cancellation));
    WEIR_RETURN_IF_ERROR(CheckResults(mapped, signature()));
    return RowsAt(mapped, place.offset, context.allocator());
  }

  const CapturedFunction map_, index_map_;
  const int64_t cardinality_;
};

// Inputs: dataset, what map_func captures, what index_map_func captures, output_cardinality.
class IndexFlatMap final : public DatasetKernel {
 public:
  explicit IndexFlatMap(const KernelConstruction& construction)
      : DatasetKernel(construction),
        map_(construction, "map_func"),
        index_map_(construction, "index_map_func"),
        num_map_(NumCaptured(construction, "Tmap_func_args")),
        num_index_map_(NumCaptured(construction, "Tindex_map_func_args")) {}

 private:
  static int NumCaptured(const KernelConstruction& construction, absl::string_view attr) {
    return static_cast<int>(construction.attr<std::vector<DType>>(attr).size());
  }

  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0));
    WEIR_ASSIGN_OR_RETURN(CapturedFunction map, CapturedFunction::Create(map_, context, 1, num_map_));
    WEIR_ASSIGN_OR_RETURN(CapturedFunction index_map,
                          CapturedFunction::Create(index_map_, context, 1 + num_map_, num_index_map_));
    WEIR_ASSIGN_OR_RETURN(const int64_t cardinality,
                          ReadInteger(context.input(1 + num_map_ + num_index_map_), "output_cardinality"));
    if (cardinality < Dataset::kUnknown) {
      return absl::InvalidArgumentError(
          absl::StrCat("output_cardinality must be at least ", Dataset::kUnknown, ", is ", cardinality));
    }
    return SetDataset<IndexFlatMapDataset>(context, signature, std::move(input), std::move(map),
                                           std::move(index_map), cardinality);
  }

  const FunctionOfNode map_, index_map_;
  const int num_map_, num_index_map_;
};

// The first elements of each input, as many as its weight says, one input after another.
class WeightedFlatMapDataset final : public Dataset {
 public:
  WeightedFlatMapDataset(Signature signature, std::vector<DatasetPtr> inputs, std::vector<int64_t> counts)
      : Dataset(std::move(signature)), inputs_(std::move(inputs)), counts_(std::move(counts)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext&) const override {
    return IteratorPtr(new WeightedFlatMapIterator(RefPtr<const WeightedFlatMapDataset>::Share(this)));
  }
  int64_t cardinality() const override {
    int64_t sum = 0;
    for (const int64_t count : counts_) sum = count > INT64_MAX - sum ? INT64_MAX : sum + count;
    return sum;
  }
  absl::Status CheckAnyOrder() const override {
    for (const DatasetPtr& input : inputs_) WEIR_RETURN_IF_ERROR(input->CheckAnyOrder());
    return absl::OkStatus();
  }

 private:
  class WeightedFlatMapIterator final : public Iterator {
   public:
    explicit WeightedFlatMapIterator(RefPtr<const WeightedFlatMapDataset> dataset)
        : dataset_(std::move(dataset)) {}

    absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override {
      while (at_ < dataset_->inputs_.size()) {
        if (num_given_ < dataset_->counts_[at_]) {
          if (input_ == nullptr) {
            WEIR_ASSIGN_OR_RETURN(input_, dataset_->inputs_[at_]->MakeIterator(context));
          }
          WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, element));
          if (!has_element) return false;
          ++num_given_;
          return true;
        }
        input_ = nullptr;
        num_given_ = 0;
        ++at_;
      }
      return false;
    }
    absl::Status Save(IteratorContext& context, PositionWriter& position) override {
      position.Add(static_cast<int64_t>(at_));
      position.Add(num_given_);
      position.Add(int64_t{input_ != nullptr});
      return input_ == nullptr ? absl::OkStatus() : input_->Save(context, position);
    }
    absl::Status Restore(IteratorContext& context, PositionReader& position) override {
      const auto num_inputs = static_cast<int64_t>(dataset_->inputs_.size());
      WEIR_ASSIGN_OR_RETURN(at_, position.NextNumber(0, num_inputs));
      WEIR_ASSIGN_OR_RETURN(num_given_, position.NextNumber(0, INT64_MAX));
      WEIR_ASSIGN_OR_RETURN(const int64_t has_input,
                            position.NextNumber(0, static_cast<int64_t>(at_) < num_inputs ? 1 : 0));
      input_ = nullptr;
      if (has_input == 0) return absl::OkStatus();
      WEIR_ASSIGN_OR_RETURN(input_, dataset_->inputs_[at_]->MakeIterator(context));
      return input_->Restore(context, position);
    }

   private:
    const RefPtr<const WeightedFlatMapDataset> dataset_;
    size_t at_ = 0;
    int64_t num_given_ = 0;  // of input at_
    IteratorPtr input_;      // of input at_; null before it is asked
  };

  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (index < counts_[i]) return inputs_[i]->Get(context, index);
      index -= counts_[i];
    }
    return absl::OutOfRangeError("no input has the element");
  }

  const std::vector<DatasetPtr> inputs_;
  const std::vector<int64_t> counts_;
};

// Inputs: the datasets, and a weight for each.
class WeightedFlatMap final : public DatasetKernel {
 public:
  explicit WeightedFlatMap(const KernelConstruction& construction)
      : DatasetKernel(construction), num_datasets_(static_cast<int>(construction.attr<int64_t>("N"))) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    const int num_weights = context.num_inputs() - num_datasets_;
    if (num_weights != num_datasets_) {
      return absl::InvalidArgumentError(
          absl::StrCat("`input_datasets` and `weights` of the WeightedFlatMap must have the same size. Got ",
                       num_datasets_, " datasets and ", num_weights, " weights."));
    }
    std::vector<DatasetPtr> inputs;
    std::vector<double> weights;
    for (int i = 0; i < num_datasets_; ++i) {
      WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, i, signature.types));
      if (input->cardinality() < 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Cardinalities of the inputs must be known. Input ", i, " has ",
            input->cardinality() == Dataset::kInfinite ? "INFINITE" : "UNKNOWN", " cardinality."));
      }
      const Tensor& weight = context.input(num_datasets_ + i);
      if (weight.num_elements() != 1 || !(weight.flat<double>()[0] > 0) ||
          std::isinf(weight.flat<double>()[0])) {
        return absl::InvalidArgumentError(absl::StrCat("`weights` must be greater than 0.0. Input ", i,
                                                       " has a weight of ", weight.ToString(4)));
      }
      inputs.push_back(std::move(input));
      weights.push_back(weight.flat<double>()[0]);
    }
    WEIR_ASSIGN_OR_RETURN(std::vector<int64_t> counts, CountsOf(inputs, weights));
    return SetDataset<WeightedFlatMapDataset>(context, signature, std::move(inputs), std::move(counts));
  }

  // As many of each as the weights say, until one of them is over.
  static absl::StatusOr<std::vector<int64_t>> CountsOf(const std::vector<DatasetPtr>& inputs,
                                                       const std::vector<double>& weights) {
    const double largest = *std::max_element(weights.begin(), weights.end());
    size_t first = 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double count = static_cast<double>(inputs[i]->cardinality()) * weights[i] / largest;
      if (count >= least) continue;
      least = count;
      first = i;
    }
    std::vector<int64_t> counts;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double count = std::floor(least * weights[i] / weights[first]);
      const int64_t has = inputs[i]->cardinality();
      if (!(count <= static_cast<double>(has))) {
        return absl::InvalidArgumentError(absl::StrCat("Input ", i, " needs to have at least ", count,
                                                       " elements. It only has ", has, " elements."));
      }
      counts.push_back(count >= 0x1p63 ? has : static_cast<int64_t>(count));
    }
    return counts;
  }

  const int num_datasets_;
};

}  // namespace

void RegisterFlatMapsKernels(DeviceKernels& kernels) {
  kernels.Add<IndexFlatMap>("IndexFlatMapDataset");
  kernels.Add<WeightedFlatMap>("WeightedFlatMapDataset");
}

}  // namespace weir
