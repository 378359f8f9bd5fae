// FileDevice: a BlockDevice in a file, by O_DIRECT through the core's Ring (io_uring or threads).
// In tmpfs, small transfers are system calls and a flush does nothing. On a disk without a volatile
// write cache a flush is short (Ring::fdatasync): a written file has nothing to flush.
//
// One process at a time: the lock is on the descriptor that carries the I/O, so it is free only
// when the last operation of a dead owner has ended. handle_on() makes another descriptor of the
// same open file, for another core. It shares the lock, which the first handle's close() drops. In
// a forked child the copy of the descriptor is closed at once (runtime/fork.h), so a child does not
// keep the lock.
//
// The file has a fixed size and was fully written when it was created. discard() does nothing.
// Punching a hole would create unwritten extents; writing to them takes up to twice the time and
// turns a 40 µs flush into one of hundreds of µs.
//
// Used on the core on which it was opened, or for which handle_on() made it. Its Reactor must have
// a Ring.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "ros2s/device/counted_device.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::device {

struct FileDeviceOptions {
    // Use the page cache, for file systems without O_DIRECT. This must be requested, because it is
    // slower and uses memory. path() reports it.
    bool buffered = false;
    // For a file system that is mounted read-only: writes fail, and other readers are admitted.
    bool read_only = false;
};

// Progress of create_file_device(): bytes written so far, and in all.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

// Creates the file of a FileDevice: writes all of it once, and makes it and its name durable. The
// file is built as PATH.new and renamed when it is complete. A PATH.new that a killed process left
// is overwritten. `size` is a multiple of block_bytes. Errors: exists, no_space (needs …, has …),
// busy (being created by another process), cancelled, denied, not_found (the directory),
// unsupported (no O_DIRECT here), io.
[[nodiscard]] Task<Result<>> create_file_device(Reactor& reactor, std::string path, uint64_t size,
                                                FileDeviceOptions options, Progress progress,
                                                StopToken stop, Report& report);

class FileDevice final : public CountedDevice {
  public:
    // Errors: not_found, denied, busy (the report names the owner), invalid (not a regular file),
    // corrupt (its size is not a multiple of block_bytes), unsupported (no O_DIRECT here).
    [[nodiscard]] static Task<Result<std::unique_ptr<BlockDevice>>> open(Reactor& reactor,
                                                                         std::string path,
                                                                         FileDeviceOptions options,
                                                                         Report& report);
    ~FileDevice() override;
    FileDevice& operator=(FileDevice&&) = delete;

    [[nodiscard]] const std::string& name() const noexcept override { return path_; }
    [[nodiscard]] std::string path() const override;
    [[nodiscard]] uint64_t size() const noexcept override { return size_; }
    Task<Result<>> read(uint64_t offset, Bytes into) override;
    Task<Result<>> write(uint64_t offset, ConstBytes from) override;
    // Copies into the page cache on this thread.
    Task<Result<>> write_cached(uint64_t offset, ConstBytes from) override;
    Task<Result<>> flush() override;
    Task<Result<>> discard(uint64_t offset, uint64_t length) override;
    // Errors: those of dup(2).
    [[nodiscard]] Result<std::unique_ptr<BlockDevice>> handle_on(Reactor& reactor) override;
    Task<> close() override;

  private:
    enum class Medium : uint8_t { direct, page_cache, memory };
    FileDevice(Reactor& reactor, int fd, bool is_first, std::string path, uint64_t size,
               Medium medium, bool has_write_cache)
        : CountedDevice(reactor),
          reactor_(reactor),
          ring_(*reactor.ring()),
          fd_(fd),
          is_first_(is_first),
          path_(std::move(path)),
          size_(size),
          medium_(medium),
          has_write_cache_(has_write_cache) {}
    [[nodiscard]] bool is_open() const noexcept override { return fd_ >= 0; }
    Task<Result<>> transfer(Ring::Opcode opcode, uint64_t offset, std::byte* address,
                            uint64_t length);

    [[nodiscard]] Result<size_t> copy(Ring::Opcode opcode, uint64_t offset, std::byte* address,
                                      uint64_t length) const noexcept;

    // False: it has to be written otherwise.
    [[nodiscard]] bool copy_to_cache(uint64_t offset, ConstBytes from);
    // A descriptor for the page cache, or -1.
    [[nodiscard]] int cached_fd() noexcept;

    Reactor& reactor_;
    Ring& ring_;
    int fd_;               // -1: closed
    const bool is_first_;  // the first handle unlocks; the others come from handle_on()
    std::string path_;
    uint64_t size_;
    const Medium medium_;
    const bool has_write_cache_;
    int cached_fd_ = -1;       // of cached_fd()
    bool has_cached_ = false;  // since the last flush
    Time uses_cache_again_{};  // after a copy that waited
};

}  // namespace ros2s::device
