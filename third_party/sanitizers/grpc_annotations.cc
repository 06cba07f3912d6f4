// Makes gRPC's completion queues visible to ThreadSanitizer (bazel test --config=tsan).
//
// gRPC is linked as a shared library that was compiled without the sanitizer; what its own code does is left
// out of the accounts (called_from_lib, see thread_annotations.cc). What must not be lost is that whatever
// the starter of an operation did comes before whatever is done by the thread that takes its completion from
// the queue. These four functions stand in front of those of the library's C core, through which the C++
// library goes too.
#include <dlfcn.h>
#include <grpc/grpc.h>

extern "C" {

void __tsan_acquire(void* address);
void __tsan_release(void* address);

}  // extern "C"

namespace {

template <typename Function>
Function Behind(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t num_ops, void* tag,
                                      void* reserved) {
  static const auto behind = Behind(&grpc_call_start_batch, "grpc_call_start_batch");
  __tsan_release(tag);
  return behind(call, ops, num_ops, tag, reserved);
}

grpc_call_error grpc_server_request_call(grpc_server* server, grpc_call** call, grpc_call_details* details,
                                         grpc_metadata_array* metadata, grpc_completion_queue* bound,
                                         grpc_completion_queue* notified, void* tag) {
  static const auto behind = Behind(&grpc_server_request_call, "grpc_server_request_call");
  __tsan_release(tag);
  return behind(server, call, details, metadata, bound, notified, tag);
}

grpc_call_error grpc_server_request_registered_call(grpc_server* server, void* method, grpc_call** call,
                                                    gpr_timespec* deadline, grpc_metadata_array* metadata,
                                                    grpc_byte_buffer** payload, grpc_completion_queue* bound,
                                                    grpc_completion_queue* notified, void* tag) {
  static const auto behind =
      Behind(&grpc_server_request_registered_call, "grpc_server_request_registered_call");
  __tsan_release(tag);
  return behind(server, method, call, deadline, metadata, payload, bound, notified, tag);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline, void* reserved) {
  static const auto behind = Behind(&grpc_completion_queue_next, "grpc_completion_queue_next");
  const grpc_event event = behind(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

}  // extern "C"
