// OfiLibrary: the functions of libfabric that we call by name. All others are reached through the
// objects that these make. They are looked up once in a process, when the first domain is opened,
// and stay until the process ends.
#pragma once
#include <rdma/fabric.h>

#include <functional>
#include <memory>
#include <vector>

#include "ros2s/base/loaded_library.h"
#include "ros2s/fabric/lanes/plain_environment.h"
#include "selection.h"

namespace ros2s::fabric::ofi {

#define ROS2S_OFI_FUNCTIONS(EACH) \
    EACH(fi_dupinfo)              \
    EACH(fi_fabric)               \
    EACH(fi_freeinfo)             \
    EACH(fi_getinfo)              \
    EACH(fi_strerror)             \
    EACH(fi_version)

// The version that we are built for. Newer ones are compatible with it.
inline constexpr uint32_t api_version = FI_VERSION(1, 15);

// libfabric's own buffers over verbs. It would send longer messages in pieces. If a connection ends
// between two pieces, closing the endpoint does not return (up to 1.22: rxm_close_conn() removes
// the message from another list than the one that it empties).
inline constexpr size_t buffer_bytes = 16384;

struct OfiLibrary : LoadedLibrary {
#define ROS2S_OFI_MEMBER(name) decltype(&::name) name = nullptr;
    ROS2S_OFI_FUNCTIONS(ROS2S_OFI_MEMBER)
#undef ROS2S_OFI_MEMBER
};

// While one exists, the process's environment has our settings of libfabric and no others:
// libfabric reads them when it is loaded and when one of its objects is opened.
class Settings {
  public:
    // `entries` become the environment's, and must outlive this object by far (see
    // PlainEnvironment).
    explicit Settings(std::vector<char*>& entries);

  private:
    lanes::PlainEnvironment plain_;
};

// The library of this process. The first call loads it, from any thread. All later calls have the
// same result. Errors: unsupported (not installed, or too old); the report says what to do.
[[nodiscard]] Result<const OfiLibrary*> ofi_library(Report& report);

// Loads the library of this name. Searches as the dynamic linker does. Called once in a process:
// all code but its test calls ofi_library().
[[nodiscard]] Result<OfiLibrary> load_ofi_library(const char* name, Report& report);

// This header finds what libfabric offers on a device. It also has the owners of libfabric's
// objects.
struct Closer {
    template <class Object>
    void operator()(Object* object) const noexcept {
        fi_close(&object->fid);
    }
};
template <class Object>
using Handle = std::unique_ptr<Object, Closer>;
// Calls a function of libfabric that makes an object. Returns its status.
template <class Object, class... Arguments>
int make(Handle<Object>& into, auto maker, Arguments... arguments) {
    Object* made = nullptr;
    const int status = maker(arguments..., &made, nullptr);
    if (status == 0) into.reset(made);
    return status;
}

using Info = std::unique_ptr<fi_info, std::function<void(fi_info*)>>;

// Empty hints; null if there is no memory.
[[nodiscard]] Info make_hints(const OfiLibrary& ofi);
// The offer that fits the hints on the choice's device, with an IPv4 address if the device has one.
// Returns a status of libfabric. Called while Settings exist.
[[nodiscard]] int find_offer(const OfiLibrary& ofi, Info hints, const Choice& choice, Info& offer);

// For the status of a failed opening.
[[nodiscard]] std::unexpected<Error> cannot_open(const OfiLibrary& ofi, const Options& options,
                                                 int status, Report& report);

}  // namespace ros2s::fabric::ofi
