#include "python_blocks.h"

#include <cerrno>
#include <cmath>
#include <string_view>

#include "many_files.h"
#include "names.h"
#include "shared_handle.h"

namespace py = pybind11;
using blocks::Item;
using blocks::Job;
using blocks::Operation;

namespace {

constexpr size_t key_bytes_max = 64;

std::string_view bytes_of(const py::handle& key) {
    const char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_Check(key.ptr())) {
        data = PyBytes_AS_STRING(key.ptr());
        size = PyBytes_GET_SIZE(key.ptr());
    } else if (PyUnicode_Check(key.ptr())) {
        data = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
        if (data == nullptr) throw py::error_already_set();
    } else {
        throw py::type_error("a key of a block is bytes or str");
    }
    if (size == 0 || static_cast<size_t>(size) > key_bytes_max) {
        throw py::value_error("a key of a block has 1 to 64 bytes, and not " +
                              std::to_string(size));
    }
    return {data, static_cast<size_t>(size)};
}

std::vector<Item> items_of(const blocks::BlockCache& cache, const py::sequence& keys) {
    if (PyBytes_Check(keys.ptr()) || PyUnicode_Check(keys.ptr())) {
        throw py::type_error("the keys are one key, and not a list of keys");
    }
    std::vector<Item> items;
    for (const auto& key : keys) items.emplace_back().name = cache.name_of(bytes_of(key));
    return items;
}

// Sets the memory of each item.
std::vector<View> views_of(const py::object& buffers, bool writable, std::vector<Item>& items) {
    std::vector<View> views;
    views.reserve(items.size());
    for (const auto& each : py::cast<py::sequence>(buffers)) {
        views.emplace_back(py::reinterpret_borrow<py::object>(each), writable);
    }
    if (views.size() != items.size()) {
        throw py::value_error("there are " + std::to_string(items.size()) + " keys and " +
                              std::to_string(views.size()) + " buffers");
    }
    for (size_t i = 0; i < items.size(); ++i) {
        if (views[i].size() > blocks::block_bytes_max) {
            throw py::value_error("a block has at most " + std::to_string(blocks::block_bytes_max) +
                                  " bytes, and not " + std::to_string(views[i].size()));
        }
        items[i].data = views[i].data();
        items[i].bytes = views[i].size();
    }
    return views;
}

std::string shown(const std::string& name) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text;
    for (const char each : name) {
        const bool is_shown = each > ' ' && each < 0x7f;
        if (is_shown) {
            text += each;
        } else {
            text += "\\x";
            text += digits[static_cast<unsigned char>(each) >> 4];
            text += digits[static_cast<unsigned char>(each) & 15];
        }
    }
    return text;
}

py::object result_of(Operation operation, const Item& item) {
    const int64_t result = item.result;
    if (operation == Operation::put) {
        if (result >= 0) return py::none();
        return os_error(error_of_one("put", shown(item.name), static_cast<int>(-result)));
    }
    if (operation == Operation::get) {
        return result >= 0 ? py::object(py::int_(result)) : py::object(py::none());
    }
    return py::bool_(result >= 0);
}

py::list results_of(const Job& job) {
    py::list out(job.items.size());
    for (size_t i = 0; i < job.items.size(); ++i) out[i] = result_of(job.operation, job.items[i]);
    return out;
}

struct Request {
    std::shared_ptr<Job> job;
    std::vector<View> views;
};

Request request_of(const blocks::BlockCache& cache, Operation operation, const py::sequence& keys,
                   const py::object& buffers, double pin_s,
                   std::shared_ptr<blocks::Completions> completions) {
    auto items = items_of(cache, keys);
    std::vector<View> views;
    if (operation == Operation::put || operation == Operation::get) {
        views = views_of(buffers, operation == Operation::get, items);
    }
    constexpr double pin_s_max = 86400;
    if (operation == Operation::pin && !(pin_s > 0 && pin_s <= pin_s_max)) {
        throw py::value_error("a pin holds for a number of seconds above 0, and at most 86400");
    }
    auto job = std::make_shared<Job>(operation, std::move(items), std::move(completions));
    job->pinned_for = std::chrono::nanoseconds(std::llround(pin_s * 1e9));
    return {std::move(job), std::move(views)};
}

}  // namespace

PythonBlockCache::PythonBlockCache(const std::string& uri, const std::string& directory,
                                   double deadline_s, unsigned threads) {
    constexpr double deadline_s_max = 86400;
    constexpr unsigned threads_max = 64;
    if (!(deadline_s > 0 && deadline_s <= deadline_s_max)) {
        throw py::value_error("the deadline is a number of seconds above 0, and at most 86400");
    }
    if (threads == 0 || threads > threads_max) {
        throw py::value_error("a cache has 1 to 64 threads");
    }
    const blocks::Options options{
        .uri = uri,
        .directory = directory,
        .deadline = std::chrono::nanoseconds(std::llround(deadline_s * 1e9)),
        .threads = threads};
    const Unlocked unlocked;
    cache_ = std::make_unique<blocks::BlockCache>(options);
}

