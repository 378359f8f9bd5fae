// How a program gets the files that it has open on a mount over the host link, past the kernel: it
// makes these ioctls on its own descriptors, and the mount's LinkServer does the reads and writes.
//
//     begin_lending, on any descriptor of the mount ─► a session, and a ticket for one connection
//     lend, on a file's descriptor                  ─► a handle of that session
//
// The handle has the rights of the descriptor and ends with it. The ticket works once, within
// seconds, for the user who asked and for the client instance.
//
// The two structs are between a program and a mount of one machine.
#pragma once
#include <sys/ioctl.h>

#include <array>
#include <cstdint>
#include <type_traits>

#include "ros2s/base/uuid.h"
#include "ros2s/session/tickets.h"

namespace ros2s::hostlink {

struct LendingSession {
    Uuid client;                // the program's: its client instance
    uint64_t session = 0;       // the mount's, as all that follows
    uint64_t mount = 0;         // in that session
    session::Ticket ticket;     // for the connection
    std::array<char, 64> at{};  // the address of the LinkServer (shm), with a NUL
};
static_assert(sizeof(LendingSession) == 136 &&
              std::has_unique_object_representations_v<LendingSession>);

struct BorrowedFile {
    uint64_t session = 0, mount = 0;  // the program's
    uint64_t handle = 0;              // the mount's
    uint64_t node = 0;
};
static_assert(sizeof(BorrowedFile) == 32 && std::has_unique_object_representations_v<BorrowedFile>);

// Of these structs and ioctls; replied as a uint32_t on any descriptor of a mount that lends.
inline constexpr uint32_t lending_version_now = 1;
inline constexpr unsigned long lending_version = _IOR(0xB2, 0, uint32_t);

inline constexpr unsigned long begin_lending = _IOWR(0xB2, 1, LendingSession);
inline constexpr unsigned long lend = _IOWR(0xB2, 2, BorrowedFile);

}  // namespace ros2s::hostlink
