#include "ucx_library.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "ros2s/fabric/lanes/plain_environment.h"

namespace ros2s::fabric::ucx {
namespace {

constexpr const char* remedy =
    ": install UCX (Debian, Ubuntu: apt-get install libucx0), or use provider shm on one machine";

// What UCX's start would otherwise do to the whole process: handlers of crashes that print a
// backtrace, one of SIGHUP that makes it talk, a log, and new code over the beginnings of libc's
// mmap(), munmap(), brk() and their like.
constexpr size_t settings_count = 4;
std::array<std::string, settings_count>& settings() {
    static std::array<std::string, settings_count> all{
        "UCX_HANDLE_ERRORS=none", "UCX_DEBUG_SIGNO=0", "UCX_LOG_LEVEL=fatal", "UCX_MEM_EVENTS=no"};
    return all;
}

void* open_quietly(const char* name) {
    static std::vector<char*> entries;  // for a getenv() of another thread: never freed
    std::array<char*, settings_count> ours{};
    for (size_t i = 0; i < ours.size(); ++i) ours[i] = settings()[i].data();
    entries.clear();
    const lanes::PlainEnvironment plain("UCX_", entries, ours);
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

// UCX does what a file of this name in the current directory says, up to the folder from which it
// loads more code.
Result<> check_current_directory(Report& report) {
    struct stat facts{};
    if (stat("ucx.conf", &facts) != 0 || facts.st_uid == 0 || facts.st_uid == geteuid()) return {};
    return report.fail(Code::denied, "ucx.conf in the current directory belongs to user " +
                                         std::to_string(facts.st_uid) +
                                         ", and UCX would do what it says: start in another "
                                         "directory, or remove that file");
}

std::string file_of(const void* function) {
    Dl_info where{};
    if (dladdr(function, &where) == 0 || where.dli_fname == nullptr) return "";
    std::error_code none;
    const auto file = std::filesystem::canonical(where.dli_fname, none);
    return none ? where.dli_fname : file.string();
}

}  // namespace

void* UcxLibrary::find(const char* name) const noexcept { return dlsym(handle, name); }

Result<UcxLibrary> load_ucx_library(const char* name, Report& report) {
    ROS2S_TRY(check_current_directory(report));
    UcxLibrary library;
    library.handle = open_quietly(name);
    if (library.handle == nullptr) {
        const char* reason = dlerror();
        return report.fail(Code::unsupported, std::string("the library of UCX cannot be loaded (") +
                                                  (reason != nullptr ? reason : name) + ")" +
                                                  remedy);
    }
    const char* missing = nullptr;
#define ROS2S_UCX_LOOK_UP(function)                                                           \
    library.function = reinterpret_cast<decltype(library.function)>(library.find(#function)); \
    if (library.function == nullptr && missing == nullptr) missing = #function;
    ROS2S_UCX_FUNCTIONS(ROS2S_UCX_LOOK_UP)
#undef ROS2S_UCX_LOOK_UP
    if (missing != nullptr) {
        return report.fail(
            Code::unsupported,
            std::string(name) + " is no library of UCX that fits: it has no " + missing + remedy);
    }
    library.path = file_of(reinterpret_cast<const void*>(library.ucp_get_version_string));
    library.version = library.ucp_get_version_string();
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    library.ucp_get_version(&major, &minor, &release);
    // Newer ones of the same major version keep what older ones have.
    if (major != UCP_API_MAJOR || minor < UCP_API_MINOR) {
        return report.fail(Code::unsupported, library.path + " is UCX " + library.version +
                                                  " where " + std::to_string(UCP_API_MAJOR) + "." +
                                                  std::to_string(UCP_API_MINOR) + " or a later " +
                                                  std::to_string(UCP_API_MAJOR) + ".x is needed" +
                                                  remedy);
    }
    return library;
}

Result<const UcxLibrary*> ucx_library(Report& report) {
    struct Outcome {
        Report report;
        Result<UcxLibrary> library = load_ucx_library("libucp.so.0", report);
    };
    static const Outcome outcome;
    if (!outcome.library) return report.fail(outcome.library.error(), outcome.report.text());
    return &*outcome.library;
}

}  // namespace ros2s::fabric::ucx
