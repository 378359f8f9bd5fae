// Many files in few calls: their contents, and writes of whole files.
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <ros2store/ros2store.hpp>
#include <vector>

#include "names.h"
#include "shared_handle.h"
#include "sizes.h"

using SharedFileSystem = SharedHandle<ros2store::FileSystem>;

// The files of a read_many call, and what is known of each.
struct FilesToRead {
    const std::vector<std::string>& paths;
    const std::string& directory;
    uint64_t most = INT64_MAX;               // the bytes that are wanted of each file
    std::optional<std::vector<Size>> sizes;  // given by the caller

    // With the size of each file if it is known, and no capacity.
    [[nodiscard]] std::vector<ros2s_read_item> items() const;
    [[nodiscard]] uint64_t wanted(const ros2s_read_item& item) const {
        return std::min(item.size, most);
    }
};

// Returns the contents as bytes. Their memory is what the library reads into. If the caller gave no
// sizes, they are asked for first, except where `usual_size`, which the last call of the file
// system left, is enough for all files.
pybind11::list read_as_bytes(SharedFileSystem& fs, const FilesToRead& files, uint64_t& usual_size);

// Reads into one buffer, each file behind the one before, or into a buffer for each file, and
// returns the bytes of each. A file that is larger than its buffer, or than the given size, is
// ERANGE.
pybind11::list read_into(SharedFileSystem& fs, const FilesToRead& files,
                         const pybind11::object& into);

// Returns None or an OSError for each (name, buffer).
pybind11::list write_files(SharedFileSystem& fs, const pybind11::iterable& pairs,
                           const std::string& directory, bool publish, bool is_new, mode_t mode);

// Of a library's error. OSError picks its own subclass by errno: FileNotFoundError for ENOENT.
pybind11::object os_error(const ros2store::Error& error);
