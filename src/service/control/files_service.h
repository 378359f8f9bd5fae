// Mounts and Files: file systems over gRPC, without the bytes of files.
#pragma once
#include "ros2s/control/files.pb.h"
#include "session_service.h"

namespace ros2s::control {

class MountService final : public OfferedService {
  public:
    explicit MountService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(MountRequest, MountReply, mount)
    ROS2S_SERVE(UnmountRequest, UnmountReply, unmount)

    ServerState& state_;
};

class FileService final : public OfferedService {
  public:
    explicit FileService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(LookupRequest, NodeReply, lookup)
    ROS2S_SERVE(MakeDirectoryRequest, NodeReply, make_directory)
    ROS2S_SERVE(MakeNodeRequest, NodeReply, make_node)
    ROS2S_SERVE(SymlinkRequest, NodeReply, symlink)
    ROS2S_SERVE(LinkRequest, NodeReply, link)
    ROS2S_SERVE(UnlinkRequest, EmptyReply, unlink)
    ROS2S_SERVE(RemoveDirectoryRequest, EmptyReply, remove_directory)
    ROS2S_SERVE(RenameRequest, EmptyReply, rename)
    ROS2S_SERVE(ReadLinkRequest, ReadLinkReply, read_link)
    ROS2S_SERVE(GetAttributesRequest, NodeReply, get_attributes)
    ROS2S_SERVE(SetAttributesRequest, NodeReply, set_attributes)
    ROS2S_SERVE(GetXattrRequest, GetXattrReply, get_xattr)
    ROS2S_SERVE(SetXattrRequest, EmptyReply, set_xattr)
    ROS2S_SERVE(RemoveXattrRequest, EmptyReply, remove_xattr)
    ROS2S_SERVE(ListXattrsRequest, ListXattrsReply, list_xattrs)
    ROS2S_SERVE(OpenFileRequest, OpenFileReply, open)
    ROS2S_SERVE(CreateFileRequest, OpenFileReply, create)
    ROS2S_SERVE(CloseFileRequest, EmptyReply, close)
    ROS2S_SERVE(ReadDirectoryRequest, ReadDirectoryReply, read_directory)
    ROS2S_SERVE(ForgetRequest, EmptyReply, forget)
    ROS2S_SERVE(SpaceRequest, SpaceReply, space)

    ServerState& state_;
};

}  // namespace ros2s::control
