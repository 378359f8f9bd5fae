// What libfabric offers on a device, and how its objects are held.
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

using Info = std::unique_ptr<fi_info, std::function<void(fi_info*)>>;

// Empty hints; none where there is no memory.
[[nodiscard]] Info make_hints(const OfiLibrary& ofi);
// What fits the hints on the choice's device, with an IPv4 address where it has one. A status of
// libfabric; while Settings exist.
[[nodiscard]] int find_offer(const OfiLibrary& ofi, Info hints, const Choice& choice, Info& offer);

// Of a status that something could not be opened with.
[[nodiscard]] std::unexpected<Error> cannot_open(const OfiLibrary& ofi, const Options& options,
                                                 int status, Report& report);

}  // namespace ros2s::fabric::ofi
