#include "method.h"

#include <gtest/gtest.h>

#include "ros2s/control/capabilities.pb.h"
#include "ros2s/control/files.pb.h"
#include "ros2s/control/server.pb.h"
#include "ros2s/control/session.pb.h"
#include "ros2s/control/status.pb.h"
#include "ros2s/control/store.pb.h"
#include "ros2s/control/tenants.pb.h"

namespace ros2s::control {
namespace {

const Message& any(const google::protobuf::Descriptor* type) {
    return *google::protobuf::MessageFactory::generated_factory()->GetPrototype(type);
}

// So each has a type of request of its own.
TEST(ControlMethods, EachMethodIsFoundByItsTypes) {
    for (const auto* type :
         {v1::QueryServerRequest::descriptor(), v1::OpenSessionRequest::descriptor(),
          v1::QueryPoolRequest::descriptor(), v1::ChangeTenantRequest::descriptor(),
          v1::IssueCapabilityRequest::descriptor(), v1::LookupRequest::descriptor()}) {
        const google::protobuf::FileDescriptor& file = *type->file();
        ASSERT_GT(file.service_count(), 0) << file.name();
        for (int s = 0; s < file.service_count(); ++s) {
            for (int m = 0; m < file.service(s)->method_count(); ++m) {
                const MethodDescriptor& method = *file.service(s)->method(m);
                EXPECT_EQ(&method_of(any(method.input_type()), any(method.output_type())), &method)
                    << path_of(method);
            }
        }
    }
    EXPECT_EQ(path_of(method_of(v1::LookupRequest(), v1::NodeReply())),
              "/ros2s.control.v1.Files/Lookup");
}

// Protobuf ends a process in which two files have one name. Programs that load libros2store have
// files, too.
TEST(ControlProtocol, ProtoFileNamesHaveOwnPrefix) {
    for (const auto* type :
         {v1::QueryServerRequest::descriptor(), v1::OpenSessionRequest::descriptor(),
          v1::QueryPoolRequest::descriptor(), v1::ChangeTenantRequest::descriptor(),
          v1::IssueCapabilityRequest::descriptor(), v1::LookupRequest::descriptor(),
          v1::Error::descriptor()}) {
        EXPECT_TRUE(type->file()->name().starts_with("ros2s/control/")) << type->file()->name();
    }
}

}  // namespace
}  // namespace ros2s::control
