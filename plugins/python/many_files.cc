#include "many_files.h"

#include <fcntl.h>

#include <algorithm>
#include <span>

#include "buffers.h"

namespace py = pybind11;
using ros2store::detail::c_string;
using ros2store::detail::checked;

namespace {

using Items = std::span<ros2s_read_item>;

// A request takes no more, and a server may state any size: memory for more is made as bytes
// arrive.
constexpr uint64_t file_bytes_together_max = uint64_t{64} << 20;
// Of the files of one pass.
constexpr uint64_t bytes_together_max = uint64_t{1} << 30;
// Memory that is mapped before it is filled. A false server may state any size.
constexpr uint64_t mapped_bytes_max = uint64_t{16} << 20;

// A file that is read by itself.
class LargeFile {
  public:
    LargeFile(SharedFileSystem& fs, const std::string& directory, const char* path)
        : file_(fs.call([&](const ros2store::FileSystem& at) {
              return at.open(directory.empty() ? path : directory + "/" + path,
                             O_RDONLY | O_NOFOLLOW);
          })) {}
    [[nodiscard]] uint64_t size() const {
        const Unlocked unlocked;
        return static_cast<uint64_t>(file_.stat().st_size);
    }
    [[nodiscard]] uint64_t read(char* into, uint64_t bytes, uint64_t offset) const {
        const Unlocked unlocked;
        return static_cast<uint64_t>(file_.pread(into, bytes, offset));
    }

  private:
    ros2store::File file_;
};

// Reads once into the items' buffers, and raises the first error.
void read_once(SharedFileSystem& fs, const std::string& directory, Items items) {
    std::vector<ros2s_read_item> together;
    for (const ros2s_read_item& item : items) {
        if (item.capacity <= file_bytes_together_max) together.push_back(item);
    }
    fs.call([&](const ros2store::FileSystem& at) {
        checked(ros2s_read_many(at.get(), c_string(directory), together.data(), together.size()));
    });
    auto read = together.begin();
    for (ros2s_read_item& item : items) {
        if (item.capacity > file_bytes_together_max) {
            const LargeFile file(fs, directory, item.path);
            item.size = file.size();
            item.result =
                static_cast<int64_t>(file.read(static_cast<char*>(item.buffer), item.capacity, 0));
            continue;
        }
        item = *read++;
        if (item.result < 0) {
            throw error_of_name("read", item.path, static_cast<int>(-item.result));
        }
        // A false server must not make the result longer than the memory, or the file longer than
        // the received bytes.
        const auto bytes = static_cast<uint64_t>(item.result);
        if (bytes > item.capacity || (bytes < item.capacity && item.size != bytes)) {
            throw error_of_one("read", item.path, EIO);
        }
    }
}

// Reads files into bytes objects: again where a file turns out to be larger than its memory.
class Contents {
  public:
    Contents(SharedFileSystem& fs, const FilesToRead& files, std::vector<ros2s_read_item> items)
        : fs_(fs), files_(files), items_(std::move(items)), made_(items_.size()) {}

    py::list read() {
        while (read_some()) {
        }
        py::list out(items_.size());
        for (size_t i = 0; i < items_.size(); ++i) {
            if (files_.wanted(items_[i]) > file_bytes_together_max) read_large(i);
            out[i] = shortened(std::move(made_[i]), static_cast<size_t>(items_[i].result));
        }
        return out;
    }
    [[nodiscard]] const std::vector<ros2s_read_item>& items() const { return items_; }

  private:
    // False: everything is read, except the ends of large files.
    bool read_some() {
        std::vector<size_t> places;
        std::vector<ros2s_read_item> now;
        uint64_t room = bytes_together_max;
        for (size_t i = 0; i < items_.size(); ++i) {
            ros2s_read_item& item = items_[i];
            const uint64_t next = std::min(files_.wanted(item), file_bytes_together_max);
            if ((made_[i] && next <= item.capacity) || next > room) continue;
            room -= next;
            made_[i] = new_bytes(next);
            item.buffer = PyBytes_AS_STRING(made_[i].ptr());
            item.capacity = next;
            if (bytes_together_max - room <= mapped_bytes_max) {
                map_pages(PyBytes_AS_STRING(made_[i].ptr()), next);
            }
            now.push_back(item);
            places.push_back(i);
        }
        if (now.empty()) return false;
        read_once(fs_, files_.directory, now);
        for (size_t i = 0; i < now.size(); ++i) items_[places[i]] = now[i];
        return true;
    }
    void read_large(size_t i) {
        ros2s_read_item& item = items_[i];
        const LargeFile file(fs_, files_.directory, item.path);
        item.size = file.size();
        uint64_t done = 0, room = item.capacity;
        while (true) {
            const uint64_t wanted = std::min(room, files_.wanted(item));
            made_[i] = shortened(std::move(made_[i]), wanted);
            const uint64_t got =
                file.read(PyBytes_AS_STRING(made_[i].ptr()) + done, wanted - done, done);
            done += got;
            if (done < wanted || wanted == files_.wanted(item)) break;
            room *= 2;
        }
        item.result = static_cast<int64_t>(done);
    }

