/* ros2store.h: POSIX files in a ros2store container, from C.
 *
 * ros2store is an RDMA-first object storage system. (It has nothing to do with the Robot Operating
 * System.) A URI names the container:
 *
 *     ros2s+local:///POOL/CONTAINER[/path]?dir=DIR    a pool directory, the engine in this process
 *     ros2s://HOST[:PORT]/POOL/CONTAINER[/path]       a ros2store-engine, from a trusted host
 *     ros2s+dpu://HOST[:PORT]/POOL/CONTAINER[/path]   the ros2store-dpu of this host
 *
 * For the latter two, instead of a host, ?dir=DIR names the daemons that `ros2store up DIR`
 * started, and ?socket=PATH the Unix socket of a control plane. ?provider= requires a provider:
 * shm, tls or ofi+verbs; on trusted networks also ucx+tcp, ucx+rc, ofi+tcp;ofi_rxm and
 * ofi+verbs;ofi_rxm. ros2s+local:///POOL/CONTAINER?rados=CONF is a pool in a Ceph cluster.
 * ?timeout=SECONDS bounds opening, and ends each request to a server that has no reply after that
 * time; the call fails with -ETIMEDOUT, and a change may have been done, or be done later. Without
 * it calls wait as long as the server keeps the connection.
 *
 *     char error[512];
 *     ros2s_fs* fs;
 *     if (ros2s_open("ros2s+local:///pool/main?dir=/srv/ros2s", NULL, &fs, error, sizeof error))
 *         return fprintf(stderr, "%s\n", error), 1;
 *     ros2s_file* file;
 *     int rc = ros2s_file_open(fs, "hello", O_RDWR | O_CREAT, 0644, &file);
 *     if (rc < 0) return fprintf(stderr, "%s\n", ros2s_last_error()), 1;
 *     ros2s_pwrite(file, "hello", 5, 0);      // durable when it returns
 *     ros2s_file_close(file);
 *     ros2s_close(fs);
 *
 * ERRORS. A call returns 0 (or a count) on success and a negative errno on failure. It does not
 * change errno. After a failure ros2s_last_error() has a sentence: what failed, on what, why. Any
 * call may return: -EBADF (the handle is a forked parent's and cannot be used, see below), -EINVAL
 * (a NULL or invalid argument), -EIO (the device failed, or bytes read are not the bytes written;
 * such bytes are never returned as data), -EROFS (the pool does not accept writes any more),
 * -ENOSPC, -ENOMEM.
 *
 * THREADS. Any number of threads may use a ros2s_fs, its files and its directories at once.
 * ros2s_*_close and _destroy must not run concurrently with another call on the same handle. A
 * ros2s_queue has one submitting and one reaping thread at a time, which may be the same. A call
 * blocks only the calling thread. Opening and closing one pool, or one container of a server, is
 * serialised. A thread that waits in a call does the library's work meanwhile, on
 * its own stack: at least 128 KiB are needed. When no thread waits, a thread of the library works.
 * ros2s_open starts it, with all signals blocked, and ros2s_close ends it.
 *
 * FORK. Handles work in a forked child. The first call on one opens the container again for the
 * child, as another client, and the file (by its node and flags, without
 * O_TRUNC and O_EXCL) or the directory (behind the last entry that the parent returned). Nothing of
 * the parent is used or closed. Requests that the parent has in a queue end with -ECANCELED in the
 * child; its queue has another descriptor. Registered buffers work, and are not pinned. Locks stay
 * the parent's: on files from before the fork ros2s_flock and ros2s_lock fail with -ENOLCK. Closing
 * a handle frees the child's copy. A pool in the parent is used through its owner, see below.
 * Handles of a Ceph cluster, and of a container that is used through a mount, fail with -EBADF and
 * change nothing, closing included; and the child of a process that has opened a pool cannot open
 * one of a Ceph cluster (-EOPNOTSUPP). A child can end without closing anything.
 *
 * ONE OWNER. While another process has the pool of a ros2s+local URI open, the library works
 * through that owner, and ros2s_path_report() says so. The owner can be a ros2store-fuse mount of
 * the same container, the engine that `ros2store up` started for the pool, or a program of the same
 * user that uses this library. With another owner ros2s_open fails with -EBUSY and names it.
 * When a program that is the owner ends, the library starts a process that opens the pool, for as
 * long as it has users. Calls wait for it. One process may open a pool many times.
 *
 * DURABILITY. A write or a namespace operation is durable when its call returns. fsync is cheap.
 * In a container with durability=fsync (`ros2store container set URI --durability fsync`) a change
 * is durable at the next ros2s_fsync of any file, at ros2s_close, and within a second. A loss of
 * power takes back the changes since then, all after one point in their order; the end of a process
 * takes nothing back. If it was a server that lost power, the next change fails with -EIO and is
 * not made, and so does, once for each file that was open, its next write, ros2s_fsync or close.
 * ?durability=durable refuses that mode for one program, and O_SYNC or O_DSYNC for one file. If the
 * disk fails meanwhile, each ros2s_fsync fails with -EIO, and changes with -EROFS.
 *
 * PATHS. Any bytes except NUL. A path with a leading '/' starts at the container's root,
 * any other path at the URI's path. Symbolic links are followed within the container. Permission
 * bits are stored and returned. With ros2s+dpu: the DPU enforces them for the process's user; else
 * they are not enforced: a process that can open the pool can read every file. New files belong to
 * the effective uid and gid of the process. `mode` is used without the umask.
 *
 * ENVIRONMENT. ROS2STORE_LOG=debug|info|warning|error|off: the level of the library's log on
 * standard error; default: warning. ROS2STORE_CERTS: the directory with ca.crt, client.crt and
 * client.key for servers that are not named by ?dir=; default: /etc/ros2store/certs.
 * ROS2STORE_UCX_DEVICE: the network device of the ucx and ofi providers, such as eth0 or mlx5_0:1.
 * In a list with commas, each provider uses the first device that it supports. ROS2STORE_POLL: how
 * long a thread that waits for a server polls before it sleeps, 0 to 10ms; default: 250us. It polls
 * less often if that finds nothing, and 0 means never. For ros2s+local:, `io: poll` in
 * DIR/config.yaml.
 *
 * STABILITY. Structs that may grow begin with `struct_bytes`: set it to sizeof. Reserved fields are
 * zero. Within one SONAME, functions and fields are added and never removed.
 */
