// The functions of hf3fs_usrbio.h. They check their arguments, which may be any.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "include/hf3fs_usrbio.h"
#include "process.h"
#include "request_ring.h"
#include "ros2s/base/mount_table.h"
#include "ros2s/runtime/kept_errno.h"

using namespace ros2s;
using namespace ros2s::usrbio;

namespace {

// As in programs that were compiled for 3FS on 64-bit Linux.
static_assert(sizeof(hf3fs_iov) == 312 && offsetof(hf3fs_iov, id) == 16);
static_assert(offsetof(hf3fs_iov, mount_point) == 32 && offsetof(hf3fs_iov, size) == 288);
static_assert(offsetof(hf3fs_iov, block_size) == 296 && offsetof(hf3fs_iov, numa) == 304);
static_assert(sizeof(hf3fs_ior) == 600 && offsetof(hf3fs_ior, iorh) == 312);
static_assert(offsetof(hf3fs_ior, mount_point) == 320 && offsetof(hf3fs_ior, for_read) == 576);
static_assert(offsetof(hf3fs_ior, io_depth) == 580 && offsetof(hf3fs_ior, priority) == 584);
static_assert(offsetof(hf3fs_ior, timeout) == 588 && offsetof(hf3fs_ior, flags) == 592);
static_assert(sizeof(hf3fs_cqe) == 24 && offsetof(hf3fs_cqe, result) == 8);
static_assert(offsetof(hf3fs_cqe, userdata) == 16);

template <size_t bytes>
bool keep_text(char (&into)[bytes], const char* text) {
    if (text == nullptr || *text == '\0' || std::strlen(text) >= bytes) return false;
    std::strcpy(into, text);
    return true;
}

template <class T>
int negative(const Result<T>& failed) {
    return -to_errno(failed.error());
}

// `memory` null: it is the program's.
int fill(hf3fs_iov& iov, void* base, const Memory* memory, const uint8_t* id, const char* mount,
         size_t size, size_t block_size, int numa) {
    hf3fs_iov made{};
    if (!keep_text(made.mount_point, mount)) return -EINVAL;
    made.base = static_cast<uint8_t*>(base);
    made.iovh = const_cast<Memory*>(memory);
    std::memcpy(made.id, id, sizeof made.id);
    made.size = size;
    made.block_size = block_size;
    made.numa = numa;
    iov = made;
    return 0;
}

bool is_size(size_t size) { return size > 0 && size <= SIZE_MAX / 4; }

bool is_name(const char* mount) {
    return mount != nullptr && *mount != '\0' &&
           std::strlen(mount) < sizeof(hf3fs_iov::mount_point);
}

int fill_mapped(hf3fs_iov& iov, const Result<std::shared_ptr<Memory>>& memory, Process& process,
                const char* mount, size_t size, size_t block_size, int numa) {
    if (!memory) return negative(memory);
    process.add_memory(*memory);
    return fill(iov, (*memory)->base(), memory->get(), (*memory)->id().bytes.data(), mount, size,
                block_size, numa);
}

// Null: it is none that this process has.
std::shared_ptr<Memory> memory_of(const hf3fs_iov* iov) {
    if (iov == nullptr || iov->iovh == nullptr) return nullptr;
    const auto process = Process::current();
    return process ? (*process)->memory(iov->base) : nullptr;
}

RequestRing* ring_of(const hf3fs_ior* ior) {
    if (ior == nullptr || ior->iorh == nullptr) return nullptr;
    auto* const ring = static_cast<RequestRing*>(ior->iorh);
    return ring->in_forked_child() ? nullptr : ring;
}

struct Settings {
    int entries = 0;
    bool for_read = false;
    int io_depth = 0, priority = 0, timeout = 0, numa = 0;
    uint64_t flags = 0;
};

int create_ring(hf3fs_ior* ior, const char* mount, const Settings& settings) {
    constexpr uint64_t known = HF3FS_IOR_ALLOW_READ_UNCOMMITTED | HF3FS_IOR_FORBID_READ_HOLES;
    if (ior == nullptr || !is_name(mount) || settings.entries < 1 ||
        settings.entries > RequestRing::entries_max || settings.timeout < 0 ||
        (settings.flags & ~known) != 0) {
        return -EINVAL;
    }
    if ((settings.flags & HF3FS_IOR_FORBID_READ_HOLES) != 0) return -EOPNOTSUPP;
    const fabric::Descriptor directory(::open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.open()) return -errno;
    const auto process = Process::current();
    if (!process) return negative(process);
    auto link = (*process)->link(directory.get());
    if (!link) return negative(link);
    auto ring = RequestRing::create(std::move(*link), static_cast<uint32_t>(settings.entries));
    if (!ring) return negative(ring);
    *ior = {};
    keep_text(ior->mount_point, mount);
    keep_text(ior->iov.mount_point, mount);
    ior->iov.size = hf3fs_ior_size(settings.entries);
    ior->iov.numa = settings.numa;
    ior->for_read = settings.for_read;
    ior->io_depth = settings.io_depth;
    ior->priority = settings.priority;
    ior->timeout = settings.timeout;
    ior->flags = settings.flags;
    ior->iorh = ring->release();
    return 0;
}

bool is_within(const hf3fs_iov& iov, const void* pointer, uint64_t bytes) {
    const auto base = reinterpret_cast<uintptr_t>(iov.base);
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    return address >= base && address - base <= iov.size && bytes <= iov.size - (address - base);
}

}  // namespace

