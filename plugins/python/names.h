// Names, texts and attributes between Python and the library.
#pragma once
#include <pybind11/pybind11.h>
#include <sys/stat.h>

#include <ros2store/ros2store.hpp>
#include <string>
#include <vector>

// A name as the functions of `os` accept it: str, bytes or os.PathLike; or a Path of this package.
// Bytes that are not UTF-8 are surrogates in a str.
struct Name : std::string {};
struct Names : std::vector<std::string> {};

template <>
struct pybind11::detail::type_caster<Name> {
    PYBIND11_TYPE_CASTER(Name, const_name("os.PathLike"));
    bool load(handle from, bool) {
        const auto path = path_of(from);
        if (!path) throw error_already_set();
        const auto encoded = PyBytes_Check(path.ptr())
                                 ? path
                                 : reinterpret_steal<object>(PyUnicode_EncodeFSDefault(path.ptr()));
        if (!encoded) throw error_already_set();
        value.assign(PyBytes_AS_STRING(encoded.ptr()),
                     static_cast<size_t>(PyBytes_GET_SIZE(encoded.ptr())));
        return true;
    }

  private:
    static object path_of(handle from) {
        if (PyUnicode_Check(from.ptr()) || PyBytes_Check(from.ptr())) {
            return reinterpret_borrow<object>(from);
        }
        // A Path has no os.fspath(), with which others would take it for a path of this machine.
        object in_container = getattr(from, "_name_in_container", none());
        if (!in_container.is_none()) return in_container;
        return reinterpret_steal<object>(PyOS_FSPath(from.ptr()));
    }
};
template <>
struct pybind11::detail::type_caster<Names> {
    PYBIND11_TYPE_CASTER(Names, const_name("Iterable[os.PathLike]"));
    bool load(handle from, bool converts) {
        if (!isinstance<iterable>(from) || isinstance<str>(from) || isinstance<bytes>(from)) {
            throw type_error(static_cast<std::string>(repr(from)) +
                             " is no list of names, which are str, bytes or os.PathLike");
        }
        for (const auto& each : reinterpret_borrow<iterable>(from)) {
            type_caster<Name> name;
            name.load(each, converts);
            value.push_back(std::move(cast_op<Name&>(name)));
        }
        return true;
    }
};

// As the functions of `os` do: bytes that are not UTF-8 become surrogates.
inline pybind11::object text_of(std::string_view text) {
    return pybind11::reinterpret_steal<pybind11::object>(
        PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

// An os.stat_result.
inline pybind11::object to_stat_result(const struct stat& st) {
    const auto seconds = [](const timespec& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
    };
    const auto ns = [](const timespec& t) { return t.tv_sec * 1'000'000'000 + t.tv_nsec; };
    static const auto* const type =
        new pybind11::object(pybind11::module_::import("os").attr("stat_result"));
    return (*type)(pybind11::make_tuple(st.st_mode, st.st_ino, st.st_dev, st.st_nlink, st.st_uid,
                                        st.st_gid, st.st_size, st.st_atim.tv_sec, st.st_mtim.tv_sec,
                                        st.st_ctim.tv_sec, seconds(st.st_atim), seconds(st.st_mtim),
                                        seconds(st.st_ctim), ns(st.st_atim), ns(st.st_mtim),
                                        ns(st.st_ctim), st.st_blksize, st.st_blocks, st.st_rdev));
}

inline ros2store::Error error_of_one(const char* what, const std::string& name, int os_errno) {
    return {os_errno,
            std::string(what) + " '" + name + "': " + std::generic_category().message(os_errno)};
}
inline ros2store::Error error_of_name(const char* what, const std::string& name, int os_errno) {
    const ros2store::Error error = error_of_one(what, name, os_errno);
    if (os_errno != EINVAL) return error;
    return {os_errno, std::string(error.sentence()) + ": it is not a name in the directory"};
}
