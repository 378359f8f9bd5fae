// The Python module ros2store: files in a container, as bytes and buffers.
//
// Calls release the GIL while they wait, so that threads overlap. OSError and its subclasses have
// the errno and the library's sentence. After os.fork(), or in a child that multiprocessing started
// by forking, what the parent opened raises OSError(EBADF): open it again in the child, once the
// parent has closed it.
#include <fcntl.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <sys/file.h>
#include <ros2store/ros2store.hpp>

namespace py = pybind11;

// A name as the functions of `os` accept it: str, bytes or os.PathLike. Bytes that are not UTF-8
// are surrogates in a str.
struct Name : std::string {};
struct Names : std::vector<std::string> {};

template <>
struct pybind11::detail::type_caster<Name> {
    PYBIND11_TYPE_CASTER(Name, const_name("os.PathLike"));
    bool load(handle from, bool) {
        const auto path = reinterpret_steal<object>(PyOS_FSPath(from.ptr()));
        if (!path) return cannot();
        const auto encoded = PyBytes_Check(path.ptr())
                                 ? path
                                 : reinterpret_steal<object>(PyUnicode_EncodeFSDefault(path.ptr()));
        if (!encoded) return cannot();
        value.assign(PyBytes_AS_STRING(encoded.ptr()),
                     static_cast<size_t>(PyBytes_GET_SIZE(encoded.ptr())));
        return true;
    }

  private:
    static bool cannot() {
        PyErr_Clear();
        return false;
    }
};
template <>
struct pybind11::detail::type_caster<Names> {
    PYBIND11_TYPE_CASTER(Names, const_name("list[os.PathLike]"));
    bool load(handle from, bool converts) {
        if (!isinstance<sequence>(from) || isinstance<str>(from) || isinstance<bytes>(from)) {
            return false;
        }
        for (const auto& each : reinterpret_borrow<sequence>(from)) {
            type_caster<Name> name;
            if (!name.load(each, converts)) return false;
            value.push_back(std::move(cast_op<Name&>(name)));
        }
        return true;
    }
};

namespace {

// Memory of a Python object, valid for the lifetime of this object.
class View {
  public:
    View(const py::buffer& object, bool writable) {
        const int flags = PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw py::error_already_set();
    }
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    ~View() { PyBuffer_Release(&view_); }
    void* data() const { return view_.buf; }
    size_t size() const { return static_cast<size_t>(view_.len); }

  private:
    Py_buffer view_{};
};

class PythonFile {
  public:
    explicit PythonFile(ros2store::File file) : file_(std::move(file)) {}

