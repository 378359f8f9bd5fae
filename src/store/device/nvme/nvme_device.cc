#include "ros2s/device/nvme/nvme_device.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "command_ring.h"
#include "namespace.h"
#include "ros2s/base/check.h"
#include "ros2s/runtime/fork.h"
#include "ros2s/runtime/nursery.h"
#include "status.h"

namespace ros2s::device {
namespace {

constexpr uint8_t command_flush = 0x00, command_write = 0x01, command_read = 0x02,
                  command_dataset_management = 0x09;
constexpr uint32_t deallocate = 4;
// Concurrent parts of one transfer.
constexpr size_t parts_in_flight = 8;
constexpr int repetitions_max = 5;
constexpr Duration repetition_pause = std::chrono::milliseconds(100);
// The timeout of a command. The driver's own is 30 s, but does not always apply to passthrough.
constexpr uint32_t timeout_ms = 30'000;
// The time to wait for a path to the namespace.
constexpr Duration path_within = std::chrono::seconds(30);
// One range of Dataset Management counts LBAs in 32 bits.
constexpr uint64_t discard_bytes_max = uint64_t{1} << 30;
// Smaller ranges are rewritten before a discard would gain anything. Controllers free flash in
// units of about this size, or larger.
constexpr uint64_t discard_bytes_worth = 64 << 10;

struct DatasetRange {
    uint32_t attributes = 0;
    uint32_t lbas = 0;
    uint64_t first_lba = 0;
};
static_assert(sizeof(DatasetRange) == 16);

Result<std::unique_ptr<CommandRing>> ring_to(const Namespace& space, Reactor& reactor,
                                             Report& report) {
    return CommandRing::create(
        reactor, {.polled = space.polling == Polling::polled, .registered = space.takes_registered},
        report);
}

}  // namespace

struct NvmeDevice::Transfer {
    uint8_t opcode = 0;
    uint64_t offset = 0;
    std::byte* address = nullptr;
    Result<> result{};
};

NvmeDevice::NvmeDevice(Reactor& reactor, std::unique_ptr<Namespace> space,
                       std::unique_ptr<CommandRing> ring, bool is_first, Log log)
    : CountedDevice(reactor),
      reactor_(reactor),
      space_(std::move(space)),
      ring_(std::move(ring)),
      is_first_(is_first),
      log_(std::move(log)) {}

NvmeDevice::~NvmeDevice() { ROS2S_CHECK(space_->fd < 0); }

Task<Result<std::unique_ptr<BlockDevice>>> NvmeDevice::open(Reactor& reactor, std::string path,
                                                            Log log, Report& report) {
    ROS2S_CHECK(reactor.ring() != nullptr);
    if (reactor.ring()->kind() != Ring::Kind::io_uring) {
        co_return report.fail(Code::unsupported,
                              path +
                                  ": NVMe passthrough needs io_uring, which this process "
                                  "cannot use: `ros2store doctor` shows the reason");
    }
    ROS2S_CO_TRY_ASSIGN(auto opened, co_await Namespace::open(reactor, path, report));
    auto space = std::make_unique<Namespace>(std::move(opened));
    auto ring = ring_to(*space, reactor, report);
    if (!ring) {
        space->close();
        co_return fail(ring.error());
    }
    co_return std::unique_ptr<BlockDevice>(
        new NvmeDevice(reactor, std::move(space), std::move(*ring), true, std::move(log)));
}

Result<std::unique_ptr<BlockDevice>> NvmeDevice::handle_on(Reactor& reactor) {
    ROS2S_CHECK(space_->fd >= 0 && reactor.ring() != nullptr);
    if (reactor.ring()->kind() != Ring::Kind::io_uring) return fail(Code::unsupported);
    Report refusal;
    ROS2S_TRY_ASSIGN(auto ring, ring_to(*space_, reactor, refusal));
    auto space = std::make_unique<Namespace>(*space_);
    space->claim = -1;
    space->fd = ::fcntl(space_->fd, F_DUPFD_CLOEXEC, 0);
    if (space->fd < 0) return fail_errno(errno);
    close_in_forked_child(space->fd);
    return std::unique_ptr<BlockDevice>(
        new NvmeDevice(reactor, std::move(space), std::move(ring), false, log_));
}

bool NvmeDevice::is_open() const noexcept { return space_->fd >= 0; }
const std::string& NvmeDevice::name() const noexcept { return space_->path; }
uint64_t NvmeDevice::size() const noexcept { return space_->format.size; }
DeviceIdentity NvmeDevice::identity() const { return space_->format.identity; }

std::string NvmeDevice::path() const {
    const char* polled = space_->polling == Polling::polled ? ", polled"
                         : space_->polling == Polling::kernel_too_old
                             ? ", not polled before Linux 6.4"
                             : "";
    return fmt::format("NVMe passthrough (io_uring{}), {}, {} B blocks, {}", polled,
                       space_->format.identity.to_string(), space_->format.lba_bytes,
                       space_->format.has_volatile_cache ? "Flush" : "no volatile cache");
}

// Logs each kind once in a row; the counter has the number.
void NvmeDevice::tell(std::string_view doing, uint64_t offset, uint64_t length, int32_t result) {
    if (told_ == result) return;
    told_ = result;
    log_.error("{}: the device reports an error for {} of {} bytes at {}: {}", name(), doing,
               length, offset, describe_failure(result));
}

nvme_uring_cmd NvmeDevice::command_for(uint8_t opcode, uint64_t offset, uint64_t length) const {
    nvme_uring_cmd command{};
    command.opcode = opcode;
    command.nsid = space_->number;
    command.timeout_ms = timeout_ms;
    if (length == 0) return command;
    const uint64_t first = offset / space_->format.lba_bytes;
    command.cdw10 = static_cast<uint32_t>(first);
    command.cdw11 = static_cast<uint32_t>(first >> 32);
    command.cdw12 = static_cast<uint32_t>(length / space_->format.lba_bytes - 1);
    return command;
}

// If no controller leads to the namespace for a moment, the driver sends nothing and returns
// "invalid command".
Task<int32_t> NvmeDevice::execute(nvme_uring_cmd command, Time until) {
    while (true) {
        const uint32_t resets = space_->cache->resets();
        const int32_t result = co_await ring_->execute(space_->fd, command);
        if (result == 0 && command.opcode == command_write) space_->cache->wrote(resets);
        const bool no_path = result == -EINVAL && space_->has_paths;
        if (no_path || was_cancelled(result)) space_->cache->met_reset();
        if (!no_path) co_return result;
        if (reactor_.now() >= until) co_return status_no_path;
        co_await sleep_for(reactor_, repetition_pause);
    }
}

// A cancelled command may have reached a remote controller, which may still execute it late. If it
// changes anything, it is therefore an error.
Task<int32_t> NvmeDevice::execute_patiently(nvme_uring_cmd command) {
    const Time until = reactor_.now() + path_within;
    for (int i = 0;; ++i) {
        const int32_t result = co_await execute(command, until);
        const bool is_lost = command.opcode != command_read && was_cancelled(result);
        if (is_lost || !may_repeat(result) || i == repetitions_max) co_return result;
        co_await sleep_for(reactor_, repetition_pause);
    }
}

Task<> NvmeDevice::move_part(Transfer& transfer, uint64_t from, uint64_t length) {
    nvme_uring_cmd command = command_for(transfer.opcode, transfer.offset + from, length);
    command.addr = reinterpret_cast<uint64_t>(transfer.address + from);
    command.data_len = static_cast<uint32_t>(length);
    const int32_t result = co_await execute_patiently(command);
    if (result == 0) co_return;
    tell(transfer.opcode == command_read ? "a read" : "a write", transfer.offset + from, length,
         result);
    transfer.result = fail(command_error(result));
}

Task<Result<>> NvmeDevice::transfer(uint8_t opcode, uint64_t offset, std::byte* address,
                                    uint64_t length) {
    began();
    Transfer whole{.opcode = opcode, .offset = offset, .address = address};
    const uint64_t part_max = space_->transfer_bytes_max;
    if (length <= part_max) {
        co_await move_part(whole, 0, length);
        co_return ended(whole.result);
    }
    Nursery parts(reactor_, parts_in_flight);
    for (uint64_t at = 0; at < length && whole.result; at += part_max) {
        co_await parts.spawn(move_part(whole, at, std::min(part_max, length - at)));
    }
    co_await parts.join();
    co_return ended(whole.result);
}

Task<Result<>> NvmeDevice::read(uint64_t offset, Bytes into) {
    count_read(offset, into.size());
    ROS2S_CHECK(reinterpret_cast<uintptr_t>(into.data()) % block_bytes == 0);
    return transfer(command_read, offset, into.data(), into.size());
}

Task<Result<>> NvmeDevice::write(uint64_t offset, ConstBytes from) {
    count_write(offset, from.size());
    ROS2S_CHECK(reinterpret_cast<uintptr_t>(from.data()) % block_bytes == 0);
    // A command has one kind of address; a write only reads from it.
    return transfer(command_write, offset, const_cast<std::byte*>(from.data()), from.size());
}

Task<Result<>> NvmeDevice::flush() {
    count_flush();
    if (!space_->format.has_volatile_cache) co_return Result<>{};
    began();
    space_->cache->flushing();
    int32_t result =
        co_await execute(command_for(command_flush, 0, 0), reactor_.now() + path_within);
    if (!space_->cache->flushed() && result == 0) result = -EINTR;
    if (result == 0) co_return ended({});
    tell("a flush", 0, size(), result);
    co_return ended(fail(command_error(result)));
}

Task<Result<>> NvmeDevice::discard(uint64_t offset, uint64_t length) {
    count_discard(offset, length);
    if (!space_->format.can_deallocate) co_return Result<>{};
    began();
    AlignedBuffer memory(block_bytes);
    int32_t result = 0;
    for (uint64_t done = 0; done < length && result == 0; done += discard_bytes_max) {
        const uint64_t part = std::min(discard_bytes_max, length - done);
        const DatasetRange range{.lbas = static_cast<uint32_t>(part / space_->format.lba_bytes),
                                 .first_lba = (offset + done) / space_->format.lba_bytes};
        std::memcpy(memory.data(), &range, sizeof range);
        nvme_uring_cmd command = command_for(command_dataset_management, 0, 0);
        command.addr = reinterpret_cast<uint64_t>(memory.data());
        command.data_len = sizeof range;
        command.cdw11 = deallocate;
        result = co_await execute_patiently(command);
    }
    if (result == 0) co_return ended({});
    tell("a discard", offset, length, result);
    const bool answered = result > 0 && !was_cancelled(result);
    co_return ended(fail(answered ? Error{Code::unsupported} : command_error(result)));
}

uint64_t NvmeDevice::discard_bytes_least() const noexcept {
    return space_->format.can_deallocate ? discard_bytes_worth : 0;
}

Task<> NvmeDevice::close() {
    co_await all_ended();
    co_await ring_->close();
    if (is_first_) {
        space_->close();
    } else {
        close_everywhere(space_->fd);
        space_->fd = -1;
    }
}

}  // namespace ros2s::device
