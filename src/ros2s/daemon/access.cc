#include "ros2s/daemon/access.h"

namespace ros2s::daemon {

config::Group describe_access(session::AccessTable::Settings& settings, Clients clients,
                              std::string_view help) {
    std::vector<config::Records::Key> keys{
        {"read", clients == Clients::hosts
                     ? "containers, or directories of them, that it may mount for reading."
                     : "containers that it may mount for reading."},
        {"write", clients == Clients::hosts
                      ? "containers, or directories of them, that it may mount, read and change."
                      : "containers that it may mount, read and change."},
        {"create", "containers that it may create."},
        {"destroy", "containers that it may destroy, with their contents."}};
    if (clients == Clients::hosts) {
        for (const auto& key : {
                 config::Records::Key{"users",
                                      "of its machine, for whom it may act: any, or "
                                      "1000-1999, 5000."},
                 {"groups", "that its users may be in: any, or 1000-1999."},
                 {"root_squash", "yes: its user 0 and group 0 act as user nobody."},
                 {"squash", "UID:GID: every user acts as this one."},
                 {"uid_map", "HOST:STORED:COUNT: numbers of its users, and those in containers."},
                 {"gid_map", "the same for groups."},
                 {"may", "what its root may make: devices, set_ids, privileged_attributes."},
             }) {
            keys.push_back(key);
        }
    }
    return {
        "access",
        help,
        {},
        nullptr,
        {{.keys = std::move(keys),
          .into = &settings,
          .example =
              R"("CN=alice": {write: pool/alice-*, create: pool/alice-*, read: pool/images})"}}};
}

}  // namespace ros2s::daemon