#ifndef ROS2STORE_ROS2STORE_H
#define ROS2STORE_ROS2STORE_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ROS2S_API __attribute__((visibility("default")))

#define ROS2S_VERSION_MAJOR 0
#define ROS2S_VERSION_MINOR 1
#define ROS2S_VERSION_PATCH 0

/* (major << 16) | (minor << 8) | patch of the library that is running. */
ROS2S_API uint32_t ros2s_version(void);

/* A sentence about the calling thread's last failed call; "" before the first. Valid until the
 * thread's next failed call. A successful call does not change it. */
ROS2S_API const char* ros2s_last_error(void);

/* ---- a container -------------------------------------------------------------------------- */

typedef struct ros2s_fs ros2s_fs;

typedef struct ros2s_open_options {
    uint32_t struct_bytes;
    uint32_t reserved;
    /* The name of the pool's owner in messages to other processes; NULL: the process's name.
     * Copied. */
    const char* program;
} ros2s_open_options;

/* Opens a container. `options` may be NULL. On failure *fs is NULL. If error_bytes is not 0,
 * `error` then has the sentence, cut to fit and NUL-terminated. Errors: -EINVAL (the URI), -ENOENT
 * (no such pool, container or path), -EBUSY (another process owns the pool), -EOPNOTSUPP (the
 * provider is not available, or a library that the URI needs cannot be loaded), -ENOTCONN (no
 * server answers), -EIO, -EACCES. Blocks until recovery has finished. */
ROS2S_API int ros2s_open(const char* uri, const ros2s_open_options* options, ros2s_fs** fs,
                         char* error, size_t error_bytes);

/* Finishes pending writes. Releases the pool if this was the process's last handle on it. While
 * files, directories, queues or buffers of it are open, returns -EBUSY and closes nothing. */
ROS2S_API int ros2s_close(ros2s_fs* fs);

/* ---- files -------------------------------------------------------------------------------- */

typedef struct ros2s_file ros2s_file;

/* `flags` as in open(2): O_RDONLY, O_WRONLY, O_RDWR with O_CREAT, O_EXCL, O_TRUNC, O_APPEND,
 * O_NOFOLLOW. O_SYNC and O_DSYNC: see DURABILITY. O_CLOEXEC, O_DIRECT and O_NOCTTY are allowed and
 * ignored. Others are -EINVAL. Regular files only (-EISDIR). */
