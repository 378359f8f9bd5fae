#include "ros2s/daemon/access.h"

namespace ros2s::daemon {

config::Group describe_access(session::AccessTable::Settings& settings, std::string_view help) {
    return {"access",
            help,
            {},
            nullptr,
            {{{"read", "containers that it may mount for reading."},
              {"write", "containers that it may mount, read and change."},
              {"create", "containers that it may create."},
              {"destroy", "containers that it may destroy, with their contents."}},
             &settings,
             R"("CN=alice": {write: pool/alice-*, create: pool/alice-*, read: pool/images})"}};
}

}  // namespace ros2s::daemon
