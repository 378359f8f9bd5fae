// The native part of the Python package ros2store: files in a container, as bytes and buffers. The
// classes in package/ are made of it.
//
// Calls release the GIL while they wait, so that threads overlap. OSError and its subclasses have
// the errno and the library's sentence. After os.fork(), or in a child that multiprocessing started
// by forking, what the parent opened on a server works, as ros2store.h describes. What it opened in
// its own process raises OSError(EBADF).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <ros2store/ros2store.hpp>

#include "buffers.h"
#include "file.h"
#include "many_files.h"
#include "names.h"
#include "python_blocks.h"
#include "queue.h"
#include "shared_handle.h"

namespace py = pybind11;

namespace {

using ros2store::detail::c_string;
using ros2store::detail::checked;

class PythonFileSystem {
  public:
    explicit PythonFileSystem(const std::string& uri)
        : uri_(uri), fs_(opened(uri), "file system") {}

    const std::string& uri() const { return uri_; }
    template <class Work>
    auto call(const Work& work) {
        return fs_.call(work);
    }
    void close() {
        fs_.close([](ros2store::FileSystem&) {});
    }
    [[nodiscard]] bool is_closed() const { return fs_.is_closed(); }

    PythonFile open_file(const Name& path, int flags, mode_t permissions) {
        return PythonFile(call(
            [&](const ros2store::FileSystem& fs) { return fs.open(path, flags, permissions); }));
    }
    py::list list(const Name& path) {
        const auto names = call([&](const ros2store::FileSystem& fs) { return fs.list(path); });
        py::list out;
        for (const std::string& name : names) out.append(text_of(name));
        return out;
    }

    // Names and attributes of all entries.
    py::list scan(const Name& path) {
        const auto all = call([&](const ros2store::FileSystem& fs) {
            std::vector<ros2store::Directory::Entry> entries;
            const auto directory = fs.open_directory(path);
            for (auto some = directory.next_many(); !some.empty(); some = directory.next_many()) {
                entries.insert(entries.end(), some.begin(), some.end());
            }
            return entries;
        });
        py::list out;
        for (const auto& [entry, attributes] : all) {
            if (attributes.st_nlink == 0) continue;
            out.append(py::make_tuple(text_of(entry.name), to_stat_result(attributes)));
        }
        return out;
    }
    py::list stat_many(const Names& names, const Name& directory) {
        std::vector<struct stat> stats;
        const auto errors = stat_names(names, directory, stats);
        py::list out(names.size());
        for (size_t i = 0; i < names.size(); ++i) {
            out[i] = errors[i] == 0 ? to_stat_result(stats[i]) : py::none();
        }
        return out;
    }
    py::list exists_many(const Names& names, const Name& directory) {
        std::vector<struct stat> stats;
        py::list out;
        for (const int error : stat_names(names, directory, stats)) out.append(error == 0);
        return out;
    }
    void create_many(const Names& names, const Name& directory, mode_t mode) {
        raise_first("create", names, call([&](const ros2store::FileSystem& fs) {
                        return fs.open_directory(directory).create_many(names, mode);
                    }));
    }
    void unlink_many(const Names& names, const Name& directory) {
        raise_first("unlink", names, call([&](const ros2store::FileSystem& fs) {
                        return fs.open_directory(directory).unlink_many(names);
                    }));
    }

    py::list read_many(const Names& paths, const Name& directory, Size most,
                       const std::optional<std::vector<Size>>& sizes, const py::object& into) {
        const FilesToRead files{paths, directory, most, sizes};
        return into.is_none() ? read_as_bytes(fs_, files, usual_size_)
                              : read_into(fs_, files, into);
    }
    py::list pread_many(const py::sequence& ranges) { return read_ranges(fs_, ranges); }
    std::unique_ptr<PythonQueue> queue(uint32_t depth) {
        return std::make_unique<PythonQueue>(fs_, depth);
    }
    py::list write_many(const py::object& items, const Name& directory, bool publish, bool is_new,
                        mode_t mode) {
        const py::object pairs = py::isinstance<py::dict>(items) ? items.attr("items")() : items;
        return write_files(fs_, py::cast<py::iterable>(pairs), directory, publish, is_new, mode);
    }

