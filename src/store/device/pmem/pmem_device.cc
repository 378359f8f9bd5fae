#include "ros2s/device/pmem/pmem_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <libpmem.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "ros2s/base/check.h"
#include "ros2s/base/loaded_library.h"
#include "ros2s/device/lock/exclusive.h"
#include "ros2s/runtime/fork.h"
#include "ros2s/runtime/process_limits.h"

namespace ros2s::device {

// The functions of libpmem, which is loaded when a device is opened, and stays: it brings seven
// libraries that no other pool needs.
struct LibPmem {
    decltype(&pmem_map_file) map_file = nullptr;
    decltype(&pmem_unmap) unmap = nullptr;
    decltype(&pmem_memcpy) memcpy = nullptr;
    decltype(&pmem_msync) msync = nullptr;
    // Errors: unsupported.
    [[nodiscard]] static Result<LibPmem> load(Report& report);
};

// The mapped memory of a device, and the lock on it.
struct PmemDevice::Mapping {
    // Errors: as PmemDevice::open.
    [[nodiscard]] static Task<Result<std::shared_ptr<Mapping>>> make(Reactor& reactor,
                                                                     std::string path,
                                                                     PmemDeviceOptions options,
                                                                     Report& report);
    Mapping(std::string name, const LibPmem& functions)
        : path(std::move(name)), libpmem(functions) {}
    ~Mapping();
    Mapping& operator=(Mapping&&) = delete;

    // Copies from it. Errors: io (memory that has lost its contents, a truncated file).
    [[nodiscard]] Result<> load(uint64_t offset, Bytes into) const;
    // Copies into it; durable when it returns. Errors: io (memory known as bad when it was mapped;
    // msync of an ordinary file).
    [[nodiscard]] Result<> store(uint64_t offset, ConstBytes from) const;
    [[nodiscard]] Result<> store_by_descriptor(uint64_t offset, ConstBytes from) const;

    std::string path;
    LibPmem libpmem;
    int lock = -1;  // the locked descriptor; files are read through it
    std::byte* memory = nullptr;
    uint64_t size = 0;
    bool is_memory = false;  // else: an ordinary file, by msync
    bool is_file = false;    // else: devdax
    // The kernel knows of bad memory: writes go through the descriptor, too.
    bool is_damaged = false;
};

namespace {

std::unexpected<Error> open_failed(const std::string& path, int error, Report& report) {
    const Error code = fail_errno(error).error();
    const char* remedy = error == ENOENT ? "; check the path"
                         : error == EACCES || error == EPERM
                             ? "; run as its owner, or change its mode"
                             : "";
    return report.fail(code, "{}: cannot open it ({}){}", path, describe(code), remedy);
}

std::unexpected<Error> no_memory_there(const std::string& path, Report& report) {
    return report.fail(Code::unsupported,
                       "{}: is not persistent memory that programs can flush by themselves "
                       "(virtio-pmem is not). Name a devdax device of another region (`ndctl list "
                       "-R`), or a file on a file system that is mounted with -o dax",
                       path);
}

// Returns true if its memory is a region of NVDIMMs (or CXL memory, which the kernel presents as
// such), and stores to it are durable without the help of a hypervisor.
bool is_persistent(const std::filesystem::path& device) {
    std::error_code failed;
    std::filesystem::path folder;
    bool is_region = false;
    for (const auto& part : std::filesystem::canonical(device, failed)) {
        folder /= part;
        const std::string name = part;
        if (name.starts_with("virtio")) return false;
        if (std::exchange(is_region, name.starts_with("ndbus"))) {
            std::string type;
            return std::getline(std::ifstream(folder / "devtype"), type) && type == "nd_pmem";
        }
    }
    return false;
}

// The bytes of a character device of the kernel's class "dax"; empty for any other.
std::optional<uint64_t> devdax_bytes(const struct stat& status) {
    const auto device =
        fmt::format("/sys/dev/char/{}:{}", major(status.st_rdev), minor(status.st_rdev));
    std::error_code missing;
    const auto subsystem = std::filesystem::read_symlink(device + "/subsystem", missing);
    if (missing || subsystem.filename() != "dax" || !is_persistent(device)) return {};
    std::ifstream file(device + "/size");
    uint64_t bytes = 0;
    if (!(file >> bytes)) return {};
    return bytes;
}

// Returns true if the kernel lists memory that has lost its contents on the device below a file, or
// on the whole of a partitioned one. A store to such memory raises SIGBUS.
bool has_bad_memory(dev_t device) {
    const auto folder = fmt::format("/sys/dev/block/{}:{}/", major(device), minor(device));
    for (const char* file : {"badblocks", "../badblocks"}) {
        std::ifstream list(folder + file);
        if (list && list.peek() != std::ifstream::traits_type::eof()) return true;
    }
    return false;
}

}  // namespace

std::optional<uint64_t> pmem_bytes(const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return {};
    if (S_ISCHR(status.st_mode)) return devdax_bytes(status);
    if (!S_ISREG(status.st_mode)) return {};
    struct statx more{};
    if (::statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS, &more) != 0) return {};
    if ((more.stx_attributes & STATX_ATTR_DAX) == 0) return {};
    return static_cast<uint64_t>(status.st_size);
}

