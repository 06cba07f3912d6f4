// CacheDataset: the elements of a first pass that comes to its end, kept for later ones in memory or in
// files.
//
// In memory they are their dataset's. They are complete with as many elements as the input says that it has:
// who takes just these never asks for the end. What is asked for by its number, before or without a pass, is
// kept too. Where the input gives no element by its number, a pass goes up to that element each time that one
// is asked for which is not kept yet: with an input that is in another order in each pass, elements come from
// several.
// Files are a checkpoint (kernels/formats/bundle_index.h) under the name that the graph gives, as
// TensorFlow's ops write and read them: component c of element e is the tensor "E_C", E being e in seven
// characters with spaces in front, and C likewise as long as the largest c. While a pass writes it there is
// NAME_0.lockfile. Files may be anybody's; they are those that the session may use (session_files.h).
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/held_elements.h"
#include "kernels/cpu/data/over_input.h"
#include "kernels/cpu/data_flow/element_rooms.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/bundle_writer.h"

namespace weir {
namespace {

// ---- In memory ----

constexpr char kHolder[] = "a cache";

class CacheDataset;
class CacheIterator final : public IteratorOverInput {
 public:
  CacheIterator(RefPtr<const CacheDataset> dataset, IteratorPtr input);

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override;
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  // Whether there are as many as the input says that it has. The pass goes on all the same: its input may
  // have more, or refuse that it does.
  bool HasAll() const { return gathered_->size() == cardinality_; }

  const RefPtr<const CacheDataset> dataset_;
  const int64_t cardinality_;                 // of the input
  std::shared_ptr<const HeldElements> kept_;  // all elements; null in a first pass
  std::shared_ptr<HeldElements> gathered_;    // of a first pass; not changed any more when it has all
  absl::Status no_room_;                      // for what was to be gathered
  int64_t next_ = 0;                          // of those that are kept
};

class CacheDataset final : public DatasetOverInput<CacheDataset, CacheIterator> {
 public:
  using DatasetOverInput::DatasetOverInput;

  std::shared_ptr<const HeldElements> kept() const {
    absl::MutexLock lock(&mutex_);
    return kept_;
  }
  void Keep(std::shared_ptr<const HeldElements> all) const {
    absl::MutexLock lock(&mutex_);
    if (kept_ == nullptr) kept_ = std::move(all);
  }

  absl::Status CheckAnyOrder() const override { return input().CheckAnyOrder(); }

  absl::StatusOr<Element> GetForClient(IteratorContext& context, int64_t index) const override {
    if (cardinality() >= 0) return Get(context, index);
    if (index < 0) return OutOfRange(index);
    return ElementAt(context, index);
  }

 private:
  absl::Status OutOfRange(int64_t index) const;
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override;
  std::optional<Element> Known(int64_t index) const;
  // Keeps the element, unless another call has kept one meanwhile; gives the one that is kept.
  absl::StatusOr<Element> Remember(IteratorContext& context, int64_t index, Element element) const;
  absl::StatusOr<Element> OfPass(IteratorContext& context, int64_t index) const;

