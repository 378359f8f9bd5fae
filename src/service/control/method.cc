#include "method.h"

#include "ros2s/base/check.h"

namespace ros2s::control {

const MethodDescriptor& method_of(const Message& request, const Message& reply) {
    const google::protobuf::FileDescriptor& file = *request.GetDescriptor()->file();
    const MethodDescriptor* found = nullptr;
    for (int s = 0; s < file.service_count(); ++s) {
        for (int m = 0; m < file.service(s)->method_count(); ++m) {
            const MethodDescriptor* const each = file.service(s)->method(m);
            if (!found && each->input_type() == request.GetDescriptor()) found = each;
        }
    }
    ROS2S_CHECK(found != nullptr && found->output_type() == reply.GetDescriptor());
    return *found;
}

std::string path_of(const MethodDescriptor& method) {
    return "/" + method.service()->full_name() + "/" + method.name();
}

}  // namespace ros2s::control