ROS2S_API int ros2s_file_open(ros2s_fs* fs, const char* path, int flags, mode_t mode,
                              ros2s_file** file);
/* -EBUSY while requests of a queue use the file. After any other error the file is closed. */
ROS2S_API int ros2s_file_close(ros2s_file* file);

/* Returns the bytes read. They are fewer than `bytes` only at the end of the file; the rest of the
 * buffer is then undefined. I/O with buffer and offset at multiples of 4096 needs no copy. */
ROS2S_API ssize_t ros2s_pread(ros2s_file* file, void* buffer, size_t bytes, uint64_t offset);
/* Returns the bytes written (DURABILITY). They are fewer than `bytes` only if the rest failed
 * after the beginning was written, as when space runs out; a call with the rest returns its error.
 * With O_APPEND the offset is ignored. */
ROS2S_API ssize_t ros2s_pwrite(ros2s_file* file, const void* buffer, size_t bytes, uint64_t offset);
ROS2S_API int ros2s_fsync(ros2s_file* file);
ROS2S_API int ros2s_fstat(ros2s_file* file, struct stat* out);
ROS2S_API int ros2s_ftruncate(ros2s_file* file, uint64_t bytes);
/* Advisory locks, which hold against every mount and program that uses the container, wherever it
 * is. They belong to the ros2s_file, as those of an open file description do, and end when it is
 * closed. After -EIO the lock is lost: the server was away for too long, and others may have had
 * it. Then reads and writes fail, too, until the file is unlocked as a whole or closed. -ENOLCK:
 * the store has no locks (Ceph, DAOS, directories behind a DPU), or a limit is reached.
 *
 * operation: LOCK_SH, LOCK_EX or LOCK_UN, and LOCK_NB to get -EWOULDBLOCK instead of waiting. */
ROS2S_API int ros2s_flock(ros2s_file* file, int operation);
/* As fcntl(2) with F_OFD_GETLK, F_OFD_SETLK (-EAGAIN: another lock is in the way) or F_OFD_SETLKW.
 * The range starts at l_start (l_whence is SEEK_SET) and has l_len bytes; 0: all behind it. l_pid
 * of a found lock is 0 or, if this process has it, this process. */
ROS2S_API int ros2s_lock(ros2s_file* file, int command, struct flock* lock);
/* The range reads as zeros afterwards, and its space is free. The size does not change. */
ROS2S_API int ros2s_punch_hole(ros2s_file* file, uint64_t offset, uint64_t bytes);
/* The first byte at or behind `offset` that is in data (SEEK_DATA) or in a hole (SEEK_HOLE), as
 * lseek(2) finds it. The end of the file counts as a hole. Holes are found in whole MiB of a
 * container. -ENXIO: `offset` is not in the file, or there is no data behind it. */
ROS2S_API int64_t ros2s_seek(ros2s_file* file, uint64_t offset, int whence);

/* ---- names -------------------------------------------------------------------------------- */

ROS2S_API int ros2s_stat(ros2s_fs* fs, const char* path, struct stat* out);
/* For a symbolic link: the link itself. */
ROS2S_API int ros2s_lstat(ros2s_fs* fs, const char* path, struct stat* out);
ROS2S_API int ros2s_mkdir(ros2s_fs* fs, const char* path, mode_t mode);
ROS2S_API int ros2s_rmdir(ros2s_fs* fs, const char* path);
/* An open file exists until it is closed. */
ROS2S_API int ros2s_unlink(ros2s_fs* fs, const char* path);

#define ROS2S_RENAME_NOREPLACE 1u /* -EEXIST if the new name is taken */
#define ROS2S_RENAME_EXCHANGE 2u  /* swap the two */
/* Atomic, as rename(2) is. */
ROS2S_API int ros2s_rename(ros2s_fs* fs, const char* from, const char* to, uint32_t flags);
/* A second name for a file; a symbolic link is not followed. -EPERM for a directory. */
ROS2S_API int ros2s_link(ros2s_fs* fs, const char* path, const char* new_path);
ROS2S_API int ros2s_symlink(ros2s_fs* fs, const char* target, const char* path);
/* Bytes of the target, without a NUL; -ERANGE if it does not fit. */
ROS2S_API ssize_t ros2s_readlink(ros2s_fs* fs, const char* path, char* buffer, size_t bytes);
ROS2S_API int ros2s_truncate(ros2s_fs* fs, const char* path, uint64_t bytes);
ROS2S_API int ros2s_chmod(ros2s_fs* fs, const char* path, mode_t mode);
/* (uid_t)-1 and (gid_t)-1 change nothing. */
ROS2S_API int ros2s_chown(ros2s_fs* fs, const char* path, uid_t uid, gid_t gid);
/* times[0]: last access, times[1]: last modification; UTIME_NOW and UTIME_OMIT as in
 * utimensat(2); NULL: both now. */
