// Datasets of groups of elements: Window, GroupByWindow.
//
// An iterator of windows holds the elements of one window and those between them; one of groups holds those
// of all groups that are not full, and the size of the windows of every key.
#include <algorithm>
#include <deque>
#include <optional>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/list_dataset.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data/window_sizes.h"
#include "kernels/cpu/data_flow/element_rooms.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

// Gives for each component a dataset of its values in the window.
class WindowDataset;
class WindowIterator final : public IteratorOverInput {
 public:
  WindowIterator(RefPtr<const WindowDataset> dataset, IteratorPtr input);

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(int64_t{input_is_over_});
    position.Add(num_skipped_);
    position.Add(static_cast<int64_t>(buffer_.size()));
    for (const Slot& slot : buffer_) position.Add(slot);
    return IteratorOverInput::Save(context, position);
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  using Slot = absl::StatusOr<Element>;

  // Takes what lies before the next window and in it. Fails only where the step was cancelled, or there is no
  // memory for more elements: then the next one goes on with it.
  absl::Status Fill(IteratorContext& context);
  absl::StatusOr<Slot> Take(IteratorContext& context);
  absl::StatusOr<Element> MakeWindow(Allocator& allocator) const;
  // For one element more. ResourceExhausted when the device has no memory for it.
  absl::Status MakeRoom(IteratorContext& context);

  const RefPtr<const WindowDataset> dataset_;
  bool input_is_over_ = false;
  int64_t num_skipped_ = 0;  // elements before the next window that are still to be taken
  std::deque<Slot> buffer_;  // from the beginning of the next window on
  ElementRooms rooms_;       // for these
};

class WindowDataset final : public DatasetOverInput<WindowDataset, WindowIterator> {
 public:
  WindowDataset(Signature signature, DatasetPtr input, const WindowSizes& sizes)
      : DatasetOverInput(std::move(signature), std::move(input)), sizes_(sizes) {}
  int64_t cardinality() const override { return sizes_.NumWindows(input().cardinality()); }
  const WindowSizes& sizes() const { return sizes_; }

 private:
  const WindowSizes sizes_;
};

WindowIterator::WindowIterator(RefPtr<const WindowDataset> dataset, IteratorPtr input)
    : IteratorOverInput(std::move(input)),
      dataset_(std::move(dataset)),
      rooms_(dataset_->input().signature().types.size()) {}

absl::Status WindowIterator::MakeRoom(IteratorContext& context) {
  return rooms_.Hold(static_cast<int64_t>(buffer_.size()) + 1, context.allocator(), "a window");
}

absl::StatusOr<WindowIterator::Slot> WindowIterator::Take(IteratorContext& context) {
  if (context.cancellation.is_cancelled()) return context.cancellation.reason();
  Element element;
  const absl::StatusOr<bool> has_element = input_->Next(context, &element);
  if (!has_element.ok()) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    return Slot(has_element.status());
  }
  input_is_over_ = !*has_element;
  return Slot(std::move(element));
}

absl::Status WindowIterator::Fill(IteratorContext& context) {
  for (; num_skipped_ > 0 && !input_is_over_; --num_skipped_) WEIR_RETURN_IF_ERROR(Take(context).status());
  while (!input_is_over_ && static_cast<int64_t>(buffer_.size()) < dataset_->sizes().span()) {
    WEIR_RETURN_IF_ERROR(MakeRoom(context));
    absl::StatusOr<Slot> slot = Take(context);
    if (!slot.ok()) return slot.status();
    if (!input_is_over_) buffer_.push_back(*std::move(slot));
  }
  return absl::OkStatus();
}

// The first error of its elements, where they have one.
absl::StatusOr<Element> WindowIterator::MakeWindow(Allocator& allocator) const {
  const auto num_held = static_cast<int64_t>(buffer_.size());
  const int64_t stride = std::min(dataset_->sizes().stride, num_held);
  const Dataset::Signature& given = dataset_->input().signature();
  const std::vector<PartialShape> shapes = ShapesOf(given);
  for (int64_t i = 0; i < num_held; i += stride) WEIR_RETURN_IF_ERROR(buffer_[i].status());
  Element window;
  for (size_t component = 0; component < given.types.size(); ++component) {
    HeldElements values(1, "windows");
    for (int64_t i = 0; i < num_held; i += stride) {
      WEIR_RETURN_IF_ERROR(values.Add({(*buffer_[i])[component]}, allocator));
    }
    WEIR_ASSIGN_OR_RETURN(
        Tensor dataset,
        ListDataset::Variant({{given.types[component]}, {shapes[component]}}, std::move(values)));
    window.push_back(std::move(dataset));
  }
  return window;
}