    py::bytes pread(size_t bytes, uint64_t offset) {
        py::object out = py::reinterpret_steal<py::object>(
            PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
        if (!out) throw py::error_already_set();
        char* const memory = PyBytes_AS_STRING(out.ptr());
        ssize_t got = 0;
        {
            const py::gil_scoped_release unlocked;
            got = file().pread(memory, bytes, offset);
        }
        PyObject* whole = out.release().ptr();
        if (static_cast<size_t>(got) < bytes && _PyBytes_Resize(&whole, got) != 0) {
            throw py::error_already_set();
        }
        return py::reinterpret_steal<py::bytes>(whole);
    }
    size_t readinto(const py::buffer& buffer, uint64_t offset) {
        const View view(buffer, true);
        const py::gil_scoped_release unlocked;
        return static_cast<size_t>(file().pread(view.data(), view.size(), offset));
    }
    size_t pwrite(const py::buffer& buffer, uint64_t offset) {
        const View view(buffer, false);
        const py::gil_scoped_release unlocked;
        const auto* const bytes = static_cast<const char*>(view.data());
        size_t done = 0;
        // A call writes fewer bytes only if the rest failed. Another call with the rest returns the
        // error.
        do {
            const auto written =
                static_cast<size_t>(file().pwrite(bytes + done, view.size() - done, offset + done));
            if (written == 0 && done < view.size()) {
                throw ros2store::Error(EIO, "write: no bytes were written");
            }
            done += written;
        } while (done < view.size());
        return done;
    }
    uint64_t size() { return static_cast<uint64_t>(file().stat().st_size); }
    ros2store::File& file() {
        if (!file_) throw ros2store::Error(EBADF, "the file is closed");
        return *file_;
    }
    void close() {
        if (!file_) return;
        const py::gil_scoped_release unlocked;
        // The file is closed even after an error.
        ros2store::File closing = std::move(*file_);
        file_.reset();
        closing.close();
    }

  private:
    std::optional<ros2store::File> file_;
};

// As the functions of `os` do: bytes that are not UTF-8 become surrogates.
py::object text_of(const std::string& text) {
    return py::reinterpret_steal<py::object>(
        PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

// Like os.stat_result, with the fields that exist.
py::object to_stat_result(const struct stat& st) {
    const auto seconds = [](const timespec& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
    };
    return py::module_::import("os").attr("stat_result")(
        py::make_tuple(st.st_mode, st.st_ino, st.st_dev, st.st_nlink, st.st_uid, st.st_gid,
                       st.st_size, st.st_atim.tv_sec, st.st_mtim.tv_sec, st.st_ctim.tv_sec,
                       seconds(st.st_atim), seconds(st.st_mtim), seconds(st.st_ctim)));
}

ros2store::Error error_of_one(const char* what, const std::string& name, int os_errno) {
    return {os_errno,
            std::string(what) + " '" + name + "': " + std::generic_category().message(os_errno)};
}

class PythonFileSystem {
  public:
    explicit PythonFileSystem(const std::string& uri) {
        const py::gil_scoped_release unlocked;
        fs_.emplace(uri, "python");
    }
    ros2store::FileSystem& fs() {
        if (!fs_) throw ros2store::Error(EBADF, "the file system is closed");
        return *fs_;
    }
    void close() {
        const py::gil_scoped_release unlocked;
        fs_.reset();
    }

    PythonFile open(const Name& path, const std::string& mode) {
        int flags = 0;
        const bool plus = mode.find('+') != std::string::npos;
        switch (mode.empty() ? '\0' : mode[0]) {
            case 'r': flags = plus ? O_RDWR : O_RDONLY; break;
            case 'w': flags = (plus ? O_RDWR : O_WRONLY) | O_CREAT | O_TRUNC; break;
            case 'x': flags = (plus ? O_RDWR : O_WRONLY) | O_CREAT | O_EXCL; break;
            case 'a': flags = (plus ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND; break;
            default: flags = -1;
        }
        if (flags == -1 || mode.find_first_not_of("rwxab+") != std::string::npos) {
            throw py::value_error("mode '" + mode +
                                  "' is not one of r, r+, w, w+, x, x+, a, a+ (all are binary)");
        }
        const py::gil_scoped_release unlocked;
        return PythonFile(fs().open(path, flags));
    }
    py::list list(const Name& path) {
        std::vector<std::string> names;
        {
            const py::gil_scoped_release unlocked;
            names = fs().list(path);
        }
        py::list out;
        for (const std::string& name : names) out.append(text_of(name));
        return out;
    }

    // Names and attributes of all entries.
    py::list scan(const Name& path) {
        std::vector<ros2store::Directory::Entry> all;
        {
            const py::gil_scoped_release unlocked;
            const auto directory = fs().open_directory(path);
            for (auto some = directory.next_many(); !some.empty(); some = directory.next_many()) {
                all.insert(all.end(), some.begin(), some.end());
            }
        }
        py::list out;
        for (const auto& [entry, attributes] : all) {
            if (attributes.st_nlink == 0) continue;
            out.append(py::make_tuple(text_of(entry.name), to_stat_result(attributes)));
        }
        return out;
    }
    py::list stat_many(const Names& names, const Name& directory) {
        std::vector<struct stat> stats;
        std::vector<int> errors;
        {
            const py::gil_scoped_release unlocked;
            errors = fs().open_directory(directory).stat_many(names, stats);
        }
        py::list out;
        for (size_t i = 0; i < names.size(); ++i) {
            if (errors[i] != 0 && errors[i] != ENOENT) {
                throw error_of_one("stat", names[i], errors[i]);
            }
            out.append(errors[i] == 0 ? to_stat_result(stats[i]) : py::none());
        }
        return out;
    }
    void create_many(const Names& names, const Name& directory, mode_t mode) {
        raise_first("create", names, fs().open_directory(directory).create_many(names, mode));
    }
    void unlink_many(const Names& names, const Name& directory) {
        raise_first("unlink", names, fs().open_directory(directory).unlink_many(names));
    }

    py::list read_many(const Names& paths, const Name& directory, uint64_t most) {
        std::vector<ros2s_read_item> items(paths.size());
        std::vector<std::vector<char>> memory(paths.size());
        {
            const py::gil_scoped_release unlocked;
            read_all(paths, directory, most, items, memory);
        }
        py::list out;
        for (size_t i = 0; i < items.size(); ++i) {
            out.append(py::bytes(memory[i].data(), static_cast<size_t>(items[i].result)));
        }
        return out;
    }

  private:
    static void raise_first(const char* what, const std::vector<std::string>& names,
                            const std::vector<int>& errors) {
        for (size_t i = 0; i < names.size(); ++i) {
            if (errors[i] != 0) throw error_of_one(what, names[i], errors[i]);
        }
    }
    // One call with a first guess of the sizes, and further ones for the files that are larger.
    void read_all(const std::vector<std::string>& paths, const std::string& directory,
                  uint64_t most, std::vector<ros2s_read_item>& items,
                  std::vector<std::vector<char>>& memory) {
        constexpr size_t first_guess = 16 * 1024;
        for (size_t i = 0; i < paths.size(); ++i) {
            memory[i].resize(std::min<uint64_t>(first_guess, most));
            items[i] = {ros2store::detail::c_string(paths[i]), memory[i].data(), memory[i].size(),
                        0, 0};
        }
        read_items(directory, paths, items);
        while (read_larger(paths, directory, most, items, memory)) {
        }
    }
    // Reads more of files that are larger than the bytes read so far. A server may report any size,
    // so memory grows only as bytes arrive: by 64 MiB, or to twice as much. True: there may be
    // more.
    bool read_larger(const std::vector<std::string>& paths, const std::string& directory,
                     uint64_t most, std::vector<ros2s_read_item>& items,
                     std::vector<std::vector<char>>& memory) {
        constexpr uint64_t piece = uint64_t{64} << 20;
        std::vector<ros2s_read_item> larger;
        std::vector<size_t> places;
        std::vector<std::string> names;
        uint64_t room = piece;
        for (size_t i = 0; i < items.size(); ++i) {
            const uint64_t wanted = std::min(items[i].size, most);
            if (wanted <= items[i].capacity) continue;
            const uint64_t next = std::min(wanted, std::max(piece, 2 * items[i].capacity));
            if (!larger.empty() && next > room) continue;
            room -= std::min(room, next);
            memory[i].resize(next);
            larger.push_back({ros2store::detail::c_string(paths[i]), memory[i].data(), next, 0, 0});
            places.push_back(i);
            names.push_back(paths[i]);
        }
        if (larger.empty()) return false;
        read_items(directory, names, larger);
        for (size_t i = 0; i < larger.size(); ++i) items[places[i]] = larger[i];
        return true;
    }
    void read_items(const std::string& directory, const std::vector<std::string>& paths,
                    std::vector<ros2s_read_item>& items) {
        ros2store::detail::checked(ros2s_read_many(
            fs().get(), ros2store::detail::c_string(directory), items.data(), items.size()));
        for (size_t i = 0; i < items.size(); ++i) {
            if (items[i].result < 0) {
                throw error_of_one("read", paths[i], static_cast<int>(-items[i].result));
            }
            // A false server must not make the result longer than the memory, or the file longer
            // than the received bytes.
            const auto bytes = static_cast<uint64_t>(items[i].result);
            if (bytes > items[i].capacity ||
                (bytes < items[i].capacity && items[i].size != bytes)) {
                throw error_of_one("read", paths[i], EIO);
            }
        }
    }
    std::optional<ros2store::FileSystem> fs_;
};

// FileNotFoundError for ENOENT and so on: OSError picks its own subclass by errno.
void raise_os_error(const ros2store::Error& error) {
    const py::object made = py::reinterpret_borrow<py::object>(PyExc_OSError)(
        error.code().value(), text_of(error.sentence()));
    PyErr_SetObject(py::type::of(made).ptr(), made.ptr());
}

}  // namespace

PYBIND11_MODULE(ros2store, m) {
    m.doc() = "Files in a ros2store container. (Not the Robot Operating System.)";
    py::register_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown) std::rethrow_exception(thrown);
        } catch (const ros2store::Error& error) {
            raise_os_error(error);
        }
    });

