// libfuse's low-level interface, at the version whose behaviour this program was written against.
#pragma once
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
