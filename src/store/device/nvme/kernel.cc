#include "kernel.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "ros2s/base/check.h"

namespace ros2s::device {
namespace {

// Also parses a package's version, with its epoch: "1:6.1.63-1".
KernelVersion parse(const std::string& text) {
    const size_t epoch = text.find_first_not_of("0123456789");
    const size_t begin = epoch != std::string::npos && text[epoch] == ':' ? epoch + 1 : 0;
    KernelVersion version;
    if (std::sscanf(text.c_str() + begin, "%d.%d.%d", &version.major, &version.minor,
                    &version.patch) < 2) {
        return {};
    }
    return version;
}

}  // namespace

KernelVersion KernelVersion::read(const std::string& release, const std::string& version,
                                  const std::string& signature) {
    const KernelVersion named = parse(release);
    const size_t debian = version.find("Debian ");
    const size_t last_word = signature.find_last_of(' ');
    for (const std::string& text :
         {debian == std::string::npos ? "" : version.substr(debian + 7),
          last_word == std::string::npos ? "" : signature.substr(last_word + 1)}) {
        const KernelVersion upstream = parse(text);
        if (upstream.major == named.major && upstream.minor == named.minor) {
            return std::max(named, upstream);
        }
    }
    return named;
}

KernelVersion KernelVersion::running() {
    utsname kernel{};
    ROS2S_CHECK(uname(&kernel) == 0);
    std::string signature;
    std::getline(std::ifstream("/proc/version_signature"), signature);
    return read(kernel.release, kernel.version, signature);
}

std::string KernelVersion::to_string() const {
    return fmt::format("{}.{}.{}", major, minor, patch);
}

bool KernelVersion::reports_dropped_commands() const noexcept {
    for (const KernelVersion& mended : {KernelVersion{6, 1, 63}, {6, 5, 12}, {6, 6, 2}}) {
        if (major == mended.major && minor == mended.minor) return *this >= mended;
    }
    return *this >= KernelVersion{6, 7, 0};
}

bool KernelVersion::polls_by_request() const noexcept { return *this >= KernelVersion{6, 4, 0}; }

bool KernelVersion::takes_parts_of_registered() const noexcept {
    return *this >= KernelVersion{6, 12, 0};
}

}  // namespace ros2s::device