ROS2S_API int ros2s_utimens(ros2s_fs* fs, const char* path, const struct timespec times[2]);

#define ROS2S_XATTR_CREATE 1u  /* -EEXIST if it exists */
#define ROS2S_XATTR_REPLACE 2u /* -ENODATA if it does not */
/* As getxattr(2) and related calls: with bytes == 0 the size needed, -ERANGE if it does not fit,
 * -ENODATA if there is none. listxattr: names, each with its NUL. Values up to 64 KiB. */
ROS2S_API ssize_t ros2s_getxattr(ros2s_fs* fs, const char* path, const char* name, void* value,
                                 size_t bytes);
ROS2S_API int ros2s_setxattr(ros2s_fs* fs, const char* path, const char* name, const void* value,
                             size_t bytes, uint32_t flags);
ROS2S_API int ros2s_removexattr(ros2s_fs* fs, const char* path, const char* name);
ROS2S_API ssize_t ros2s_listxattr(ros2s_fs* fs, const char* path, char* names, size_t bytes);

/* The space of the pool; f_frsize is the unit. */
ROS2S_API int ros2s_statfs(ros2s_fs* fs, struct statvfs* out);

/* ---- directories --------------------------------------------------------------------------- */

typedef struct ros2s_dir ros2s_dir;

typedef struct ros2s_dirent {
    uint64_t inode;
    uint32_t type; /* S_IFREG, S_IFDIR, S_IFLNK, … */
    uint32_t reserved;
    char name[256]; /* NUL-terminated; never "." or ".." */
} ros2s_dirent;

ROS2S_API int ros2s_opendir(ros2s_fs* fs, const char* path, ros2s_dir** directory);
/* Returns 1 with the next entry, 0 at the end. One thread at a time. An entry that exists during
 * the whole walk is returned exactly once, whatever happens to other entries. */
ROS2S_API int ros2s_readdir(ros2s_dir* directory, ros2s_dirent* entry);
ROS2S_API int ros2s_closedir(ros2s_dir* directory);

/* The next entries, at most `count`, with the attributes of their nodes. Returns how many; 0 at the
 * end. st_nlink is 0 if the name was removed meanwhile. Shares its position with ros2s_readdir. */
ROS2S_API ssize_t ros2s_readdir_many(ros2s_dir* directory, ros2s_dirent* entries,
                                     struct stat* stats, size_t count);

/* A name in a directory, without '/'. */
typedef struct ros2s_name_item {
    const char* name;
    int64_t result; /* set by the call: 0 or a negative errno */
} ros2s_name_item;

/* What as many calls on single names do, concurrently, and in few requests. Returns 0 when every
 * name was tried: check each item's result. stat_many does not follow symbolic links. create_many
 * makes empty files (-EEXIST: the name is taken). */
ROS2S_API int ros2s_stat_many(ros2s_dir* directory, ros2s_name_item* items, struct stat* stats,
                              size_t count);
ROS2S_API int ros2s_create_many(ros2s_dir* directory, ros2s_name_item* items, mode_t mode,
                                size_t count);
ROS2S_API int ros2s_unlink_many(ros2s_dir* directory, ros2s_name_item* items, size_t count);

/* ---- many small files ---------------------------------------------------------------------- */

typedef struct ros2s_read_item {
    const char* path; /* below read_many's directory; symbolic links are not followed (-ELOOP) */
    void* buffer;     /* gets the file's first `capacity` bytes */
    uint64_t capacity;
    /* Set by the call. */
    int64_t result; /* bytes in the buffer, or a negative errno */
    uint64_t size;  /* of the file: more than `result` if the buffer was too small */
} ros2s_read_item;

/* Opens, reads and closes `count` files in one call, concurrently. Returns 0 when every item was
 * tried: check each item's result. `directory` "" is the URI's path. */
ROS2S_API int ros2s_read_many(ros2s_fs* fs, const char* directory, ros2s_read_item* items,
                              size_t count);

