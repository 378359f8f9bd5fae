// Mapping is the mapped memory of a PmemDevice, and holds the lock on it. It is private to
// device/pmem.
#pragma once
#include <libpmem.h>

#include <string>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/device/pmem/pmem_device.h"
#include "ros2s/runtime/task.h"

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

struct PmemDevice::Mapping {
    // Errors: as PmemDevice::open.
    [[nodiscard]] static Task<Result<std::shared_ptr<Mapping>>> make(Reactor& reactor,
                                                                     std::string path,
                                                                     PmemDeviceOptions options,
                                                                     Report& report);
    Mapping(std::string name, const LibPmem& functions)
        : path(std::move(name)), libpmem(functions) {}
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
    LibPmem libpmem;
    int lock = -1;  // the locked descriptor; files are read through it
    std::byte* memory = nullptr;
    uint64_t size = 0;
    bool is_memory = false;  // else: an ordinary file, by msync
    bool is_file = false;    // else: devdax
    bool is_damaged =
        false;  // the kernel knows of bad memory: writes go through the descriptor too
};

}  // namespace ros2s::device
