// Any bytes as a settings file: parsed, or refused with a sentence, never a crash. Parsed settings
// must survive being written and parsed again.
#include "config.h"

#include "ros2s/base/check.h"

using namespace ros2s;
using namespace ros2s::config;
using namespace std::chrono_literals;

namespace {
struct Settings {
    std::string pool = "pool";
    uint64_t memory_bytes = 512 << 20;
    std::chrono::nanoseconds idle = 100us;
    bool verify = true;
    std::map<std::string, std::string> places;
    friend bool operator==(const Settings&, const Settings&) = default;
};
Table describe(Settings& s) {
    return {{"", "", {text("pool", s.pool, "Name.").required()}},
            {"engine",
             "",
             {size("memory", s.memory_bytes, 1 << 20, 1ull << 40, "Memory."),
              duration("idle", s.idle, 0s, 1s, "Idle."), flag("verify", s.verify, "Verify.")}},
            {"places", "", {}, &s.places}};
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes), size_bytes);
    Settings settings;
    const Table table = describe(settings);
    Report report;
    if (!parse(text, "fuzz", table, report)) {
        ROS2S_CHECK(!report.empty());
        ROS2S_CHECK(settings == Settings());
        return 0;
    }
    Settings again;
    ROS2S_CHECK(parse(document(table), "fuzz", describe(again), report));
    ROS2S_CHECK(settings == again);
    return 0;
}