  mutable absl::Mutex mutex_;
  mutable std::shared_ptr<const HeldElements> kept_ ABSL_GUARDED_BY(mutex_);
  // Those that were asked for by their number.
  mutable absl::flat_hash_map<int64_t, Element> by_index_ ABSL_GUARDED_BY(mutex_);
  mutable ElementRooms rooms_ ABSL_GUARDED_BY(mutex_) = ElementRooms(signature().types.size() +
                                                                     1);  // for these
};

absl::Status CacheDataset::OutOfRange(int64_t index) const {
  absl::MutexLock lock(&mutex_);
  const int64_t count = kept_ != nullptr ? kept_->size() : static_cast<int64_t>(by_index_.size());
  return absl::OutOfRangeError(absl::StrCat("Index out of range [0, ", count, "): ", index));
}

std::optional<Element> CacheDataset::Known(int64_t index) const {
  absl::MutexLock lock(&mutex_);
  // Before what a pass kept: who had it once gets the same again.
  if (const auto found = by_index_.find(index); found != by_index_.end()) return found->second;
  if (kept_ == nullptr || index >= kept_->size()) return std::nullopt;
  return (*kept_)[index];
}

absl::StatusOr<Element> CacheDataset::Remember(IteratorContext& context, int64_t index,
                                               Element element) const {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(rooms_.Hold(static_cast<int64_t>(by_index_.size()) + 1, context.allocator(), kHolder));
  return by_index_.emplace(index, std::move(element)).first->second;
}

absl::StatusOr<Element> CacheDataset::ElementAt(IteratorContext& context, int64_t index) const {
  if (std::optional<Element> known = Known(index)) return *std::move(known);
  if (cardinality() < 0) {
    if (kept() != nullptr) return OutOfRange(index);
    return OfPass(context, index);
  }
  absl::StatusOr<Element> element = input().Get(context, index);
  if (absl::IsUnimplemented(element.status())) return OfPass(context, index);
  if (!element.ok()) return element;
  return Remember(context, index, *std::move(element));
}

absl::StatusOr<Element> CacheDataset::OfPass(IteratorContext& context, int64_t index) const {
  WEIR_ASSIGN_OR_RETURN(const IteratorPtr iterator, input().MakeIterator(context));
  for (int64_t i = 0;; ++i) {
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    Element element;
    WEIR_ASSIGN_OR_RETURN(const bool has_element, AskTop(*iterator, context, &element));
    if (!has_element) return OutOfRange(index);
    WEIR_ASSIGN_OR_RETURN(element, Remember(context, i, std::move(element)));
    if (i == index) return element;
  }
}

CacheIterator::CacheIterator(RefPtr<const CacheDataset> dataset, IteratorPtr input)
    : IteratorOverInput(std::move(input)),
      dataset_(std::move(dataset)),
      cardinality_(dataset_->input().cardinality()),
      kept_(dataset_->kept()),
      gathered_(std::make_shared<HeldElements>(dataset_->signature().types.size(), kHolder)) {}

absl::StatusOr<bool> CacheIterator::Next(IteratorContext& context, Element* element) {
  if (kept_ != nullptr) {
    if (next_ == kept_->size()) return false;
    *element = (*kept_)[next_++];
    return true;
  }
  if (!no_room_.ok()) return no_room_;  // an element is missing: later passes would not have it
  WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, element));
  if (has_element) {
    if (HasAll()) return true;
    no_room_ = gathered_->Add(*element, context.allocator());
    if (!no_room_.ok()) return no_room_;
    if (HasAll()) dataset_->Keep(gathered_);
    return true;
  }
  dataset_->Keep(gathered_);
  kept_ = std::move(gathered_);
  next_ = kept_->size();
  return false;
}

absl::Status CacheIterator::Save(IteratorContext& context, PositionWriter& position) {
  WEIR_RETURN_IF_ERROR(no_room_);
  position.Add(int64_t{kept_ != nullptr});
  const HeldElements& held = kept_ != nullptr ? *kept_ : *gathered_;
  position.Add(held.size());
  for (int64_t i = 0; i < held.size(); ++i) position.Add(held[i]);
  position.Add(next_);
  return kept_ != nullptr ? absl::OkStatus() : IteratorOverInput::Save(context, position);
}

absl::Status CacheIterator::Restore(IteratorContext& context, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(const bool is_kept, position.NextNumber(0, 1));
  WEIR_ASSIGN_OR_RETURN(const int64_t size, position.NextNumber(0, INT64_MAX));
  auto held = std::make_shared<HeldElements>(dataset_->signature().types.size(), kHolder);
  for (int64_t i = 0; i < size; ++i) {
    WEIR_ASSIGN_OR_RETURN(Element element, position.NextElement(dataset_->signature().types));
    WEIR_RETURN_IF_ERROR(held->Add(std::move(element), context.allocator()));
  }
  WEIR_ASSIGN_OR_RETURN(next_, position.NextNumber(0, size));
  kept_ = nullptr;
  if (!is_kept) {
    gathered_ = std::move(held);
    if (HasAll()) position.OnAccepted([dataset = dataset_, all = gathered_] { dataset->Keep(all); });
    return IteratorOverInput::Restore(context, position);
  }
  kept_ = std::move(held);
  position.OnAccepted([dataset = dataset_, kept = kept_] { dataset->Keep(kept); });
  return absl::OkStatus();
}

// ---- In files ----

constexpr int64_t kMostElements = 10'000'000;  // what the names of elements have digits for

