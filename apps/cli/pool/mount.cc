// mount: this process becomes ros2store-fuse. With --json it starts one, and prints the answer for
// it.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "daemons/process.h"
#include "pool_location.h"

namespace ros2s::cli {
namespace {

std::unexpected<Error> cannot_run(const CommandContext& context, const std::string& program,
                                  int failure) {
    return context.report.fail(
        Error{Code::not_found, failure},
        "cannot run {}: {}; build or install ros2store-fuse beside this program", program,
        std::strerror(failure));
}

Result<> check_order(const CommandContext& context, const MountOptions& options) {
    if (is_uri(options.uri) || !is_uri(options.mount_point)) return {};
    return context.report.fail(Code::invalid,
                               "the URI comes first, then the directory: ros2store mount {} {}",
                               shell_word(options.mount_point), shell_word(options.uri));
}

// One line, without the program's name.
std::string complaint_in(std::string_view errors) {
    constexpr std::string_view name = "ros2store-fuse: ";
    if (errors.starts_with(name)) errors.remove_prefix(name.size());
    while (errors.ends_with('\n')) errors.remove_suffix(1);
    std::string line(errors);
    std::ranges::replace(line, '\n', ' ');
    return line;
}

Task<Result<>> mount_and_answer(CommandContext context, MountOptions options,
                                std::vector<std::string> arguments) {
    for (const std::string& each : options.further) {
        if (each != "-f" && each != "--foreground") continue;
        co_return context.report.fail(Code::invalid,
                                      "--json answers when the mount is in the background, and {} "
                                      "keeps it in the foreground: leave one of them out",
                                      each);
    }
    arguments.insert(arguments.begin() + 1, "--print-pid");
    const auto said = co_await context.environment.blocking.run(
        context.environment.reactor, [&] { return run_program(arguments, ProgramErrors::kept); });
    if (!said) co_return cannot_run(context, arguments[0], said.error().os_errno);
    int pid = 0;
    const std::string& number = said->output;
    if (said->status != 0 ||
        std::from_chars(number.data(), number.data() + number.size(), pid).ec != std::errc()) {
        const std::string complaint = complaint_in(said->errors);
        co_return context.report.fail(
            Code::io,
            complaint.empty() ? "ros2store-fuse exited without an error message" : complaint);
    }
    std::error_code ignored;
    const auto location = std::filesystem::canonical(options.mount_point, ignored);
    context.console.answer(
        Json::object({{"mount_point", location.string()}, {"uri", options.uri}, {"pid", pid}}));
    co_return Result<>{};
}

}  // namespace

Task<Result<>> mount(CommandContext context, MountOptions options) {
    ROS2S_CO_TRY(check_order(context, options));
    ROS2S_CO_TRY(api::Uri::parse(options.uri, context.report));
    std::vector<std::string> arguments{sibling_program("ros2store-fuse"), options.uri,
                                       options.mount_point};
    if (!options.options.empty()) {
        arguments.emplace_back("-o");
        arguments.push_back(options.options);
    }
    arguments.insert(arguments.end(), options.further.begin(), options.further.end());
    if (context.console.json()) {
        co_return co_await mount_and_answer(context, std::move(options), std::move(arguments));
    }
    execvp(arguments[0].c_str(), pointers_to(arguments).data());
    co_return cannot_run(context, arguments[0], errno);
}

}  // namespace ros2s::cli
