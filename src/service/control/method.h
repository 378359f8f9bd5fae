// Both sides of a call give gRPC its messages as Message, because gRPC's templates take seconds to
// compile for each type. A method is found by the type of its requests, which no other of ours has.
#pragma once
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/impl/codegen/proto_utils.h>  // how gRPC reads and writes one

#include <string>

namespace ros2s::control {

using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

// The first with such requests. Its replies are of that type.
[[nodiscard]] const MethodDescriptor& method_of(const Message& request, const Message& reply);
// "/ros2s.control.v1.Files/Lookup".
[[nodiscard]] std::string path_of(const MethodDescriptor& method);

}  // namespace ros2s::control