absl::StatusOr<bool> WindowIterator::Next(IteratorContext& context, Element* element) {
  const WindowSizes& sizes = dataset_->sizes();
  WEIR_RETURN_IF_ERROR(Fill(context));
  const auto num_held = static_cast<int64_t>(buffer_.size());
  if (num_held == 0 || (sizes.drops_remainder && num_held < sizes.span())) return false;
  absl::StatusOr<Element> window = MakeWindow(context.allocator());
  num_skipped_ = std::max<int64_t>(0, sizes.shift - num_held);
  buffer_.erase(buffer_.begin(), buffer_.begin() + std::min(sizes.shift, num_held));
  rooms_.Free(static_cast<int64_t>(buffer_.size()));
  if (!window.ok()) return window.status();
  *element = *std::move(window);
  return true;
}

absl::Status WindowIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(input_is_over_, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(num_skipped_, position.NextNumber(0, dataset_->sizes().shift));
  WEIR_ASSIGN_OR_RETURN(const int64_t size, position.NextNumber(0, dataset_->sizes().span()));
  buffer_.clear();
  for (int64_t i = 0; i < size; ++i) {
    WEIR_RETURN_IF_ERROR(MakeRoom(context));
    Slot slot;
    WEIR_RETURN_IF_ERROR(position.NextOutcome(dataset_->input().signature().types, &slot));
    buffer_.push_back(std::move(slot));
  }
  return IteratorOverInput::Restore(context, position);
}

class Window final : public DatasetKernel {
 public:
  explicit Window(const KernelConstruction& construction) : DatasetKernel(construction) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0));
    WEIR_RETURN_IF_ERROR(
        CheckTypes(signature.types, std::vector<DType>(input->signature().types.size(), DType::kVariant)));
    WEIR_ASSIGN_OR_RETURN(WindowSizes sizes, WindowSizes::Read(context, ""));
    if (context.input(4).num_elements() != 1) {
      return absl::InvalidArgumentError("drop_remainder must be a scalar");
    }
    sizes.drops_remainder = context.input(4).scalar<bool>();
    return SetDataset<WindowDataset>(context, signature, std::move(input), sizes);
  }
};

absl::StatusOr<int64_t> OneNumber(const Element& results, absl::string_view function) {
  if (results.size() == 1 && results[0].dtype() == DType::kInt64 && results[0].num_elements() == 1) {
    return results[0].scalar<int64_t>();
  }
  return absl::InvalidArgumentError(absl::StrCat("`", function, "` must return a scalar int64."));
}

// Elements of a key are gathered until they are as many as a window of the key; then a function makes a
// dataset of them, whose elements come.
class GroupByWindowDataset final : public Dataset {
 public:
  struct Functions {
    CapturedFunction key;
    CapturedFunction reduce;
    CapturedFunction window_size;
  };
  GroupByWindowDataset(Signature signature, DatasetPtr input, Functions functions)
      : Dataset(std::move(signature)), input_(std::move(input)), functions_(std::move(functions)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext& context) const override;
  int64_t cardinality() const override { return input_->cardinality() == kInfinite ? kInfinite : kUnknown; }
  const Dataset& input() const { return *input_; }

 private:
  const DatasetPtr input_;
  const Functions functions_;
};

class GroupByWindowIterator final : public IteratorOverInput {
 public:
  GroupByWindowIterator(RefPtr<const GroupByWindowDataset> dataset, IteratorPtr input, PreparedFunction key,
                        PreparedFunction reduce, PreparedFunction window_size)
      : IteratorOverInput(std::move(input)),
        dataset_(std::move(dataset)),
        key_(std::move(key)),
        reduce_(std::move(reduce)),
        window_size_(std::move(window_size)),
        rooms_(dataset_->input().signature().types.size()) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override;
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  // What a saved position says of a group that is chosen; its key follows.
  static constexpr int64_t kNone = 0, kCurrent = 1, kFull = 2;

  // Reads until a group is full, or the input is over; begins the elements of a full group, or of any.
  absl::Status FillGroup(IteratorContext& context);
  absl::Status Sort(IteratorContext& context, Element element);
  // The elements of the full group. As in TensorFlow one whose function fails is full no more: it waits for
  // the end of the input.
  absl::Status BeginFull(IteratorContext& context);
  absl::Status Begin(IteratorContext& context, int64_t key);
  // Elements of groups, and sizes of windows.
  int64_t num_held() const { return num_grouped_ + static_cast<int64_t>(window_sizes_.size()); }
  // For one more of them. ResourceExhausted when the device has no memory for it.
  absl::Status MakeRoom(IteratorContext& context) {
    return rooms_.Hold(num_held() + 1, context.allocator(), "groups");
  }

