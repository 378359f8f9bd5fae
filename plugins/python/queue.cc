#include "queue.h"

#include <deque>
#include <vector>

namespace py = pybind11;

namespace {

constexpr size_t ranges_together_max = 256;

// Reads all ranges, whose user_data are their indices.
void read_all(const ros2store::FileSystem& fs, const std::vector<ros2s_request>& ranges,
              std::vector<int64_t>& results) {
    const auto depth = static_cast<uint32_t>(std::min(ranges.size(), ranges_together_max));
    const ros2store::Queue queue = fs.make_queue(depth);
    ros2s_completion completions[64];
    size_t submitted = 0, done = 0;
    while (done < ranges.size()) {
        if (submitted < ranges.size()) {
            submitted += queue.submit(
                ranges.data() + submitted,
                static_cast<uint32_t>(std::min<size_t>(ranges.size() - submitted, depth)));
        }
        const uint32_t count = queue.reap(completions, 1, 64);
        for (uint32_t i = 0; i < count; ++i) {
            results[completions[i].user_data] = completions[i].result;
        }
        done += count;
    }
}

struct Range {
    PythonFile* file = nullptr;
    std::string name;
    uint64_t offset = 0;
    size_t bytes = 0;
};

Range to_range(const py::handle& from) {
    try {
        auto [file, name, offset, bytes] =
            py::cast<std::tuple<PythonFile&, Name, Size, Size>>(from);
        return {&file, std::move(name), offset, bytes};
    } catch (const py::cast_error&) {
        throw py::type_error("pread_many: a range is no (file, offset, bytes)");
    }
}

}  // namespace

py::list read_ranges(SharedFileSystem& fs, const py::sequence& ranges) {
    std::vector<ros2s_request> requests;
    std::vector<py::object> made;
    std::vector<std::string> names;
    std::deque<SharedHandle<ros2store::File>::Use> uses;
    for (const auto& each : ranges) {
        const Range range = to_range(each);
        const auto& use = uses.emplace_back(range.file->handle());
        made.push_back(new_bytes(range.bytes));
        names.push_back(range.name);
        ros2s_request request{};
        request.opcode = ROS2S_OP_READ;
        request.file = use.handle().get();
        request.address = PyBytes_AS_STRING(made.back().ptr());
        request.bytes = range.bytes;
        request.offset = range.offset;
        request.user_data = requests.size();
        requests.push_back(request);
    }
    std::vector<int64_t> results(requests.size());
    if (!requests.empty()) {
        fs.call([&](const ros2store::FileSystem& at) { read_all(at, requests, results); });
    }
    py::list out(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
        if (results[i] < 0) {
            out[i] = os_error(error_of_one("read", names[i], static_cast<int>(-results[i])));
        } else {
            out[i] = shortened(std::move(made[i]), static_cast<size_t>(results[i]));
        }
    }
    return out;
}

PythonQueue::PythonQueue(SharedFileSystem& fs, uint32_t depth)
    : queue_(fs.call([&](const ros2store::FileSystem& at) { return at.make_queue(depth); })) {}

bool PythonQueue::submit(ros2s_opcode opcode, const py::object& file, Memory memory,
                         uint64_t offset, const py::object& token) {
    const ros2store::Queue& to = queue();
    auto kept = std::make_unique<QueuedRequest>(file, std::move(memory), token);
    ros2s_request request{};
    request.opcode = static_cast<uint16_t>(opcode);
    request.file = kept->handle();
    request.address = kept->memory().data();
    request.bytes = kept->memory().size();
    request.offset = offset;
    request.user_data = next_;
    if (!to.submit(request)) return false;
    requests_.emplace(next_++, std::move(kept));
    return true;
}

py::list PythonQueue::reap(bool waits) {
    const ros2store::Queue& from = queue();
    ros2s_completion completions[64];
    py::list out;
    uint32_t count = 0;
    do {
        count = from.reap(completions, 0, 64);
        if (count == 0 && waits && !requests_.empty()) {
            const Unlocked unlocked;
            count = from.reap(completions, 1, 64);
        }
        for (uint32_t i = 0; i < count; ++i) {
            const auto request = requests_.extract(completions[i].user_data);
            out.append(py::make_tuple(request.mapped()->token(),
                                      request.mapped()->result_of(completions[i].result)));
        }
    } while (count == 64 || (waits && !requests_.empty()));
    return out;
}

void PythonQueue::close() {
    if (!queue_) return;
    auto requests = std::move(requests_);
    {
        const Unlocked unlocked;
        const ros2store::Queue closing = std::move(*queue_);
        queue_.reset();
    }
}
