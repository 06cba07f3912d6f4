// LoadAndRemapMatrix and GenerateVocabRemapping: a matrix of a checkpoint whose rows and columns belong to
// the words of a vocabulary, for another vocabulary.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/file_system.h"

namespace weir {
namespace {

absl::StatusOr<std::string> OnlyString(const Tensor& tensor, absl::string_view what) {
  if (tensor.num_elements() == 1) return tensor.flat<std::string>()[0];
  return absl::InvalidArgumentError(
      absl::StrCat(what, " should be a single string, but got ", tensor.shape().ToString()));
}

// ---- Vocabularies: a word in each line ----

std::vector<absl::string_view> LinesOf(absl::string_view content) {
  absl::ConsumeSuffix(&content, "\n");
  std::vector<absl::string_view> lines;
  if (content.empty()) return lines;
  for (absl::string_view line : absl::StrSplit(content, '\n')) {
    absl::ConsumeSuffix(&line, "\r");
    lines.push_back(line);
  }
  return lines;
}

class GenerateVocabRemapping final : public Kernel {
 public:
  explicit GenerateVocabRemapping(const KernelConstruction& construction)
      : files_(FilesOf(construction)),
        offset_(construction.attr<int64_t>("new_vocab_offset")),
        count_(construction.attr<int64_t>("num_new_vocab")),
        old_size_(construction.attr<int64_t>("old_vocab_size")) {}

  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const std::string new_path, OnlyString(context.input(0), "new_vocab_file"));
    WEIR_ASSIGN_OR_RETURN(const std::string old_path, OnlyString(context.input(1), "old_vocab_file"));
    WEIR_ASSIGN_OR_RETURN(const std::string new_content, ReadWholeFile(*files_, new_path));
    WEIR_ASSIGN_OR_RETURN(const std::string old_content, ReadWholeFile(*files_, old_path));
    const std::vector<absl::string_view> new_words = LinesOf(new_content);
    const auto num_words = static_cast<int64_t>(new_words.size());
    if (offset_ > num_words || count_ > num_words - offset_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "lookup table size must be larger than last new vocab entry's line: ", new_path, " has ", num_words,
          " lines, new_vocab_offset is ", offset_, ", num_new_vocab ", count_));
    }
    WEIR_ASSIGN_OR_RETURN(const Places old_places, PlacesOf(old_path, old_content));
    WEIR_ASSIGN_OR_RETURN(Tensor * remapping, context.AllocateOutput(0, Shape({count_})));
    int32_t num_present = 0;
    for (int64_t i = 0; i < count_; ++i) {
      const auto found = old_places.find(new_words[offset_ + i]);
      remapping->flat<int64_t>()[i] = found == old_places.end() ? -1 : found->second;
      num_present += found != old_places.end();
    }
    context.set_output(1, Tensor::Scalar(num_present));
    return absl::OkStatus();
  }

 private:
  using Places = absl::flat_hash_map<absl::string_view, int64_t>;

  absl::StatusOr<Places> PlacesOf(const std::string& path, const std::string& content) const {
    std::vector<absl::string_view> words = LinesOf(content);
    const auto num_words = static_cast<int64_t>(words.size());
    if (old_size_ > num_words) {
      return absl::InvalidArgumentError(
          absl::StrCat("Invalid vocab_size in ", path, ": expected ", old_size_, " but got ", num_words));
    }
    if (old_size_ >= 0) words.resize(old_size_);
    Places places;
    for (size_t i = 0; i < words.size(); ++i) {
      const auto [place, is_new] = places.emplace(words[i], static_cast<int64_t>(i));
      if (is_new) continue;
      return absl::FailedPreconditionError(absl::StrCat("HashTable has different value for same key. Key ",
                                                        words[i], " has ", place->second,
                                                        " and trying to add value ", i, ", in ", path));
    }
    return places;
  }

  const std::shared_ptr<FileSystem> files_;
  const int64_t offset_, count_, old_size_;
};

// ---- Matrices ----

// Where the new rows (or columns) come from: -1 for those that are new.
absl::StatusOr<absl::Span<const int64_t>> ReadRemapping(const Tensor& tensor, absl::string_view name,
                                                        int64_t count) {
  if (tensor.shape().rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " tensor must be 1-D, is ", tensor.shape().ToString()));
  }
  if (tensor.num_elements() == count) return tensor.flat<int64_t>();
  return absl::InvalidArgumentError(
      absl::StrCat("Size of ", name, " is ", tensor.num_elements(), " instead of being equal to ", count));
}

// From an old place to the new one. Unimplemented, as in TensorFlow, for a place that is named twice.
using NewPlaces = absl::flat_hash_map<int64_t, int64_t>;
absl::StatusOr<NewPlaces> Inverse(absl::Span<const int64_t> remapping, absl::string_view name,
                                  int64_t num_old) {
  NewPlaces places;
  for (size_t i = 0; i < remapping.size(); ++i) {
    if (remapping[i] < 0) continue;
    if (remapping[i] >= num_old) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " names ", remapping[i], ", the old matrix has ", num_old));
    }
    if (!places.emplace(remapping[i], static_cast<int64_t>(i)).second) {
      return absl::UnimplementedError(absl::StrCat(name, " names ", remapping[i], " more than once"));
    }
  }
  return places;
}