  const RefPtr<const GroupByWindowDataset> dataset_;
  const PreparedFunction key_, reduce_, window_size_;
  std::map<int64_t, std::vector<Element>> groups_;
  int64_t num_grouped_ = 0;                  // elements of all groups
  std::map<int64_t, int64_t> window_sizes_;  // of all keys that have come
  ElementRooms rooms_;                       // for both
  bool input_is_over_ = false;
  std::optional<int64_t> full_key_;  // of a group whose elements are to begin
  int64_t current_key_ = 0;
  IteratorPtr current_;  // the elements made of a group, which is still among the groups; may be null
};

absl::StatusOr<IteratorPtr> GroupByWindowDataset::MakeIterator(IteratorContext& context) const {
  WEIR_ASSIGN_OR_RETURN(PreparedFunction key, functions_.key.Prepare(context));
  WEIR_ASSIGN_OR_RETURN(PreparedFunction reduce, functions_.reduce.Prepare(context));
  WEIR_ASSIGN_OR_RETURN(PreparedFunction window_size, functions_.window_size.Prepare(context));
  WEIR_ASSIGN_OR_RETURN(IteratorPtr input, input_->MakeIterator(context));
  return IteratorPtr(new GroupByWindowIterator(RefPtr<const GroupByWindowDataset>::Share(this),
                                               std::move(input), std::move(key), std::move(reduce),
                                               std::move(window_size)));
}

absl::StatusOr<bool> GroupByWindowIterator::Next(IteratorContext& context, Element* element) {
  while (true) {
    if (current_ != nullptr) {
      IteratorContext below = Below(*dataset_, context);
      WEIR_ASSIGN_OR_RETURN(const bool has_element, current_->Next(below, element));
      if (has_element) return true;
      current_ = nullptr;
      num_grouped_ -= static_cast<int64_t>(groups_[current_key_].size());
      groups_.erase(current_key_);
      rooms_.Free(num_held());
    }
    WEIR_RETURN_IF_ERROR(FillGroup(context));
    if (current_ == nullptr) return false;
  }
}

absl::Status GroupByWindowIterator::FillGroup(IteratorContext& context) {
  if (full_key_.has_value()) return BeginFull(context);  // the step before was cancelled
  while (!input_is_over_) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    WEIR_RETURN_IF_ERROR(MakeRoom(context));
    Element element;
    WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, &element));
    input_is_over_ = !has_element;
    if (!has_element) break;
    WEIR_RETURN_IF_ERROR(Sort(context, std::move(element)));
    if (full_key_.has_value()) return BeginFull(context);
  }
  return groups_.empty() ? absl::OkStatus() : Begin(context, groups_.begin()->first);
}

absl::Status GroupByWindowIterator::Sort(IteratorContext& context, Element element) {
  WEIR_ASSIGN_OR_RETURN(const Element keys, key_.Run(element, context.cancellation));
  WEIR_ASSIGN_OR_RETURN(const int64_t key, OneNumber(keys, "key_func"));
  if (!window_sizes_.contains(key)) {
    WEIR_ASSIGN_OR_RETURN(const Element sizes,
                          window_size_.Run({Tensor::Scalar<int64_t>(key)}, context.cancellation));
    WEIR_ASSIGN_OR_RETURN(const int64_t size, OneNumber(sizes, "window_size_func"));
    if (size <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("Window size must be greater than zero, but got ", size, "."));
    }
    window_sizes_[key] = size;
  }
  std::vector<Element>& group = groups_[key];
  group.push_back(std::move(element));
  ++num_grouped_;
  if (static_cast<int64_t>(group.size()) == window_sizes_[key]) full_key_ = key;
  return absl::OkStatus();
}

absl::Status GroupByWindowIterator::BeginFull(IteratorContext& context) {
  const absl::Status begun = Begin(context, *full_key_);
  if (begun.ok() || !context.cancellation.is_cancelled()) full_key_.reset();
  return begun;
}

absl::Status GroupByWindowIterator::Begin(IteratorContext& context, int64_t key) {
  const Dataset::Signature& given = dataset_->input().signature();
  HeldElements elements(given.types.size(), "a group");
  for (const Element& element : groups_[key]) {
    WEIR_RETURN_IF_ERROR(elements.Add(element, context.allocator()));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor group, ListDataset::Variant(given, std::move(elements)));
  WEIR_ASSIGN_OR_RETURN(const Element results,
                        reduce_.Run({Tensor::Scalar<int64_t>(key), std::move(group)}, context.cancellation));
  WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset,
                        DatasetMadeFor(*dataset_, "`reduce_func`", results, context));
  IteratorContext below = Below(*dataset_, context);
  WEIR_ASSIGN_OR_RETURN(current_, dataset->MakeIterator(below));
  current_key_ = key;
  return absl::OkStatus();
}