PythonBlockCache::~PythonBlockCache() {
    // A forked child has none of the threads, and leaves the parent's cache as it is.
    if (!cache_->is_of_this_process()) {
        (void)cache_.release();
        return;
    }
    close();
}

void PythonBlockCache::close() {
    if (!cache_->is_of_this_process()) return;
    const Unlocked unlocked;
    cache_->close();
}

py::list PythonBlockCache::run(Operation operation, const py::sequence& keys,
                               const py::object& buffers, double pin_s) {
    const Request request = request_of(*cache_, operation, keys, buffers, pin_s, nullptr);
    {
        const Unlocked unlocked;
        cache_->submit(request.job);
        request.job->wait();
    }
    return results_of(*request.job);
}

py::dict PythonBlockCache::counters() const {
    const blocks::Counters& from = cache_->counters();
    py::dict out;
    const auto add = [&](const char* name, const std::atomic<uint64_t>& value) {
        out[name] = value.load();
    };
    add("hits", from.hits);
    add("misses", from.misses);
    add("stored", from.stored);
    add("present", from.present);
    add("refused", from.refused);
    add("corrupt", from.corrupt);
    add("failed", from.failed);
    add("late", from.late);
    add("bytes_got", from.bytes_got);
    add("bytes_put", from.bytes_put);
    return out;
}

PythonBlockQueue::~PythonBlockQueue() {
    if (!cache_.cache().is_of_this_process()) return;
    for (const auto& [id, submitted] : submitted_) cache_.cache().cancel(submitted.job);
}

uint64_t PythonBlockQueue::submit(Operation operation, const py::sequence& keys,
                                  const py::object& buffers, double pin_s) {
    Request request = request_of(cache_.cache(), operation, keys, buffers, pin_s, completions_);
    const uint64_t id = cache_.cache().submit(request.job);
    submitted_.emplace(id, Submitted{std::move(request.job), std::move(request.views)});
    return id;
}

py::list PythonBlockQueue::completions() {
    py::list out;
    if (!cache_.cache().is_of_this_process()) return out;
    for (const auto& job : completions_->take()) {
        submitted_.erase(job->id);
        out.append(py::make_tuple(job->id, results_of(*job)));
    }
    return out;
}

void add_blocks(py::module_& m) {
    py::class_<PythonBlockCache> cache(m, "BlockCache");
    py::class_<PythonBlockQueue> queue(m, "BlockQueue");
    cache
        .def(py::init<const std::string&, const std::string&, double, unsigned>(), py::arg("uri"),
             py::arg("directory"), py::arg("deadline"), py::arg("threads"))
        .def("close", &PythonBlockCache::close)
        .def("counters", &PythonBlockCache::counters)
        .def_property_readonly(
            "is_of_blocks",
            [](const PythonBlockCache& self) { return self.cache().is_of_blocks(); })
        .def_property_readonly("closed", &PythonBlockCache::is_closed);
    queue.def(py::init<PythonBlockCache&>(), py::arg("cache"), py::keep_alive<1, 2>())
        .def("fileno", &PythonBlockQueue::descriptor)
        .def("completions", &PythonBlockQueue::completions);
    const std::pair<const char*, Operation> with_buffers[] = {{"put", Operation::put},
                                                              {"get", Operation::get}};
    for (const auto& [name, operation] : with_buffers) {
        cache.def(
            name,
            [operation](PythonBlockCache& self, const py::sequence& keys,
                        const py::object& buffers) { return self.run(operation, keys, buffers); },
            py::arg("keys"), py::arg("buffers"));
        queue.def(
            name,
            [operation](PythonBlockQueue& self, const py::sequence& keys,
                        const py::object& buffers) {
                return self.submit(operation, keys, buffers);
            },
            py::arg("keys"), py::arg("buffers"));
    }
    const std::pair<const char*, Operation> of_keys[] = {{"exists", Operation::exists},
                                                         {"touch", Operation::touch},
                                                         {"unpin", Operation::unpin},
                                                         {"delete", Operation::remove}};
    for (const auto& [name, operation] : of_keys) {
        cache.def(
            name,
            [operation](PythonBlockCache& self, const py::sequence& keys) {
                return self.run(operation, keys, py::none());
            },
            py::arg("keys"));
        queue.def(
            name,
            [operation](PythonBlockQueue& self, const py::sequence& keys) {
                return self.submit(operation, keys, py::none());
            },
            py::arg("keys"));
    }
    cache.def(
        "pin",
        [](PythonBlockCache& self, const py::sequence& keys, double seconds) {
            return self.run(Operation::pin, keys, py::none(), seconds);
        },
        py::arg("keys"), py::arg("seconds"));
    queue.def(
        "pin",
        [](PythonBlockQueue& self, const py::sequence& keys, double seconds) {
            return self.submit(Operation::pin, keys, py::none(), seconds);
        },
        py::arg("keys"), py::arg("seconds"));
}
