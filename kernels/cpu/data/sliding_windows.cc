// SlidingWindow: elements of windows, as rows of one element.
//
// An iterator holds the elements of one window and those between them. As in TensorFlow, what lies between a
// window and the next one is taken before the window is given, and an error there comes in its place: then
// the window is the next element, and what lies behind it is counted anew. An element of a window that is an
// error is left out of it.
#include <algorithm>
#include <deque>

#include "kernels/cpu/data/held_elements.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data/rows.h"
#include "kernels/cpu/data/window_sizes.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr char kHolder[] = "a sliding window";

class SlidingWindowDataset;
class SlidingWindowIterator final : public IteratorOverInput {
 public:
  SlidingWindowIterator(RefPtr<const SlidingWindowDataset> dataset, IteratorPtr input);

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override {
    position.Add(int64_t{input_is_over_});
    position.Add(num_skipped_);
    position.Add(static_cast<int64_t>(buffer_.size()));
    for (const Element& element : buffer_) position.Add(element);
    return IteratorOverInput::Save(context, position);
  }
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  absl::Status Take(IteratorContext& context, Element* element);
  absl::Status Fill(IteratorContext& context);
  absl::Status Skip(IteratorContext& context);
  int64_t num_held() const { return static_cast<int64_t>(buffer_.size()); }

  const RefPtr<const SlidingWindowDataset> dataset_;
  bool input_is_over_ = false;
  int64_t num_skipped_ = 0;     // elements behind the window that lie before the next one
  std::deque<Element> buffer_;  // from the beginning of the window on
  ElementRooms rooms_;          // for these
};

class SlidingWindowDataset final : public DatasetOverInput<SlidingWindowDataset, SlidingWindowIterator> {
 public:
  SlidingWindowDataset(Signature signature, DatasetPtr input, const WindowSizes& sizes)
      : DatasetOverInput(std::move(signature), std::move(input)), sizes_(sizes) {}
  // What there are. TensorFlow counts as if the remainder was elements: 7 / 1 for windows of 3 of 7 elements,
  // which are 5.
  int64_t cardinality() const override { return sizes_.NumWindows(input().cardinality()); }
  const WindowSizes& sizes() const { return sizes_; }

 private:
  const WindowSizes sizes_;
};

SlidingWindowIterator::SlidingWindowIterator(RefPtr<const SlidingWindowDataset> dataset, IteratorPtr input)
    : IteratorOverInput(std::move(input)),
      dataset_(std::move(dataset)),
      rooms_(dataset_->input().signature().types.size()) {}

absl::Status SlidingWindowIterator::Take(IteratorContext& context, Element* element) {
  if (context.cancellation.is_cancelled()) return context.cancellation.reason();
  WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, element));
  input_is_over_ = !has_element;
  return absl::OkStatus();
}

absl::Status SlidingWindowIterator::Fill(IteratorContext& context) {
  while (!input_is_over_ && num_held() < dataset_->sizes().span()) {
    WEIR_RETURN_IF_ERROR(rooms_.Hold(num_held() + 1, context.allocator(), kHolder));
    Element element;
    WEIR_RETURN_IF_ERROR(Take(context, &element));
    if (!input_is_over_) buffer_.push_back(std::move(element));
  }
  return absl::OkStatus();
}

absl::Status SlidingWindowIterator::Skip(IteratorContext& context) {
  for (; !input_is_over_ && num_skipped_ < dataset_->sizes().shift - num_held(); ++num_skipped_) {
    Element element;
    const absl::Status taken = Take(context, &element);
    if (taken.ok()) continue;
    if (!context.cancellation.is_cancelled()) num_skipped_ = 0;
    return taken;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SlidingWindowIterator::Next(IteratorContext& context, Element* element) {
  const WindowSizes& sizes = dataset_->sizes();
  WEIR_RETURN_IF_ERROR(Fill(context));
  if (buffer_.empty() || (sizes.drops_remainder && num_held() < sizes.span())) return false;
  WEIR_RETURN_IF_ERROR(Skip(context));
  HeldElements window(dataset_->input().signature().types.size(), kHolder);
  const int64_t stride = std::min(sizes.stride, num_held());
  for (int64_t i = 0; i < num_held(); i += stride) {
    WEIR_RETURN_IF_ERROR(window.Add(buffer_[static_cast<size_t>(i)], context.allocator()));
  }
  buffer_.erase(buffer_.begin(), buffer_.begin() + std::min(sizes.shift, num_held()));
  rooms_.Free(num_held());
  num_skipped_ = 0;
  WEIR_ASSIGN_OR_RETURN(*element, Stack(window.elements(), context.allocator()));
  return true;
}

absl::Status SlidingWindowIterator::Restore(IteratorContext& context, PositionReader& position) {
  const WindowSizes& sizes = dataset_->sizes();
  WEIR_ASSIGN_OR_RETURN(input_is_over_, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(num_skipped_, position.NextNumber(0, sizes.shift));
  WEIR_ASSIGN_OR_RETURN(const int64_t size, position.NextNumber(0, sizes.span()));
  buffer_.clear();
  for (int64_t i = 0; i < size; ++i) {
    WEIR_RETURN_IF_ERROR(rooms_.Hold(i + 1, context.allocator(), kHolder));
    WEIR_ASSIGN_OR_RETURN(Element element, position.NextElement(dataset_->input().signature().types));
    buffer_.push_back(std::move(element));
  }
  return IteratorOverInput::Restore(context, position);
}

// The experimental op has no attr drop_remainder, and drops it.
class SlidingWindow final : public DatasetKernel {
 public:
  explicit SlidingWindow(const KernelConstruction& construction)
      : DatasetKernel(construction),
        drops_remainder_(construction.node().FindAttr("drop_remainder") == nullptr ||
                         construction.attr<bool>("drop_remainder")) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    WEIR_ASSIGN_OR_RETURN(WindowSizes sizes, WindowSizes::Read(context, "window_"));
    sizes.drops_remainder = drops_remainder_;
    return SetDataset<SlidingWindowDataset>(context, signature, std::move(input), sizes);
  }

  const bool drops_remainder_;
};

}  // namespace

void RegisterSlidingWindowsKernels(DeviceKernels& kernels) {
  for (const char* op : {"SlidingWindowDataset", "ExperimentalSlidingWindowDataset"}) {
    kernels.Add<SlidingWindow>(op);
  }
}

}  // namespace weir
