// Any bytes as a file of costs: read, or refused with a sentence, never a crash. A plan from costs
// that were read is finite, or refused with a sentence.
#include "costs.h"

#include <cmath>

#include "plan.h"
#include "ros2s/base/check.h"

using namespace ros2s;
using namespace ros2s::planning;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes), size_bytes);
    Report report;
    const auto costs = parse_costs(text, "fuzz", report);
    if (!costs) {
        ROS2S_CHECK(!report.empty());
        return 0;
    }
    for (const Backend backend : {Backend::engine, Backend::rados, Backend::daos}) {
        for (const std::string& provider : costs->providers(backend)) {
            const auto made = plan({.gpus = Demand::gpus_max, .rate = 1e3, .sample_bytes = 1 << 20},
                                   {}, backend, provider, *costs, "fuzz", report);
            ROS2S_CHECK(made || !report.empty());
            for (const Resource& each : made ? made->resources : std::vector<Resource>())
                ROS2S_CHECK(std::isfinite(each.share()) && each.share() >= 0);
        }
    }
    return 0;
}
