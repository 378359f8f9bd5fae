#include "write_cache.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>

#include <fstream>

namespace ros2s::device {

bool has_write_cache(dev_t disk, const std::string& sysfs) {
    const std::string entry = fmt::format("{}/{}:{}", sysfs, major(disk), minor(disk));
    for (const char* place : {"/queue/write_cache", "/../queue/write_cache"}) {  // of a partition
        std::ifstream file(entry + place);
        if (std::string line; std::getline(file, line)) return line != "write through";
    }
    return true;
}

}  // namespace ros2s::device