    const auto unlocked = py::call_guard<py::gil_scoped_release>();
    py::class_<PythonFile>(m, "File", "An open file. Use it in a `with` statement.")
        .def("pread", &PythonFile::pread, py::arg("bytes"), py::arg("offset"),
             "Up to `bytes` bytes at `offset`; fewer only at the end of the file.")
        .def("readinto", &PythonFile::readinto, py::arg("buffer"), py::arg("offset") = 0,
             "Fills a writable buffer (bytearray, memoryview, numpy array) from `offset` on, "
             "without a copy; returns the bytes read.")
        .def("pwrite", &PythonFile::pwrite, py::arg("buffer"), py::arg("offset"),
             "Writes all of the buffer; durable on return. After an error a part of it may be "
             "written. Returns the number of bytes.")
        .def(
            "fsync", [](PythonFile& self) { self.file().fsync(); }, unlocked)
        .def(
            "truncate", [](PythonFile& self, uint64_t bytes) { self.file().truncate(bytes); },
            py::arg("bytes"), unlocked)
        .def(
            "flock", [](PythonFile& self, int operation) { self.file().flock(operation); },
            py::arg("operation"), unlocked,
            "As fcntl.flock(). The lock holds against all mounts and programs, and belongs to this "
            "File. BlockingIOError with fcntl.LOCK_NB if another lock is in the way.")
        .def(
            "lockf",
            [](PythonFile& self, int operation, int64_t length, int64_t start) {
                struct flock range{};
                range.l_type = (operation & LOCK_UN) != 0   ? F_UNLCK
                               : (operation & LOCK_EX) != 0 ? F_WRLCK
                                                            : F_RDLCK;
                range.l_start = start;
                range.l_len = length;
                const bool waits = (operation & LOCK_NB) == 0;
                self.file().lock(waits ? F_OFD_SETLKW : F_OFD_SETLK, range);
            },
            py::arg("operation"), py::arg("length") = 0, py::arg("start") = 0, unlocked,
            "As fcntl.lockf(), of bytes from `start` on, but the lock belongs to this File, not to "
            "the process.")
        .def("size", &PythonFile::size, unlocked)
        .def(
            "seek",
            [](PythonFile& self, uint64_t offset, int whence) {
                return self.file().seek(offset, whence);
            },
            py::arg("offset"), py::arg("whence"), unlocked,
            "The first byte at or behind `offset` that is in data (os.SEEK_DATA) or in a hole "
            "(os.SEEK_HOLE). OSError(ENXIO) if there is none.")
        .def(
            "path_report",
            [](PythonFile& self) {
                std::string report;
                {
                    const py::gil_scoped_release unlocked;
                    report = self.file().path_report();
                }
                return text_of(report);
            },
            "How this file's I/O travelled, with counters.")
        .def("close", &PythonFile::close)
        .def(
            "__enter__", [](PythonFile& self) -> PythonFile& { return self; },
            py::return_value_policy::reference_internal)
        .def("__exit__", [](PythonFile& self, const py::args&) { self.close(); });