// The elements that one pass writes. Without Finish nothing of it stays.
class CacheWriter {
 public:
  // AlreadyExists when another pass writes them.
  static absl::StatusOr<std::unique_ptr<CacheWriter>> Create(const std::string& name, FileSystem& files,
                                                             absl::Time now) {
    const std::string lock = absl::StrCat(name, "_0.lockfile");
    absl::StatusOr<std::unique_ptr<WritableFile>> file = files.CreateNew(lock);
    if (absl::IsAlreadyExists(file.status())) {
      return absl::AlreadyExistsError(absl::StrCat(
          "There appears to be a concurrent caching iterator running - cache lockfile already exists ('",
          lock,
          "'). If you are sure no other running TF computations are using this cache prefix, delete the "
          "lockfile and re-initialize the iterator. Lockfile contents: ",
          ReadWholeFile(files, lock, 1000).value_or("")));
    }
    if (!file.ok()) return file.status();
    std::unique_ptr<CacheWriter> writer(new CacheWriter(lock, files));
    WEIR_RETURN_IF_ERROR((*file)->Append(absl::StrCat("Created at: ", absl::ToUnixSeconds(now))));
    WEIR_RETURN_IF_ERROR((*file)->Close());
    BundleWriter::Options options;
    options.file_system = &files;
    options.sync = false;
    WEIR_ASSIGN_OR_RETURN(writer->tensors_, BundleWriter::Create(name, options));
    return writer;
  }
  ~CacheWriter() {
    tensors_ = nullptr;  // with its temporary files
    files_.Remove(lock_).IgnoreError();
  }

  BundleWriter& tensors() { return *tensors_; }

 private:
  CacheWriter(std::string lock, FileSystem& files) : lock_(std::move(lock)), files_(files) {}

  const std::string lock_;
  FileSystem& files_;
  std::unique_ptr<BundleWriter> tensors_;
};

class FileCacheDataset;
class FileCacheIterator final : public IteratorOverInput {
 public:
  FileCacheIterator(RefPtr<const FileCacheDataset> dataset, IteratorPtr input)
      : IteratorOverInput(std::move(input)), dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override;
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

 private:
  absl::Status Open(IteratorContext& context);
  absl::Status CheckFits(const BundleReader& reader) const;
  absl::StatusOr<bool> Write(IteratorContext& context, Element* element);
  absl::StatusOr<bool> Read(IteratorContext& context, Element* element);
  std::string NameOf(int64_t element, size_t component) const;

  const RefPtr<const FileCacheDataset> dataset_;
  std::unique_ptr<CacheWriter> writer_;   // of a first pass
  std::unique_ptr<BundleReader> reader_;  // of a later one
  int64_t next_ = 0;
  bool is_over_ = false;  // of a first pass
};

class FileCacheDataset final : public DatasetOverInput<FileCacheDataset, FileCacheIterator> {
 public:
  FileCacheDataset(Signature signature, DatasetPtr input, std::string name, std::shared_ptr<FileSystem> files)
      : DatasetOverInput(std::move(signature), std::move(input)),
        name_(std::move(name)),
        files_(std::move(files)) {}

  const std::string& name() const { return name_; }
  FileSystem& files() const { return *files_; }

  absl::Status CheckAnyOrder() const override { return input().CheckAnyOrder(); }

 private:
  absl::StatusOr<Element> ElementAt(IteratorContext& context, int64_t index) const override {
    return input().Get(context, index);
  }

  const std::string name_;
  const std::shared_ptr<FileSystem> files_;
};

std::string FileCacheIterator::NameOf(int64_t element, size_t component) const {
  const size_t digits = std::to_string(dataset_->signature().types.size() - 1).size();
  return absl::StrFormat("%7d_%*d", element, static_cast<int>(digits), component);
}

absl::Status FileCacheIterator::Open(IteratorContext& context) {
  if (writer_ != nullptr || reader_ != nullptr || is_over_) return absl::OkStatus();
  if (dataset_->files().Exists(absl::StrCat(dataset_->name(), ".index"))) {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<BundleReader> reader,
                          BundleReader::Open(dataset_->name(), dataset_->files()));
    WEIR_RETURN_IF_ERROR(CheckFits(*reader));
    reader_ = std::move(reader);
    return absl::OkStatus();
  }
  // Only a pass that reads is saved behind its first element. The input is at its own: written from here on,
  // the cache would lack or misname elements.
  if (next_ > 0) {
    return absl::NotFoundError(absl::StrCat("there is no cache '", dataset_->name(),
                                            "', of which this pass was restored behind ", next_,
                                            " elements"));
  }
  WEIR_ASSIGN_OR_RETURN(
      writer_, CacheWriter::Create(dataset_->name(), dataset_->files(), context.environment().TimeOfDay()));
  return absl::OkStatus();
}