typedef struct ros2s_write_item {
    const char* name; /* in write_many's directory, without '/' */
    const void* data; /* the whole content */
    uint64_t bytes;
    int64_t result; /* set by the call: 0 or a negative errno */
} ros2s_write_item;

#define ROS2S_WRITE_NEW 1u     /* -EEXIST if the name is taken; otherwise its file is overwritten */
#define ROS2S_WRITE_PUBLISH 2u /* the name appears, atomically, when all of the file is written */

/* Creates, writes and closes `count` files in one call, concurrently. Returns 0 when every name was
 * tried: check each item's result. Files whose result is 0 are durable. After another result a part
 * of that file may be written, but with ROS2S_WRITE_PUBLISH the name is as before. If the process
 * ends in the call, files named .*.part may be left. */
ROS2S_API int ros2s_write_many(ros2s_dir* directory, ros2s_write_item* items, mode_t mode,
                               uint32_t flags, size_t count);

/* ---- asynchronous I/O ----------------------------------------------------------------------
 * A queue is a pair of rings in memory. A thread that submits hands its requests to the device, and
 * a thread that reaps does the rest of the work, as long as no other thread is doing it. Then the
 * calls only use the rings. */

typedef enum ros2s_memory_kind {
    ROS2S_MEMORY_HOST = 0,
    ROS2S_MEMORY_DPU = 1, /* this and the next: -EOPNOTSUPP in this version */
    ROS2S_MEMORY_GPU = 2
} ros2s_memory_kind;

/* Memory that many requests will use, those for blocks, too: it is known by its address. Without
 * registration the kernel maps its pages for each request of an embedded pool. With a server it
 * has no effect: payload has one copy between this memory and the connection's, or over RDMA none.
 */
typedef struct ros2s_memory {
    uint32_t struct_bytes;
    uint32_t kind;   /* ros2s_memory_kind */
    uint32_t device; /* which GPU; 0 for host memory */
    uint32_t reserved;
    void* address;
    uint64_t bytes;
} ros2s_memory;

typedef struct ros2s_buffer ros2s_buffer;

/* The memory must stay mapped until it is unregistered. If the kernel refuses to register it
 * (memlock limit), requests work without, and ros2s_buffer_is_pinned() is 0. */
ROS2S_API int ros2s_buffer_register(ros2s_fs* fs, const ros2s_memory* memory,
                                    ros2s_buffer** buffer);
/* No request on it may be in progress. */
ROS2S_API int ros2s_buffer_unregister(ros2s_buffer* buffer);
ROS2S_API int ros2s_buffer_is_pinned(const ros2s_buffer* buffer);

typedef enum ros2s_opcode {
    ROS2S_OP_NOP = 0, /* completes with 0 */
    ROS2S_OP_READ = 1,
    ROS2S_OP_WRITE = 2,
    ROS2S_OP_FSYNC = 3,
    ROS2S_OP_PUNCH_HOLE = 4,
    /* Of blocks: see ros2s_blocks(). */
    ROS2S_OP_PUT_BLOCKS = 5,
    ROS2S_OP_GET_BLOCKS = 6,
    ROS2S_OP_FIND_BLOCKS = 7,
    ROS2S_OP_TOUCH_BLOCKS = 8,
    ROS2S_OP_PIN_BLOCKS = 9,
    ROS2S_OP_UNPIN_BLOCKS = 10,
    ROS2S_OP_REMOVE_BLOCKS = 11
} ros2s_opcode;

/* One cache line. Set unused fields to zero. Of the opcodes for blocks, `address` is an array of
 * ros2s_block, `bytes` is their number, and `offset` is the `pin_ns` of ros2s_blocks(). */
typedef struct ros2s_request {
    uint16_t opcode; /* ros2s_opcode */
    uint16_t memory; /* ros2s_memory_kind of `address` */
    uint32_t device;
    ros2s_file* file; /* of the queue's ros2s_fs */
    void* address;    /* must stay valid until the completion is reaped */
    uint64_t bytes;
    uint64_t offset;
    uint64_t user_data;
    const ros2s_buffer* buffer; /* NULL, or the registered memory that holds [address, +bytes) */
    uint64_t reserved;
} ros2s_request;

typedef struct ros2s_completion {
    uint64_t user_data;
    int64_t result; /* the return value of the synchronous call: bytes, 0, or a negative errno */
} ros2s_completion;

