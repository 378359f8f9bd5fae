#include "strike.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <optional>
#include <sstream>

#include "daemon_process.h"

namespace ros2s::tests {
namespace {

#if defined(__x86_64__)
constexpr std::array<unsigned char, 1> breakpoint{0xcc};  // int3
#elif defined(__aarch64__)
constexpr std::array<unsigned char, 4> breakpoint{0x00, 0x00, 0x20, 0xd4};  // brk 0
#endif

// "ros2s::remote::encode_commit" as "_ZN5ros2s6remote13encode_commitE".
std::string mangled(const std::string& function) {
    std::string text = "_ZN";
    for (size_t at = 0; at <= function.size();) {
        const size_t end = std::min(function.find("::", at), function.size());
        text += fmt::format("{}{}", end - at, function.substr(at, end - at));
        at = end + 2;
    }
    return text + "E";
}

// The offset in the file's image. Names of the parts of a coroutine contain a dot.
std::optional<uint64_t> offset_of(const std::string& program, const std::string& function) {
    std::string said;
    EXPECT_EQ(run_program(fmt::format("nm '{}'", program), said), 0) << said;
    std::istringstream lines(said);
    const std::string begin = mangled(function);
    std::string address, type, name;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        if (words >> address >> type >> name && name.starts_with(begin) &&
            name.find('.') == std::string::npos) {
            return std::stoull(address, nullptr, 16);
        }
    }
    return std::nullopt;
}

std::optional<uint64_t> image_of(int pid, const std::string& program) {
    std::ifstream maps(fmt::format("/proc/{}/maps", pid));
    for (std::string line; std::getline(maps, line);) {
        if (line.ends_with(program)) return std::stoull(line, nullptr, 16);
    }
    return std::nullopt;
}

}  // namespace

void strike_at(int pid, const std::string& program, const std::string& function) {
    const auto offset = offset_of(program, function);
    const auto image = image_of(pid, program);
    ASSERT_TRUE(offset) << program << " has no symbol of " << function;
    ASSERT_TRUE(image) << "process " << pid << " does not run " << program;
    const rlimit none{};
    EXPECT_EQ(::prlimit(pid, RLIMIT_CORE, &none, nullptr), 0);
    const int memory = ::open(fmt::format("/proc/{}/mem", pid).c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(memory, 0) << "this process may not write to the memory of its child";
    EXPECT_EQ(::pwrite(memory, breakpoint.data(), breakpoint.size(),
                       static_cast<off_t>(*image + *offset)),
              static_cast<ssize_t>(breakpoint.size()));
    ::close(memory);
}

}  // namespace ros2s::tests
