// The mapping of a PmemDevice, and the lock on it. Private to device/pmem.
#pragma once
#include <string>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/device/pmem/pmem_device.h"
#include "ros2s/runtime/task.h"

namespace ros2s::device {

struct PmemDevice::Mapping {
    // Errors: as PmemDevice::open.
    [[nodiscard]] static Task<Result<std::shared_ptr<Mapping>>> make(Reactor& reactor,
                                                                     std::string path,
                                                                     PmemDeviceOptions options,
                                                                     Report& report);
    explicit Mapping(std::string name) : path(std::move(name)) {}
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    // Copies from it. Errors: io (memory that has lost its contents, a truncated file).
    [[nodiscard]] Result<> load(uint64_t offset, Bytes into) const;
    // Copies into it; durable when it returns. Errors: io (memory known as bad when it was mapped;
    // msync of an ordinary file).
    [[nodiscard]] Result<> store(uint64_t offset, ConstBytes from) const;

    [[nodiscard]] Result<> store_by_descriptor(uint64_t offset, ConstBytes from) const;

    std::string path;
    int lock = -1;  // the locked descriptor; files are read through it
    std::byte* memory = nullptr;
    uint64_t size = 0;
    bool is_memory = false;  // else: an ordinary file, by msync
    bool is_file = false;    // else: devdax
    bool is_damaged =
        false;  // the kernel knows of bad memory: writes go through the descriptor too
};

}  // namespace ros2s::device