typedef struct ros2s_queue ros2s_queue;

/* `depth` (1 to 65536): the maximum number of requests between submit and reap. */
ROS2S_API int ros2s_queue_create(ros2s_fs* fs, uint32_t depth, ros2s_queue** queue);
/* Waits for the requests in progress and drops their completions. */
ROS2S_API int ros2s_queue_destroy(ros2s_queue* queue);

/* Accepts requests, from the first on, as far as the depth leaves room, and returns their number. 0
 * means: reap first. The requests are copied. They may complete in any order. An invalid request is
 * not accepted. If it is the first one, its error is returned. */
ROS2S_API int ros2s_queue_submit(ros2s_queue* queue, const ros2s_request* requests, uint32_t count);

/* Waits for `least` completions (0: does not wait), at most `timeout_ns` (< 0: no limit). Writes up
 * to `most` completions to `completions` and returns their number. It never waits for more
 * completions than there are requests in progress. If no thread reaps for half a millisecond,
 * the library's own thread continues with the requests. */
ROS2S_API int ros2s_queue_reap(ros2s_queue* queue, ros2s_completion* completions, uint32_t least,
                               uint32_t most, int64_t timeout_ns);

/* A descriptor for poll(2) and similar calls. It is readable if completions came since
 * ros2s_queue_reap last returned fewer than `most`. It belongs to the queue: do not read or close
 * it. After the first call of this function every such reap re-arms it, which costs the library's
 * thread a system call per wake-up. */
ROS2S_API int ros2s_queue_fd(ros2s_queue* queue);

/* ---- blocks of a cache -----------------------------------------------------------------------
 * In a container that evicts (`ros2store container create --cache`): they are put once, got often,
 * and may vanish. Their bytes never change. */

typedef struct ros2s_block {
    const void* key; /* 1 to 64 bytes */
    uint64_t key_bytes;
    void* data;     /* put: the bytes, which must not change; get: room for them; else unused */
    uint64_t bytes; /* of `data` */
    int64_t result; /* set by the call: a negative errno; of a get, the bytes of the block; or 0 */
} ros2s_block;

/* Works on each of `count` blocks, in as few requests as their bytes allow: one for 1024 keys.
 * Returns the number of leading blocks whose result is not negative (of ROS2S_OP_FIND_BLOCKS:
 * those that are there), or the error of the whole call.
 *
 *   ROS2S_OP_PUT_BLOCKS     0 also if it is there with the same bytes; -EEXIST: with other bytes,
 *                           which stay; -EDQUOT: it cannot fit
 *   ROS2S_OP_GET_BLOCKS     -ENOENT: a miss; -EMSGSIZE: `bytes` is too small, and `data` undefined
 *   ROS2S_OP_FIND_BLOCKS    -ENOENT: it is not there
 *   ROS2S_OP_TOUCH_BLOCKS   the same; counts as a use, as a get does
 *   ROS2S_OP_PIN_BLOCKS     the same; the others are not evicted for `pin_ns` (at most a day), or
 *                           until the process closes its last ros2s_fs of the container. -EDQUOT
 *                           for all: more than half of the budget would be pinned. Pinning again
 *                           sets a new end
 *   ROS2S_OP_UNPIN_BLOCKS   ends the process's pins
 *   ROS2S_OP_REMOVE_BLOCKS  -ENOENT: it was not there
 *
 * -EOPNOTSUPP: the container has no blocks. */
ROS2S_API int64_t ros2s_blocks(ros2s_fs* fs, ros2s_opcode opcode, ros2s_block* blocks, size_t count,
                               uint64_t pin_ns);

/* ---- what happened ------------------------------------------------------------------------- */

typedef enum ros2s_format { ROS2S_TEXT = 0, ROS2S_JSON = 1 } ros2s_format;

/* The path of this file's I/O, with the counters of every layer. Returns the length of the whole
 * report without its NUL. `out` gets what fits, NUL-terminated if bytes > 0. */
ROS2S_API ssize_t ros2s_path_report(ros2s_file* file, ros2s_format format, char* out, size_t bytes);
/* Reads `length` bytes (at most 16 MiB) at `offset` once, and reports each step of the read with
 * its time in microseconds. Returns as ros2s_path_report(). */
ROS2S_API ssize_t ros2s_trace_read(ros2s_file* file, uint64_t offset, uint64_t length,
                                   ros2s_format format, char* out, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
