// Clusters: which task this process is, the server of a task, and the device setter that puts variables on
// parameter servers.
#pragma once

#include "distributed/cluster_spec.h"
#include "distributed/replica_device_setter.h"
#include "distributed/security.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "distributed/task_name.h"
