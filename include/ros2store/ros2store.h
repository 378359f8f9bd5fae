/* ros2store.h: POSIX files in a ros2store container, from C.
 *
 * ros2store is an RDMA-first object storage system. (It has nothing to do with the Robot Operating
 * System.) A URI says where the container is:
 *
 *     ros2s+local:///POOL/CONTAINER[/path]?dir=DIR    a pool directory, the engine in this process
 *     ros2s://HOST[:PORT]/POOL/CONTAINER[/path]       a ros2store-engine, from a trusted host
 *     ros2s+dpu://HOST[:PORT]/POOL/CONTAINER[/path]   a ros2store-dpu, which works for this host
 *
 * Of the latter two, ?dir=DIR instead of a host are the daemons that `ros2store up DIR` started,
 * and ?socket=PATH is the Unix socket of a control plane; ?provider= demands a provider (shm,
 * ucx+tcp, ofi+tcp;ofi_rxm).
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
 * ERRORS. Every call returns 0 (or a count) on success and a negative errno on failure; nothing
 * touches errno. ros2s_last_error() then has a sentence: what failed, on what, why. Errors that
 * any call may return: -EBADF (the handle was opened before a fork(), below), -EINVAL (a NULL or
 * nonsensical argument), -EIO (the device failed, or bytes read are not the bytes written: never
 * returned as data), -EROFS (the pool stopped taking writes), -ENOSPC, -ENOMEM.
 *
 * THREADS. A ros2s_fs, its files and directories may be used by any number of threads at once;
 * ros2s_*_close and _destroy only when no other call on that handle is under way. A ros2s_queue
 * has one submitting and one reaping thread at a time, which may be the same. Calls block the
 * calling thread alone. The work is done by one thread that ros2s_open starts (all signals
 * blocked in it) and ros2s_close ends.
 *
 * FORK. After fork() the handles belong to the parent. In the child every call on them fails with
 * -EBADF ("opened before fork() and is the parent's") and changes nothing, in the child or the
 * parent; closing them there fails too, and frees nothing. A child of a process that has opened a
 * pool or used a network cannot open any itself (-EOPNOTSUPP): start it as a new program (exec;
 * multiprocessing's start method "spawn"), or work through a mount.
 *
 * ONE OWNER. While another process has the pool of a ros2s+local URI open, ros2s_open fails with
 * -EBUSY and names that process, unless it is a ros2store-fuse mount of the same container, or the
 * engine that `ros2store up` started there: then this library works through the mount point or the
 * engine, and ros2s_path_report() says so. Within one process a pool may be opened many times.
 *
 * DURABILITY. A write or a namespace operation is durable when its call returns. fsync is cheap.
 *
 * PATHS. UTF-8 or any bytes but NUL. A leading '/' is the container's root; other paths start at
 * the URI's path. Symbolic links are followed within the container. Permission bits are stored and
 * returned, not enforced: who can open the pool's files can read them. New files belong to the
 * effective uid and gid of the process; `mode` is taken as it is, without the umask.
 *
 * ENVIRONMENT. ROS2STORE_LOG=debug|info|warning|error|off: what the library says on standard error
 * about what nobody asked for; "warning" without it. ROS2STORE_CERTS: the directory with ca.crt,
 * client.crt and client.key for servers that are not named by ?dir=; /etc/ros2store/certs without
 * it. ROS2STORE_UCX_DEVICE: the network device of the ucx and ofi providers, such as eth0 or
 * mlx5_0:1; several with commas between them: the first that suits the provider.
 *
 * STABILITY. Structs that may grow open with `struct_bytes`: set it to sizeof. Reserved fields are
 * zero. Functions and fields are only ever added within one SONAME.
 */
#ifndef ROS2STORE_ROS2STORE_H
#define ROS2STORE_ROS2STORE_H

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

/* What failed in the calling thread's last failing call, as a sentence; "" before the first. Valid
 * until the thread's next failing call. Calls that succeed leave it alone, as they do errno. */
ROS2S_API const char* ros2s_last_error(void);

/* ---- a container -------------------------------------------------------------------------- */

typedef struct ros2s_fs ros2s_fs;

typedef struct ros2s_open_options {
    uint32_t struct_bytes;
    uint32_t reserved;
    /* Named to others as the pool's owner; NULL: the process's name. Copied. */
    const char* program;
} ros2s_open_options;

/* Opens a container. `options` may be NULL. On failure *fs is NULL and `error`, when error_bytes
 * is not 0, holds the sentence, cut to fit and NUL-terminated. Errors: -EINVAL (the URI), -ENOENT
 * (no such pool, container or path), -EBUSY (another process owns the pool), -EOPNOTSUPP (a
 * provider that is not to be had), -ENOTCONN (no server answers), -EIO, -EACCES. Blocks for as long
 * as recovery takes. */
ROS2S_API int ros2s_open(const char* uri, const ros2s_open_options* options, ros2s_fs** fs,
                         char* error, size_t error_bytes);

/* Writes out what is to be written and releases the pool when it was the process's last handle on
 * it. -EBUSY, and nothing is closed, while files, directories, queues or buffers of it are open. */
