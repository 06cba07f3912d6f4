// Elements that one holder gathers: of a batch, a window, a cache. They count on the device beside their
// tensors' buffers (element_rooms.h), until the last of them goes with their holder.
//
// Thread safety: none while elements are added.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/dataset.h"
#include "kernels/cpu/data_flow/element_rooms.h"

namespace weir {

class HeldElements {
 public:
  // Of elements with that many tensors. `what` holds them, as errors say; it stays as long.
  HeldElements(size_t num_components, absl::string_view what) : what_(what), rooms_(num_components) {}

  // ResourceExhausted when the device has no memory for one more; then nothing changes.
  absl::Status Add(Element element, Allocator& allocator) {
    WEIR_RETURN_IF_ERROR(rooms_.Hold(size() + 1, allocator, what_));
    elements_.push_back(std::move(element));
    return absl::OkStatus();
  }

  int64_t size() const { return static_cast<int64_t>(elements_.size()); }
  const Element& operator[](int64_t i) const { return elements_[static_cast<size_t>(i)]; }
  const std::vector<Element>& elements() const { return elements_; }

 private:
  absl::string_view what_;
  ElementRooms rooms_;
  std::vector<Element> elements_;
};

}  // namespace weir
