// NvmeDevice: a BlockDevice on an NVMe namespace, by passthrough. Commands go in io_uring entries
// to the character device /dev/ngXnY and bypass the kernel's block layer. Blocks are 4 KiB on LBAs
// of 512 to 4096 bytes. Transfers are split to the maximum of one command.
//
// Durability: flush() is the Flush command if the controller has a volatile cache. Without one, a
// completed write is durable and no command is sent. Force Unit Access is not used: a group's data
// and record need one flush of each device in any case (docs/decisions/0801).
//
// discard() is Dataset Management, deallocate, if the controller supports it.
//
// One process at a time: a lock on the character device, and an exclusive open of the block device,
// so that nothing can mount or format it. handle_on() makes a ring for another core. The first
// handle's close() drops the lock and comes last.
//
// A command that the controller may accept later is repeated a few times, except flushes. After a
// reset of the controller, reads in flight are repeated. Writes, discards and flushes in flight
// fail: completed writes may have been lost with the cache, and a remote controller may still
// execute a command that was cancelled here. If several controllers may lead to the namespace and
// none does, commands wait for one, up to 30 s. If the namespace is removed, operations in flight
// and all later ones fail.
//
// Used on the core on which it was opened, or for which handle_on() made it. Its Ring must be
// io_uring.
#pragma once
#include <linux/nvme_ioctl.h>

#include <memory>
#include <optional>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/device/counted_device.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::device {

class CommandRing;
struct Namespace;

// Bytes of the NVMe namespace whose character device is `path`, or the target of the link `path`.
// Empty if it is not such a device. Does not open it.
[[nodiscard]] std::optional<uint64_t> nvme_bytes(const std::string& path);

class NvmeDevice final : public CountedDevice {
  public:
    // `log` gets a line for the first failure of each kind. Errors: not_found, denied, busy (the
    // report names the owner), invalid (no such device), unsupported (its format, or a kernel or a
    // Ring without passthrough), io.
    [[nodiscard]] static Task<Result<std::unique_ptr<BlockDevice>>> open(Reactor& reactor,
                                                                         std::string path, Log log,
                                                                         Report& report);
    ~NvmeDevice() override;
    NvmeDevice& operator=(NvmeDevice&&) = delete;

    [[nodiscard]] const std::string& name() const noexcept override;
    [[nodiscard]] std::string path() const override;
    [[nodiscard]] uint64_t size() const noexcept override;
    [[nodiscard]] DeviceIdentity identity() const override;
    Task<Result<>> read(uint64_t offset, Bytes into) override;
    Task<Result<>> write(uint64_t offset, ConstBytes from) override;
    Task<Result<>> flush() override;
    Task<Result<>> discard(uint64_t offset, uint64_t length) override;
    [[nodiscard]] uint64_t discard_bytes_least() const noexcept override;
    // Errors: those of dup(2), and of making a ring.
    [[nodiscard]] Result<std::unique_ptr<BlockDevice>> handle_on(Reactor& reactor) override;
    Task<> close() override;

  private:
    struct Transfer;
    NvmeDevice(Reactor& reactor, std::unique_ptr<Namespace> space,
               std::unique_ptr<CommandRing> ring, bool is_first, Log log);
    [[nodiscard]] bool is_open() const noexcept override;
    [[nodiscard]] nvme_uring_cmd command_for(uint8_t opcode, uint64_t offset,
                                             uint64_t length) const;
    Task<Result<>> transfer(uint8_t opcode, uint64_t offset, std::byte* address, uint64_t length);
    Task<> move_part(Transfer& transfer, uint64_t from, uint64_t length);
    Task<int32_t> execute(nvme_uring_cmd command, Time until);
    Task<int32_t> execute_patiently(nvme_uring_cmd command);
    void tell(std::string_view doing, uint64_t offset, uint64_t length, int32_t result);

    Reactor& reactor_;
    std::unique_ptr<Namespace> space_;
    std::unique_ptr<CommandRing> ring_;
    const bool is_first_;  // the first handle unlocks; the others come from handle_on()
    Log log_;
    std::optional<int32_t> told_;  // the last failure that was logged
};

}  // namespace ros2s::device