Result<LibPmem> LibPmem::load(Report& report) {
    constexpr LibraryWords words{"persistent memory needs libpmem.so.1, which",
                                 ": apt-get install libpmem1"};
    LoadedLibrary library;
    ROS2S_TRY(open_library("libpmem.so.1", words, library, report));
    LibPmem found;
    library.look_up(found.map_file, "pmem_map_file");
    library.look_up(found.unmap, "pmem_unmap");
    library.look_up(found.memcpy, "pmem_memcpy");
    library.look_up(found.msync, "pmem_msync");
    if (library.missing != nullptr) return fail_to_load(words, report);
    return found;
}

Task<Result<std::shared_ptr<PmemDevice::Mapping>>> PmemDevice::Mapping::make(
    Reactor& reactor, std::string path, PmemDeviceOptions options, Report& report) {
#if !defined(__x86_64__)
    // Debian's libpmem has no instruction of Arm that waits for the point of persistence.
    if (!options.ordinary_file) {
        co_return report.fail(Code::unsupported, path +
                                                     ": persistent memory is used on x86-64 alone; "
                                                     "name a device file on another file system");
    }
#endif
    ROS2S_CO_TRY_ASSIGN(const LibPmem libpmem, LibPmem::load(report));
    auto made = std::make_shared<Mapping>(path, libpmem);
    // O_NONBLOCK, so that a named pipe at this path is refused below and does not block.
    made->lock = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (made->lock < 0) co_return open_failed(path, errno, report);
    close_in_forked_child(made->lock);
    struct stat status{};
    if (::fstat(made->lock, &status) != 0) co_return open_failed(path, errno, report);
    if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) {
        co_return report.fail(Code::invalid, path + ": is neither a file nor a devdax device");
    }
    if (!options.ordinary_file && !pmem_bytes(path)) co_return no_memory_there(path, report);
    ROS2S_CO_TRY(co_await lock_exclusively(reactor, made->lock, path, report));
    size_t length = 0;
    int is_memory = 0;
    void* const address = libpmem.map_file(path.c_str(), 0, 0, 0, &length, &is_memory);
    if (address == nullptr) co_return open_failed(path, errno, report);
    made->memory = static_cast<std::byte*>(address);
    made->size = length;
    made->is_memory = is_memory != 0;
    made->is_file = S_ISREG(status.st_mode);
    made->is_damaged = made->is_file && has_bad_memory(status.st_dev);
    if (!made->is_memory && !options.ordinary_file) co_return no_memory_there(path, report);
    if (length == 0 || length % block_bytes != 0) {
        co_return report.fail(Code::corrupt,
                              "{}: has {} bytes, not a positive multiple of {}: it was truncated. "
                              "Restore it from a copy",
                              path, length, block_bytes);
    }
    if (made->is_file) ROS2S_CO_TRY(check_file_bytes(path, length, report));
    ::madvise(address, length, MADV_DONTFORK);
    co_return made;
}

PmemDevice::Mapping::~Mapping() {
    if (memory != nullptr) libpmem.unmap(memory, size);
    unlock_and_close(lock);
}

