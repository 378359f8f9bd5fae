#include "ucx_library.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "ros2s/fabric/lanes/plain_environment.h"

namespace ros2s::fabric::ucx {
namespace {

constexpr LibraryWords words{
    "the library of UCX",
    ": install UCX (Debian, Ubuntu: apt-get install libucx0), or use provider shm on one machine",
    "library of UCX"};

// Prevents the effects of UCX's start on the whole process: crash handlers that print a backtrace,
// a handler of SIGHUP that enables its messages, a log, and patches of libc's mmap(), munmap(),
// brk() and the like.
Result<> open_quietly(const char* name, UcxLibrary& library, Report& report) {
    static std::array<std::string, 4> settings{"UCX_HANDLE_ERRORS=none", "UCX_DEBUG_SIGNO=0",
                                               "UCX_LOG_LEVEL=fatal", "UCX_MEM_EVENTS=no"};
    static std::vector<char*> entries;  // for a getenv() of another thread: never freed
    entries.clear();
    const lanes::PlainEnvironment plain("UCX_", entries, settings);
    return open_library(name, words, library, report);
}

// UCX reads settings from a file of this name in the current directory, including the folder from
// which it loads more code.
Result<> check_current_directory(Report& report) {
    struct stat facts{};
    if (stat("ucx.conf", &facts) != 0 || facts.st_uid == 0 || facts.st_uid == geteuid()) return {};
    return report.fail(Code::denied, "ucx.conf in the current directory belongs to user " +
                                         std::to_string(facts.st_uid) +
                                         ", and UCX would follow it: start in another "
                                         "directory, or remove that file");
}

}  // namespace

Result<UcxLibrary> load_ucx_library(const char* name, Report& report) {
    ROS2S_TRY(check_current_directory(report));
    UcxLibrary library;
    ROS2S_TRY(open_quietly(name, library, report));
#define ROS2S_UCX_LOOK_UP(function) library.look_up(library.function, #function);
    ROS2S_UCX_FUNCTIONS(ROS2S_UCX_LOOK_UP)
#undef ROS2S_UCX_LOOK_UP
    ROS2S_TRY(check_functions(name, words, library, report));
    library.version = library.ucp_get_version_string();
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    library.ucp_get_version(&major, &minor, &release);
    // Newer versions of the same major version have all functions of older ones.
    if (major != UCP_API_MAJOR || minor < UCP_API_MINOR) {
        return report.fail(Code::unsupported, library.path + " is UCX " + library.version +
                                                  " where " + std::to_string(UCP_API_MAJOR) + "." +
                                                  std::to_string(UCP_API_MINOR) + " or a later " +
                                                  std::to_string(UCP_API_MAJOR) + ".x is needed" +
                                                  std::string(words.remedy));
    }
    return library;
}

Result<const UcxLibrary*> ucx_library(Report& report) {
    return load_once<load_ucx_library>("libucp.so.0", report);
}

}  // namespace ros2s::fabric::ucx
