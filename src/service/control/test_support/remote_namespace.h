// RemoteNamespace: fs::Namespace over gRPC: names, attributes, opening and closing, directories. It
// sends what a generic client may send, for tests (docs/decisions/0510). The operations on a file's
// bytes (pread, pwrite, fsync, punch_hole, read_many) use the data plane. A handle that was opened
// here is valid there, in the same session.
//
// Owned by the mount's owner; the client outlives it. Thread rule: used on the client's core.
//
// The functions have the meanings and errors of Namespace. If the server is away or was restarted,
// a call is sent again for `patience`. A call that changes something has a name, so it takes effect
// once (docs/decisions/0521). disconnected: it may or may not have been done. close() and readdir()
// use a handle at one location. If the mount has moved, the handle is stale. Names and values
// belong to the caller until the task is done.
//
// Invariants
// - The server counts references from lookups. forget() collects dropped references and sends them
//   with a later call, many at a time. Unmounting drops the rest.
#pragma once
#include <string>
#include <vector>

#include "ros2s/control/control_client.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/update_slots.h"
#include "ros2s/session/mount_location.h"

namespace ros2s::control {

class RemoteNamespace final : public fs::Namespace {
  public:
    // Names of its changes use these slots of the client instance, which nothing else uses.
    static constexpr uint32_t first_slot = 256;
    static constexpr uint32_t slots = 256;
    static constexpr Duration patience = std::chrono::seconds(30);

    // `instance`: the client instance of the session. The locator outlives this object.
    RemoteNamespace(ControlClient& client, session::MountLocator& locator, Uuid instance);
    RemoteNamespace& operator=(RemoteNamespace&&) = delete;

    using NodeId = fs::NodeId;
    using AttributesTask = Task<Result<fs::Attributes>>;

    AttributesTask lookup(const Call& call, NodeId parent, std::string_view name) override;
    AttributesTask mkdir(const Call& call, NodeId parent, std::string_view name, mode_t mode,
                         fs::Owner owner) override;
    AttributesTask mknod(const Call& call, NodeId parent, std::string_view name, mode_t mode,
                         dev_t device, fs::Owner owner) override;
    AttributesTask symlink(const Call& call, NodeId parent, std::string_view name,
                           std::string_view target, fs::Owner owner) override;
    AttributesTask link(const Call& call, NodeId node, NodeId parent,
                        std::string_view name) override;
    Task<Result<>> unlink(const Call& call, NodeId parent, std::string_view name) override;
    Task<Result<>> rmdir(const Call& call, NodeId parent, std::string_view name) override;
    Task<Result<>> rename(const Call& call, NodeId parent, std::string_view name, NodeId new_parent,
                          std::string_view new_name, RenameFlags flags) override;
    Task<Result<std::string>> readlink(const Call& call, NodeId node) override;

    AttributesTask get_attributes(const Call& call, NodeId node) override;
    AttributesTask set_attributes(const Call& call, NodeId node,
                                  const fs::SetAttributes& changes) override;
    Task<Result<std::string>> get_xattr(const Call& call, NodeId node,
                                        std::string_view name) override;
    Task<Result<>> set_xattr(const Call& call, NodeId node, std::string_view name, ConstBytes value,
                             fs::SetXattr how) override;
    Task<Result<>> remove_xattr(const Call& call, NodeId node, std::string_view name) override;
    Task<Result<std::vector<std::string>>> list_xattrs(const Call& call, NodeId node) override;

    Task<Result<fs::Opened>> open(const Call& call, NodeId node, fs::OpenFlags flags) override;
    Task<Result<fs::Opened>> create(const Call& call, NodeId parent, std::string_view name,
                                    mode_t mode, fs::OpenFlags flags, fs::Owner owner) override;
    Task<Result<>> close(const Call& call, fs::FileHandle handle) override;
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call& call, fs::FileHandle handle,
                                                          uint64_t cookie, size_t limit) override;
    Task<Result<fs::FileSystemSpace>> space(const Call& call) override;

    void forget(NodeId node, uint64_t count) override { forgotten_.push_back({node, count}); }
    // Sends the references that forget() collected, now.
    Task<Result<>> send_forgotten(const Call& call);

  private:
    struct Forgotten {
        NodeId node{};
        uint64_t count = 0;
    };
    // Number of collected references that triggers sending.
    static constexpr size_t forgotten_enough = 256;

    struct Sender;

    ControlClient& client_;
    session::MountLocator& locator_;
    UpdateSlots slots_;
    std::vector<Forgotten> forgotten_;
};

}  // namespace ros2s::control
