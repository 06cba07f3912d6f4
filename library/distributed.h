// Clusters: which task this process is, the server of a task, the device setter that puts variables on
// parameter servers, what each task does in a job that trains and evaluates, and training without parameter
// servers: in Horovod's way, and on several devices of each process.
#pragma once

#include "distributed/cluster_spec.h"
#include "distributed/horovod.h"
#include "distributed/mirrored_strategy.h"
#include "distributed/replica_device_setter.h"
#include "distributed/security.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "distributed/task_name.h"
#include "distributed/train_and_evaluate.h"
