// Memory of Python objects that the library reads and writes without a copy.
#pragma once
#include <pybind11/pybind11.h>
#include <sys/mman.h>

#include <cstdint>
#include <string>
#include <utility>

// Memory of an object with the buffer protocol, or of a tensor of torch in the memory of the host,
// which has no such protocol. Valid for the lifetime of the view.
class View {
  public:
    View(const pybind11::object& object, bool writable) {
        if (!PyObject_CheckBuffer(object.ptr()) && pybind11::hasattr(object, "data_ptr")) {
            use_tensor(object);
            return;
        }
        const int flags = PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) {
            throw pybind11::error_already_set();
        }
    }
    View(View&& other) noexcept
        : view_(std::exchange(other.view_, {})), tensor_(std::move(other.tensor_)) {}
    View& operator=(View&&) = delete;
    ~View() { PyBuffer_Release(&view_); }
    char* data() const { return static_cast<char*>(view_.buf); }
    size_t size() const { return static_cast<size_t>(view_.len); }
    bool is_readonly() const { return view_.readonly != 0; }

  private:
    void use_tensor(const pybind11::object& tensor) {
        if (tensor.attr("device").attr("type").cast<std::string>() != "cpu" ||
            !tensor.attr("is_contiguous")().cast<bool>()) {
            throw pybind11::buffer_error(
                "the tensor is not contiguous memory of the host; copy it with "
                ".cpu().contiguous()");
        }
        tensor_ = tensor;
        const pybind11::object address = tensor.attr("data_ptr")();
        view_.buf = PyLong_AsVoidPtr(address.ptr());
        view_.len = tensor.attr("numel")().cast<Py_ssize_t>() *
                    tensor.attr("element_size")().cast<Py_ssize_t>();
    }
    Py_buffer view_{};
    pybind11::object tensor_;
};

// Maps the pages of memory that is about to be filled: one call costs less than a fault of each.
inline void map_pages(char* memory, size_t bytes) {
    constexpr uintptr_t page_bytes = 4096;
    const auto begin = (reinterpret_cast<uintptr_t>(memory) + page_bytes - 1) / page_bytes;
    const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page_bytes;
    if (end < begin + 4) return;
    (void)::madvise(reinterpret_cast<void*>(begin * page_bytes), (end - begin) * page_bytes,
                    MADV_POPULATE_WRITE);
}

// A bytes object whose content is not set yet.
inline pybind11::object new_bytes(size_t bytes) {
    pybind11::object made;
    if (bytes <= PY_SSIZE_T_MAX) {
        made = pybind11::reinterpret_steal<pybind11::object>(
            PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
    }
    if (!made) {
        PyErr_Format(PyExc_MemoryError, "there is no memory for %zu bytes", bytes);
        throw pybind11::error_already_set();
    }
    return made;
}

// Its first `bytes`, without a copy. Nobody else may have the object yet.
inline pybind11::bytes shortened(pybind11::object made, size_t bytes) {
    PyObject* whole = made.release().ptr();
    if (static_cast<size_t>(PyBytes_GET_SIZE(whole)) != bytes &&
        _PyBytes_Resize(&whole, static_cast<Py_ssize_t>(bytes)) != 0) {
        throw pybind11::error_already_set();
    }
    return pybind11::reinterpret_steal<pybind11::bytes>(whole);
}
