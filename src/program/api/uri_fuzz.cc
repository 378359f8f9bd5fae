// Any bytes as a URI: refused with one sentence, or parsed into a Uri that keeps the header's
// invariants, and is the same when it is written and parsed again. What is a container's URI is
// also a pool's.
#include "ros2s/api/uri.h"

#include "ros2s/base/check.h"
#include "ros2s/object/object_store.h"

using namespace ros2s;
using namespace ros2s::api;

namespace {

void check_path(std::string_view path) {
    while (!path.empty()) {
        const size_t slash = path.find('/');
        const std::string_view name = path.substr(0, slash);
        ROS2S_CHECK(!name.empty() && name != "." && name != ".." && name.size() <= 255);
        ROS2S_CHECK(!name.contains('\0'));
        if (slash == std::string_view::npos) return;
        path.remove_prefix(slash + 1);
        ROS2S_CHECK(!path.empty());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(bytes), size);
    Report of_pool;
    const auto pool = Uri::parse_pool(text, of_pool);
    if (pool) {
        ROS2S_CHECK(object::is_valid_label(pool->pool));
        ROS2S_CHECK(!pool->container.empty() || pool->path.empty());
        const auto again = Uri::parse_pool(pool->to_string(), of_pool);
        ROS2S_CHECK(again && *again == *pool);
    }
    Report report;
    const auto uri = Uri::parse(text, report);
    if (!uri) {
        ROS2S_CHECK(uri.error().code == Code::invalid && !report.empty());
        return 0;
    }
    ROS2S_CHECK(report.empty() && pool && *pool == *uri);
    ROS2S_CHECK(object::is_valid_label(uri->pool) && object::is_valid_label(uri->container));
    check_path(uri->path);
    const auto again = Uri::parse(uri->to_string(), report);
    ROS2S_CHECK(again && *again == *uri);
    return 0;
}