absl::Status FileCacheIterator::CheckFits(const BundleReader& reader) const {
  const size_t num_components = dataset_->signature().types.size();
  if (reader.Find(NameOf(0, num_components)) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the cache '", dataset_->name(), "' has elements of more than ", num_components, " tensors"));
  }
  if (next_ == 0 || reader.Find(NameOf(next_ - 1, 0)) != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the cache '", dataset_->name(), "' has fewer than the ",
                                                    next_, " elements behind which this pass was restored"));
}

absl::StatusOr<bool> FileCacheIterator::Next(IteratorContext& context, Element* element) {
  WEIR_RETURN_IF_ERROR(Open(context));
  if (is_over_) return false;
  return reader_ != nullptr ? Read(context, element) : Write(context, element);
}

absl::StatusOr<bool> FileCacheIterator::Write(IteratorContext& context, Element* element) {
  WEIR_ASSIGN_OR_RETURN(const bool has_element, input_->Next(context, element));
  if (!has_element) {
    is_over_ = true;
    const std::unique_ptr<CacheWriter> writer = std::move(writer_);  // which takes the lock away
    WEIR_RETURN_IF_ERROR(writer->tensors().Finish());
    return false;
  }
  if (next_ == kMostElements) {
    return absl::InvalidArgumentError(absl::StrCat("Upstream iterator is producing more than ", kMostElements,
                                                   " items, which is more than the cache limit."));
  }
  for (size_t i = 0; i < element->size(); ++i) {
    WEIR_RETURN_IF_ERROR(writer_->tensors().Add(NameOf(next_, i), (*element)[i]));
  }
  ++next_;
  return true;
}

absl::StatusOr<bool> FileCacheIterator::Read(IteratorContext& context, Element* element) {
  if (reader_->Find(NameOf(next_, 0)) == nullptr) return false;
  element->clear();
  for (size_t i = 0; i < dataset_->signature().types.size(); ++i) {
    WEIR_ASSIGN_OR_RETURN(Tensor tensor, reader_->Read(NameOf(next_, i), context.allocator()));
    element->push_back(std::move(tensor));
  }
  WEIR_RETURN_IF_ERROR(CheckResults(*element, dataset_->signature()));
  ++next_;
  return true;
}

absl::Status FileCacheIterator::Save(IteratorContext& context, PositionWriter& position) {
  WEIR_RETURN_IF_ERROR(Open(context));
  if (writer_ != nullptr && next_ > 0) {
    return absl::UnimplementedError(absl::StrCat("the position of a pass that writes the cache '",
                                                 dataset_->name(), "' cannot be saved"));
  }
  position.Add(next_);
  return absl::OkStatus();
}

absl::Status FileCacheIterator::Restore(IteratorContext&, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(next_, position.NextNumber(0, kMostElements));
  writer_ = nullptr;
  reader_ = nullptr;
  is_over_ = false;
  return absl::OkStatus();
}

class Cache final : public DatasetKernel {
 public:
  explicit Cache(const KernelConstruction& construction)
      : DatasetKernel(construction), files_(FilesOf(construction)) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    WEIR_ASSIGN_OR_RETURN(DatasetPtr input, DatasetInput(context, 0, signature.types));
    const Tensor& name = context.input(1);
    if (name.num_elements() != 1) return absl::InvalidArgumentError("filename must be a scalar");
    if (name.scalar<std::string>().empty())
      return SetDataset<CacheDataset>(context, signature, std::move(input));
    return SetDataset<FileCacheDataset>(context, signature, std::move(input), name.scalar<std::string>(),
                                        files_);
  }

  const std::shared_ptr<FileSystem> files_;
};

}  // namespace

void RegisterCachesKernels(DeviceKernels& kernels) { kernels.Add<Cache>("CacheDataset"); }

}  // namespace weir
