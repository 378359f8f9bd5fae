#include "ofi_library.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <span>
#include <system_error>

namespace ros2s::fabric::ofi {
namespace {

constexpr const char* remedy =
    ": install libfabric (Debian, Ubuntu: apt-get install libfabric1), or use provider ucx+tcp";

constexpr size_t settings_count = 12;
std::span<char* const> settings() {
    static std::array<std::string, settings_count> texts{
        // Others would look for their hardware, and start threads.
        "FI_PROVIDER=tcp,verbs,ofi_rxm",
        // Memory is registered for nobody, so nothing is to be remembered; it also keeps libfabric
        // from patching the process's mmap().
        "FI_MR_CACHE_MONITOR=disabled",
        "FI_HMEM=system",
        // Over tcp a frame goes out of our memory as it is and comes in where we want it, in one
        // message; longer ones, which we never send, would be fetched from the sender's memory.
        "FI_OFI_RXM_EAGER_LIMIT=61504",
        // Over verbs a message goes through libfabric's own buffers of this size. It registers
        // 2048 of them for each domain, while the first connection waits.
        "FI_OFI_RXM_BUFFER_SIZE=" + std::to_string(buffer_bytes),
        // What waits for messages belongs to no connection, over verbs neither: libfabric would
        // post it again for one that it had just closed.
        "FI_OFI_RXM_USE_SRX=1",
        // A queue of completions has room for all that so many connections can have under way.
        // Soft-RoCE's has 32767 entries; libfabric's defaults need more.
        "FI_UNIVERSE_SIZE=100",
        "FI_OFI_RXM_MSG_TX_SIZE=64",
        "FI_OFI_RXM_MSG_RX_SIZE=1024",
        // Libraries of PSM, with which Debian's is linked: no handlers of signals, SIGTERM among
        // them.
        "IPATH_NO_BACKTRACE=1",
        "HFI_NO_BACKTRACE=1",
        // Microseconds between two looks at connections that come and go.
        "FI_OFI_RXM_CM_PROGRESS_INTERVAL=1000",
    };
    static const std::array<char*, settings_count> all = [] {
        std::array<char*, settings_count> pointers{};
        for (size_t i = 0; i < texts.size(); ++i) pointers[i] = texts[i].data();
        return pointers;
    }();
    return all;
}

void* open_quietly(const char* name) {
    static std::vector<char*> entries;  // for a getenv() of another thread: never freed
    entries.clear();
    const Settings ours(entries);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

std::string file_of(const void* function) {
    Dl_info where{};
    if (dladdr(function, &where) == 0 || where.dli_fname == nullptr) return "";
    std::error_code none;
    const auto file = std::filesystem::canonical(where.dli_fname, none);
    return none ? where.dli_fname : file.string();
}

std::string text_of(uint32_t version) {
    return std::to_string(FI_MAJOR(version)) + "." + std::to_string(FI_MINOR(version));
}

}  // namespace

Settings::Settings(std::vector<char*>& entries) : plain_("FI_", entries, settings()) {}

Result<OfiLibrary> load_ofi_library(const char* name, Report& report) {
    OfiLibrary library;
    library.handle = open_quietly(name);
    if (library.handle == nullptr) {
        const char* reason = dlerror();
        return report.fail(Code::unsupported, std::string("libfabric cannot be loaded (") +
                                                  (reason != nullptr ? reason : name) + ")" +
                                                  remedy);
    }
    const char* missing = nullptr;
#define ROS2S_OFI_LOOK_UP(function)                                                               \
    library.function = reinterpret_cast<decltype(&::function)>(dlsym(library.handle, #function)); \
    if (library.function == nullptr && missing == nullptr) missing = #function;
    ROS2S_OFI_FUNCTIONS(ROS2S_OFI_LOOK_UP)
#undef ROS2S_OFI_LOOK_UP
    if (missing != nullptr) {
        return report.fail(
            Code::unsupported,
            std::string(name) + " is no libfabric that fits: it has no " + missing + remedy);
    }
    library.path = file_of(reinterpret_cast<const void*>(library.fi_version));
    const uint32_t version = library.fi_version();
    library.version = text_of(version);
    if (FI_MAJOR(version) != FI_MAJOR(api_version) || version < api_version) {
        return report.fail(Code::unsupported, library.path + " is libfabric " + library.version +
                                                  " where " + text_of(api_version) +
                                                  " or a later 1.x is needed" + remedy);
    }
    return library;
}

Result<const OfiLibrary*> ofi_library(Report& report) {
    struct Outcome {
        Report report;
        Result<OfiLibrary> library = load_ofi_library("libfabric.so.1", report);
    };
    static const Outcome outcome;
    if (!outcome.library) return report.fail(outcome.library.error(), outcome.report.text());
    return &*outcome.library;
}

}  // namespace ros2s::fabric::ofi
