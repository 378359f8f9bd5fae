// This header finds what libfabric offers on a device. It also has the owners of libfabric's
// objects.
#pragma once
#include <rdma/fabric.h>

#include <functional>
#include <memory>

#include "ofi_library.h"
#include "selection.h"

namespace ros2s::fabric::ofi {

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
