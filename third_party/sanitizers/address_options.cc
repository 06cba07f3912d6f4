// What AddressSanitizer and LeakSanitizer (bazel test --config=asan) are told.

// Tests ask for more memory than there is, and expect that they do not get it.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

// Found in libraries and not in us.
extern "C" const char* __lsan_default_suppressions() {
  // gRPC 1.51 drops what it has read of a connection whose TLS handshake fails (a grpc_slice_buffer that has
  // grown, of 576 bytes) without freeing it. The unwinder sees no further than this function; our code calls
  // nothing that grows slice buffers.
  return "leak:gpr_realloc\n";
}
