#include "options.h"

#include <CLI/CLI.hpp>
#include <iostream>

namespace ros2s::fuse {
namespace {

constexpr const char* description = R"(Mounts a ros2store container as a file system.

ros2store-fuse opens the container that the URI names and serves it at MOUNT_POINT through FUSE. It
returns when the mount answers, or with an error; the mount then stays in the background until it is
unmounted. With ros2s+local it is the pool's owner while it is mounted: other ros2store programs
reach the container through the mount point.)";

constexpr const char* more = R"(
OPTIONS OF MOUNT(8)
  -o ro,allow_other,no_cache,noexec,exclusive,sync has the effect of the options above.

DURABILITY
  A write(2), and every change of a name or an attribute, is durable when the call returns, also
  without fsync. What a program stores through a shared memory mapping is durable after msync.
  In a container that has durability=fsync, a change is durable at the next fsync of any file or
  directory (also `ros2store sync MOUNT_POINT`, not sync(2)), at unmounting, and within a second. A
  loss of this machine's power before takes back the last changes, a kill takes back none. What a
  server loses with its power, the mount repeats. If it cannot, the next change fails with EIO and is
  not made, and the next write or fsync of each open file fails once with EIO.

CACHING
  With ros2s+local and `dir` all changes pass this mount, so the kernel keeps names, attributes and file pages
  in its own caches. O_DIRECT works. Mounts of an engine (ros2s) or a DPU (ros2s+dpu) keep names,
  attributes and pages of files that are only read, until another mount changes them: that mount waits
  until this one has dropped what is old. Mounts of a Ceph cluster (`rados`), and --no-cache, ask the file
  system every time. Writes, and files that are open for writing, bypass the page cache. A mapping of such a
  file shows what it held when its pages were first touched; a shared mapping needs Linux 6.6.

  With --exclusive the kernel also keeps writes, and writes them back at fsync, close and after a while:
  a kill of this process loses those. Errors of writing, as ENOSPC, are then reported by fsync and close.
  Nobody else can open the container meanwhile.

LOCKS
  flock(2) and fcntl(2) locks hold among all programs that use the mount; with daemons of ros2store also
  among all mounts of the container. In a Ceph cluster they fail with ENOLCK.

UNMOUNTING
  fusermount3 -u MOUNT_POINT, or SIGINT or SIGTERM to the process. A signal also unmounts while
  files are open: what was written is durable; programs that hold files get errors from then on.

EXIT STATUS
  0 mounted (in the foreground: was unmounted); 1 it failed; 2 the command line is wrong.

EXAMPLES
  ros2store up --no-daemons /srv/pool
  ros2store-fuse 'ros2s+local:///pool/main?dir=/srv/pool' /mnt/pool
  fusermount3 -u /mnt/pool
)";

}  // namespace

std::optional<Options> parse_options(int count, char** arguments, int& exit_status) {
    Options options;
    std::string uri;
    CLI::App app(description, "ros2store-fuse");
    app.add_option("URI", uri,
                   "what to mount: ros2s+local:///POOL/CONTAINER?dir=DIRECTORY, "
                   "ros2s+dpu://HOST/POOL/CONTAINER, ros2s://HOST/POOL/CONTAINER")
        ->required();
    app.add_option("MOUNT_POINT", options.mount_point, "an empty directory")->required();
    app.add_flag("-f,--foreground", options.foreground,
                 "stay in the foreground and log to standard error");
    app.add_flag("--allow-other", options.allow_other,
                 "let other users use the mount, as file permissions allow (an ordinary user "
                 "needs user_allow_other in /etc/fuse.conf)");
    app.add_flag("-r,--read-only", options.read_only, "refuse changes through this mount");
    app.add_flag("--no-exec", options.no_exec, "refuse to execute files of the mount");
    bool no_cache = false;
    app.add_flag("--no-cache", no_cache, "disable the kernel's caches");
    app.add_flag("--exclusive", options.exclusive,
                 "have the container alone, and let the kernel keep writes until close or fsync; "
                 "the container has durability=fsync")
        ->excludes("--no-cache");
    std::string durability;
    app.add_option("--durability", durability,
                   "durable: each change is durable when it returns, also if the container has "
                   "durability=fsync");
    app.add_flag("--print-pid", options.print_pid,
                 "write the number of the process that serves the mount to standard output");
    app.set_version_flag("--version", "ros2store-fuse " ROS2STORE_VERSION);
    app.footer(more);
    try {
        app.parse(count, arguments);
    } catch (const CLI::ParseError& error) {
        const bool asked = error.get_exit_code() == 0;  // --help, --version
        if (asked) {
            app.exit(error);
        } else {
            std::cerr << "ros2store-fuse: " << error.what()
                      << "; `ros2store-fuse --help` shows the usage\n";
        }
        exit_status = asked ? 0 : 2;
        return std::nullopt;
    }
    options.caching = !no_cache;
    Report report;
    auto parsed = api::Uri::parse(uri, report);
    if (parsed && !parsed->path.empty()) {
        report.say("only a whole container can be mounted: leave out \"/" + parsed->path +
                   "\" and find it below the mount point");
        parsed = fail(Code::invalid);
    }
    if (!parsed) {
        std::cerr << "ros2store-fuse: " << report.text() << "\n";
        exit_status = 2;
        return std::nullopt;
    }
    if (!durability.empty() && durability != "durable") {
        std::cerr << "ros2store-fuse: a mount can only ask for --durability durable; set less for "
                     "the container: ros2store container set --durability\n";
        exit_status = 2;
        return std::nullopt;
    }
    options.uri = std::move(*parsed);
    if (!durability.empty()) options.uri.is_durable = true;
    // The background process must not depend on its starting directory.
    options.uri.make_absolute();
    return options;
}

}  // namespace ros2s::fuse
