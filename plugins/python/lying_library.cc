// Loaded before libros2store, this is the library of a client whose server lies: each file of
// read_many has 16 KiB and claims to be as large as a number can say.
#include <ros2store/ros2store.h>

#include <algorithm>

int ros2s_open(const char* /*uri*/, const ros2s_open_options* /*options*/, ros2s_fs** fs,
               char* /*error*/, size_t /*error_bytes*/) {
    static char any;
    *fs = reinterpret_cast<ros2s_fs*>(&any);
    return 0;
}

int ros2s_close(ros2s_fs* /*fs*/) { return 0; }

int ros2s_read_many(ros2s_fs* /*fs*/, const char* /*directory*/, ros2s_read_item* items,
                    size_t count) {
    for (size_t i = 0; i < count; ++i) {
        items[i].result = static_cast<int64_t>(std::min<uint64_t>(items[i].capacity, 16 << 10));
        items[i].size = UINT64_MAX;
    }
    return 0;
}
