// OfiLibrary: the functions of libfabric that we call by name; all others are reached through the
// objects that these make. They are looked up when the first domain is opened, once in a process,
// and stay until it ends.
#pragma once
#include <rdma/fabric.h>

#include <vector>

#include "ros2s/fabric/lanes/loaded_library.h"
#include "ros2s/fabric/lanes/plain_environment.h"

namespace ros2s::fabric::ofi {

#define ROS2S_OFI_FUNCTIONS(EACH) \
    EACH(fi_dupinfo)              \
    EACH(fi_fabric)               \
    EACH(fi_freeinfo)             \
    EACH(fi_getinfo)              \
    EACH(fi_strerror)             \
    EACH(fi_version)

// What we were built for: newer ones keep to it.
inline constexpr uint32_t api_version = FI_VERSION(1, 15);

// Of libfabric's own buffers over verbs. What is longer it would send in pieces, and where a
// connection ends between two of them, closing the endpoint does not return (to 1.22:
// rxm_close_conn() takes the message off another list than the one that it empties).
inline constexpr size_t buffer_bytes = 16384;

struct OfiLibrary : lanes::LoadedLibrary {
#define ROS2S_OFI_MEMBER(name) decltype(&::name) name = nullptr;
    ROS2S_OFI_FUNCTIONS(ROS2S_OFI_MEMBER)
#undef ROS2S_OFI_MEMBER
};

// While one exists, the process's environment has our settings of libfabric and no others of it:
// it reads them when it is loaded and when something is opened.
class Settings {
  public:
    // `entries` become the environment's, and outlive this for long (see PlainEnvironment).
    explicit Settings(std::vector<char*>& entries);

  private:
    lanes::PlainEnvironment plain_;
};

// The one of this process: the first call loads it, from any thread, and its outcome is that of all
// later ones. Errors: unsupported (not installed, or too old); the report says what to do.
[[nodiscard]] Result<const OfiLibrary*> ofi_library(Report& report);

// Loads the library of this name, which is looked for as the dynamic linker does. Once in a
// process: ofi_library() is for everybody but its test.
[[nodiscard]] Result<OfiLibrary> load_ofi_library(const char* name, Report& report);

}  // namespace ros2s::fabric::ofi