  private:
    static ros2store::FileSystem opened(const std::string& uri) {
        const Unlocked unlocked;
        return ros2store::FileSystem(uri, "python");
    }
    // An errno for each name: 0, or ENOENT. Others are raised.
    std::vector<int> stat_names(const Names& names, const Name& directory,
                                std::vector<struct stat>& stats) {
        auto errors = call([&](const ros2store::FileSystem& fs) {
            return fs.open_directory(directory).stat_many(names, stats);
        });
        for (size_t i = 0; i < names.size(); ++i) {
            if (errors[i] != 0 && errors[i] != ENOENT) {
                throw error_of_name("stat", names[i], errors[i]);
            }
        }
        return errors;
    }
    static void raise_first(const char* what, const std::vector<std::string>& names,
                            const std::vector<int>& errors) {
        for (size_t i = 0; i < names.size(); ++i) {
            if (errors[i] != 0) throw error_of_name(what, names[i], errors[i]);
        }
    }
    std::string uri_;
    SharedFileSystem fs_;
    uint64_t usual_size_ = 0;  // of the files that read_many found, 0: they differ
};

// A method that calls `work` on the handle, without the GIL.
template <class Result, class... Arguments>
auto method(Result (*work)(const ros2store::File&, Arguments...)) {
    return [work](PythonFile& self, Arguments... arguments) {
        return self.call([&](const ros2store::File& file) { return work(file, arguments...); });
    };
}
template <class Result, class... Arguments>
auto method(Result (*work)(const ros2store::FileSystem&, Arguments...)) {
    return [work](PythonFileSystem& self, Arguments... arguments) {
        return self.call([&](const ros2store::FileSystem& fs) { return work(fs, arguments...); });
    };
}

// The bytes of a buffer or a tensor, as an object with the buffer protocol.
void add_view(py::module_& m) {
    py::class_<View>(m, "View", py::buffer_protocol())
        .def(py::init<const py::object&, bool>(), py::arg("buffer"), py::arg("writable"))
        .def_buffer([](const View& view) {
            return py::buffer_info(reinterpret_cast<unsigned char*>(view.data()),
                                   static_cast<py::ssize_t>(view.size()), view.is_readonly());
        });
}

void add_queue(py::module_& m) {
    py::class_<PythonQueue>(m, "Queue")
        .def("descriptor", &PythonQueue::descriptor)
        .def("in_progress", &PythonQueue::in_progress)
        .def("read", &PythonQueue::read, py::arg("file"), py::arg("bytes"), py::arg("offset"),
             py::arg("token"))
        .def("readinto", &PythonQueue::readinto, py::arg("file"), py::arg("buffer"),
             py::arg("offset"), py::arg("token"))
        .def("write", &PythonQueue::write, py::arg("file"), py::arg("buffer"), py::arg("offset"),
             py::arg("token"))
        .def("fsync", &PythonQueue::fsync, py::arg("file"), py::arg("token"))
        .def("reap", &PythonQueue::reap, py::arg("waits"))
        .def("close", &PythonQueue::close);
}

void add_file(py::module_& m) {
    using File = const ros2store::File&;
    py::class_<PythonFile>(m, "File")
        .def("pread", &PythonFile::pread, py::arg("bytes"), py::arg("offset"))
        .def("readinto", &PythonFile::readinto, py::arg("buffer"), py::arg("offset"))
        .def("pwrite", &PythonFile::pwrite, py::arg("buffer"), py::arg("offset"))
        .def("lockf", &PythonFile::lockf, py::arg("operation"), py::arg("length"), py::arg("start"))
        .def("fsync", method(+[](File file) { file.fsync(); }))
        .def("truncate", method(+[](File file, Size bytes) { file.truncate(bytes); }))
        .def("punch_hole",
             method(+[](File file, Size offset, Size bytes) { file.punch_hole(offset, bytes); }))
        .def("flock", method(+[](File file, int operation) { file.flock(operation); }))
        .def("size", method(+[](File file) { return file.stat().st_size; }))
        .def("seek",
             method(+[](File file, Size offset, int whence) { return file.seek(offset, whence); }))
        .def("stat",
             [](PythonFile& self) {
                 return to_stat_result(self.call([](File file) { return file.stat(); }));
             })
        .def("path_report",
             [](PythonFile& self) {
                 return text_of(self.call([](File file) { return file.path_report(); }));
             })
        .def("close", &PythonFile::close);
}

py::class_<PythonFileSystem> add_file_system(py::module_& m) {
    py::class_<PythonFileSystem> fs(m, "FileSystem");
    fs.def(py::init<const std::string&>(), py::arg("uri"))
        .def_property_readonly("uri", &PythonFileSystem::uri, "The URI of the container.")
        .def_property_readonly("closed", &PythonFileSystem::is_closed,
                               "Whether close() was called.")
        .def("open_file", &PythonFileSystem::open_file, py::arg("path"), py::arg("flags"),
             py::arg("permissions"))
        .def("close", &PythonFileSystem::close,
             "Lets running calls end, then closes. The container is released when its last file "
             "is closed.");
    return fs;
}

using Fs = const ros2store::FileSystem&;

void set_times(Fs fs, const Name& path, const std::optional<std::pair<int64_t, int64_t>>& ns) {
    timespec times[2];
    if (ns) {
        for (const auto& [to, from] : {std::pair{&times[0], ns->first}, {&times[1], ns->second}}) {
            to->tv_sec = from / 1'000'000'000 - (from % 1'000'000'000 < 0);
            to->tv_nsec = from - to->tv_sec * 1'000'000'000;
        }
    }
    checked(ros2s_utimens(fs.get(), c_string(path), ns ? times : nullptr));
}

