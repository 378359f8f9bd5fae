// The question that `ros2store why` asks the process that has a container mounted: an ioctl on a
// file in the mount, which the kernel passes to that process. Both ends run on one machine; the
// layout below is the format (docs/formats/why.md), and its size is part of the ioctl's number, so
// that processes of different versions get ENOTTY instead of misreading each other.
//
// Rights are the kernel's: who may open the file for reading may ask. A traced write needs a file
// that is open for writing and has no name any more, so that nobody else writes to it.
#pragma once
#include <linux/ioctl.h>

#include <array>
#include <cstdint>

#include "ros2s/api/file_trace.h"

namespace ros2s::api {

inline constexpr uint32_t mount_why_version = 1;

struct MountWhyStep {
    std::array<char, 24> name{};  // padded with zeros
    uint32_t depth = 0;
    uint32_t reserved = 0;
    uint64_t begin_ns = 0;
    uint64_t takes_ns = 0;
};
static_assert(sizeof(MountWhyStep) == 48);

struct MountWhyRequest {
    static constexpr uint32_t steps_max = 40;  // later ones are left out
    uint64_t bytes = 0;
    uint64_t whole_ns = 0;
    uint32_t present = 0;  // 0: there was no such request
    uint32_t steps = 0;
    std::array<MountWhyStep, steps_max> step{};
};
static_assert(sizeof(MountWhyRequest) == 24 + 40 * 48);

struct MountWhy {
    // The question.
    uint32_t version = mount_why_version;
    uint32_t write = 0;  // 1: trace a write too
    uint64_t offset = 0;
    // The answer.
    uint64_t handled_ns = 0;  // from the arrival of the question to the answer
    uint64_t staged = 0;
    std::array<char, 512> io_path{};  // padded with zeros
    MountWhyRequest read_request;
    MountWhyRequest write_request;
};
static_assert(sizeof(MountWhy) == 544 + 2 * sizeof(MountWhyRequest));

inline constexpr unsigned long mount_why_ioctl = _IOWR('R', 0x52, MountWhy);

[[nodiscard]] MountWhy encode_answer(const MountWhy& question, const FileTrace& trace,
                                     Duration handled);
// Takes any bytes.
[[nodiscard]] FileTrace decode_answer(const MountWhy& answer);

}  // namespace ros2s::api