ROS2S_API int ros2s_close(ros2s_fs* fs);

/* ---- files -------------------------------------------------------------------------------- */

typedef struct ros2s_file ros2s_file;

/* `flags` as in open(2): O_RDONLY, O_WRONLY, O_RDWR with O_CREAT, O_EXCL, O_TRUNC, O_APPEND,
 * O_NOFOLLOW; O_CLOEXEC, O_DIRECT, O_SYNC, O_DSYNC and O_NOCTTY mean nothing here and are allowed;
 * others are -EINVAL. Regular files only (-EISDIR). */
ROS2S_API int ros2s_file_open(ros2s_fs* fs, const char* path, int flags, mode_t mode,
                              ros2s_file** file);
/* -EBUSY while requests of a queue are under way on it; any other error closes it all the same. */
ROS2S_API int ros2s_file_close(ros2s_file* file);

/* Bytes read: fewer than `bytes` only at the end of the file; the buffer's rest is then undefined.
 * Buffers and offsets on multiples of 4096 travel without a copy. */
ROS2S_API ssize_t ros2s_pread(ros2s_file* file, void* buffer, size_t bytes, uint64_t offset);
/* `bytes`, all of them written and durable, or an error. With O_APPEND the offset is ignored. */
ROS2S_API ssize_t ros2s_pwrite(ros2s_file* file, const void* buffer, size_t bytes, uint64_t offset);
ROS2S_API int ros2s_fsync(ros2s_file* file);
ROS2S_API int ros2s_fstat(ros2s_file* file, struct stat* out);
ROS2S_API int ros2s_ftruncate(ros2s_file* file, uint64_t bytes);
/* The range reads as zeros afterwards and its space is free; the size stays. */
ROS2S_API int ros2s_punch_hole(ros2s_file* file, uint64_t offset, uint64_t bytes);

/* ---- names -------------------------------------------------------------------------------- */

ROS2S_API int ros2s_stat(ros2s_fs* fs, const char* path, struct stat* out);
/* Of a symbolic link itself. */
ROS2S_API int ros2s_lstat(ros2s_fs* fs, const char* path, struct stat* out);
ROS2S_API int ros2s_mkdir(ros2s_fs* fs, const char* path, mode_t mode);
ROS2S_API int ros2s_rmdir(ros2s_fs* fs, const char* path);
/* A file that is open lives on until it is closed. */
ROS2S_API int ros2s_unlink(ros2s_fs* fs, const char* path);

#define ROS2S_RENAME_NOREPLACE 1u /* -EEXIST where the new name is taken */
#define ROS2S_RENAME_EXCHANGE 2u  /* swap the two */
/* Atomic, as rename(2) is. */
ROS2S_API int ros2s_rename(ros2s_fs* fs, const char* from, const char* to, uint32_t flags);
/* A second name for a file; a symbolic link is not followed. -EPERM for a directory. */
ROS2S_API int ros2s_link(ros2s_fs* fs, const char* path, const char* new_path);
ROS2S_API int ros2s_symlink(ros2s_fs* fs, const char* target, const char* path);
/* Bytes of the target, without a NUL; -ERANGE where it does not fit. */
ROS2S_API ssize_t ros2s_readlink(ros2s_fs* fs, const char* path, char* buffer, size_t bytes);
ROS2S_API int ros2s_truncate(ros2s_fs* fs, const char* path, uint64_t bytes);
ROS2S_API int ros2s_chmod(ros2s_fs* fs, const char* path, mode_t mode);
/* (uid_t)-1 and (gid_t)-1 leave theirs as they are. */
ROS2S_API int ros2s_chown(ros2s_fs* fs, const char* path, uid_t uid, gid_t gid);
/* times[0]: last access, times[1]: last modification; UTIME_NOW and UTIME_OMIT as in
 * utimensat(2); NULL: both now. */
ROS2S_API int ros2s_utimens(ros2s_fs* fs, const char* path, const struct timespec times[2]);

#define ROS2S_XATTR_CREATE 1u  /* -EEXIST where it exists */
#define ROS2S_XATTR_REPLACE 2u /* -ENODATA where it does not */
/* As getxattr(2) and its kin: with bytes == 0 the size needed, -ERANGE where it does not fit,
 * -ENODATA where there is none. listxattr: names, each with its NUL. Values up to 64 KiB. */
ROS2S_API ssize_t ros2s_getxattr(ros2s_fs* fs, const char* path, const char* name, void* value,
                                 size_t bytes);
ROS2S_API int ros2s_setxattr(ros2s_fs* fs, const char* path, const char* name, const void* value,
                             size_t bytes, uint32_t flags);
ROS2S_API int ros2s_removexattr(ros2s_fs* fs, const char* path, const char* name);
ROS2S_API ssize_t ros2s_listxattr(ros2s_fs* fs, const char* path, char* names, size_t bytes);

/* Of the pool; f_frsize is the unit. */
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
/* 1 with the next entry, 0 at the end. One thread at a time. An entry that stays for the whole
 * walk comes exactly once, whatever happens to others meanwhile. */
