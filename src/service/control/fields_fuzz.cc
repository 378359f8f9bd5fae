// Any bytes as requests: they are refused with a sentence, or decoded into values that the tables
// accept.
#include "fields.h"
#include "ros2s/base/check.h"
#include "ros2s/object/object_store.h"
#include "ros2s/session/mount_names.h"

namespace ros2s::control {
namespace {

// There is a sentence exactly if it was refused.
template <class T>
bool decided(const Result<T>& result, const Report& report) {
    ROS2S_CHECK(result.has_value() == report.empty());
    return result.has_value();
}

void session_of(const v1::OpenSessionRequest& message) {
    Report report;
    const auto request = decode(message, "CN=fuzz", report);
    if (decided(request, report)) {
        ROS2S_CHECK(!request->client.is_nil() && object::is_valid_label(request->pool));
        ROS2S_CHECK(request->program.size() <= program_bytes_max);
    }
}

void file_of(const v1::CreateFileRequest& create) {
    Report of_name;
    if (decided(session::check_name("name", create.name(), of_name), of_name)) {
        ROS2S_CHECK(fs::check_name(create.name()));
    }
    Report of_permissions;
    if (decided(session::check_permissions(create.mode(), of_permissions), of_permissions)) {
        ROS2S_CHECK(create.mode() <= 07777);
    }
    Report of_mode;
    if (decided(session::check_node_mode(create.mode(), of_mode), of_mode)) {
        ROS2S_CHECK(!S_ISDIR(create.mode()) && !S_ISLNK(create.mode()));
    }
}

}  // namespace
}  // namespace ros2s::control

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
    using namespace ros2s::control;  // NOLINT(google-build-using-namespace)
    const std::string text(reinterpret_cast<const char*>(bytes), count);
    v1::OpenSessionRequest session;
    if (session.ParseFromString(text)) session_of(session);
    v1::CreateFileRequest create;
    if (create.ParseFromString(text)) file_of(create);
    return 0;
}
