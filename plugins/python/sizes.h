// Numbers of bytes and offsets from Python.
#pragma once
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

struct Size {
    uint64_t bytes = 0;
    operator uint64_t() const { return bytes; }
};

// ValueError for a negative number, TypeError for none.
template <>
struct pybind11::detail::type_caster<Size> {
    PYBIND11_TYPE_CASTER(Size, const_name("int"));
    bool load(handle from, bool) {
        const auto number = reinterpret_steal<object>(PyNumber_Index(from.ptr()));
        if (!number) throw error_already_set();
        const int64_t bytes = PyLong_AsLongLong(number.ptr());
        if (bytes < 0) {
            PyErr_Clear();
            throw value_error(static_cast<std::string>(str(number)) +
                              " is no number of bytes: these are 0 to 2^63 - 1");
        }
        value.bytes = static_cast<uint64_t>(bytes);
        return true;
    }
};