// What getxattr or listxattr returns. The value may grow between two calls.
template <class Call>
std::string attribute(const Call& call) {
    std::string out(4096, '\0');
    while (true) {
        const int64_t got = call(out.data(), out.size());
        if (got != -ERANGE) {
            out.resize(static_cast<size_t>(checked(got)));
            return out;
        }
        out.resize(static_cast<size_t>(checked(call(nullptr, 0))) + 1);
    }
}

py::bytes xattr(PythonFileSystem& self, const Name& path, const Name& name) {
    return self.call([&](Fs fs) {
        return attribute([&](char* out, size_t bytes) {
            return ros2s_getxattr(fs.get(), c_string(path), c_string(name), out, bytes);
        });
    });
}

py::list xattrs(PythonFileSystem& self, const Name& path) {
    const std::string names = self.call([&](Fs fs) {
        return attribute([&](char* out, size_t bytes) {
            return ros2s_listxattr(fs.get(), c_string(path), out, bytes);
        });
    });
    py::list out;
    for (size_t begin = 0; begin < names.size();) {
        const size_t end = std::min(names.find('\0', begin), names.size());
        out.append(text_of(std::string_view(names).substr(begin, end - begin)));
        begin = end + 1;
    }
    return out;
}

void set_xattr(PythonFileSystem& self, const Name& path, const Name& name, const py::object& value,
               uint32_t flags) {
    const View view(value, false);
    self.call([&](Fs fs) {
        checked(ros2s_setxattr(fs.get(), c_string(path), c_string(name), view.data(), view.size(),
                               flags));
    });
}

py::object to_statvfs_result(const struct statvfs& space) {
    return py::module_::import("os").attr("statvfs_result")(py::make_tuple(
        space.f_bsize, space.f_frsize, space.f_blocks, space.f_bfree, space.f_bavail, space.f_files,
        space.f_ffree, space.f_favail, space.f_flag, space.f_namemax));
}

