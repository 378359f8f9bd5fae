// ros2s_open, ros2s_close, and the calls that need no file.
#include <cerrno>
#include <cstring>

#include "handles.h"
#include "ros2s/runtime/kept_errno.h"
#include "walk.h"

using namespace ros2s;
using namespace ros2s::api::c;

namespace ros2s::api::c {
namespace {

void say(const char* sentence, char* error, size_t error_bytes) {
    if (error == nullptr || error_bytes == 0) return;
    const size_t length = strnlen(sentence, error_bytes - 1);
    std::memcpy(error, sentence, length);
    error[length] = '\0';
}

// The URI's path must be an existing directory: relative paths start at it.
Task<Result<>> check_base(fs::FileSystem& file_system, const Call& call, std::string_view path) {
    Walk walk(file_system, call);
    ROS2S_CO_TRY_ASSIGN(const auto found, co_await walk.to({}, path, Walk::Last::follow));
    if (!S_ISDIR(found.mode)) co_return fail(Code::not_directory);
    co_return {};
}

int open(const char* text, const ros2s_open_options* options, ros2s_fs** out) {
    if (text == nullptr || out == nullptr) {
        return refuse(EINVAL, "ros2s_open: the URI or the pointer for the handle is NULL");
    }
    *out = nullptr;
    if (options != nullptr && options->struct_bytes < sizeof(ros2s_open_options)) {
        return refuse(EINVAL, "ros2s_open: options.struct_bytes is not sizeof(ros2s_open_options)");
    }
    Report report;
    auto uri = Uri::parse(text, report);
    if (!uri) return refuse(EINVAL, report.text());
    // Forked children and successors of an owner open it again, perhaps in another directory.
    uri->make_absolute();
    const bool named = options != nullptr && options->program != nullptr;
    const std::string program = named ? options->program : "";
    auto attachment = attach(*uri, program, report);
    if (!attachment) return refuse(to_errno(attachment.error()), report.text());
    auto opened = std::make_unique<ros2s_fs>();
    opened->attachment = *attachment;
    opened->uri = *uri;
    opened->program = program;
    opened->base = uri->path;
    if (!uri->path.empty()) {
        const auto checked =
            opened->run([&] { return check_base(opened->file_system(), opened->call, uri->path); });
        if (!checked) {
            detach(std::move(opened->attachment));
            return refuse(checked.error(), "open the URI's path", uri->path);
        }
    }
    *out = opened.release();
    return 0;
}

}  // namespace
}  // namespace ros2s::api::c

uint32_t ros2s_version(void) {
    return ROS2S_VERSION_MAJOR << 16 | ROS2S_VERSION_MINOR << 8 | ROS2S_VERSION_PATCH;
}

const char* ros2s_last_error(void) { return last_error(); }

int ros2s_open(const char* uri, const ros2s_open_options* options, ros2s_fs** fs, char* error,
               size_t error_bytes) {
    const KeptErrno kept;
    const int rc = open(uri, options, fs);
    say(rc < 0 ? last_error() : "", error, error_bytes);
    return rc;
}

int ros2s_close(ros2s_fs* fs) {
    const KeptErrno kept;
    const int whose = check_closing(fs, "close");
    if (whose < 0) return whose;
    if (const uint32_t users = fs->users.load(); users > 0) {
        return refuse(EBUSY, "close: " + std::to_string(users) +
                                 " files, directories, queues or buffers are still open; close "
                                 "them first");
    }
    if (whose > 0) keep_for_parent(std::make_shared<Attachment>(std::move(fs->attachment)));
    if (whose == 0) detach(std::move(fs->attachment));
    delete fs;
    return 0;
}
