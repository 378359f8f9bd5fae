// Mounts and open objects of libdfs, over the FileSystem of a container. An object holds its node,
// so it stays valid when the node or a directory above it is renamed.
//
// Thread rule: any thread; of one object, not while it is released.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "daos_fs.h"
#include "pools.h"
#include "ros2s/api/c/handles.h"

struct dfs {
    std::shared_ptr<ros2s::daos::Container> container;
    int flags = 0;  // O_RDONLY or O_RDWR
    std::string prefix;
    // An unmounted file system lives as long as its objects: programs may unmount before they
    // release them.
    std::atomic<bool> is_unmounted = false;
    std::atomic<uint32_t> users = 1;  // open objects; 1 for the mount
    ros2s::daos::ContainerSettings settings;
    // The program may request these: dfs_pool_get(), dfs_cont_get().
    daos_handle_t pool{};
    daos_handle_t container_handle{};
    std::atomic<uint32_t> pool_borrows = 0;
    std::atomic<uint32_t> container_borrows = 0;
    bool is_connected = false;  // by dfs_connect(): dfs_disconnect() ends it

    [[nodiscard]] ros2s_fs& fs() const { return *container->fs; }
    [[nodiscard]] bool is_read_only() const {
        return (flags & O_ACCMODE) == O_RDONLY || container->is_read_only();
    }
};

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

// Errno, positive. 0 for success.
[[nodiscard]] inline int errno_of(const Error& error) noexcept { return to_errno(error); }
template <class T>
[[nodiscard]] int errno_of(const Result<T>& result) noexcept {
    return result ? 0 : to_errno(result.error());
}

// 0, or the errno of a mount that cannot be used: it is null, unmounted, or another process's.
[[nodiscard]] int check(const dfs_t* dfs) noexcept;
// These also refuse an object of another mount, or a read-only mount.
[[nodiscard]] int check(const dfs_t* dfs, const dfs_obj_t* object) noexcept;
[[nodiscard]] int check_writable(const dfs_t* dfs) noexcept;
// Drops the reference of one user. The last one ends the mount.
void release_mount(dfs_t* dfs);

// A directory and a name in it. An empty name: the directory itself.
struct Entry {
    fs::NodeId directory = fs::root_node;
    std::string_view name;
    std::string path;
};
// `parent` null: the root. `name` null or "/": the directory itself. Errors: EINVAL, ENOTDIR.
int entry_of(const dfs_t* dfs, const dfs_obj_t* parent, const char* name, Entry& where);

// An open object for a node that counts as looked up once; it takes over that reference, also on
// failure. Errors: an errno.
int open_node(dfs_t* dfs, const fs::Attributes& attributes, int flags, std::string path,
              std::unique_ptr<dfs_obj_t>& object);

// The attributes of a location. The node does not count as looked up afterwards.
[[nodiscard]] Result<fs::Attributes> attributes_of(const dfs_t& dfs, const Entry& where);

// Like dfs_read(), but the list need not live until the event completes.
int read_into(dfs_t* dfs, dfs_obj_t* object, d_sg_list_t list, daos_off_t offset,
              daos_size_t* read_size, daos_event_t* event);

// The id in DAOS's form of a file, directory or link: its type and class, and its node number.
[[nodiscard]] daos_obj_id_t id_of(const dfs_t& dfs, mode_t mode, fs::NodeId node);
// The class that the container's creator wants for such objects.
[[nodiscard]] daos_oclass_id_t class_of(const dfs_t& dfs, mode_t mode);
// 0 or EINVAL: hints for classes, "file:max,dir:single".
[[nodiscard]] int check_hints(std::string_view hints);

int lookup_path(dfs_t* dfs, std::string_view path, int flags, dfs_obj_t** object, mode_t* mode,
                struct stat* stbuf);

}  // namespace ros2s::daos
