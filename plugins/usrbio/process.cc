#include "process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace ros2s::usrbio {

// ---- memory

namespace {

std::string name_of(const Uuid& id) {
    std::string name = "/hf3fs-iov-";
    for (const uint8_t byte : id.bytes) name += fmt::format("{:02x}", byte);
    return name;
}

}  // namespace

Result<std::shared_ptr<Memory>> Memory::map(int fd, size_t bytes) {
    void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) return fail_errno(errno);
    return std::shared_ptr<Memory>(new Memory(static_cast<std::byte*>(base), bytes));
}

Result<std::shared_ptr<Memory>> Memory::make(const Uuid& id, size_t bytes) {
    const std::string name = name_of(id);
    const fabric::Descriptor fd(
        ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!fd.open()) return fail_errno(errno);
    // Otherwise a full /dev/shm would end the program with SIGBUS, later.
    const int failed = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
    auto made = failed == 0 ? map(fd.get(), bytes) : fail_errno(failed);
    if (!made) unlink(id);
    return made;
}

Result<std::shared_ptr<Memory>> Memory::open(const Uuid& id, size_t bytes) {
    const fabric::Descriptor fd(::shm_open(name_of(id).c_str(), O_RDWR | O_CLOEXEC, 0));
    struct stat status{};
    if (!fd.open() || ::fstat(fd.get(), &status) != 0) return fail_errno(errno);
    if (static_cast<uint64_t>(status.st_size) < bytes) return fail(Code::invalid);
    return map(fd.get(), bytes);
}

Memory::~Memory() { ::munmap(base_, bytes_); }

void Memory::unlink(const Uuid& id) { ::shm_unlink(name_of(id).c_str()); }

// ---- the process

// A child of fork() gets another one, because a thread that it does not have may hold the locks.
Result<Process*> Process::current() {
    static std::atomic<Process*> process = nullptr;
    Process* found = process.load(std::memory_order_acquire);
    while (found == nullptr || found->mark_.in_forked_child()) {
        std::unique_ptr<Process> made(new Process);
        Report report;
        ROS2S_TRY_ASSIGN(made->reactor_, OsReactor::create({.ring = RingChoice::threads,
                                                            .callers_lead = true,
                                                            .thread_name = "ros2store-usrbio"},
                                                           report));
        ROS2S_TRY(made->reactor_->start(report));
        if (process.compare_exchange_strong(found, made.get())) {
            return made.release();  // lives as long as the process
        }
    }
    return found;
}

Result<std::shared_ptr<MountLink>> Process::link(int fd) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) return fail_errno(errno);
    const std::scoped_lock lock(opening_);
    std::shared_ptr<MountLink>& link = links_[status.st_dev];
    if (link != nullptr && !link->has_ended()) return link;
    ROS2S_TRY_ASSIGN(link, MountLink::open(*reactor_, fd));
    return link;
}

Result<std::shared_ptr<RegisteredFile>> Process::borrow(int fd) {
    const int status = ::fcntl(fd, F_GETFL);
    if (status < 0) return fail_errno(errno);
    ROS2S_TRY_ASSIGN(auto link, this->link(fd));
    ROS2S_TRY_ASSIGN(const fs::FileHandle handle, link->borrow(fd, status));
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    const int failed = errno;
    auto file = std::make_shared<RegisteredFile>(std::move(link), handle, status, copy);
    if (copy < 0) return fail_errno(failed);
    return file;
}

Result<int> Process::add_file(int fd) {
    if (file(fd) != nullptr) return fail(Code::invalid);
    ROS2S_TRY_ASSIGN(auto file, borrow(fd));
    const std::scoped_lock lock(mutex_);
    const int copy = file->duplicate.get();
    if (!files_.try_emplace(fd, file).second) return fail(Code::invalid);
    files_[copy] = std::move(file);
    return copy;
}

void Process::remove_file(int fd) {
    std::shared_ptr<RegisteredFile> file;  // ends without the lock
    const std::scoped_lock lock(mutex_);
    const auto found = files_.find(fd < 0 ? -fd : fd);
    if (found == files_.end()) return;
    file = found->second;
    std::erase_if(files_, [&](const auto& each) { return each.second == file; });
}

std::shared_ptr<RegisteredFile> Process::file(int fd) {
    const std::scoped_lock lock(mutex_);
    const auto found = files_.find(fd);
    return found == files_.end() ? nullptr : found->second;
}

void Process::add_memory(const std::shared_ptr<Memory>& memory) {
    const std::scoped_lock lock(mutex_);
    memory_[memory->base()] = memory;
}

std::shared_ptr<Memory> Process::memory(const void* base) {
    const std::scoped_lock lock(mutex_);
    const auto found = memory_.find(base);
    return found == memory_.end() ? nullptr : found->second;
}

void Process::remove_memory(const void* base) {
    std::shared_ptr<Memory> memory;
    const std::scoped_lock lock(mutex_);
    if (const auto found = memory_.extract(base); !found.empty()) memory = found.mapped();
}

}  // namespace ros2s::usrbio
