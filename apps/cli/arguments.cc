#include "arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "pool/pool_location.h"
#include "ros2s/base/text_parts.h"
#include "ros2s/config/units.h"

namespace ros2s::cli {
namespace {

// Commands that open no pool, or also work without one, name no locations.
template <class Options>
std::vector<std::string> places_of(const Options&) {
    return {};
}
// A local path is not a pool to be opened.
std::vector<std::string> uris_in(std::vector<std::string> locations) {
    std::erase_if(locations, [](const std::string& location) { return !is_uri(location); });
    return locations;
}
std::vector<std::string> places_of(const FileOptions& options) {
    return uris_in(options.locations);
}
std::vector<std::string> places_of(const WhyOptions& options) {
    return uris_in({options.location});
}
std::vector<std::string> places_of(const GrowOptions& options) { return {options.location}; }
std::vector<std::string> places_of(const StatusOptions& options) { return {options.location}; }
std::vector<std::string> places_of(const PoolOptions& options) { return {options.directory}; }
std::vector<std::string> places_of(const CheckOptions& options) { return {options.directory}; }
std::vector<std::string> places_of(const ContainerOptions& options) { return {options.location}; }

template <class Options>
std::vector<std::string> pools_used_by(const Options& options) {
    return places_of(options);
}
std::vector<std::string> pools_used_by(const DownOptions& options) { return {options.location}; }
std::vector<std::string> pools_used_by(const TenantOptions& options) { return {options.location}; }
std::vector<std::string> pools_used_by(const TopOptions& options) {
    auto places = options.locations;
    std::erase_if(places, [](const std::string& place) { return place.starts_with("http:"); });
    return places;
}

// One command: its options are in the closure that runs it.
template <class Options>
class Command {
  public:
    using Function = Task<Result<>> (*)(CommandContext, Options);
    Command(CLI::App& parent, Arguments& arguments, const char* name, const char* help,
            Function function)
        : options(std::make_shared<Options>()), app(*parent.add_subcommand(name, help)) {
        app.callback([&arguments, function, options = options] {
            arguments.locations = places_of(*options);
            arguments.used_pools = pools_used_by(*options);
            arguments.command = [function, options](CommandContext context) {
                return function(context, std::move(*options));
            };
        });
    }
    Options* operator->() const { return options.get(); }
    template <class Value>
    CLI::Option* option(const char* name, Value& value, const char* help) const {
        return app.add_option(name, value, help);
    }
    CLI::Option* flag(const char* name, bool& value, const char* help) const {
        return app.add_flag(name, value, help);
    }
    std::shared_ptr<Options> options;
    CLI::App& app;
};

// Accepts the forms in which a person may write a number of bytes.
CLI::Validator offset() {
    constexpr uint64_t most = uint64_t{INT64_MAX} - 4096;
    return {[](std::string& word) -> std::string {
                const auto bytes = config::parse_size(word);
                if (!bytes || *bytes > most) {
                    return fmt::format(
                        "'{}' is not an offset; give a number of bytes, for example 4096 or 1M",
                        word);
                }
                word = std::to_string(*bytes);
                return {};
            },
            ""};
}

// Accepts seconds, as they are or with a fraction.
CLI::Validator interval() {
    return {[](std::string& word) -> std::string {
                constexpr double least = 0.1, most = 3600;
                double seconds = 0;
                if (parse_number(word, seconds) && seconds >= least && seconds <= most) return {};
                return fmt::format(
                    "'{}' is not an interval; give a number of seconds from {} to {}", word, least,
                    most);
            },
            ""};
}

// The first argument after the recognised command; "" if there is none.
std::string_view unknown_word(int count, char** values, const CLI::App& level) {
    int at = 1;
    if (!level.get_name().empty() && level.get_parent() != nullptr) {
        while (at < count && level.get_name() != values[at]) ++at;
        ++at;
    }
    while (at < count && std::string_view(values[at]) == "--json") ++at;
    return at < count ? values[at] : "";
}

// The problem with the command line, where the library's own message does not say it.
std::string in_words(const CLI::ParseError& error, int count, char** values,
                     const CLI::App& level) {
    const std::string said = error.what();
    constexpr std::string_view conversion = "Could not convert: ";
    if (said.starts_with(conversion)) {
        const std::string_view rest = std::string_view(said).substr(conversion.size());
        const size_t equals = rest.find(" = ");
        return fmt::format("{} takes a whole number, not '{}'", rest.substr(0, equals),
                           equals == std::string_view::npos ? "" : rest.substr(equals + 3));
    }
    const bool needs_command = !level.get_subcommands({}).empty();
    if (!needs_command || !level.get_subcommands().empty()) return said;
    const std::string_view word = unknown_word(count, values, level);
    const std::string after =
        level.get_parent() == nullptr ? "" : fmt::format(" after '{}'", level.get_name());
    if (word.empty()) return fmt::format("a command is missing{}", after);
    return fmt::format("there is no {} '{}'{}", word.starts_with('-') ? "option" : "command", word,
                       after);
}

constexpr const char* place_help =
    "a URI (ros2s+local:///POOL/CONTAINER/PATH?dir=DIR; ros2s+dpu or ros2s with daemons) or a "
    "local path";
constexpr const char* pool_help = "a pool directory or a URI";

void add_creation(const Command<UpOptions>& command, bool container) {
    command.option("directory", command->directory, "the directory for the pool's files")
        ->required();
    command.option("--size", command->size, "total size of all devices: 512M, 4G, 1T")
        ->default_str(default_size);
    command
        .option("--devices", command->devices, "number of device files (one for each --device-dir)")
        ->default_str(std::to_string(default_devices));
    command.option("--device-dir", command->device_directories,
                   "put the device files here instead, in turn (repeat it for each disk); an NVMe "
                   "namespace (/dev/ng0n1) or a devdax device (/dev/dax0.0) is used completely; "
                   "name persistent memory first, for the journal");
    command.option("--pool", command->pool, "the pool's name in URIs")->default_str(default_pool);
    if (container) {
        command.option("--container", command->container, "the first container's name")
            ->default_str(default_container);
    } else {
        command->container = "";
    }
}

void add_pool_life(CLI::App& app, Arguments& arguments) {
    Command<UpOptions> up_command(
        app, arguments, "up",
        "make a pool in a directory where there is none, and start its engine and DPU daemon", up);
    add_creation(up_command, true);
    auto* const no_daemons = up_command.flag("--no-daemons", up_command->no_daemons,
                                             "only make the pool, for programs that open it "
                                             "themselves (ros2s+local URIs); no process stays");
    up_command
        .option("--provider", up_command->providers,
                "how the DPU daemon reaches the engine, best first, separated by commas: shm, tls, "
                "ucx+tcp, ofi+tcp;ofi_rxm; kept in DIR/dpu.yaml. In an existing DIR, the settings "
                "of both daemons must allow them")
        ->excludes(no_daemons);
    up_command
        .flag("--trusted-network", up_command->trusted_network,
              "trust all users of this machine: ucx and ofi providers let every user write into "
              "the daemons (trusted_network in the settings)")
        ->excludes(no_daemons);
    up_command.app.footer(
        "The daemons run in the background, on Unix sockets in DIR/run, with certificates of two\n"
        "development authorities in DIR/certs. Their settings, DIR/engine.yaml and DIR/dpu.yaml,\n"
        "may be edited; logs are DIR/run/*.log. `up` again starts what does not run;\n"
        "`ros2store status DIR` shows them, `ros2store down DIR` stops them.");
    Command<DownOptions> down_command(
        app, arguments, "down",
        "unmount a pool and stop its daemons, so that no process has it open", down);
    down_command.option("place", down_command->location, pool_help)->required();
    down_command.flag(
        "--kill", down_command->kill,
        "kill the daemons without waiting for their requests; acknowledged data is kept");
    Command<StatusOptions> status_command(
        app, arguments, "status",
        "show the contents of a pool directory, the process that has it open, and its daemons",
        status);
    status_command.option("place", status_command->location, pool_help)->capture_default_str();
    Command<MountOptions> mount_command(app, arguments, "mount",
                                        "mount a container (ros2store-fuse)", mount);
    mount_command
        .option("uri", mount_command->uri,
                "the container's URI; with timeout=SECONDS, what a server does not reply to fails "
                "after that time")
        ->required();
    mount_command.option("mount-point", mount_command->mount_point, "an empty directory")
        ->required();
    mount_command.option("-o", mount_command->options,
                         "options of mount(8), with commas between: ro, allow_other, no_cache, "
                         "noexec, exclusive, sync");
    mount_command.option("further", mount_command->further, "options of ros2store-fuse, after --");
    Command<SyncOptions> sync_command(
        app, arguments, "sync", "wait until everything that was changed through a mount is durable",
        sync);
    sync_command.option("path", sync_command->path, "a path in the mount")->required();
    Command<UmountOptions> umount_command(app, arguments, "umount",
                                          "make a mount durable, and end it", umount);
    umount_command.option("mount-point", umount_command->mount_point, "where it is mounted")
        ->required();
}

void add_pool(CLI::App& app, Arguments& arguments) {
    CLI::App& pool =
        *app.add_subcommand("pool", "create, list, query, check, grow or destroy pools");
    pool.require_subcommand(1);
    Command<UpOptions> create(pool, arguments, "create", "make an empty pool", pool_create);
    add_creation(create, false);
    const auto add = [&](const char* name, const char* help,
                         Command<PoolOptions>::Function function,
                         const char* what) -> Command<PoolOptions> {
        Command<PoolOptions> command(pool, arguments, name, help, function);
        command.option("directory", command->directory, what)->capture_default_str();
        return command;
    };
    add("list", "list the pools in a directory and its subdirectories", pool_list,
        "the directory to search, or a URI of the pool");
    add("query", "show a pool's devices, space and containers", pool_query, pool_help);
    Command<CheckOptions> check(
        pool, arguments, "check",
        "compare a pool's index, journal, space, names and counts, without changing anything; "
        "status 1: there are problems, 2: it cannot be checked",
        pool_check);
    check.option("directory", check->directory, "a pool directory that no process has open")
        ->capture_default_str();
    check.flag("--data", check->data, "also read all data, and compare it with its checksums");
    check.app.parse_complete_callback([&arguments] { arguments.failed_status = 2; });
    Command<GrowOptions> grow(pool, arguments, "grow", "add a device file to a pool", pool_grow);
    grow.option("place", grow->location, pool_help)->required();
    grow.option("--size", grow->size, "size of the new device file: 512M, 4G, 1T");
    grow.option("--device-dir", grow->device_directory,
                "put the file here instead, for example on another disk; an NVMe namespace "
                "(/dev/ng0n1) is used completely");
    grow.app.parse_complete_callback([options = grow.options] {
        if (options->size.empty() && options->device_directory.empty()) {
            throw CLI::RequiredError("--size");
        }
    });
    auto destroy = add("destroy", "remove a pool and everything in it", pool_destroy, pool_help);
    destroy.flag("--yes", destroy->yes, "required: without it nothing is removed");
}

void add_container(CLI::App& app, Arguments& arguments) {
    CLI::App& container = *app.add_subcommand(
        "container", "create, list, query, set, rekey, check or destroy containers");
    container.require_subcommand(1);
    const auto add = [&](const char* name, const char* help,
                         Command<ContainerOptions>::Function function,
                         const char* what) -> Command<ContainerOptions> {
        Command<ContainerOptions> command(container, arguments, name, help, function);
        command.option("uri", command->location, what)->required();
        return command;
    };
    constexpr const char* uri =
        "the container's URI: ros2s+local:///POOL/CONTAINER?dir=DIR, or ros2s+dpu://HOST or "
        "ros2s://HOST with /POOL/CONTAINER";
    auto create = add("create", "make an empty container", container_create, uri);
    create.option("--chunk", create->chunk, "size of the chunks into which files are divided")
        ->capture_default_str();
    create
        .option("--encryption", create->encryption,
                "whether file data is encrypted: none, or aes-256-gcm")
        ->capture_default_str();
    create.option("--key", create->key,
                  "the key that protects it: NAME, for $ROS2STORE_KEYS/NAME.key");
    const auto with_caps = [](const Command<ContainerOptions>& command) {
        command.option("--space,--size", command->space,
                       "cap on its space, or the budget of a cache: 500GiB; 0: no cap");
        command.option("--files", command->files, "cap on its number of files: 10M; 0: no cap");
    };
    const auto with_durability = [](const Command<ContainerOptions>& command) {
        command.option("--durability", command->durability,
                       "when changes are durable: durable (when they return), or fsync (at fsync, "
                       "and within a second)");
    };
    with_caps(create);
    with_durability(create);
    create.flag("--cache", create->is_cache,
                "a cache: its files are blocks, which the engine evicts to keep within --size");
    create.option("--ttl", create->ttl, "of a cache: blocks that are older are removed: 12h");
    auto set = add("set", "change a container's caps, owner or durability", container_set, uri);
    with_caps(set);
    with_durability(set);
    set.option("--owner", set->owner,
               "the new owner: a tenant, or the subject of a certificate; '': administrators");
    auto rekey =
        add("rekey", "protect an encrypted container with another key", container_rekey, uri);
    rekey.option("--key", rekey->key, "the new key, as for create")->required();
    add("list", "list the containers of a pool", container_list,
        "a pool directory, or a URI of the pool: ros2s+dpu://HOST/POOL");
    add("query", "show a container's id, owner, durability, use and caps", container_query, uri);
    auto check = add("check", "find space and keys that belong to no file", container_check, uri);
    check.flag("--free", check->free, "free the space and remove the keys");
    auto destroy =
        add("destroy", "remove a container and everything in it", container_destroy, uri);
    destroy.flag("--yes", destroy->yes, "required: without it nothing is removed");
}

void add_leases(CLI::App& app, Arguments& arguments) {
    Command<LeaseOptions> list(app, arguments, "leases",
                               "show which mounts keep names and attributes, and for whom others "
                               "wait: all for an administrator, else those of your tenant",
                               leases);
    list.option("place", list->location,
                "the directory of `up` (its engine), or a URI of an engine or a DPU")
        ->required();
    list.option("--holder", list->holder, "only this one");
    Command<LeaseOptions> end(app, arguments, "evict",
                              "end the leases of a mount now; it may get others", evict);
    end.option("uri", end->location,
               "the container's URI, at the engine or DPU that shows the holder")
        ->required();
    end.option("holder", end->holder, "as `ros2store leases` shows it")->required();
}

void add_files(CLI::App& app, Arguments& arguments) {
    const auto add = [&](const char* name, const char* help,
                         Command<FileOptions>::Function function,
                         int least) -> Command<FileOptions> {
        Command<FileOptions> command(app, arguments, name, help, function);
        command.option("place", command->locations, place_help)
            ->required()
            ->expected(least, -1)  // or more
            ->option_text(least > 1 ? "(two or more; the last is the destination)"
                                    : "(one or more)");
        return command;
    };
    auto ls_command = add("ls", "list directories", ls, 1);
    ls_command.flag("-l,--long", ls_command->long_form, "mode, owner, size, time");
    ls_command.flag("-a,--all", ls_command->all, "also names that begin with a dot");
    ls_command.flag("-R,--recursive", ls_command->recursive, "also subdirectories");
    auto cp_command = add("cp", "copy files and trees, with modes, times and links", cp, 2);
    cp_command.flag("-r,-R,--recursive", cp_command->recursive, "also directories");
    cp_command.flag("-p,--preserve", cp_command->preserve,
                    "at a local path, keep set-id bits, ACLs and, as root, owners; use it only "
                    "with a source that you trust");
    cp_command.app.footer(
        "DIR/. stands for the contents of DIR. Copies in a container keep owners, set-id bits and\n"
        "ACLs. Copies at a local path belong to you, without set-id bits and ACLs, unless -p is\n"
        "given. If one file cannot be copied, the others are copied.\n"
        "A file gets its name when its copy is complete. Ctrl-C leaves complete files, and\n"
        "directories that may still lack their modes and times; kill -9 may also leave files\n"
        "named .ros2store-…, which can be removed.");
    add("cat", "write files to standard output", cat, 1);
    auto rm_command = add("rm", "remove files and trees", rm, 1);
    rm_command.flag("-r,-R,--recursive", rm_command->recursive, "also directories");
    rm_command.flag("-f,--force", rm_command->force, "ignore files that do not exist");
    auto mkdir_command = add("mkdir", "make directories", mkdir, 1);
    mkdir_command.flag("-p,--parents", mkdir_command->parents,
                       "also make parents; ignore directories that exist");
    add("mv", "rename within a container", mv, 2);
    add("stat", "show the attributes of files", stat, 1);
}

struct TenantSetting {
    const char *option, *name, *help;
};
constexpr TenantSetting tenant_settings[] = {
    {"--subject", "subjects",
     "subjects of its certificates, as `ros2store certs show FILE.crt` prints them, separated by "
     "semicolons: CN=alice"},
    {"--read", "read",
     "containers, or directories of them, that it may mount for reading: images, run-*, main/data"},
    {"--write", "write", "containers, or directories of them, that it may mount, read and change"},
    {"--create", "create", "containers that it may create"},
    {"--destroy", "destroy", "containers that it may destroy, with their contents"},
    {"--until", "until", "when its rights end: 2027-01-31, or 2027-01-31T18:00:00Z"},
    {"--space", "space", "cap on the space of all its containers together: 1TiB"},
    {"--files", "files", "cap on the number of files in them: 10M"},
    {"--weight", "weight", "weight of its share of DPU and engine time: 1 to 1000"},
    {"--requests", "requests", "limit on reads and writes per second"},
    {"--bytes", "bytes", "limit on bytes read and written per second: 500MiB"},
    {"--names", "names",
     "limit on names and attributes per second; each name of a batch or path counts"},
    {"--burst", "burst", "how long it may exceed a rate after a pause: 100ms"},
    {"--sessions", "sessions", "limit on its open sessions"},
    {"--handles", "handles", "limit on its open files and directories at a DPU"},
    {"--requests-in-flight", "requests_in_flight",
     "limit on its requests in progress; further requests wait"},
    {"--bytes-in-flight", "bytes_in_flight", "limit on the payload of these requests: 16MiB"},
    {"--users", "users", "user ids for which its machines may act: any, or 1000-1999, 5000"},
    {"--groups", "groups", "group ids that its users may have: any, or 1000-1999"},
    {"--root-squash", "root_squash",
     "yes (the default) or no: user 0 and group 0 act as user nobody"},
    {"--squash", "squash", "the user and group for all its requests: UID:GID"},
    {"--uid-map", "uid_map",
     "maps user ids of its machines to those in containers: HOST:STORED:COUNT"},
    {"--gid-map", "gid_map", "the same for groups"},
    {"--may", "may", "what its root may create: devices, set_ids, privileged_attributes"},
};

void add_tenant(CLI::App& app, Arguments& arguments) {
    CLI::App& tenant = *app.add_subcommand(
        "tenant",
        "create, list, show, change, revoke or remove tenants: rights and limits in a pool");
    tenant.require_subcommand(1);
    const auto add = [&](const char* name, const char* help,
                         Command<TenantOptions>::Function function) -> Command<TenantOptions> {
        Command<TenantOptions> command(tenant, arguments, name, help, function);
        command
            .option("place", command->location,
                    "the directory of `up`, or the engine and any container of the pool: "
                    "ros2s://HOST:PORT/POOL/CONTAINER")
            ->required();
        command.option("--certs", command->certificates,
                       "a directory with the certificate of an administrator");
        return command;
    };
    const auto named = [](const Command<TenantOptions>& command) {
        command.option("name", command->name, "the tenant's name")->required();
    };
    const auto with_settings = [&](const Command<TenantOptions>& command) {
        named(command);
        for (const TenantSetting& each : tenant_settings) {
            command.app.add_option_function<std::string>(
                each.option,
                [options = command.options, name = each.name](const std::string& text) {
                    options->settings.insert_or_assign(name, text);
                },
                each.help);
        }
    };
    const auto create_command =
        add("create", "create a tenant, with its certificates, rights and limits", tenant_create);
    with_settings(create_command);
    create_command.app.get_option("--subject")->required();
    with_settings(add(
        "set", "change settings, also of a revoked tenant; '' removes a setting, 'none' a limit",
        tenant_set));
    auto revoke_command =
        add("revoke", "end a tenant's rights and sessions; it stays in the list", tenant_revoke);
    named(revoke_command);
    revoke_command.option(
        "--capability", revoke_command->capability,
        "revoke only the capability with this id (`tenant show` and the engine's log show ids)");
    named(
        add("remove",
            "remove a revoked tenant; its name and subjects are free, its containers have no owner",
            tenant_remove));
    add("rotate-key", "sign capabilities of the pool with a new key from now on",
        tenant_rotate_key);
    named(add("show", "show a tenant's settings and the capabilities in use", tenant_show));
    add("list", "list the tenants of a pool", tenant_list);
    tenant.footer(
        "A change is durable when the command returns. DPU daemons apply it within a second.");
}

void add_certificates(CLI::App& app, Arguments& arguments) {
    CLI::App& certs = *app.add_subcommand(
        "certs",
        "manage a development authority and the certificates of engines, DPUs and clients");
    certs.require_subcommand(1);
    constexpr const char* directory = "the authority's directory";
    const auto add_common = [](Command<CertificateOptions>& command) {
        command.option("--name", command->names,
                       "a DNS name or address under which the server is reached; repeat it");
        command.option("--days", command->days, "how long certificates are valid")
            ->capture_default_str();
    };
    Command<CertificateOptions> init(
        certs, arguments, "init", "make an authority, and certificates for a server and a client",
        certs_init);
    init.option("directory", init->directory, directory)->required();
    add_common(init);
    Command<CertificateOptions> issue(certs, arguments, "issue", "issue another certificate",
                                      certs_issue);
    issue.option("directory", issue->directory, directory)->required();
    issue.option("certificate", issue->name, "the certificate's name")->required();
    issue.flag("--server", issue->server, "for an engine or DPU daemon");
    issue.flag("--replace", issue->replace,
               "replace the certificate of this name; running programs start to use the new one");
    add_common(issue);
    Command<CertificateOptions> revoke(certs, arguments, "revoke",
                                       "revoke one certificate; its subject can get another one",
                                       certs_revoke);
    revoke.option("directory", revoke->directory, directory)->required();
    revoke
        .option("certificate", revoke->name,
                "the certificate's name, or the path of its file, with a '/'")
        ->required();
    Command<CertificateOptions> show(certs, arguments, "show", "show a certificate", certs_show);
    show.option("file", show->directory, "NAME.crt")->required();
}

void add_questions(CLI::App& app, Arguments& arguments) {
    Command<WhyOptions> why_command(
        app, arguments, "why", "show the path of a file's I/O, and trace one read step by step",
        why);
    why_command.option("file", why_command->location, place_help)->required();
    why_command
        .option("--offset", why_command->offset, "offset of the 4 KiB to read: 4096, 64K, 1M")
        ->transform(offset())
        ->capture_default_str();
    why_command.flag("--write", why_command->write,
                     "also trace a write of the same bytes; not through a mount");
    why_command.option("--trace-file", why_command->trace_file,
                       "also write the steps to this file, for ui.perfetto.dev");
    Command<DoctorOptions> doctor_command(
        app, arguments, "doctor", "show what this machine lacks, and the commands that fix it",
        doctor);
    doctor_command
        .option("place", doctor_command->location,
                "a directory of pools, or a URI whose server is to be examined too")
        ->capture_default_str();
    doctor_command.option("--certs", doctor_command->certificates,
                          "a directory of certificates to examine (default: those of the "
                          "directory's services, $ROS2STORE_CERTS, /etc/ros2store/certs)");
    Command<TopOptions> top_command(app, arguments, "top",
                                    "show the load of each tenant, from the daemons' metrics", top);
    top_command
        .option("place", top_command->locations,
                "pool directories with daemons, and addresses of metrics (http://127.0.0.1:9400)")
        ->option_text("(any number) [.]");
    top_command
        .option("--interval", top_command->interval,
                "time between refreshes; rates are averages over it; 0.1 to 3600")
        ->check(interval())
        ->type_name("SECONDS")
        ->capture_default_str();
    top_command.flag("--once", top_command->once,
                     "print one table after one interval, then exit; the default with --json and "
                     "if standard output is not a terminal");
    top_command
        .option("--by", top_command->by,
                "show requests by kind: of each tenant, mount, container or process")
        ->check(CLI::IsMember({"tenant", "mount", "container", "process"}))
        ->type_name("WHAT");
    top_command.option(
        "--password-file", top_command->password_file,
        "a file whose first line is the password for all addresses; required for them (default for "
        "directories: DIR/run/engine.metrics and DIR/run/dpu.metrics)");
    top_command.app.footer(
        "Tenants whose requests take the most time come first. REQ counts reads and writes,\n"
        "NAMES requests for names and attributes. P50 and P99 are times from arrival to reply.\n"
        "BUSY is the total time of all requests. QUEUED is the part spent waiting for a turn,\n"
        "THROTTLED the part spent waiting because of the tenant's rate limits. At an engine, a\n"
        "DPU with rights of its own counts as a tenant. With --by, LOOKS and CHANGES are requests\n"
        "for names and attributes. Ctrl-C ends the display.");
}

void add_plan(CLI::App& app, Arguments& arguments) {
    Command<PlanOptions> command(
        app, arguments, "plan",
        "compute how many machines the reads of GPUs need, from measured costs", plan);
    command.option("--gpus", command->gpus, "G: number of GPUs that read")->required();
    command.option("--rate", command->rate, "r: samples per second of one GPU")->required();
    command.option("--sample", command->sample, "s: size of a sample: 150kB, 4MiB")->required();
    command.option("--hardware", command->hardware, "a YAML file that describes the machines");
    command.option("--costs", command->costs,
                   "a file that ./dev bench costs wrote (default: the one of this build)");
    command
        .option("--backend", command->backend,
                "what stores the data behind the DPUs: engine, rados, daos")
        ->capture_default_str();
    command.option("--provider", command->provider,
                   "how the DPUs reach it (default: ucx+tcp; rados and daos: tcp)");
    command.app.footer("docs/planning.md has the formulas and their limits.");
}

}  // namespace

std::optional<Arguments> parse_arguments(int count, char** values, int& status) {
    Arguments arguments;
    CLI::App app(
        "ros2store: POSIX files on objects on raw block I/O.\n"
        "(An object storage system; nothing to do with the Robot Operating System.)\n"
        "Begin with: ros2store up DIR",
        "ros2store");
    app.set_version_flag("--version", "ros2store " ROS2STORE_VERSION);
    app.add_flag("--json", arguments.json,
                 "answer with one JSON value (for any command, also after its name)");
    app.require_subcommand(1);
    app.fallthrough();
    add_pool_life(app, arguments);
    add_pool(app, arguments);
    add_container(app, arguments);
    add_leases(app, arguments);
    add_tenant(app, arguments);
    add_files(app, arguments);
    add_certificates(app, arguments);
    add_questions(app, arguments);
    add_plan(app, arguments);
    try {
        app.parse(count, values);
    } catch (const CLI::Success& wanted) {
        status = app.exit(wanted);
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        std::string help = "ros2store";
        const CLI::App* level = &app;
        while (!level->get_subcommands().empty()) {
            level = level->get_subcommands().front();
            help += " " + level->get_name();
        }
        const std::string what = in_words(error, count, values, *level);
        Console(arguments.json).complain("{}; see `{} --help`", what, help);
        status = 2;
        return std::nullopt;
    }
    return arguments;
}

}  // namespace ros2s::cli
