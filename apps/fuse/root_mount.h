// RootMount: a mount that root makes before this process acts as another user (api/acting_user.h).
// That user could neither mount there nor unmount. A second process stays root's. It unmounts on
// request, and after this process has ended.
//
// Blocking system calls; any thread, one at a time.
#pragma once
#include <memory>
#include <string>

#include "ros2s/base/descriptor.h"
#include "ros2s/base/result.h"

namespace ros2s::fuse {

class RootMount {
  public:
    struct Flags {
        bool read_only = false;
        bool allow_other = false;
        bool no_exec = false;
    };
    // Programs that use the mount wait until this process serves it. Call it before the first
    // thread starts. Errors, with a sentence: those of the system.
    [[nodiscard]] static Result<std::unique_ptr<RootMount>> make(const std::string& mount_point,
                                                                 const std::string& source,
                                                                 Flags flags, Report& report);
    // Unmounts, also while files are open, unless that was done.
    ~RootMount();
    RootMount& operator=(RootMount&&) = delete;

    // Of /dev/fuse. The caller closes it.
    [[nodiscard]] int take_device() { return device_.release(); }
    // As open_abort_file().
    [[nodiscard]] Result<Descriptor> take_abort_file() { return std::move(abort_file_); }
    // As the functions of mount_point.h.
    [[nodiscard]] Result<> unmount() { return request('u'); }
    [[nodiscard]] Result<> write_back() { return request('w'); }
    [[nodiscard]] Result<> read_ahead_set() const { return read_ahead_set_; }

  private:
    RootMount(Descriptor device, Descriptor helper, Result<Descriptor> abort_file,
              Result<> read_ahead_set)
        : device_(std::move(device)),
          helper_(std::move(helper)),
          abort_file_(std::move(abort_file)),
          read_ahead_set_(read_ahead_set) {}
    Result<> request(char what) const;

    Descriptor device_;
    Descriptor helper_;  // a socket to the process that is root's
    Result<Descriptor> abort_file_;
    Result<> read_ahead_set_;
};

}  // namespace ros2s::fuse
