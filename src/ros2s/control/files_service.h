// Mounts and Files: file systems over gRPC, without the bytes of files.
#pragma once
#include "files.grpc.pb.h"
#include "session_service.h"

namespace ros2s::control {

class MountService final : public OfferedService {
  public:
    explicit MountService(ServerState& state)
        : OfferedService(state.gate, v1::Mounts::service_full_name()), state_(state) {}

  private:
    ROS2S_SERVE(Mount, MountRequest, MountReply, mount)
    ROS2S_SERVE(Unmount, UnmountRequest, UnmountReply, unmount)

    ServerState& state_;
};

class FileService final : public OfferedService {
  public:
    explicit FileService(ServerState& state)
        : OfferedService(state.gate, v1::Files::service_full_name()), state_(state) {}

  private:
    ROS2S_SERVE(Lookup, LookupRequest, NodeReply, lookup)
    ROS2S_SERVE(MakeDirectory, MakeDirectoryRequest, NodeReply, make_directory)
    ROS2S_SERVE(MakeNode, MakeNodeRequest, NodeReply, make_node)
    ROS2S_SERVE(Symlink, SymlinkRequest, NodeReply, symlink)
    ROS2S_SERVE(Link, LinkRequest, NodeReply, link)
    ROS2S_SERVE(Unlink, UnlinkRequest, EmptyReply, unlink)
    ROS2S_SERVE(RemoveDirectory, RemoveDirectoryRequest, EmptyReply, remove_directory)
    ROS2S_SERVE(Rename, RenameRequest, EmptyReply, rename)
    ROS2S_SERVE(ReadLink, ReadLinkRequest, ReadLinkReply, read_link)
    ROS2S_SERVE(GetAttributes, GetAttributesRequest, NodeReply, get_attributes)
    ROS2S_SERVE(SetAttributes, SetAttributesRequest, NodeReply, set_attributes)
    ROS2S_SERVE(GetXattr, GetXattrRequest, GetXattrReply, get_xattr)
    ROS2S_SERVE(SetXattr, SetXattrRequest, EmptyReply, set_xattr)
    ROS2S_SERVE(RemoveXattr, RemoveXattrRequest, EmptyReply, remove_xattr)
    ROS2S_SERVE(ListXattrs, ListXattrsRequest, ListXattrsReply, list_xattrs)
    ROS2S_SERVE(Open, OpenFileRequest, OpenFileReply, open)
    ROS2S_SERVE(Create, CreateFileRequest, OpenFileReply, create)
    ROS2S_SERVE(Close, CloseFileRequest, EmptyReply, close)
    ROS2S_SERVE(ReadDirectory, ReadDirectoryRequest, ReadDirectoryReply, read_directory)
    ROS2S_SERVE(Forget, ForgetRequest, EmptyReply, forget)
    ROS2S_SERVE(Space, SpaceRequest, SpaceReply, space)

    ServerState& state_;
};

}  // namespace ros2s::control
