#include "library.h"

#include "ros2s/base/loaded_library.h"

namespace ros2s::rados {

Result<Librados> Librados::load(Report& report) {
    constexpr const char* file = "librados.so.2";
    LoadedLibrary library;
    ROS2S_TRY(open_library(file,
                           {"RADOS needs librados.so.2, which", ": apt-get install librados2"},
                           library, report));
    Librados found;
#define ROS2S_RADOS_FUNCTION(name) library.look_up(found.name, "rados_" #name);
    ROS2S_RADOS_FUNCTIONS(ROS2S_RADOS_FUNCTION)
#undef ROS2S_RADOS_FUNCTION
    if (library.missing == nullptr) return found;
    return report.fail(Code::unsupported,
                       "{} has no function {}: it is older than Ceph 16. Install the librados2 "
                       "of a newer release",
                       file, library.missing);
}

}  // namespace ros2s::rados