// The kernel copies with instructions that survive bad memory. A load in this process would end it.
Result<> PmemDevice::Mapping::load(uint64_t offset, Bytes into) const {
    if (!is_file) {
        std::memcpy(into.data(), memory + offset, into.size());
        return {};
    }
    while (!into.empty()) {
        const ssize_t count = ::pread(lock, into.data(), into.size(), static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return fail(Error{Code::io, count == 0 ? EIO : errno, 0});
        into = into.subspan(static_cast<size_t>(count));
        offset += static_cast<uint64_t>(count);
    }
    return {};
}

Result<> PmemDevice::Mapping::store_by_descriptor(uint64_t offset, ConstBytes from) const {
    while (!from.empty()) {
        const ssize_t count = ::pwrite(lock, from.data(), from.size(), static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return fail(Error{Code::io, count == 0 ? EIO : errno, 0});
        from = from.subspan(static_cast<size_t>(count));
        offset += static_cast<uint64_t>(count);
    }
    if (::fdatasync(lock) != 0) return fail(Error{Code::io, errno, 0});
    return {};
}

Result<> PmemDevice::Mapping::store(uint64_t offset, ConstBytes from) const {
    if (is_damaged) return store_by_descriptor(offset, from);
    std::byte* const to = memory + offset;
    if (is_memory) {
        libpmem.memcpy(to, from.data(), from.size(), PMEM_F_MEM_NONTEMPORAL);
        return {};
    }
    std::memcpy(to, from.data(), from.size());
    if (libpmem.msync(to, from.size()) != 0) return fail(Error{Code::io, errno, 0});
    return {};
}

namespace {

// Bytes copied before others on the core run: some ten microseconds.
constexpr uint64_t turn_bytes = 128 * 1024;

}  // namespace

Task<Result<std::unique_ptr<BlockDevice>>> PmemDevice::open(Reactor& reactor, std::string path,
                                                            PmemDeviceOptions options,
                                                            Report& report) {
    ROS2S_CO_TRY_ASSIGN(auto mapping,
                        co_await Mapping::make(reactor, std::move(path), options, report));
    co_return std::unique_ptr<BlockDevice>(new PmemDevice(reactor, std::move(mapping)));
}

Result<std::unique_ptr<BlockDevice>> PmemDevice::handle_on(Reactor& reactor) {
    return std::unique_ptr<BlockDevice>(new PmemDevice(reactor, mapping_));
}

PmemDevice::~PmemDevice() { ROS2S_CHECK(mapping_ == nullptr); }

const std::string& PmemDevice::name() const noexcept { return mapping_->path; }
uint64_t PmemDevice::size() const noexcept { return mapping_->size; }

std::string PmemDevice::path() const {
    if (!mapping_->is_memory) return "libpmem, ordinary file, msync";
    return mapping_->is_damaged ? "persistent memory with bad blocks, by pwrite"
                                : "libpmem, persistent memory";
}

Task<Result<>> PmemDevice::read(uint64_t offset, Bytes into) {
    count_read(offset, into.size());
    began();
    while (true) {
        const uint64_t part = std::min<uint64_t>(into.size(), turn_bytes);
        if (const Result<> loaded = mapping_->load(offset, into.first(part)); !loaded) {
            co_return ended(loaded);
        }
        into = into.subspan(part);
        offset += part;
        if (into.empty()) break;
        co_await yield(reactor_);
    }
    co_return ended({});
}

Task<Result<>> PmemDevice::write(uint64_t offset, ConstBytes from) {
    count_write(offset, from.size());
    began();
    while (true) {
        const auto part = from.first(std::min<uint64_t>(from.size(), turn_bytes));
        if (const Result<> stored = mapping_->store(offset, part); !stored) {
            co_return ended(stored);
        }
        from = from.subspan(part.size());
        offset += part.size();
        if (from.empty()) break;
        co_await yield(reactor_);
    }
    co_return ended({});
}

Task<Result<>> PmemDevice::flush() {
    count_flush();
    co_return Result<>{};
}

Task<Result<>> PmemDevice::discard(uint64_t offset, uint64_t length) {
    count_discard(offset, length);
    co_return Result<>{};
}

Task<> PmemDevice::close() {
    co_await all_ended();
    mapping_.reset();
}

}  // namespace ros2s::device