class LoadAndRemapMatrix final : public Kernel {
 public:
  explicit LoadAndRemapMatrix(const KernelConstruction& construction)
      : files_(FilesOf(construction)),
        num_rows_(construction.attr<int64_t>("num_rows")),
        num_columns_(construction.attr<int64_t>("num_cols")),
        rows_in_memory_(construction.attr<int64_t>("max_rows_in_memory")) {}

  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const std::string path, OnlyString(context.input(0), "ckpt_path"));
    WEIR_ASSIGN_OR_RETURN(const std::string name, OnlyString(context.input(1), "old_tensor_name"));
    WEIR_ASSIGN_OR_RETURN(const auto rows, ReadRemapping(context.input(2), "row_remapping", num_rows_));
    const bool remaps_columns = context.input(3).num_elements() > 0;
    WEIR_ASSIGN_OR_RETURN(const auto columns, ReadRemapping(context.input(3), "col_remapping",
                                                            remaps_columns ? num_columns_ : 0));
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(path, *files_));
    WEIR_ASSIGN_OR_RETURN(const Shape old, OldShape(*reader, name, remaps_columns));
    WEIR_ASSIGN_OR_RETURN(const NewPlaces new_rows, Inverse(rows, "row_remapping", old.dim(0)));
    WEIR_ASSIGN_OR_RETURN(const NewPlaces new_columns, Inverse(columns, "col_remapping", old.dim(1)));
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({num_rows_, num_columns_}));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    WEIR_RETURN_IF_ERROR(FillMissing(rows, columns, context.input(4).flat<float>(), output->flat<float>()));
    const auto may_go_on = [&context] {
      return context.cancellation().is_cancelled() ? absl::CancelledError("the step was cancelled")
                                                   : absl::OkStatus();
    };
    WEIR_RETURN_IF_ERROR(reader->VerifyTensor(name, may_go_on));
    const int64_t step = rows_in_memory_ > 0 ? rows_in_memory_ : std::max<int64_t>(old.dim(0), 1);
    for (int64_t first = 0; first < old.dim(0); first += std::min(step, old.dim(0) - first)) {
      WEIR_RETURN_IF_ERROR(may_go_on());
      const int64_t count = std::min(step, old.dim(0) - first);
      WEIR_ASSIGN_OR_RETURN(const Tensor part, reader->ReadRows(name, first, count, context.allocator()));
      for (int64_t r = 0; r < count; ++r) {
        const auto place = new_rows.find(first + r);
        if (place == new_rows.end()) continue;
        CopyRow(part.flat<float>().subspan(r * old.dim(1), old.dim(1)),
                remaps_columns ? &new_columns : nullptr,
                output->flat<float>().subspan(place->second * num_columns_, num_columns_));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Shape> OldShape(const BundleReader& reader, const std::string& name,
                                 bool remaps_columns) const {
    const BundleEntry* const entry = reader.Find(name);
    if (entry == nullptr) {
      return absl::NotFoundError(absl::StrCat("no tensor '", name, "' in checkpoint ", reader.prefix()));
    }
    if (entry->dtype != DType::kFloat32 || entry->shape.rank() != 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Tensor ", name, " is ", TypeString(entry->dtype, entry->shape), " instead of a matrix of float"));
    }
    if (!remaps_columns && entry->shape.dim(1) != num_columns_) {
      return absl::InvalidArgumentError(absl::StrCat("Tensor ", name, " has shape ", entry->shape.ToString(),
                                                     ", where the size of its 2nd dimension is ",
                                                     entry->shape.dim(1),
                                                     " instead of being equal to num_cols=", num_columns_));
    }
    return entry->shape;
  }

  // Elements of new rows and columns get the values, row by row; all of them must be used.
  absl::Status FillMissing(absl::Span<const int64_t> rows, absl::Span<const int64_t> columns,
                           absl::Span<const float> values, absl::Span<float> output) const {
    size_t num_used = 0;
    for (int64_t r = 0; r < num_rows_; ++r) {
      if (rows[r] >= 0 && columns.empty()) continue;
      for (int64_t c = 0; c < num_columns_; ++c) {
        if (rows[r] >= 0 && columns[c] >= 0) continue;
        if (num_used == values.size()) {
          return absl::InvalidArgumentError(absl::StrCat("Tried to initialize element [", r, ",", c,
                                                         "], initializing_values has only ", values.size(),
                                                         " elements"));
        }
        output[r * num_columns_ + c] = values[num_used++];
      }
    }
    if (num_used == values.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("initializing_values contained ", values.size(),
                                                   " elements, but only ", num_used,
                                                   " elements were used to fill in missing values."));
  }

  static void CopyRow(absl::Span<const float> from, const NewPlaces* columns, absl::Span<float> to) {
    if (columns == nullptr) {
      std::copy(from.begin(), from.end(), to.begin());
      return;
    }
    for (const auto& [old_place, new_place] : *columns) to[new_place] = from[old_place];
  }

  const std::shared_ptr<FileSystem> files_;
  const int64_t num_rows_, num_columns_, rows_in_memory_;
};

}  // namespace

void RegisterRemappingKernels(DeviceKernels& kernels) {
  kernels.Add<GenerateVocabRemapping>("GenerateVocabRemapping");
  kernels.Add<LoadAndRemapMatrix>("LoadAndRemapMatrix");
}

}  // namespace weir
