// Any bytes as a hello: unchanged, and with valid magic, version and CRC. An accepted hello encodes
// to the same bytes. Each answer to it is at most one sentence.
#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/fabric/hello.h"

using namespace ros2s;
using namespace ros2s::fabric;

namespace {

void read(ConstBytes bytes) {
    const auto hello = Hello::decode(bytes);
    for (const std::string_view provider : {"shm", "ucx+tcp"}) {
        const Answer answer = answer_to(hello, provider);
        Report report;
        const auto taken = check_answer(hello, "there", provider, report);
        ROS2S_CHECK(taken.has_value() == report.empty());
        ROS2S_CHECK(!taken || (answer == Answer::welcome && hello->provider_name() == provider));
    }
    if (!hello) return;
    Hello again = *hello;
    again.seal();
    ROS2S_CHECK(std::ranges::equal(object_bytes(again), bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const ConstBytes bytes = std::as_bytes(std::span(data, size));
    read(bytes);
    Hello hello;
    std::memcpy(static_cast<void*>(&hello), data, std::min(size, sizeof hello));
    hello.magic = Hello::magic_value;
    hello.seal();
    read(object_bytes(hello));
    hello.version = Hello::current_version;
    hello.seal();
    read(object_bytes(hello));
    return 0;
}