void add_names(py::class_<PythonFileSystem>& fs) {
    const auto path = py::arg("path");
    fs.def(
          "stat",
          [](PythonFileSystem& self, const Name& name) {
              return to_stat_result(self.call([&](Fs at) { return at.stat(name); }));
          },
          path, "The os.stat_result of a file. Symbolic links are followed.")
        .def(
            "lstat",
            [](PythonFileSystem& self, const Name& name) {
                return to_stat_result(self.call([&](Fs at) { return at.lstat(name); }));
            },
            path, "The os.stat_result of a file, or of a symbolic link itself.")
        .def("mkdir", method(+[](Fs at, const Name& name, mode_t mode) { at.mkdir(name, mode); }),
             path, py::arg("mode") = 0755,
             "Makes a directory. `mode` is used without the umask. FileExistsError, "
             "FileNotFoundError (no parent).")
        .def("rmdir", method(+[](Fs at, const Name& name) { at.rmdir(name); }), path,
             "Removes an empty directory. OSError(ENOTEMPTY), NotADirectoryError.")
        .def("unlink", method(+[](Fs at, const Name& name) { at.unlink(name); }), path,
             "Removes a name of a file. An open file exists until it is closed. IsADirectoryError.")
        .def("rename",
             method(+[](Fs at, const Name& from, const Name& to) { at.rename(from, to); }),
             py::arg("source"), py::arg("target"),
             "Renames atomically. A file, or an empty directory, at `target` is replaced.")
        .def("_rename_new", method(+[](Fs at, const Name& from, const Name& to) {
                 at.rename(from, to, ROS2S_RENAME_NOREPLACE);
             }),
             py::arg("source"), py::arg("target"))
        .def("link", method(+[](Fs at, const Name& from, const Name& to) { at.link(from, to); }),
             py::arg("source"), py::arg("target"),
             "Makes a second name for a file. A symbolic link is not followed. PermissionError for "
             "a directory.")
        .def("symlink",
             method(+[](Fs at, const Name& target, const Name& name) { at.symlink(target, name); }),
             py::arg("target"), path, "Makes a symbolic link at `path`. FileExistsError.")
        .def(
            "readlink",
            [](PythonFileSystem& self, const Name& name) {
                return text_of(self.call([&](Fs at) { return at.readlink(name); }));
            },
            path, "The target of a symbolic link. OSError(EINVAL) if it is none.")
        .def("truncate", method(+[](Fs at, const Name& name, Size bytes) {
                 checked(ros2s_truncate(at.get(), c_string(name), bytes));
             }),
             path, py::arg("size"), "Sets the size of a file, in bytes.")
        .def("chmod", method(+[](Fs at, const Name& name, mode_t mode) {
                 checked(ros2s_chmod(at.get(), c_string(name), mode));
             }),
             path, py::arg("mode"), "Sets the permission bits. Symbolic links are followed.")
        .def("chown", method(+[](Fs at, const Name& name, int64_t uid, int64_t gid) {
                 checked(ros2s_chown(at.get(), c_string(name), static_cast<uid_t>(uid),
                                     static_cast<gid_t>(gid)));
             }),
             path, py::arg("uid"), py::arg("gid"), "Sets owner and group; -1 changes nothing.")
        .def("utime", method(&set_times), path, py::arg("ns") = py::none(),
             "Sets the times of last access and modification, (access, modification) in "
             "nanoseconds since 1970; without `ns` to now.")
        .def("getxattr", &xattr, path, py::arg("name"),
             "The value of an extended attribute, as bytes. OSError(ENODATA) if there is none.")
        .def("setxattr", &set_xattr, path, py::arg("name"), py::arg("value"), py::arg("flags") = 0,
             "Sets an extended attribute, at most 64 KiB. With os.XATTR_CREATE it must not exist "
             "(FileExistsError), with os.XATTR_REPLACE it must (OSError(ENODATA)).")
        .def("removexattr", method(+[](Fs at, const Name& name, const Name& attribute_name) {
                 checked(ros2s_removexattr(at.get(), c_string(name), c_string(attribute_name)));
             }),
             path, py::arg("name"), "Removes an extended attribute. OSError(ENODATA).")
        .def("listxattr", &xattrs, path, "The names of the extended attributes.")
        .def(
            "statvfs",
            [](PythonFileSystem& self) {
                return to_statvfs_result(self.call([](Fs at) { return at.space(); }));
            },
            "The os.statvfs_result of the pool. Its f_frsize is the unit of space in bytes.");
}