    py::class_<PythonFileSystem>(m, "FileSystem", "An opened container.")
        .def("open", &PythonFileSystem::open, py::arg("path"), py::arg("mode") = "r",
             "Opens a file: mode r, r+, w, w+, x, x+, a or a+, always binary.")
        .def("listdir", &PythonFileSystem::list, py::arg("path") = "")
        .def("read_many", &PythonFileSystem::read_many, py::arg("paths"), py::arg("directory") = "",
             py::arg("most") = UINT64_MAX,
             "The contents of many files, at most `most` bytes of each, in one call. A file that "
             "cannot be read raises its error.")
        .def("scandir", &PythonFileSystem::scan, py::arg("path") = "",
             "All entries of a directory as (name, os.stat_result), in few requests.")
        .def(
            "stat_many", &PythonFileSystem::stat_many, py::arg("names"), py::arg("directory") = "",
            "An os.stat_result for each name in the directory, None if it does not exist. Symbolic "
            "links are not followed.")
        .def("create_many", &PythonFileSystem::create_many, py::arg("names"),
             py::arg("directory") = "", py::arg("mode") = 0644, unlocked,
             "Makes empty files. All names are tried; then the first error is raised.")
        .def("unlink_many", &PythonFileSystem::unlink_many, py::arg("names"),
             py::arg("directory") = "", unlocked,
             "Removes files. All names are tried; then the first error is raised.")
        .def(
            "stat",
            [](PythonFileSystem& self, const Name& path) {
                return to_stat_result(self.fs().stat(path));
            },
            py::arg("path"))
        .def(
            "exists",
            [](PythonFileSystem& self, const Name& path) { return self.fs().exists(path); },
            py::arg("path"), unlocked)
        .def(
            "mkdir",
            [](PythonFileSystem& self, const Name& path, mode_t mode) {
                self.fs().mkdir(path, mode);
            },
            py::arg("path"), py::arg("mode") = 0755, unlocked)
        .def(
            "rmdir", [](PythonFileSystem& self, const Name& path) { self.fs().rmdir(path); },
            py::arg("path"), unlocked)
        .def(
            "unlink", [](PythonFileSystem& self, const Name& path) { self.fs().unlink(path); },
            py::arg("path"), unlocked)
        .def(
            "rename",
            [](PythonFileSystem& self, const Name& from, const Name& to) {
                self.fs().rename(from, to);
            },
            py::arg("source"), py::arg("target"), unlocked)
        .def("close", &PythonFileSystem::close,
             "Releases the container; the pool is closed when its last file is.")
        .def(
            "__enter__", [](PythonFileSystem& self) -> PythonFileSystem& { return self; },
            py::return_value_policy::reference_internal)
        .def("__exit__", [](PythonFileSystem& self, const py::args&) { self.close(); });

    m.def(
        "open", [](const std::string& uri) { return std::make_unique<PythonFileSystem>(uri); },
        py::arg("uri"), "Opens a container by its URI.");
    const uint32_t version = ros2s_version();
    m.attr("__version__") = std::to_string(version >> 16) + "." +
                            std::to_string(version >> 8 & 255) + "." +
                            std::to_string(version & 255);
}