    SharedFileSystem& fs_;
    const FilesToRead& files_;
    std::vector<ros2s_read_item> items_;
    std::vector<py::object> made_;
};

// The size of the largest file, if it is enough for all of such files without much waste, else 0.
uint64_t usual_size_of(const FilesToRead& files, const std::vector<ros2s_read_item>& items) {
    uint64_t all = 0, largest = 0;
    for (const ros2s_read_item& item : items) {
        all += files.wanted(item);
        largest = std::max(largest, files.wanted(item));
    }
    return largest * items.size() <= 2 * all ? largest : 0;
}

ros2store::Error too_large(const ros2s_read_item& item) {
    return {ERANGE, "read '" + std::string(item.path) + "': it has " + std::to_string(item.size) +
                        " bytes, and there is room for " + std::to_string(item.capacity)};
}

// Moves contents that are shorter than their room, so that there are no gaps.
void close_gaps(Items items) {
    char* end = items.empty() ? nullptr : static_cast<char*>(items[0].buffer);
    for (const ros2s_read_item& item : items) {
        const auto bytes = static_cast<size_t>(item.result);
        if (end != item.buffer) std::memmove(end, item.buffer, bytes);
        end += bytes;
    }
}

}  // namespace

std::vector<ros2s_read_item> FilesToRead::items() const {
    if (sizes && sizes->size() != paths.size()) {
        throw py::value_error("read_many: there are " + std::to_string(paths.size()) +
                              " paths and " + std::to_string(sizes->size()) + " sizes");
    }
    std::vector<ros2s_read_item> items(paths.size());
    for (size_t i = 0; i < paths.size(); ++i) {
        items[i].path = c_string(paths[i]);
        if (sizes) items[i].size = (*sizes)[i];
    }
    return items;
}

py::list read_as_bytes(SharedFileSystem& fs, const FilesToRead& files, uint64_t& usual_size) {
    auto items = files.items();
    if (!files.sizes) {
        if (usual_size == 0) read_once(fs, files.directory, items);
        for (ros2s_read_item& item : items) item.size = std::max(item.size, usual_size);
    }
    Contents contents(fs, files, std::move(items));
    py::list out = contents.read();
    if (!files.sizes) usual_size = usual_size_of(files, contents.items());
    return out;
}

py::list read_into(SharedFileSystem& fs, const FilesToRead& files, const py::object& into) {
    auto items = files.items();
    std::vector<View> views;
    const bool is_each = py::isinstance<py::list>(into) || py::isinstance<py::tuple>(into);
    if (is_each) {
        for (const auto& each : into) {
            views.emplace_back(py::reinterpret_borrow<py::object>(each), true);
        }
        if (views.size() != items.size()) {
            throw py::value_error("read_many: there are " + std::to_string(items.size()) +
                                  " paths and " + std::to_string(views.size()) + " buffers");
        }
        for (size_t i = 0; i < items.size(); ++i) {
            items[i].buffer = views[i].data();
            items[i].capacity = std::min<uint64_t>(views[i].size(), files.most);
        }
    } else {
        const View& view = views.emplace_back(into, true);
        if (!files.sizes) read_once(fs, files.directory, items);
        uint64_t used = 0;
        for (ros2s_read_item& item : items) {
            item.capacity = files.wanted(item);
            if (item.capacity > view.size() - used) {
                throw ros2store::Error(
                    ERANGE, "read '" + std::string(item.path) + "': the buffer of " +
                                std::to_string(view.size()) + " bytes has no room for its " +
                                std::to_string(item.capacity));
            }
            item.buffer = view.data() + used;
            used += item.capacity;
        }
    }
    read_once(fs, files.directory, items);
    py::list out(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
        if (items[i].capacity < files.wanted(items[i])) throw too_large(items[i]);
        out[i] = py::int_(items[i].result);
    }
    if (!is_each) close_gaps(items);
    return out;
}

py::list write_files(SharedFileSystem& fs, const py::iterable& pairs, const std::string& directory,
                     bool publish, bool is_new, mode_t mode) {
    std::vector<std::pair<Name, View>> files;
    for (const auto& pair : pairs) {
        const auto two = py::cast<py::tuple>(pair);
        py::detail::type_caster<Name> name;
        if (two.size() != 2 || !name.load(two[0], true)) {
            throw py::type_error("write_many: an item is no (name, buffer)");
        }
        files.emplace_back(py::detail::cast_op<Name&>(name), View(two[1], false));
    }
    std::vector<ros2s_write_item> items;
    for (const auto& [name, view] : files) {
        items.push_back({c_string(name), view.data(), view.size(), 0});
    }
    const uint32_t flags = (publish ? ROS2S_WRITE_PUBLISH : 0) | (is_new ? ROS2S_WRITE_NEW : 0);
    fs.call([&](const ros2store::FileSystem& at) {
        at.open_directory(directory).write_many(items, flags, mode);
    });
    py::list out(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
        const auto error = static_cast<int>(-items[i].result);
        out[i] = error == 0 ? py::none() : os_error(error_of_name("write", items[i].name, error));
    }
    return out;
}

py::object os_error(const ros2store::Error& error) {
    return py::reinterpret_borrow<py::object>(PyExc_OSError)(error.code().value(),
                                                             text_of(error.sentence()));
}
