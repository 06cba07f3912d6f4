// Early returns for absl::Status and absl::StatusOr: the only control-flow macros of the project.
//
//   WEIR_RETURN_IF_ERROR(graph.Validate());
//   WEIR_ASSIGN_OR_RETURN(Tensor tensor, ReadTensor(path));
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define WEIR_RETURN_IF_ERROR(expression)                                                \
  do {                                                                                  \
    if (absl::Status weir_status = (expression); !weir_status.ok()) return weir_status; \
  } while (false)

#define WEIR_CONCAT_INNER_(a, b) a##b
#define WEIR_CONCAT_(a, b) WEIR_CONCAT_INNER_(a, b)

#define WEIR_ASSIGN_OR_RETURN(declaration, expression) \
  WEIR_ASSIGN_OR_RETURN_(WEIR_CONCAT_(weir_status_or_, __LINE__), declaration, expression)
#define WEIR_ASSIGN_OR_RETURN_(holder, declaration, expression) \
  auto holder = (expression);                                   \
  if (!holder.ok()) return std::move(holder).status();          \
  declaration = *std::move(holder)
