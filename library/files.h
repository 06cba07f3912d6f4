// TensorFlow's files: checkpoints (TensorBundle V2 and the file `checkpoint`), event files and summaries,
// TFRecord; and idx, the format of MNIST.
#pragma once

#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/event_file.h"
#include "kernels/formats/idx.h"
#include "kernels/formats/record_io.h"
