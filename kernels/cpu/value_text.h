// Tensors as TensorFlow writes them where people read them: in printed lines, failed assertions and formatted
// strings. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "graph/types/tensor.h"

namespace weir {

// The element at `index` of all elements in their order. Numbers have the shortest of two lengths that gives
// them back, true and false are 1 and 0. Strings stand without quotes, with C's escapes, and with UTF-8 as it
// is. Precondition: 0 <= index < tensor.num_elements().
std::string ElementText(const Tensor& tensor, int64_t index);

// "[[0 1 2][3...]...]": the first `limit` elements, all when it is negative, in the brackets of their
// dimensions. At most 1,000 elements, and of a string 64 KiB. A scalar has the outer brackets too.
std::string ValueText(const Tensor& tensor, int64_t limit);

}  // namespace weir
