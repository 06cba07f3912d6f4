// Intrusive reference counting for what is shared across threads and steps: buffers and resources.
//
// Thread safety: Ref and Unref may be called from any thread. A RefPtr itself is not safe to modify
// concurrently.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace weir {

class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void Ref() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() const {
    // A sole owner needs no atomic subtraction: nobody else can add a reference.
    if (has_one_owner() || count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const_cast<RefCounted*>(this)->Release();
    }
  }
  // True when the caller's reference is the only one; then nobody else can observe a change.
  bool has_one_owner() const { return count_.load(std::memory_order_acquire) == 1; }

 protected:
  RefCounted() = default;
  virtual ~RefCounted() = default;
  // Called once, when the last reference goes. Pools override this to keep the object.
  virtual void Release() { delete this; }
  // For pools that hand an object out again after Release.
  void ResetCount() { count_.store(1, std::memory_order_relaxed); }

 private:
  mutable std::atomic<int32_t> count_{1};
};

// Owns one reference. `RefPtr(p)` adopts the reference that `new` gave; `RefPtr::Share(p)` adds one.
template <typename T>
class RefPtr {
 public:
  RefPtr() = default;
  RefPtr(std::nullptr_t) {}
  explicit RefPtr(T* adopted) : pointer_(adopted) {}
  static RefPtr Share(T* pointer) {
    if (pointer != nullptr) pointer->Ref();
    return RefPtr(pointer);
  }
  RefPtr(const RefPtr& other) : pointer_(other.pointer_) {
    if (pointer_ != nullptr) pointer_->Ref();
  }
  RefPtr(RefPtr&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  template <typename U>
  RefPtr(RefPtr<U> other) : pointer_(other.release()) {}
  RefPtr& operator=(RefPtr other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~RefPtr() {
    if (pointer_ != nullptr) pointer_->Unref();
  }

  T* get() const { return pointer_; }
  T* release() { return std::exchange(pointer_, nullptr); }
  T* operator->() const { return pointer_; }
  T& operator*() const { return *pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }
  bool operator==(std::nullptr_t) const { return pointer_ == nullptr; }

 private:
  T* pointer_ = nullptr;
};

template <typename T, typename... Args>
RefPtr<T> MakeRef(Args&&... args) {
  return RefPtr<T>(new T(std::forward<Args>(args)...));
}

}  // namespace weir
