#include "method.h"

#include <gtest/gtest.h>

#include "capabilities.pb.h"
#include "files.pb.h"
#include "server.pb.h"
#include "session.pb.h"
#include "store.pb.h"
#include "tenants.pb.h"

namespace ros2s::control {
namespace {

const Message& any(const google::protobuf::Descriptor* type) {
    return *google::protobuf::MessageFactory::generated_factory()->GetPrototype(type);
}

// So each has a type of request of its own.
TEST(MethodOf, FindsEachMethodOfOurServices) {
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

}  // namespace
}  // namespace ros2s::control
