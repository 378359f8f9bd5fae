/* The interface of 3FS's USRBIO (deepseek-ai/3FS), as libhf3fs_api_shared.so has it for a mounted
 * ros2store container: docs/usrbio.md. Names, types and layouts are those of 3FS, so that programs
 * that were built for it run with either library.
 *
 * A file is opened through the mount and registered. Requests are then prepared in a ring,
 * submitted, and waited for. Data is in memory of an iov.
 *
 * Results are negative errnos, unless stated otherwise. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF3FS_API __attribute__((visibility("default")))

#define HF3FS_SUPER_MAGIC 0x8f3f5fff

typedef void* hf3fs_iov_handle;
typedef void* hf3fs_ior_handle;

/* Memory for data. The caller owns the struct. */
struct hf3fs_iov {
    uint8_t* base;
    hf3fs_iov_handle iovh;
    char id[16];
    char mount_point[256];
    size_t size;
    size_t block_size;
    int numa;
};

/* A ring of requests. The caller owns the struct. */
struct hf3fs_ior {
    struct hf3fs_iov iov;
    hf3fs_ior_handle iorh;
    char mount_point[256];
    bool for_read;
    int io_depth;
    int priority;
    int timeout;
    uint64_t flags;
};

struct hf3fs_cqe {
    int32_t index; /* what hf3fs_prep_io() returned */
    int32_t reserved;
    int64_t result; /* bytes, or a negative errno */
    const void* userdata;
};

/* The descriptor is of a mounted ros2store container. */
HF3FS_API bool hf3fs_is_hf3fs(int fd);
/* The length of the mount point of the path, with its NUL; -1: it is in no such mount. Nothing is
 * written if `size` is too small. */
HF3FS_API int hf3fs_extract_mount_point(char* hf3fs_mount_point, int size, const char* path);

/* Shared memory. `block_size` and `numa` are recorded, and have no effect. */
HF3FS_API int hf3fs_iovcreate(struct hf3fs_iov* iov, const char* hf3fs_mount_point, size_t size,
                              size_t block_size, int numa);
/* That of another process of the user, by its id, while that process has it. */
HF3FS_API int hf3fs_iovopen(struct hf3fs_iov* iov, const uint8_t id[16],
                            const char* hf3fs_mount_point, size_t size, size_t block_size,
                            int numa);
/* Nobody can open it any more. */
HF3FS_API void hf3fs_iovunlink(struct hf3fs_iov* iov);
/* Requests that use the memory may be in progress. It is unmapped after the last one. */
HF3FS_API void hf3fs_iovdestroy(struct hf3fs_iov* iov);
/* Any memory of the caller, which stays mapped while requests use it. */
HF3FS_API int hf3fs_iovwrap(struct hf3fs_iov* iov, void* base, const uint8_t id[16],
                            const char* hf3fs_mount_point, size_t size, size_t block_size,
                            int numa);

HF3FS_API size_t hf3fs_ior_size(int entries);
/* `entries`: 1 to 65536 requests between hf3fs_prep_io() and hf3fs_wait_for_ios(). They start when
 * they are submitted: io_depth, priority, timeout and numa have no effect. */
HF3FS_API int hf3fs_iorcreate(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                              bool for_read, int io_depth, int numa);
HF3FS_API int hf3fs_iorcreate2(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                               bool for_read, int io_depth, int priority, int numa);
HF3FS_API int hf3fs_iorcreate3(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                               bool for_read, int io_depth, int priority, int timeout, int numa);
#define HF3FS_IOR_ALLOW_READ_UNCOMMITTED 1 /* no effect */
#define HF3FS_IOR_FORBID_READ_HOLES 2      /* -EOPNOTSUPP */
HF3FS_API int hf3fs_iorcreate4(struct hf3fs_ior* ior, const char* hf3fs_mount_point, int entries,
                               bool for_read, int io_depth, int timeout, int numa, uint64_t flags);
/* Waits for requests in progress. */
HF3FS_API void hf3fs_iordestroy(struct hf3fs_ior* ior);
HF3FS_API int hf3fs_io_entries(const struct hf3fs_ior* ior);

/* <= 0: success; this number, too, is then accepted by hf3fs_prep_io(). > 0: an errno. EBADF: not a
 * file of a mounted container. EINVAL: it is registered. */
HF3FS_API int hf3fs_reg_fd(int fd, uint64_t flags);
HF3FS_API void hf3fs_dereg_fd(int fd);

/* The index of the request (>= 0). -EINVAL: the ring is for the other direction, the memory is not
 * in the iov, or the iov was destroyed. -EBADF: the descriptor is not registered. -EACCES: it was
 * not opened for that. -EAGAIN: the ring is full. -EXDEV: the file is in another mount. One thread
 * at a time prepares and submits; another one may wait. */
HF3FS_API int hf3fs_prep_io(const struct hf3fs_ior* ior, const struct hf3fs_iov* iov, bool read,
                            void* ptr, int fd, size_t off, uint64_t len, const void* userdata);
HF3FS_API int hf3fs_submit_ios(const struct hf3fs_ior* ior);
/* Waits for `min_results` completions, until `abs_timeout` (CLOCK_REALTIME; NULL: no limit), and
 * returns the number of those that it wrote, at most `cqec`. */
HF3FS_API int hf3fs_wait_for_ios(const struct hf3fs_ior* ior, struct hf3fs_cqe* cqes, int cqec,
                                 int min_results, const struct timespec* abs_timeout);

/* 0 or a positive errno. */
HF3FS_API int hf3fs_hardlink(const char* target, const char* link_name);
/* The ranges [start[i], end[i]) become holes. 0 or a positive errno. */
HF3FS_API int hf3fs_punchhole(int fd, int n, const size_t* start, const size_t* end, size_t flags);

/* Memory of devices is not supported. */
enum hf3fs_mem_type { HF3FS_MEM_HOST = 0, HF3FS_MEM_DEVICE = 1, HF3FS_MEM_MANAGED = 2 };
HF3FS_API int hf3fs_iovcreate_device(struct hf3fs_iov* iov, const char* hf3fs_mount_point,
                                     size_t size, size_t block_size, int device_id);
HF3FS_API bool hf3fs_gdr_available(void);
HF3FS_API int hf3fs_gdr_device_count(void);
HF3FS_API enum hf3fs_mem_type hf3fs_iov_mem_type(const struct hf3fs_iov* iov);
HF3FS_API int hf3fs_iov_device_id(const struct hf3fs_iov* iov);
HF3FS_API int hf3fs_iovsync(const struct hf3fs_iov* iov, int direction);

#ifdef __cplusplus
}
#endif
