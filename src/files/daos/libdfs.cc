#include "libdfs.h"

#include <fmt/format.h>

#include "ros2s/base/loaded_library.h"

namespace ros2s::daos {
namespace {

// A name may be a macro: its expansion is the symbol.
#define ROS2S_DAOS_SYMBOL_(name) #name
#define ROS2S_DAOS_SYMBOL(name) ROS2S_DAOS_SYMBOL_(name)

constexpr const char* remedy =
    ". Install the client libraries of DAOS 2.6 (docs/daos.md), and set LD_LIBRARY_PATH if they "
    "are in no directory of the loader's";

}  // namespace

Result<Libdfs> Libdfs::load(const std::string& file, Report& report) {
    const auto no = [&](std::string_view why) {
        return report.fail(Code::unsupported, "DAOS needs the library {}, {}{}", file, why, remedy);
    };
    // Functions of libdaos are found too, because libdfs is linked with it.
    LoadedLibrary library;
    const std::string named = fmt::format("DAOS needs the library {}, which", file);
    ROS2S_TRY(open_library(file.c_str(), {named, remedy}, library, report));
    Libdfs found;
#define ROS2S_DAOS_FUNCTION(name) library.look_up(found.name, ROS2S_DAOS_SYMBOL(name));
    ROS2S_DAOS_FUNCTIONS(ROS2S_DAOS_FUNCTION)
#undef ROS2S_DAOS_FUNCTION
    if (library.missing != nullptr) {
        return no(fmt::format("and this one has no function {}", library.missing));
    }
    int major = 0, minor = 0, fix = 0;
    if (found.daos_version_get(&major, &minor, &fix) != 0 || major != DAOS_API_VERSION_MAJOR ||
        minor != DAOS_API_VERSION_MINOR) {
        return no(fmt::format("with the interface {}.{}, and this one has {}.{}.{}",
                              DAOS_API_VERSION_MAJOR, DAOS_API_VERSION_MINOR, major, minor, fix));
    }
    return found;
}

namespace {

// The names and numbers are in daos_errno.h.
struct DaosError {
    int number;
    const char* text;
};
#define ROS2S_DAOS_ERROR(name, text) {name, text},
constexpr DaosError daos_errors[] = {ROS2S_DAOS_ERRORS_1000(ROS2S_DAOS_ERROR)
                                         ROS2S_DAOS_ERRORS_2000(ROS2S_DAOS_ERROR)};
#undef ROS2S_DAOS_ERROR

}  // namespace

std::string describe_der(int rc) {
    for (const DaosError& one : daos_errors) {
        if (one.number == -rc) return fmt::format("{} (DAOS error {})", one.text, rc);
    }
    return fmt::format("DAOS error {}", rc);
}

Result<> checked_der(int rc) {
    switch (-rc) {
        case 0: return {};
        case DER_NONEXIST: return fail(Code::not_found);
        case DER_NO_PERM: return fail(Code::denied);
        case DER_INVAL: return fail(Code::invalid);
        case DER_NOSPACE: return fail(Code::no_space);
        case DER_NOMEM: return fail(Code::no_memory);
        case DER_BUSY: return fail(Code::busy);
        case DER_TIMEDOUT: return fail(Code::deadline);
        case DER_UNREACH: return fail(Code::disconnected);
        default: return fail(Code::io);
    }
}

}  // namespace ros2s::daos
