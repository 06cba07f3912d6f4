// The dataset of RepeatDataset, for kernels that repeat what they make.
#pragma once

#include <cstdint>

#include "kernels/cpu/data/dataset.h"

namespace weir {

// `count` times the input, one after another; negative: for ever.
RefPtr<Dataset> RepeatedDataset(Dataset::Signature signature, DatasetPtr input, int64_t count);

}  // namespace weir