ROS2S_API int ros2s_readdir(ros2s_dir* directory, ros2s_dirent* entry);
ROS2S_API int ros2s_closedir(ros2s_dir* directory);

/* ---- many small files ---------------------------------------------------------------------- */

typedef struct ros2s_read_item {
    const char* path; /* below read_many's directory; symbolic links are not followed (-ELOOP) */
    void* buffer;     /* gets the file's first `capacity` bytes */
    uint64_t capacity;
    /* Set by the call. */
    int64_t result; /* bytes put into the buffer, or a negative errno */
    uint64_t size;  /* of the file: more than `result` where the buffer was too small */
} ros2s_read_item;

/* Opens, reads and closes `count` files in one call, side by side. 0 when every item was tried:
 * look at each item's result. `directory` "" is the URI's path. */
ROS2S_API int ros2s_read_many(ros2s_fs* fs, const char* directory, ros2s_read_item* items,
                              size_t count);

/* ---- asynchronous I/O ----------------------------------------------------------------------
 * A queue is a pair of rings in memory between the caller and the library's thread. Submitting and
 * reaping make no system call while both sides are busy; the library's thread is woken only when
 * it sleeps, and the caller only when it said that it waits. */

typedef enum ros2s_memory_kind {
    ROS2S_MEMORY_HOST = 0,
    ROS2S_MEMORY_DPU = 1, /* this and the next: -EOPNOTSUPP in this version */
    ROS2S_MEMORY_GPU = 2
} ros2s_memory_kind;

/* Memory that many requests will use. Registering it spares the kernel the mapping of its pages
 * per request. */
typedef struct ros2s_memory {
    uint32_t struct_bytes;
    uint32_t kind;   /* ros2s_memory_kind */
    uint32_t device; /* which GPU; 0 for host memory */
    uint32_t reserved;
    void* address;
    uint64_t bytes;
} ros2s_memory;

typedef struct ros2s_buffer ros2s_buffer;

/* The memory must stay mapped until it is unregistered. Where the kernel does not take it (memlock
 * limit) requests work all the same and ros2s_buffer_is_pinned() is 0. */
ROS2S_API int ros2s_buffer_register(ros2s_fs* fs, const ros2s_memory* memory,
                                    ros2s_buffer** buffer);
/* No request on it may be under way. */
ROS2S_API int ros2s_buffer_unregister(ros2s_buffer* buffer);
ROS2S_API int ros2s_buffer_is_pinned(const ros2s_buffer* buffer);

typedef enum ros2s_opcode {
    ROS2S_OP_NOP = 0, /* completes with 0 */
    ROS2S_OP_READ = 1,
    ROS2S_OP_WRITE = 2,
    ROS2S_OP_FSYNC = 3,
    ROS2S_OP_PUNCH_HOLE = 4
} ros2s_opcode;

/* One cache line. Zero what is not used. */
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
    int64_t result; /* what the synchronous call returns: bytes, 0, or a negative errno */
} ros2s_completion;

typedef struct ros2s_queue ros2s_queue;

/* `depth` (1 to 65536): most requests between submit and reap. */
ROS2S_API int ros2s_queue_create(ros2s_fs* fs, uint32_t depth, ros2s_queue** queue);
/* Waits for the requests under way; their completions are dropped. */
ROS2S_API int ros2s_queue_destroy(ros2s_queue* queue);

/* Takes as many of the requests, from the first on, as the depth leaves room for, and returns how
 * many: 0 means reap first. The requests are copied. Requests may complete in any order. An
 * ill-formed one is not taken: where it is the first, its error is returned. */
ROS2S_API int ros2s_queue_submit(ros2s_queue* queue, const ros2s_request* requests, uint32_t count);

/* Waits until `least` completions are there (0: does not wait) or `timeout_ns` have passed (< 0: no
 * limit), and returns how many of up to `most` it put into `completions`. Never waits for more
 * than are under way. */
ROS2S_API int ros2s_queue_reap(ros2s_queue* queue, ros2s_completion* completions, uint32_t least,
                               uint32_t most, int64_t timeout_ns);

/* A descriptor for poll(2) and its kin, readable when completions came since ros2s_queue_reap last
 * returned fewer than `most`. The queue's: do not read or close it. From the first call of this
 * function on every such reap re-arms it, which costs the library's thread a system call per
 * wake-up. */
ROS2S_API int ros2s_queue_fd(ros2s_queue* queue);

/* ---- what happened ------------------------------------------------------------------------- */

typedef enum ros2s_format { ROS2S_TEXT = 0, ROS2S_JSON = 1 } ros2s_format;

/* How this file's I/O travelled, with the counters of every layer on its way. Returns the bytes of
 * the whole report without its NUL; what fits is in `out`, NUL-terminated when bytes > 0. */
ROS2S_API ssize_t ros2s_path_report(ros2s_file* file, ros2s_format format, char* out, size_t bytes);
/* Reads `length` bytes (at most 16 MiB) at `offset` once and reports each step that the read took,
 * in microseconds. Returns as ros2s_path_report() does. */
ROS2S_API ssize_t ros2s_trace_read(ros2s_file* file, uint64_t offset, uint64_t length,
                                   ros2s_format format, char* out, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
