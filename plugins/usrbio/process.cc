#include "process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace ros2s::usrbio {

// ---- memory

namespace {

// The contents of an id: a descriptor of the process that made the memory, and a random number,
// which is in the memory's name.
struct MemoryAddress {
    int32_t process = 0, descriptor = 0;
    uint64_t number = 0;
};
static_assert(sizeof(MemoryAddress) == sizeof(Uuid));

std::string name_of(uint64_t number) { return fmt::format("hf3fs-iov-{:016x}", number); }

bool is_memory(int fd, uint64_t number) {
    const std::string link = fmt::format("/proc/self/fd/{}", fd);
    char target[64];
    const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
    return length > 0 && std::string_view(target, static_cast<size_t>(length)) ==
                             fmt::format("/memfd:{} (deleted)", name_of(number));
}

}  // namespace

Result<std::shared_ptr<Memory>> Memory::map(int fd, size_t bytes) {
    void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) return fail_errno(errno);
    return std::shared_ptr<Memory>(new Memory(static_cast<std::byte*>(base), bytes));
}

Result<std::shared_ptr<Memory>> Memory::make(const Secrets& secrets, size_t bytes) {
    const uint64_t number = secrets.next();
    fabric::Descriptor fd(::memfd_create(name_of(number).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd.open()) return fail_errno(errno);
    // Otherwise a machine without memory would end the program with SIGBUS, later.
    const int failed = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
    if (failed != 0) return fail_errno(failed);
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return fail_errno(errno);
    }
    ROS2S_TRY_ASSIGN(auto made, map(fd.get(), bytes));
    const MemoryAddress address{::getpid(), fd.get(), number};
    std::memcpy(made->id_.bytes.data(), &address, sizeof address);
    made->descriptor_ = std::move(fd);
    return made;
}

Result<std::shared_ptr<Memory>> Memory::open(const Uuid& id, size_t bytes) {
    MemoryAddress address;
    std::memcpy(&address, id.bytes.data(), sizeof address);
    const std::string path = fmt::format("/proc/{}/fd/{}", address.process, address.descriptor);
    const fabric::Descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (!fd.open() || !is_memory(fd.get(), address.number)) return fail(Code::not_found);
    if (::fstat(fd.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) < bytes) {
        return fail(Code::invalid);
    }
    ROS2S_TRY_ASSIGN(auto opened, map(fd.get(), bytes));
    opened->id_ = id;
    return opened;
}

Memory::~Memory() { ::munmap(base_, bytes_); }

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
    // The program may have closed a registered descriptor, whose number is then used again.
    if (files_.contains(fd) || files_.contains(copy)) return fail(Code::invalid);
    files_[fd] = file;
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
