// Open objects of libdfs: files, directories and symbolic links. An object holds its node, so it
// stays valid when the node or a directory above it is renamed.
//
// Thread rule: any thread; of one object, not while it is released.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "mount.h"

struct dfs_obj {
    dfs_t* mount = nullptr;
    ros2s::fs::NodeId node = ros2s::fs::root_node;
    mode_t mode = S_IFDIR;
    int flags = O_RDWR;
    // The name in the path by which it was found, for global handles and messages.
    std::string path;
    // A regular file. Its transfers also hold it.
    std::shared_ptr<ros2s_file> file;
    // A directory that was listed.
    ros2s::fs::FileHandle listing{};
    // A symbolic link.
    std::string target;
};

namespace ros2s::daos {

// As check(dfs). Also refuses an object of another mount.
[[nodiscard]] int check(const dfs_t* dfs, const dfs_obj_t* object) noexcept;

// A directory and a name in it. An empty name: the directory itself.
struct Entry {
    fs::NodeId directory = fs::root_node;
    std::string_view name;
    std::string path;  // of the directory

    [[nodiscard]] std::string whole_path() const;
};
// `parent` null: the root. `name` null or "/": the directory itself. Errors: EINVAL, ENOTDIR.
int entry_of(const dfs_t* dfs, const dfs_obj_t* parent, const char* name, Entry& where);
// The same for a call that changes the entry. EPERM: the mount is read-only.
int changeable_entry_of(const dfs_t* dfs, const dfs_obj_t* parent, const char* name, Entry& where);

// The attributes of a location, through a symbolic link if `follows`. The node does not count as
// looked up afterwards.
[[nodiscard]] Result<fs::Attributes> attributes_of(const dfs_t& dfs, const Entry& where,
                                                   bool follows = false);

}  // namespace ros2s::daos
