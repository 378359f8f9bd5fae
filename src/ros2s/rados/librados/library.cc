#include "library.h"

#include <dlfcn.h>

namespace ros2s::rados {

Result<Librados> Librados::load(Report& report) {
    constexpr const char* file = "librados.so.2";
    Librados found;
    const char* missing = nullptr;
    if (void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
#define ROS2S_RADOS_FUNCTION(name)                                                         \
    found.name = reinterpret_cast<decltype(found.name)>(::dlsym(library, "rados_" #name)); \
    if (found.name == nullptr && missing == nullptr) missing = "rados_" #name;
        ROS2S_RADOS_FUNCTIONS(ROS2S_RADOS_FUNCTION)
#undef ROS2S_RADOS_FUNCTION
        if (missing == nullptr) return found;
        return report.fail(Code::unsupported,
                           "{} has no function {}: it is older than Ceph 16. Install the librados2 "
                           "of a newer release",
                           file, missing);
    }
    const char* const cause = ::dlerror();
    return report.fail(Code::unsupported,
                       "RADOS needs {}, which cannot be loaded ({}): apt-get install librados2",
                       file, cause == nullptr ? "no reason is known" : cause);
}

}  // namespace ros2s::rados
