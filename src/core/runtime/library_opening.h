// LibraryOpening: an opening that uses a library whose static objects wait at exit for its threads,
// as RocksDB's and gRPC's do. A forked child does not have these threads. There exit() therefore
// ends the process when it comes to these objects: it flushes the C streams, and destroys no static
// object that is as old as they are. In a child that is forked during the opening it does so at
// once.
//
// In fork.cc. From any thread.
#pragma once

namespace ros2s {

class LibraryOpening {
  public:
    LibraryOpening() noexcept;
    // `is_first`: the library may have made its static objects.
    void done(bool is_first) noexcept;
};

}  // namespace ros2s