// ---- mounts

bool hf3fs_is_hf3fs(int fd) {
    const KeptErrno kept;
    return is_of_lending_mount(fd);
}

int hf3fs_extract_mount_point(char* hf3fs_mount_point, int size, const char* path) {
    char resolved[PATH_MAX];
    if (path == nullptr || ::realpath(path, resolved) == nullptr) return -1;
    std::string_view whole(resolved);
    std::ifstream table("/proc/self/mountinfo");
    std::string found;
    for (const MountEntry& each : read_mounts(table)) {
        const std::string& point = each.mount_point;
        const bool is_below = whole.starts_with(point) &&
                              (whole.size() == point.size() || whole[point.size()] == '/');
        // Of two on the same directory, the later one is visible.
        if (is_below && point.size() >= found.size()) {
            found = each.kind == "fuse.ros2store" ? point : std::string();
        }
    }
    if (found.empty()) return -1;
    const int needed = static_cast<int>(found.size()) + 1;
    if (hf3fs_mount_point != nullptr && needed <= size) {
        std::strcpy(hf3fs_mount_point, found.c_str());
    }
    return needed;
}

int hf3fs_hardlink(const char* target, const char* link_name) {
    if (target == nullptr || link_name == nullptr) return EINVAL;
    return ::link(target, link_name) == 0 ? 0 : errno;
}

int hf3fs_punchhole(int fd, int n, const size_t* start, const size_t* end, size_t flags) {
    if (n < 0 || flags != 0 || (n > 0 && (start == nullptr || end == nullptr))) return EINVAL;
    for (int each = 0; each < n; ++each) {
        if (end[each] < start[each] || end[each] > INT64_MAX) return EINVAL;
        if (end[each] == start[each]) continue;
        const int failed = ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                       static_cast<off_t>(start[each]),
                                       static_cast<off_t>(end[each] - start[each]));
        if (failed != 0) return errno;
    }
    return 0;
}

// ---- memory

int hf3fs_iovcreate(hf3fs_iov* iov, const char* hf3fs_mount_point, size_t size, size_t block_size,
                    int numa) {
    if (iov == nullptr || !is_name(hf3fs_mount_point) || !is_size(size)) return -EINVAL;
    const auto process = Process::current();
    if (!process) return negative(process);
    return fill_mapped(*iov, Memory::make((*process)->reactor().secrets(), size), **process,
                       hf3fs_mount_point, size, block_size, numa);
}

int hf3fs_iovopen(hf3fs_iov* iov, const uint8_t id[16], const char* hf3fs_mount_point, size_t size,
                  size_t block_size, int numa) {
    if (iov == nullptr || id == nullptr || !is_name(hf3fs_mount_point) || !is_size(size)) {
        return -EINVAL;
    }
    const auto process = Process::current();
    if (!process) return negative(process);
    Uuid uuid;
    std::memcpy(uuid.bytes.data(), id, uuid.bytes.size());
    return fill_mapped(*iov, Memory::open(uuid, size), **process, hf3fs_mount_point, size,
                       block_size, numa);
}

void hf3fs_iovunlink(hf3fs_iov* iov) {
    if (const auto memory = memory_of(iov)) memory->unlink();
}

void hf3fs_iovdestroy(hf3fs_iov* iov) {
    if (iov == nullptr || iov->iovh == nullptr) return;
    if (const auto memory = memory_of(iov)) {
        memory->unlink();
        (*Process::current())->remove_memory(iov->base);
    }
    iov->iovh = nullptr;
    iov->base = nullptr;
}

int hf3fs_iovwrap(hf3fs_iov* iov, void* base, const uint8_t id[16], const char* hf3fs_mount_point,
                  size_t size, size_t block_size, int numa) {
    if (iov == nullptr || base == nullptr || id == nullptr) return -EINVAL;
    return fill(*iov, base, nullptr, id, hf3fs_mount_point, size, block_size, numa);
}

int hf3fs_iovcreate_device(hf3fs_iov* /*iov*/, const char* /*hf3fs_mount_point*/, size_t /*size*/,
                           size_t block_size, int /*device_id*/) {
    return block_size != 0 ? -EINVAL : -ENOTSUP;
}
bool hf3fs_gdr_available() { return false; }
int hf3fs_gdr_device_count() { return 0; }
hf3fs_mem_type hf3fs_iov_mem_type(const hf3fs_iov* /*iov*/) { return HF3FS_MEM_HOST; }
int hf3fs_iov_device_id(const hf3fs_iov* /*iov*/) { return -1; }
int hf3fs_iovsync(const hf3fs_iov* iov, int /*direction*/) { return iov == nullptr ? -EINVAL : 0; }

