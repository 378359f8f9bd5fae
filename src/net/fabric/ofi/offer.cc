#include "offer.h"

namespace ros2s::fabric::ofi {
namespace {

Error error_of(int status) {
    switch (-status) {
        case FI_ENOMEM: return {Code::no_memory, 0, 0};
        case FI_ENODATA:
        case FI_ENOSYS: return {Code::unsupported, 0, 0};
        default: return {Code::io, 0, 0};
    }
}

// The offer of the device itself: tcp offers all devices. A device has one address for each
// protocol: takes the first IPv4 one, else the first.
fi_info* choose(fi_info* found, const std::string& domain) {
    fi_info* chosen = nullptr;
    for (fi_info* each = found; each != nullptr; each = each->next) {
        if (each->domain_attr->name != domain) continue;
        if (each->addr_format == FI_SOCKADDR_IN) return each;
        if (chosen == nullptr) chosen = each;
    }
    return chosen;
}

}  // namespace

Info make_hints(const OfiLibrary& ofi) {
    return {ofi.fi_dupinfo(nullptr), [&ofi](fi_info* info) { ofi.fi_freeinfo(info); }};
}

int find_offer(const OfiLibrary& ofi, Info hints, const Choice& choice, Info& offer) {
    std::string provider = choice.provider;
    std::string domain = choice.domain;
    hints->fabric_attr->prov_name = provider.data();
    hints->domain_attr->name = domain.data();
    fi_info* found = nullptr;
    const int status = ofi.fi_getinfo(api_version, nullptr, nullptr, 0, hints.get(), &found);
    // We own the names.
    hints->fabric_attr->prov_name = nullptr;
    hints->domain_attr->name = nullptr;
    if (status != 0) return status;
    const Info owned(found, [&ofi](fi_info* info) { ofi.fi_freeinfo(info); });
    const fi_info* const chosen = choose(found, choice.domain);
    if (chosen == nullptr) return -FI_ENODATA;
    offer = {ofi.fi_dupinfo(chosen), owned.get_deleter()};
    return offer ? 0 : -FI_ENOMEM;
}

std::unexpected<Error> cannot_open(const OfiLibrary& ofi, const Options& options, int status,
                                   Report& report) {
    return report.fail(
        error_of(status),
        "provider " + options.provider + " cannot be opened on device " + options.device +
            ": libfabric reports '" + ofi.fi_strerror(-status) +
            "': check that the device is up and has an IP address, or name another as device=");
}

}  // namespace ros2s::fabric::ofi