void add_directories(py::class_<PythonFileSystem>& fs) {
    fs.def("listdir", &PythonFileSystem::list, py::arg("path") = "",
           "The names in a directory, in no order. NotADirectoryError.")
        .def("scandir", &PythonFileSystem::scan, py::arg("path") = "",
             "All entries of a directory as (name, os.stat_result), in few requests. Symbolic "
             "links are not followed.")
        .def("stat_many", &PythonFileSystem::stat_many, py::arg("names"), py::arg("directory") = "",
             "An os.stat_result for each name in the directory, None if it does not exist. "
             "Symbolic links are not followed.")
        .def("create_many", &PythonFileSystem::create_many, py::arg("names"),
             py::arg("directory") = "", py::arg("mode") = 0644,
             "Makes empty files. All names are tried; then the first error is raised.")
        .def("unlink_many", &PythonFileSystem::unlink_many, py::arg("names"),
             py::arg("directory") = "",
             "Removes files. All names are tried; then the first error is raised.")
        .def("_pread_many", &PythonFileSystem::pread_many, py::arg("ranges"))
        .def("_queue", &PythonFileSystem::queue, py::arg("depth"))
        .def("exists_many", &PythonFileSystem::exists_many, py::arg("names"),
             py::arg("directory") = "", "Whether each name is in the directory, in few requests.")
        .def("read_many", &PythonFileSystem::read_many, py::arg("paths"), py::arg("directory") = "",
             py::arg("most") = INT64_MAX, py::kw_only(), py::arg("sizes") = py::none(),
             py::arg("into") = py::none(),
             "The contents of many files, at most `most` bytes of each, in one call.\n\n"
             "`sizes`: the size of each file in bytes, as stat_many or scandir give it. Without "
             "them the sizes of the last call are tried, or another request asks for them. "
             "Returns a list of bytes. With `into` the bytes go there without a copy, and the "
             "list has their numbers: one buffer, in which the files are one after the other, or "
             "a list with a buffer for each file.\n\n"
             "A file that cannot be read raises its error; OSError(ERANGE) if it is larger than "
             "its buffer or, with one buffer, than its size in `sizes`. BufferError: a buffer is "
             "read-only. ValueError: the lists differ in length.")
        .def("write_many", &PythonFileSystem::write_many, py::arg("items"),
             py::arg("directory") = "", py::kw_only(), py::arg("publish") = false,
             py::arg("new") = false, py::arg("mode") = 0644,
             "Creates, writes and closes many files of a directory concurrently: {name: buffer} or "
             "pairs of these.\n\n"
             "With `publish` a name appears, at once, when its file is complete. With `new` it "
             "must not exist; otherwise that file is replaced. Returns None for each file that is "
             "durable, and else its OSError: the other files are not affected.");
}

}  // namespace

PYBIND11_MODULE(_ros2store, m) {
    count_forks();
    py::register_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown) std::rethrow_exception(thrown);
        } catch (const ros2store::Error& error) {
            const py::object made = os_error(error);
            PyErr_SetObject(py::type::of(made).ptr(), made.ptr());
        }
    });
    add_file(m);
    add_queue(m);
    add_view(m);
    auto fs = add_file_system(m);
    add_names(fs);
    add_directories(fs);
    add_blocks(m);
    const uint32_t version = ros2s_version();
    m.attr("__version__") = std::to_string(version >> 16) + "." +
                            std::to_string(version >> 8 & 255) + "." +
                            std::to_string(version & 255);
}
