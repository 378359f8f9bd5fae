/* A fio ioengine over USRBIO, with the calls of 3FS's own (benchmarks/fio_usrbio, 2026) in their
 * order: a ring for reads and one for writes, and all buffers in one iov. A commit prepares what is
 * queued, submits it and waits for all of it. So give iodepth_batch_submit and
 * iodepth_batch_complete_min the depth.
 *
 *     fio --ioengine=external:…/libusrbio-fio.so --mountpoint=/mnt/kv --filename=/mnt/kv/f …
 */
#include "config-host.h"
/* config-host.h affects the headers after it. */
#include <errno.h>
#include <stdlib.h>

#include "fio.h"
#include "hf3fs_usrbio.h"
#include "optgroup.h"

struct options {
    void* pad; /* fio takes offset 0 for "no such option" */
    char* mountpoint;
};

struct rings {
    struct hf3fs_iov memory;
    struct hf3fs_ior reads, writes;
    struct hf3fs_cqe* done;
    struct io_u** queued; /* all of one direction */
    unsigned int count, ended;
};

static struct fio_option engine_options[] = {
    {
        .name = "mountpoint",
        .lname = "mount point",
        .type = FIO_OPT_STR_STORE,
        .off1 = offsetof(struct options, mountpoint),
        .help = "The directory where the container is mounted",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {.name = NULL},
};

static int failed(struct thread_data* td, int error, const char* what) {
    log_err("usrbio: cannot %s: %s\n", what, strerror(error));
    td_verror(td, error, what);
    return error;
}

static void cleanup(struct thread_data* td) {
    struct rings* const rings = td->io_ops_data;
    if (rings == NULL) return;
    if (rings->reads.iorh != NULL) hf3fs_iordestroy(&rings->reads);
    if (rings->writes.iorh != NULL) hf3fs_iordestroy(&rings->writes);
    free(rings->done);
    free((void*)rings->queued);
    free(rings);
    td->io_ops_data = NULL;
}

static int init(struct thread_data* td) {
    const struct options* const options = td->eo;
    struct rings* const rings = calloc(1, sizeof *rings);
    const int depth = (int)td->o.iodepth;
    int result;

    if (rings == NULL) return ENOMEM;
    td->io_ops_data = rings;
    rings->done = calloc(td->o.iodepth, sizeof *rings->done);
    rings->queued = (struct io_u**)calloc(td->o.iodepth, sizeof *rings->queued);
    if (rings->done == NULL || rings->queued == NULL) return ENOMEM;
    if (options->mountpoint == NULL) return failed(td, EINVAL, "start without mountpoint=…");
    result = hf3fs_iorcreate3(&rings->reads, options->mountpoint, depth, true, 0, 0, 1, -1);
    if (result == 0)
        result = hf3fs_iorcreate(&rings->writes, options->mountpoint, depth, false, 0, -1);
    return result == 0 ? 0 : failed(td, -result, "make rings");
}

static int iomem_alloc(struct thread_data* td, size_t bytes) {
    const struct options* const options = td->eo;
    struct rings* const rings = td->io_ops_data;
    const int result = hf3fs_iovcreate(&rings->memory, options->mountpoint, bytes, 0, -1);

    if (result != 0) return failed(td, -result, "make memory");
    td->orig_buffer = (char*)rings->memory.base;
    return 0;
}

static void iomem_free(struct thread_data* td) {
    struct rings* const rings = td->io_ops_data;
    if (rings != NULL && rings->memory.base != NULL) hf3fs_iovdestroy(&rings->memory);
}

static int open_file(struct thread_data* td, struct fio_file* file) {
    int result = generic_open_file(td, file);

    if (result != 0) return result;
    result = hf3fs_reg_fd(file->fd, 0);
    return result <= 0 ? 0 : failed(td, result, "register a file");
}

static int close_file(struct thread_data* td, struct fio_file* file) {
    hf3fs_dereg_fd(file->fd);
    return generic_close_file(td, file);
}

static enum fio_q_status queue(struct thread_data* td, struct io_u* io_u) {
    struct rings* const rings = td->io_ops_data;

    fio_ro_check(td, io_u);
    if (ddir_sync(io_u->ddir)) {
        if (rings->count > 0) return FIO_Q_BUSY;
        if (fsync(io_u->file->fd) != 0) io_u->error = (unsigned int)errno;
        return FIO_Q_COMPLETED;
    }
    if (rings->count == td->o.iodepth) return FIO_Q_BUSY;
    if (rings->count > 0 && rings->queued[0]->ddir != io_u->ddir) return FIO_Q_BUSY;
    rings->queued[rings->count++] = io_u;
    return FIO_Q_QUEUED;
}

static int commit(struct thread_data* td) {
    struct rings* const rings = td->io_ops_data;
    const int count = (int)rings->count;
    const bool is_read = count > 0 && rings->queued[0]->ddir == DDIR_READ;
    struct hf3fs_ior* const ring = is_read ? &rings->reads : &rings->writes;
    int i, result;

    if (count == 0) return 0;
    io_u_mark_submit(td, rings->count);
    for (i = 0; i < count; i++) {
        const struct io_u* const io_u = rings->queued[i];
        result = hf3fs_prep_io(ring, &rings->memory, is_read, io_u->xfer_buf, io_u->file->fd,
                               io_u->offset, io_u->xfer_buflen, io_u);
        if (result < 0) return -failed(td, -result, "prepare a request");
    }
    result = hf3fs_submit_ios(ring);
    if (result < 0) return -failed(td, -result, "submit requests");
    result = hf3fs_wait_for_ios(ring, rings->done, count, count, NULL);
    if (result != count) return -failed(td, result < 0 ? -result : EIO, "wait for requests");
    rings->ended = rings->count;
    rings->count = 0;
    return 0;
}

static int getevents(struct thread_data* td, unsigned int least, unsigned int most,
                     const struct timespec* timeout) {
    struct rings* const rings = td->io_ops_data;
    const int ended = (int)rings->ended;

    (void)least;
    (void)most; /* fio asks for all that it has queued */
    (void)timeout;
    rings->ended = 0;
    return ended;
}

static struct io_u* event(struct thread_data* td, int index) {
    struct rings* const rings = td->io_ops_data;
    const struct hf3fs_cqe* const done = &rings->done[index];
    struct io_u* const io_u = (struct io_u*)(uintptr_t)done->userdata;

    io_u->error = done->result < 0 ? (unsigned int)-done->result : 0;
    if (done->result >= 0) io_u->resid = io_u->xfer_buflen - (uint64_t)done->result;
    return io_u;
}

__attribute__((visibility("default"))) struct ioengine_ops ioengine = {
    .name = "usrbio",
    .version = FIO_IOOPS_VERSION,
    .flags = FIO_NODISKUTIL,
    .init = init,
    .cleanup = cleanup,
    .iomem_alloc = iomem_alloc,
    .iomem_free = iomem_free,
    .open_file = open_file,
    .close_file = close_file,
    .get_file_size = generic_get_file_size,
    .queue = queue,
    .commit = commit,
    .getevents = getevents,
    .event = event,
    .options = engine_options,
    .option_struct_size = sizeof(struct options),
};