// ---- rings

size_t hf3fs_ior_size(int entries) {
    constexpr size_t entry_bytes = 128;
    return entries <= 0 ? 0 : static_cast<size_t>(entries) * entry_bytes;
}

int hf3fs_iorcreate(hf3fs_ior* ior, const char* hf3fs_mount_point, int entries, bool for_read,
                    int io_depth, int numa) {
    return create_ring(
        ior, hf3fs_mount_point,
        {.entries = entries, .for_read = for_read, .io_depth = io_depth, .numa = numa});
}

int hf3fs_iorcreate2(hf3fs_ior* ior, const char* hf3fs_mount_point, int entries, bool for_read,
                     int io_depth, int priority, int numa) {
    return create_ring(ior, hf3fs_mount_point,
                       {.entries = entries,
                        .for_read = for_read,
                        .io_depth = io_depth,
                        .priority = priority,
                        .numa = numa});
}

int hf3fs_iorcreate3(hf3fs_ior* ior, const char* hf3fs_mount_point, int entries, bool for_read,
                     int io_depth, int priority, int timeout, int numa) {
    return create_ring(ior, hf3fs_mount_point,
                       {.entries = entries,
                        .for_read = for_read,
                        .io_depth = io_depth,
                        .priority = priority,
                        .timeout = timeout,
                        .numa = numa});
}

int hf3fs_iorcreate4(hf3fs_ior* ior, const char* hf3fs_mount_point, int entries, bool for_read,
                     int io_depth, int timeout, int numa, uint64_t flags) {
    return create_ring(ior, hf3fs_mount_point,
                       {.entries = entries,
                        .for_read = for_read,
                        .io_depth = io_depth,
                        .timeout = timeout,
                        .numa = numa,
                        .flags = flags});
}

void hf3fs_iordestroy(hf3fs_ior* ior) {
    if (ior == nullptr) return;
    delete ring_of(ior);
    ior->iorh = nullptr;
}

int hf3fs_io_entries(const hf3fs_ior* ior) {
    const RequestRing* const ring = ring_of(ior);
    return ring == nullptr ? -EINVAL : static_cast<int>(ring->entries());
}

// ---- files

int hf3fs_reg_fd(int fd, uint64_t /*flags*/) {
    const auto process = Process::current();
    if (!process) return to_errno(process.error());
    const auto added = (*process)->add_file(fd);
    return added ? -*added : to_errno(added.error());
}

void hf3fs_dereg_fd(int fd) {
    if (fd == INT_MIN) return;
    if (const auto process = Process::current()) (*process)->remove_file(fd);
}

// ---- requests

int hf3fs_prep_io(const hf3fs_ior* ior, const hf3fs_iov* iov, bool read, void* ptr, int fd,
                  size_t off, uint64_t len, const void* userdata) {
    RequestRing* const ring = ring_of(ior);
    if (ring == nullptr || read != ior->for_read || iov == nullptr || iov->base == nullptr ||
        ptr == nullptr || len == 0 || fd == INT_MIN || !is_within(*iov, ptr, len) ||
        len > INT64_MAX || off > INT64_MAX - len) {
        return -EINVAL;
    }
    const auto process = Process::current();
    if (!process) return negative(process);
    std::shared_ptr<Memory> memory;
    if (iov->iovh != nullptr) {
        memory = (*process)->memory(iov->base);
        if (memory == nullptr || memory->bytes() < iov->size) return -EINVAL;
    }
    auto file = (*process)->file(fd < 0 ? -fd : fd);
    if (file == nullptr) return -EBADF;
    if (file->link.get() != &ring->link()) {
        return file->link->has_ended() || ring->link().has_ended() ? -ENOTCONN : -EXDEV;
    }
    const int access = file->status & O_ACCMODE;
    if (access == (read ? O_WRONLY : O_RDONLY)) return -EACCES;
    const int index = ring->prepare({.is_read = read,
                                     .file = std::move(file),
                                     .memory = std::move(memory),
                                     .address = ptr,
                                     .bytes = len,
                                     .offset = off,
                                     .userdata = userdata});
    return index < 0 ? -EAGAIN : index;
}

int hf3fs_submit_ios(const hf3fs_ior* ior) {
    RequestRing* const ring = ring_of(ior);
    if (ring == nullptr) return -EINVAL;
    ring->submit();
    return 0;
}

int hf3fs_wait_for_ios(const hf3fs_ior* ior, hf3fs_cqe* cqes, int cqec, int min_results,
                       const timespec* abs_timeout) {
    RequestRing* const ring = ring_of(ior);
    if (ring == nullptr || cqec <= 0 || cqes == nullptr) return -EINVAL;
    return ring->wait({cqes, static_cast<size_t>(cqec)}, std::min(min_results, cqec), abs_timeout);
}
