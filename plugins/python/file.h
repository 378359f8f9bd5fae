// An open file as the classes of package/ use it.
#pragma once
#include <fcntl.h>
#include <pybind11/pybind11.h>
#include <sys/file.h>

#include <ros2store/ros2store.hpp>

#include "buffers.h"
#include "shared_handle.h"
#include "sizes.h"

class PythonFile {
  public:
    explicit PythonFile(ros2store::File file) : file_(std::move(file), "file") {}

    template <class Work>
    auto call(const Work& work) {
        return file_.call(work);
    }
    pybind11::bytes pread(Size bytes, Size offset) {
        pybind11::object out = new_bytes(bytes);
        char* const memory = PyBytes_AS_STRING(out.ptr());
        const ssize_t got =
            call([&](const ros2store::File& file) { return file.pread(memory, bytes, offset); });
        return shortened(std::move(out), static_cast<size_t>(got));
    }
    size_t readinto(const pybind11::object& buffer, Size offset) {
        const View view(buffer, true);
        return call([&](const ros2store::File& file) {
            return static_cast<size_t>(file.pread(view.data(), view.size(), offset));
        });
    }
    size_t pwrite(const pybind11::object& buffer, Size offset) {
        const View view(buffer, false);
        return call([&](const ros2store::File& file) {
            return write_all(file, view.data(), view.size(), offset);
        });
    }
    void lockf(int operation, int64_t length, int64_t start) {
        struct flock range{};
        range.l_type = (operation & LOCK_UN) != 0   ? F_UNLCK
                       : (operation & LOCK_EX) != 0 ? F_WRLCK
                                                    : F_RDLCK;
        range.l_start = start;
        range.l_len = length;
        const bool waits = (operation & LOCK_NB) == 0;
        call([&](const ros2store::File& file) {
            file.lock(waits ? F_OFD_SETLKW : F_OFD_SETLK, range);
        });
    }
    SharedHandle<ros2store::File>& handle() { return file_; }
    // EBUSY while requests of a queue use the file.
    void close() {
        if (queued_.value() > 0) {
            throw ros2store::Error(EBUSY, "close: " + std::to_string(queued_.value()) +
                                              " requests of a queue use the file; await them");
        }
        file_.close([](ros2store::File& file) { file.close(); });
    }

  private:
    // A call writes fewer bytes only if the rest failed. Another call with the rest returns the
    // error.
    static size_t write_all(const ros2store::File& file, const char* data, size_t bytes,
                            uint64_t offset) {
        size_t done = 0;
        do {
            const auto written =
                static_cast<size_t>(file.pwrite(data + done, bytes - done, offset + done));
            if (written == 0 && done < bytes) {
                throw ros2store::Error(EIO, "write: no bytes were written");
            }
            done += written;
        } while (done < bytes);
        return done;
    }
    friend class QueuedRequest;
    SharedHandle<ros2store::File> file_;
    RunningCount queued_;  // requests of queues in progress
};
