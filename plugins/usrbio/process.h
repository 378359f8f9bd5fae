// Process: what the library has in this process: the core that does its work, the mounts that are
// in use, the descriptors that are registered, and the memory that it has made. A forked child
// begins with nothing: it registers its files and makes its rings again.
//
// Any thread.
#pragma once
#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "mount_link.h"
#include "ros2s/api/queue/queue.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/fork.h"

namespace ros2s::usrbio {

// A registered descriptor. It keeps the file open, also if the program closes its descriptor.
struct RegisteredFile {
    RegisteredFile(std::shared_ptr<MountLink> of, fs::FileHandle handle, int flags, int copy)
        : link(std::move(of)), core{.handle = handle}, status(flags), duplicate(copy) {}
    ~RegisteredFile() { link->give_back(core.handle); }
    RegisteredFile& operator=(RegisteredFile&&) = delete;

    const std::shared_ptr<MountLink> link;
    api::CoreFile core;
    const int status;  // as of fcntl(2) with F_GETFL
    const fabric::Descriptor duplicate;
};

// Memory of an iov that this library has mapped. It has no name in a file system, so nothing is
// left when its processes end. Its id says where another process of the user finds it: as a
// descriptor of this one.
class Memory {
  public:
    // Errors: those of memfd_create(2), fallocate(2) and mmap(2).
    static Result<std::shared_ptr<Memory>> make(const Secrets& secrets, size_t bytes);
    // What another process has made. Errors: not_found (no such memory, or none of this user),
    // invalid (it has fewer bytes).
    static Result<std::shared_ptr<Memory>> open(const Uuid& id, size_t bytes);
    ~Memory();
    Memory& operator=(Memory&&) = delete;
    [[nodiscard]] std::byte* base() const noexcept { return base_; }
    [[nodiscard]] size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] const Uuid& id() const noexcept { return id_; }
    // Nobody else can open it any more.
    void unlink() noexcept { descriptor_.reset(); }

  private:
    static Result<std::shared_ptr<Memory>> map(int fd, size_t bytes);
    Memory(std::byte* base, size_t bytes) : base_(base), bytes_(bytes) {}
    std::byte* const base_;
    const size_t bytes_;
    Uuid id_;
    fabric::Descriptor descriptor_;  // of the process that made it
};

class Process {
  public:
    // Errors: those of OsReactor::create().
    static Result<Process*> current();
    [[nodiscard]] OsReactor& reactor() noexcept { return *reactor_; }

    // Errors: those of MountLink::open().
    Result<std::shared_ptr<MountLink>> link(int fd);

    // Returns the number of the library's own descriptor. Errors: EINVAL (it is registered), those
    // of link() and MountLink::borrow().
    Result<int> add_file(int fd);
    void remove_file(int fd);
    // Null: the number is not registered. It is the program's or the library's.
    std::shared_ptr<RegisteredFile> file(int fd);

    void add_memory(const std::shared_ptr<Memory>& memory);
    // Null: there is none.
    std::shared_ptr<Memory> memory(const void* base);
    void remove_memory(const void* base);

  private:
    Process() = default;
    Result<std::shared_ptr<RegisteredFile>> borrow(int fd);

    ForkMark mark_;
    std::unique_ptr<OsReactor> reactor_;
    std::mutex opening_;  // of links
    std::map<dev_t, std::shared_ptr<MountLink>> links_;
    std::mutex mutex_;  // of the rest
    std::unordered_map<int, std::shared_ptr<RegisteredFile>> files_;
    std::unordered_map<const void*, std::shared_ptr<Memory>> memory_;
};

}  // namespace ros2s::usrbio
