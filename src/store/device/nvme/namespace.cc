#include "namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ros2s/base/check.h"
#include "ros2s/base/descriptor.h"
#include "ros2s/device/lock/exclusive.h"
#include "ros2s/device/nvme/nvme_device.h"
#include "ros2s/runtime/fork.h"

namespace ros2s::device {
namespace {

constexpr uint8_t admin_identify = 0x06;
constexpr uint32_t identify_namespace = 0, identify_controller = 1;
constexpr uint64_t identify_bytes = 4096;
// For a kernel that does not report the maximum transfer of one command.
constexpr uint32_t transfer_bytes_default = 128 << 10;
// A command counts blocks in 16 bits.
constexpr uint32_t transfer_lbas_max = 1 << 16;

template <class T>
T at(ConstBytes bytes, size_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

bool is_zero(ConstBytes bytes) {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

DeviceIdentity identity_of(uint32_t number, ConstBytes of_namespace, ConstBytes of_controller) {
    const ConstBytes nguid = of_namespace.subspan(104, 16), eui64 = of_namespace.subspan(120, 8);
    DeviceIdentity identity;
    if (!is_zero(nguid)) {
        identity.kind = DeviceIdentity::Kind::nguid;
        std::memcpy(identity.bytes.data(), nguid.data(), nguid.size());
    } else if (!is_zero(eui64)) {
        identity.kind = DeviceIdentity::Kind::eui64;
        std::memcpy(identity.bytes.data(), eui64.data(), eui64.size());
    } else {
        identity.kind = DeviceIdentity::Kind::serial;
        std::memcpy(identity.bytes.data(), of_controller.data() + 4, 20);
        std::memcpy(identity.bytes.data() + 20, &number, sizeof number);
    }
    return identity;
}

Result<> identify(int fd, uint32_t number, uint32_t what, Bytes answer) {
    nvme_admin_cmd command{};
    command.opcode = admin_identify;
    command.nsid = what == identify_namespace ? number : 0;
    command.addr = reinterpret_cast<uint64_t>(answer.data());
    command.data_len = identify_bytes;
    command.cdw10 = what;
    const int status = ::ioctl(fd, NVME_IOCTL_ADMIN_CMD, &command);
    if (status < 0) return fail_errno(errno);
    if (status > 0) return fail(Error{Code::io, EIO, static_cast<uint64_t>(status)});
    return {};
}

uint64_t number_in(const std::filesystem::path& file) {
    std::ifstream text(file);
    uint64_t number = 0;
    text >> number;
    return number;
}

using Directory = std::filesystem::path;

// The directory of the controller in sysfs, or of the subsystem if the namespace has several paths.
Directory parent_of(const std::string& name) {
    std::error_code failed;
    return std::filesystem::canonical("/sys/class/nvme-generic/" + name, failed).parent_path();
}

// The sysfs directory of the block device of "ng0n1": "nvme0n1". But after a controller was removed
// and came back, the driver may give the two different first numbers.
std::optional<Directory> block_device_of(const std::string& name) {
    const std::string number = name.substr(name.find('n', 2));
    std::error_code failed;
    for (const auto& entry : std::filesystem::directory_iterator(parent_of(name), failed)) {
        const std::string each = entry.path().filename();
        if (each.size() <= 4 + number.size() || !each.starts_with("nvme")) continue;
        if (each.find_first_not_of("0123456789", 4) == each.size() - number.size() &&
            each.ends_with(number)) {
            return entry.path();
        }
    }
    return {};
}

// Includes the controller's limit, and the driver's limit for descriptions of memory: in the worst
// case no two pages are contiguous.
uint32_t transfer_limit(const Directory& queue, uint32_t lba_bytes) {
    const uint64_t command = number_in(queue / "max_hw_sectors_kb") << 10;
    const uint64_t segments = number_in(queue / "max_segments") * block_bytes;
    uint64_t limit = uint64_t{transfer_lbas_max} * lba_bytes;
    for (const uint64_t each : {command, segments}) {
        limit = std::min(limit, each == 0 ? transfer_bytes_default : each);
    }
    return static_cast<uint32_t>(std::max(round_down<uint64_t>(limit, block_bytes), block_bytes));
}

std::unexpected<Error> cannot_open(const std::string& path, int error, Report& report) {
    const Error code = fail_errno(error).error();
    switch (error) {
        case EACCES:
        case EPERM:
            return report.fail(code,
                               "{}: user {} may not use the namespace; run as root, or give this "
                               "user the character and the block device, and CAP_SYS_ADMIN",
                               path, geteuid());
        case EBUSY:
            return report.fail(code,
                               "{}: its block device is in use (mounted, part of a RAID or a "
                               "volume, or in a pool): see lsblk, and free it first",
                               path);
        case ENOENT:
        case ENODEV:
        case ENXIO:
            return report.fail(code, "{}: there is no such namespace; see `nvme list`", path);
        default: return report.fail(code, "{}: cannot open it ({})", path, describe(code));
    }
}

// The block device of the namespace, opened exclusively: a mounted one is refused, and it cannot be
// mounted or formatted meanwhile.
Result<int> claim_block_device(const std::string& path, const Directory& in_sysfs, Report& report) {
    const std::string block = "/dev/" + in_sysfs.filename().string();
    if (number_in(in_sysfs / "hidden") == 1) return -1;  // it cannot be opened
    Descriptor claim(::open(block.c_str(), O_RDWR | O_EXCL | O_CLOEXEC));
    if (claim.get() < 0 && errno == ENOENT) {
        return report.fail(Code::not_found,
                           "{}: its block device {} is not here, which keeps others from the "
                           "namespace: give this process both",
                           path, block);
    }
    if (claim.get() < 0) return cannot_open(path, errno, report);
    // Unflushed writes through its page cache must not overwrite the pool later.
    if (::fsync(claim.get()) != 0) {
        const Error error = fail_errno(errno).error();
        return report.fail(error, "{}: flushing the page cache of {} failed: {}", path, block,
                           describe(error));
    }
    close_in_forked_child(claim.get());
    return claim.release();
}

Result<> ask_controller(Namespace& space, Report& report) {
    const int number = ::ioctl(space.fd, NVME_IOCTL_ID);
    if (number <= 0) return cannot_open(space.path, errno, report);
    space.number = static_cast<uint32_t>(number);
    AlignedBuffer of_namespace(identify_bytes), of_controller(identify_bytes);
    for (const auto& [what, answer] : {std::pair{identify_namespace, of_namespace.bytes()},
                                       std::pair{identify_controller, of_controller.bytes()}}) {
        const auto asked = identify(space.fd, space.number, what, answer);
        if (asked) continue;
        if (asked.error().code == Code::denied) return cannot_open(space.path, EPERM, report);
        return report.fail(asked.error(), "{}: the controller does not identify it: {}", space.path,
                           describe(asked.error()));
    }
    ROS2S_TRY_ASSIGN(space.format, read_identify(space.path, space.number, of_namespace.bytes(),
                                                 of_controller.bytes(), report));
    return {};
}

}  // namespace

Result<NamespaceFormat> read_identify(const std::string& path, uint32_t number,
                                      ConstBytes of_namespace, ConstBytes of_controller,
                                      Report& report) {
    const auto flbas = at<uint8_t>(of_namespace, 26);
    const size_t index = (flbas & 0x0fU) | (flbas >> 1 & 0x30U);
    const ConstBytes lba_format = of_namespace.subspan(128 + 4 * index, 4);
    const auto metadata = at<uint16_t>(lba_format, 0);
    const auto shift = at<uint8_t>(lba_format, 2);
    const auto lbas = at<uint64_t>(of_namespace, 0);
    if (metadata != 0) {
        return report.fail(Code::unsupported,
                           "{}: its format has {} bytes of metadata per block; format it without "
                           "(nvme id-ns shows the formats, nvme format --lbaf chooses)",
                           path, metadata);
    }
    if (shift < 9 || shift > 12) {
        return report.fail(Code::unsupported,
                           "{}: its blocks have 2^{} bytes; 512 to 4096 are usable (nvme id-ns "
                           "shows the formats, nvme format chooses)",
                           path, shift);
    }
    if (lbas == 0 || lbas > (uint64_t{1} << 63) >> shift) {
        return report.fail(Code::corrupt,
                           "{}: the namespace reports {} blocks of {} bytes, which is not possible",
                           path, lbas, 1U << shift);
    }
    NamespaceFormat format{.size = round_down<uint64_t>(lbas << shift, block_bytes),
                           .lba_bytes = uint32_t{1} << shift,
                           .has_volatile_cache = (at<uint8_t>(of_controller, 525) & 1U) != 0,
                           .can_deallocate = (at<uint16_t>(of_controller, 520) & 4U) != 0,
                           .identity = identity_of(number, of_namespace, of_controller),
                           .model = {}};
    format.model.assign(reinterpret_cast<const char*>(of_controller.data()) + 24, 40);
    format.model.erase(format.model.find_last_not_of(' ') + 1);
    return format;
}

std::optional<std::string> namespace_name(const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0 || !S_ISCHR(status.st_mode)) return {};
    std::error_code failed;
    const auto device = std::filesystem::read_symlink(
        fmt::format("/sys/dev/char/{}:{}", major(status.st_rdev), minor(status.st_rdev)), failed);
    const std::string name = device.filename();
    if (failed || !std::filesystem::exists("/sys/class/nvme-generic/" + name, failed)) return {};
    return name;
}

std::optional<uint64_t> nvme_bytes(const std::string& path) {
    const auto name = namespace_name(path);
    if (!name) return {};
    const auto block = block_device_of(*name);
    return block ? number_in(*block / "size") * 512 : 0;
}

Task<Result<Namespace>> Namespace::open(Reactor& reactor, std::string path, Report& report) {
    const auto name = namespace_name(path);
    if (!name) {
        co_return report.fail(
            Code::invalid,
            path + ": is not an NVMe namespace's character device (/dev/ng0n1, say)");
    }
    const KernelVersion kernel = KernelVersion::running();
    if (!kernel.reports_dropped_commands()) {
        co_return report.fail(Code::unsupported,
                              "{}: this kernel (Linux {}) may call an NVMe command done that never "
                              "reached the device; update it (6.1.63, 6.5.12, 6.6.2 and 6.7 are "
                              "fixed), or make a file system on the namespace and the pool there",
                              path, kernel.to_string());
    }
    const auto block = block_device_of(*name);
    if (!block) {
        co_return report.fail(Code::not_found,
                              "{}: {} shows no block device of it, which this process must open to "
                              "keep others from the namespace: is the device being removed?",
                              path, parent_of(*name).string());
    }
    Namespace space;
    space.path = path;
    space.fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (space.fd < 0) co_return cannot_open(path, errno, report);
    close_in_forked_child(space.fd);
    // Takes the lock first, because its refusal names the owner.
    auto opened = co_await lock_exclusively(reactor, space.fd, path, report);
    if (opened) {
        const auto claimed = claim_block_device(path, *block, report);
        if (claimed) {
            space.claim = *claimed;
            opened = ask_controller(space, report);
        } else {
            opened = fail(claimed.error());
        }
    }
    if (!opened) {
        space.close();
        co_return fail(opened.error());
    }
    space.transfer_bytes_max = transfer_limit(*block / "queue", space.format.lba_bytes);
    space.has_paths = parent_of(*name).parent_path().filename() == "nvme-subsystem";
    if (number_in(*block / "queue" / "io_poll") == 1) {
        space.polling = kernel.polls_by_request() ? Polling::polled : Polling::kernel_too_old;
    }
    space.takes_registered = kernel.takes_parts_of_registered();
    co_return std::move(space);
}

void Namespace::close() noexcept {
    if (claim >= 0) close_everywhere(claim);
    unlock_and_close(fd);
    fd = claim = -1;
}

namespace {

// Also parses a package's version, with its epoch: "1:6.1.63-1".
KernelVersion parse(const std::string& text) {
    const size_t epoch = text.find_first_not_of("0123456789");
    const size_t begin = epoch != std::string::npos && text[epoch] == ':' ? epoch + 1 : 0;
    KernelVersion version;
    if (std::sscanf(text.c_str() + begin, "%d.%d.%d", &version.major, &version.minor,
                    &version.patch) < 2) {
        return {};
    }
    return version;
}

}  // namespace

KernelVersion KernelVersion::read(const std::string& release, const std::string& version,
                                  const std::string& signature) {
    const KernelVersion named = parse(release);
    const size_t debian = version.find("Debian ");
    const size_t last_word = signature.find_last_of(' ');
    for (const std::string& text :
         {debian == std::string::npos ? "" : version.substr(debian + 7),
          last_word == std::string::npos ? "" : signature.substr(last_word + 1)}) {
        const KernelVersion upstream = parse(text);
        if (upstream.major == named.major && upstream.minor == named.minor) {
            return std::max(named, upstream);
        }
    }
    return named;
}

KernelVersion KernelVersion::running() {
    utsname kernel{};
    ROS2S_CHECK(uname(&kernel) == 0);
    std::string signature;
    std::getline(std::ifstream("/proc/version_signature"), signature);
    return read(kernel.release, kernel.version, signature);
}

std::string KernelVersion::to_string() const {
    return fmt::format("{}.{}.{}", major, minor, patch);
}

bool KernelVersion::reports_dropped_commands() const noexcept {
    for (const KernelVersion& mended : {KernelVersion{6, 1, 63}, {6, 5, 12}, {6, 6, 2}}) {
        if (major == mended.major && minor == mended.minor) return *this >= mended;
    }
    return *this >= KernelVersion{6, 7, 0};
}

bool KernelVersion::polls_by_request() const noexcept { return *this >= KernelVersion{6, 4, 0}; }

bool KernelVersion::takes_parts_of_registered() const noexcept {
    return *this >= KernelVersion{6, 12, 0};
}

}  // namespace ros2s::device
