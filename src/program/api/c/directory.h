// An open directory of the C ABI.
#pragma once
#include <string>
#include <vector>

#include "handles.h"

struct ros2s_dir {
    ros2s_fs& fs;
    ros2s::fs::FileHandle handle{};
    ros2s::fs::NodeId node{};
    std::string path;
    std::vector<ros2s::fs::DirectoryEntry> batch;  // the result of the last readdir
    size_t next = 0;                               // in it
    uint64_t cookie = 0;
    bool at_end = false;
};
