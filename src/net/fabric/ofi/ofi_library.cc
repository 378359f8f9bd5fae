#include "ofi_library.h"

#include <array>
#include <span>

namespace ros2s::fabric::ofi {
namespace {

constexpr LibraryWords words{
    "libfabric",
    ": install libfabric (Debian, Ubuntu: apt-get install libfabric1), or use provider ucx+tcp",
    "libfabric"};

std::span<std::string> settings() {
    static std::array<std::string, 12> all{
        // Other providers would look for their hardware, and start threads.
        "FI_PROVIDER=tcp,verbs,ofi_rxm",
        // We register no memory for one-sided use, so no registration needs caching. This also
        // keeps libfabric from patching the process's mmap().
        "FI_MR_CACHE_MONITOR=disabled",
        "FI_HMEM=system",
        // Over tcp a frame is sent from our memory and received into our memory, in one message.
        // Longer messages, which we never send, would be fetched from the sender's memory.
        "FI_OFI_RXM_EAGER_LIMIT=61504",
        // Over verbs a message goes through libfabric's own buffers of this size. It registers 2048
        // of them for each domain, while the first connection waits.
        "FI_OFI_RXM_BUFFER_SIZE=" + std::to_string(buffer_bytes),
        // Receive buffers belong to no connection, also over verbs. Otherwise libfabric would post
        // them again for a connection that it had just closed.
        "FI_OFI_RXM_USE_SRX=1",
        // A queue of completions has room for everything that this many connections can have in
        // progress. Soft-RoCE's has 32767 entries; libfabric's defaults need more.
        "FI_UNIVERSE_SIZE=100",
        "FI_OFI_RXM_MSG_TX_SIZE=64",
        "FI_OFI_RXM_MSG_RX_SIZE=1024",
        // For libraries of PSM, which Debian's libfabric links: no signal handlers, for SIGTERM
        // among others.
        "IPATH_NO_BACKTRACE=1",
        "HFI_NO_BACKTRACE=1",
        // Microseconds between two looks at new and ended connections.
        "FI_OFI_RXM_CM_PROGRESS_INTERVAL=1000",
    };
    return all;
}

Result<> open_quietly(const char* name, OfiLibrary& library, Report& report) {
    static std::vector<char*> entries;  // for a getenv() of another thread: never freed
    entries.clear();
    const Settings ours(entries);
    return open_library(name, words, library, report);
}

std::string text_of(uint32_t version) {
    return std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
}

}  // namespace

Settings::Settings(std::vector<char*>& entries) : plain_("FI_", entries, settings()) {}

Result<OfiLibrary> load_ofi_library(const char* name, Report& report) {
    OfiLibrary library;
    ROS2S_TRY(open_quietly(name, library, report));
#define ROS2S_OFI_LOOK_UP(function) library.look_up(library.function, #function);
    ROS2S_OFI_FUNCTIONS(ROS2S_OFI_LOOK_UP)
#undef ROS2S_OFI_LOOK_UP
    ROS2S_TRY(check_functions(name, words, library, report));
    const uint32_t version = library.fi_version();
    library.version = text_of(version);
    if (FI_MAJOR(version) != FI_MAJOR(api_version) || version < api_version) {
        return report.fail(Code::unsupported, library.path + " is libfabric " + library.version +
                                                  " where " + text_of(api_version) +
                                                  " or a later 1.x is needed" +
                                                  std::string(words.remedy));
    }
    return library;
}

Result<const OfiLibrary*> ofi_library(Report& report) {
    return load_once<load_ofi_library>("libfabric.so.1", report);
}

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
