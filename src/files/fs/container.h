// These functions find, open and make containers by their label, with a file system in them.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ros2s/base/result.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/blocks.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::fs {

// `where` names the pool for people: "the pool 'pool' in /srv/ros2s". Errors: not_found (the report
// lists the containers), those of the store.
[[nodiscard]] Task<Result<object::ContainerRecord>> find_container(const Call& call,
                                                                   object::ObjectStore& store,
                                                                   std::string where,
                                                                   std::string label,
                                                                   Report& report);

// Opens the file system in it. Errors: those of find_container() and Dfs::mount().
[[nodiscard]] Task<Result<std::unique_ptr<FileSystem>>> open_container(
    const Call& call, Reactor& reactor, object::ObjectStore& store, std::string where,
    std::string label, DfsOptions options, Report& report);

// Creates a container with an empty file system. If the call has a name and is repeated, it takes
// effect once, and finishes what an earlier execution began. With `keys` it is encrypted from the
// beginning (Dfs::format). If it fails or is stopped, it leaves nothing, with two exceptions: a
// stopped call with a name, which may be repeated, and a failure whose report names the rest. That
// container cannot be opened. Errors: stale (it was created and has been destroyed since), exists,
// invalid (the label), too_large (the chunks), no_space, read_only.
[[nodiscard]] Task<Result<object::ContainerRecord>> create_container(
    const Call& call, Reactor& reactor, object::ObjectStore& store,
    object::ContainerProperties properties, Owner owner, Report& report,
    const object::Operation* keys = nullptr);

// When changes of a container are durable.
enum class Durability : uint8_t {
    durable,  // when they return
    fsync,    // at fsync, or within a second
};
[[nodiscard]] std::string_view to_string(Durability durability);
// Errors: invalid, with a sentence.
[[nodiscard]] Result<Durability> parse_durability(std::string_view text, Report& report);
// Errors: those of fetch and of the superblock.
[[nodiscard]] Task<Result<Durability>> durability_of(const Call& call, object::ObjectStore& store,
                                                     object::ContainerId container);
// Counts for those who open the container from now on. Errors, with a sentence: those of fetch,
// update and the superblock.
[[nodiscard]] Task<Result<>> set_durability(const Call& call, Reactor& reactor,
                                            object::ObjectStore& store,
                                            const object::ContainerRecord& record,
                                            Durability durability, Report& report);

// The file system, which has no files yet, becomes a cache (object/blocks.h). The budget is the
// container's cap of bytes. A block is removed when it is older than `ttl`; 0: never. Errors, with
// a sentence: invalid (it has no cap), condition_failed (it has files), unsupported (by the store).
[[nodiscard]] Task<Result<>> make_cache(const Call& call, object::ObjectStore& store,
                                        const object::ContainerRecord& record, Duration ttl,
                                        Report& report);
// An extended attribute of the root of a cache: its use, for people.
inline constexpr std::string_view cache_attribute = "user.ros2store.cache";
struct CacheState {
    Duration ttl{};
    object::CacheUse use{};
};
// Nothing: it is no cache. Errors: those of fetch.
[[nodiscard]] Task<Result<std::optional<CacheState>>> cache_of(const Call& call,
                                                               object::ObjectStore& store,
                                                               object::ContainerId container);

// Declares that the file system, which has no files yet, needs a decrypting store layer
// (DfsOptions::layers). `also` is part of the same transaction. Programs without such a layer then
// refuse the container. Errors: not_empty, exists (it is declared already), those of update; each
// with a sentence.
[[nodiscard]] Task<Result<>> require_decryption(const Call& call, object::ObjectStore& store,
                                                const object::ContainerRecord& record,
                                                object::Operation also, Report& report);

}  // namespace ros2s::fs