absl::Status GroupByWindowIterator::Save(IteratorContext& context, PositionWriter& position) {
  position.Add(int64_t{input_is_over_});
  position.Add(static_cast<int64_t>(window_sizes_.size()));
  for (const auto& [key, size] : window_sizes_) {
    position.Add(key);
    position.Add(size);
  }
  position.Add(static_cast<int64_t>(groups_.size()));
  for (const auto& [key, group] : groups_) {
    position.Add(key);
    position.Add(static_cast<int64_t>(group.size()));
    for (const Element& element : group) position.Add(element);
  }
  position.Add(full_key_.has_value() ? kFull : current_ != nullptr ? kCurrent : kNone);
  if (full_key_.has_value()) position.Add(*full_key_);
  if (current_ != nullptr) {
    position.Add(current_key_);
    IteratorContext below = Below(*dataset_, context);
    WEIR_RETURN_IF_ERROR(current_->Save(below, position));
  }
  return IteratorOverInput::Save(context, position);
}

absl::Status GroupByWindowIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(input_is_over_, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(const int64_t num_keys, position.NextNumber(0, INT64_MAX));
  for (int64_t i = 0; i < num_keys; ++i) {
    WEIR_RETURN_IF_ERROR(MakeRoom(context));
    WEIR_ASSIGN_OR_RETURN(const int64_t key, position.NextNumber());
    WEIR_ASSIGN_OR_RETURN(window_sizes_[key], position.NextNumber(1, INT64_MAX));
  }
  WEIR_ASSIGN_OR_RETURN(const int64_t num_groups, position.NextNumber(0, INT64_MAX));
  for (int64_t i = 0; i < num_groups; ++i) {
    WEIR_ASSIGN_OR_RETURN(const int64_t key, position.NextNumber());
    WEIR_ASSIGN_OR_RETURN(const int64_t size, position.NextNumber(0, INT64_MAX));
    for (int64_t k = 0; k < size; ++k) {
      WEIR_RETURN_IF_ERROR(MakeRoom(context));
      WEIR_ASSIGN_OR_RETURN(Element element, position.NextElement(dataset_->input().signature().types));
      groups_[key].push_back(std::move(element));
      ++num_grouped_;
    }
  }
  WEIR_ASSIGN_OR_RETURN(const int64_t chosen, position.NextNumber(kNone, kFull));
  full_key_.reset();
  if (chosen == kFull) {
    WEIR_ASSIGN_OR_RETURN(full_key_, position.NextNumber());
  }
  if (chosen == kCurrent) {
    WEIR_ASSIGN_OR_RETURN(const int64_t key, position.NextNumber());
    WEIR_RETURN_IF_ERROR(Begin(context, key));
    IteratorContext below = Below(*dataset_, context);
    WEIR_RETURN_IF_ERROR(current_->Restore(below, position));
  }
  return IteratorOverInput::Restore(context, position);
}

class GroupByWindow final : public DatasetKernel {
 public:
  explicit GroupByWindow(const KernelConstruction& construction)
      : DatasetKernel(construction),
        key_(construction, "key_func"),
        reduce_(construction, "reduce_func"),
        window_size_(construction, "window_size_func"),
        num_captured_{Count(construction, "Tkey_func_other_arguments"),
                      Count(construction, "Treduce_func_other_arguments"),
                      Count(construction, "Twindow_size_func_other_arguments")} {}

 private:
  static int Count(const KernelConstruction& construction, absl::string_view attr) {
    return static_cast<int>(construction.attr<std::vector<DType>>(attr).size());
  }

  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0));
    GroupByWindowDataset::Functions functions;
    WEIR_ASSIGN_OR_RETURN(functions.key, CapturedFunction::Create(key_, context, 1, num_captured_[0]));
    int first = 1 + num_captured_[0];
    WEIR_ASSIGN_OR_RETURN(functions.reduce,
                          CapturedFunction::Create(reduce_, context, first, num_captured_[1]));
    first += num_captured_[1];
    WEIR_ASSIGN_OR_RETURN(functions.window_size,
                          CapturedFunction::Create(window_size_, context, first, num_captured_[2]));
    return SetDataset<GroupByWindowDataset>(context, signature, std::move(input), std::move(functions));
  }

  const FunctionOfNode key_, reduce_, window_size_;
  const int num_captured_[3];
};

}  // namespace

void RegisterGroupingKernels(DeviceKernels& kernels) {
  kernels.Add<Window>("WindowDataset");
  kernels.Add<GroupByWindow>("GroupByWindowDataset");
}

}  // namespace weir
