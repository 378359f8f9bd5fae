#include "segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

namespace ros2s::fabric::shm {
namespace {
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
}

void Segment::unmap() noexcept {
    if (!memory_.empty()) munmap(memory_.data(), memory_.size());
    memory_ = {};
}

Result<Segment> Segment::map(Descriptor descriptor, uint64_t size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
    if (memory == MAP_FAILED) return fail_errno(errno);
    // A forked child must not access our peers' memory.
    madvise(memory, size, MADV_DONTFORK);
    return Segment(std::move(descriptor), {static_cast<std::byte*>(memory), size});
}

Result<Segment> Segment::create(const char* name, uint64_t size) {
    Descriptor descriptor(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!descriptor.open()) return fail_errno(errno);
    if (ftruncate(descriptor.get(), static_cast<off_t>(size)) != 0) return fail_errno(errno);
    if (fcntl(descriptor.get(), F_ADD_SEALS, seals) != 0) return fail_errno(errno);
    return map(std::move(descriptor), size);
}

Result<Segment> Segment::take_in(Descriptor descriptor, uint64_t size, Report& report) {
    const int has = fcntl(descriptor.get(), F_GET_SEALS);
    if (has < 0 || (has & seals) != seals) {
        return report.fail(Code::denied,
                           "the peer sent shared memory that is not sealed against shrinking: it "
                           "is not a ros2store server of this version");
    }
    struct statfs system{};
    if (fstatfs(descriptor.get(), &system) != 0 || system.f_type != TMPFS_MAGIC) {
        return report.fail(Code::denied,
                           "the peer sent shared memory of huge pages or of a file: only ordinary "
                           "memfd memory is taken");
    }
    struct stat status{};
    if (fstat(descriptor.get(), &status) != 0 || status.st_size < 0 ||
        static_cast<uint64_t>(status.st_size) != size || size == 0) {
        return report.fail(Code::denied,
                           "the peer sent shared memory of " + std::to_string(status.st_size) +
                               " bytes, not of the " + std::to_string(size) + " that it announced");
    }
    return map(std::move(descriptor), size);
}

}  // namespace ros2s::fabric::shm
