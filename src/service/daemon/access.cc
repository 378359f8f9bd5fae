#include "ros2s/daemon/access.h"

namespace ros2s::daemon {

config::Group describe_access(rights::AccessSettings& settings, RecordLines& lines, Clients clients,
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
                                      "user ids for which its machine may act: any, or "
                                      "1000-1999, 5000."},
                 {"groups", "group ids that its users may have: any, or 1000-1999."},
                 {"root_squash", "yes: its user 0 and group 0 act as user nobody."},
                 {"squash", "UID:GID: the user and group for all its requests."},
                 {"uid_map",
                  "HOST:STORED:COUNT: maps user ids of its machine to those in containers."},
                 {"gid_map", "the same for groups."},
                 {"may", "what its root may create: devices, set_ids, privileged_attributes."},
             }) {
            keys.push_back(key);
        }
    }
    return {"access",
            help,
            {},
            nullptr,
            {{.keys = std::move(keys),
              .into = &settings,
              .example =
                  R"("CN=alice": {write: pool/alice-*, create: pool/alice-*, read: pool/images})",
              .lines = &lines}}};
}

}  // namespace ros2s::daemon
