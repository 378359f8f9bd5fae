/* The fio plug-in: an ioengine over libros2store's asynchronous queues.
 *
 *     fio --ioengine=external:…/libros2store-fio.so --uri='ros2s+local:///pool/main?dir=…' …
 *
 * fio queues I/O one by one, commits, and asks for events. These are the queue's submit and reap,
 * in batches as large as fio makes them (iodepth_batch, iodepth_batch_complete). Nothing here
 * allocates, locks or makes a system call per I/O.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "optgroup.h"

static struct fio_option engine_options[] = {
    {
        .name = "uri",
        .lname = "container",
        .type = FIO_OPT_STR_STORE,
        .off1 = offsetof(struct options, uri),
        .help = "The container: ros2s+local:///POOL/CONTAINER[/path]?dir=DIRECTORY, ros2s:// or "
                "ros2s+dpu:// (`ros2store up DIRECTORY` makes one and prints its URIs)",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {
        .name = "registered",
        .lname = "register I/O memory",
        .type = FIO_OPT_BOOL,
        .off1 = offsetof(struct options, registered),
        .def = "1",
        .help = "Register the job's buffers, as fixedbufs does for io_uring",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {
        .name = "path_report",
        .lname = "report the path",
        .type = FIO_OPT_BOOL,
        .off1 = offsetof(struct options, report),
        .def = "0",
        .help = "Print for each file, as it is closed, which way its I/O took and the counters",
        .category = FIO_OPT_C_ENGINE,
        .group = FIO_OPT_G_INVALID,
    },
    {.name = NULL},
};

/* ---- messages ---- */

int ros2s_fio_failed(struct thread_data* td, int result, const char* what, const char* name) {
    const char* const why = ros2s_last_error();
    log_err("ros2s: %s %s: %s\n", what, name, *why != '\0' ? why : strerror(-result));
    td_verror(td, -result, what);
    return 1;
}

struct opened* ros2s_fio_acquire(struct thread_data* td) {
    const struct options* const options = td->eo;
    char error[1024];
    int result;
    struct opened* opened;

    if (options->uri == NULL) {
        log_err(
            "ros2s: the job %s needs uri=…: `ros2store up DIRECTORY` makes a pool and prints "
            "its URI\n",
            td->o.name);
        td_verror(td, EINVAL, "uri");
        return NULL;
    }
    opened = opened_acquire(options->uri, &result, error, sizeof error);
    if (opened == NULL) {
        log_err("ros2s: %s\n", error);
        if (result == -EBUSY && !td->o.use_thread)
            log_err(
                "ros2s: jobs that are processes own the pool one after the other; for several "
                "at once give thread=1, for one after the other stonewall\n");
        td_verror(td, -result, "open");
    }
    return opened;
}

/* ---- a job ---- */

static void cleanup(struct thread_data* td) {
    struct job* const job = td->io_ops_data;
    if (job == NULL) return;
    if (job->queue != NULL) ros2s_queue_destroy(job->queue);
    if (job->opened != NULL) opened_release(job->opened);
    free(job->waiting);
    free(job->completions);
    free(job);
    td->io_ops_data = NULL;
}

static int init(struct thread_data* td) {
    struct job* const job = calloc(1, sizeof *job);
    int result;

    if (job == NULL) return ENOMEM;
    td->io_ops_data = job;
    /* fio never has more requests at once, so submitting never finds the queue full. */
    job->depth = td->o.iodepth;
    job->waiting = calloc(job->depth, sizeof *job->waiting);
    job->completions = calloc(job->depth, sizeof *job->completions);
    if (job->waiting == NULL || job->completions == NULL) {
        cleanup(td);
        return ENOMEM;
    }
    job->opened = ros2s_fio_acquire(td);
    if (job->opened == NULL) {
        result = td->error;
        cleanup(td);
        return result;
    }
    result = ros2s_queue_create(job->opened->fs, job->depth, &job->queue);
    if (result != 0) {
        ros2s_fio_failed(td, result, "cannot make a queue of", "this depth");
        cleanup(td);
        return -result;
    }
    return 0;
}

static int iomem_alloc(struct thread_data* td, size_t bytes) {
    const struct options* const options = td->eo;
    struct job* const job = td->io_ops_data;
    const ros2s_memory memory = {.struct_bytes = sizeof memory, .kind = ROS2S_MEMORY_HOST};
    ros2s_memory registration = memory;

    job->memory_bytes = bytes;
    job->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (job->memory == MAP_FAILED) {
        job->memory = NULL;
        return 1;
    }
    td->orig_buffer = job->memory;
    if (options->registered) {
        registration.address = job->memory;
        registration.bytes = bytes;
        const int result = ros2s_buffer_register(job->opened->fs, &registration, &job->buffer);
        if (result != 0) return ros2s_fio_failed(td, result, "cannot register", "the buffers");
        /* With a server or a Ceph cluster, another process reads and writes the devices. */
        const int embedded = strncmp(options->uri, "ros2s+local:", strlen("ros2s+local:")) == 0 &&
                             strstr(options->uri, "rados=") == NULL;
        if (embedded && !ros2s_buffer_is_pinned(job->buffer))
            log_info(
                "ros2s: the kernel does not take the buffers (see `ulimit -l`): each I/O maps "
                "its pages\n");
    }
    return 0;
}

static void iomem_free(struct thread_data* td) {
    struct job* const job = td->io_ops_data;
    if (job == NULL || job->memory == NULL) return;
    if (job->buffer != NULL) ros2s_buffer_unregister(job->buffer);
    munmap(job->memory, job->memory_bytes);
    job->buffer = NULL;
    job->memory = NULL;
}

/* ---- files ---- */

static int open_file(struct thread_data* td, struct fio_file* file) {
    struct job* const job = td->io_ops_data;
    const int writes = td_write(td) || td_trim(td);
    const int flags = !writes ? O_RDONLY
                              : O_RDWR | (td->o.allow_create ? O_CREAT : 0) |
                                    (td->o.sync_io & (O_SYNC | O_DSYNC));
    ros2s_file* opened;
    const int result = ros2s_file_open(job->opened->fs, file->file_name, flags, 0644, &opened);

    if (result != 0) return ros2s_fio_failed(td, result, "cannot open", file->file_name);
    FILE_SET_ENG_DATA(file, opened);
    return 0;
}

static void print_path_report(struct thread_data* td, ros2s_file* file) {
    const ssize_t bytes = ros2s_path_report(file, ROS2S_TEXT, NULL, 0);
    char* const text = bytes < 0 ? NULL : malloc((size_t)bytes + 1);

    if (text != NULL && ros2s_path_report(file, ROS2S_TEXT, text, (size_t)bytes + 1) >= 0)
        log_info("%s: %s\n", td->o.name, text);
    free(text);
}

static int close_file(struct thread_data* td, struct fio_file* file) {
    const struct options* const options = td->eo;
    ros2s_file* const opened = FILE_ENG_DATA(file);
    int result;

    if (opened == NULL) return 0;
    if (options->report) print_path_report(td, opened);
    FILE_SET_ENG_DATA(file, NULL);
    result = ros2s_file_close(opened);
    return result == 0 ? 0 : ros2s_fio_failed(td, result, "cannot close", file->file_name);
}

static int unlink_file(struct thread_data* td, struct fio_file* file) {
    struct job* const job = td->io_ops_data;
    /* If the job did not start, there is nothing to remove. */
    return job == NULL ? 0 : -ros2s_unlink(job->opened->fs, file->file_name);
}

/* There is no cache below the plug-in that fio would have to drop. */
static int invalidate(struct thread_data* td, struct fio_file* file) {
    (void)td;
    (void)file;
    return 0;
}

/* ---- I/O ---- */

static enum fio_q_status queue(struct thread_data* td, struct io_u* io_u) {
    struct job* const job = td->io_ops_data;
    ros2s_request* const request = &job->waiting[job->waiting_count];

    fio_ro_check(td, io_u);
    if (job->waiting_count == job->depth) return FIO_Q_BUSY;
    *request = (ros2s_request){.file = FILE_ENG_DATA(io_u->file), .user_data = (uintptr_t)io_u};
    switch (io_u->ddir) {
        case DDIR_READ:
        case DDIR_WRITE:
            request->opcode = io_u->ddir == DDIR_READ ? ROS2S_OP_READ : ROS2S_OP_WRITE;
            request->address = io_u->xfer_buf;
            request->buffer = job->buffer;
            request->bytes = io_u->xfer_buflen;
            request->offset = io_u->offset;
            break;
        case DDIR_TRIM:
            request->opcode = ROS2S_OP_PUNCH_HOLE;
            request->bytes = io_u->xfer_buflen;
            request->offset = io_u->offset;
            break;
        case DDIR_SYNC:
        case DDIR_DATASYNC:
        case DDIR_SYNC_FILE_RANGE: request->opcode = ROS2S_OP_FSYNC; break;
        default: io_u->error = EOPNOTSUPP; return FIO_Q_COMPLETED;
    }
    job->waiting_count++;
    return FIO_Q_QUEUED;
}

static int commit(struct thread_data* td) {
    struct job* const job = td->io_ops_data;
    const unsigned int count = job->waiting_count;
    int taken;

    if (count == 0) return 0;
    if (fio_fill_issue_time(td)) {
        struct timespec now;
        unsigned int i;
        fio_gettime(&now, NULL);
        for (i = 0; i < count; i++) {
            struct io_u* const io_u = (struct io_u*)(uintptr_t)job->waiting[i].user_data;
            io_u->issue_time = now;
            io_u_queued(td, io_u);
        }
    }
    taken = ros2s_queue_submit(job->queue, job->waiting, count);
    if (taken < 0) {
        ros2s_fio_failed(td, taken, "cannot submit to", "the queue");
        return taken;
    }
    io_u_mark_submit(td, (unsigned int)taken);
    job->waiting_count -= (unsigned int)taken;
    if (job->waiting_count > 0)
        memmove(job->waiting, job->waiting + taken, job->waiting_count * sizeof *job->waiting);
    return 0;
}

static int getevents(struct thread_data* td, unsigned int least, unsigned int most,
                     const struct timespec* timeout) {
    struct job* const job = td->io_ops_data;
    const int64_t timeout_ns =
        timeout == NULL ? -1 : timeout->tv_sec * 1000000000LL + timeout->tv_nsec;
    return ros2s_queue_reap(job->queue, job->completions, least, most, timeout_ns);
}

static struct io_u* event(struct thread_data* td, int index) {
    struct job* const job = td->io_ops_data;
    const ros2s_completion* const done = &job->completions[index];
    struct io_u* const io_u = (struct io_u*)(uintptr_t)done->user_data;

    io_u->error = done->result < 0 ? (unsigned int)-done->result : 0;
    if (done->result >= 0 && (io_u->ddir == DDIR_READ || io_u->ddir == DDIR_WRITE))
        io_u->resid = io_u->xfer_buflen - (uint64_t)done->result;
    return io_u;
}

/* A request that was not submitted can be taken back. A submitted one keeps its buffer until it
 * completes: fio reaps it then. */
static int cancel(struct thread_data* td, struct io_u* io_u) {
    struct job* const job = td->io_ops_data;
    unsigned int i;

    for (i = 0; i < job->waiting_count; i++) {
        if (job->waiting[i].user_data != (uintptr_t)io_u) continue;
        job->waiting_count--;
        memmove(job->waiting + i, job->waiting + i + 1,
                (job->waiting_count - i) * sizeof *job->waiting);
        return 0;
    }
    return 1;
}

__attribute__((visibility("default"))) struct ioengine_ops ioengine = {
    .name = "ros2s",
    .version = FIO_IOOPS_VERSION,
    /* Files are the container's (DISKLESSIO: not the machine's), buffers are aligned (RAWIO). Not
     * NOFILEHASH: then fio would keep its records of files out of the memory it shares with the
     * children that set them up. */
    .flags = FIO_DISKLESSIO | FIO_RAWIO | FIO_NODISKUTIL | FIO_ASYNCIO_SETS_ISSUE_TIME,
    .setup = ros2s_fio_setup,
    .prepopulate_file = ros2s_fio_lay_out,
    .init = init,
    .cleanup = cleanup,
    .iomem_alloc = iomem_alloc,
    .iomem_free = iomem_free,
    .open_file = open_file,
    .close_file = close_file,
    .unlink_file = unlink_file,
    .invalidate = invalidate,
    .queue = queue,
    .commit = commit,
    .getevents = getevents,
    .event = event,
    .cancel = cancel,
    .options = engine_options,
    .option_struct_size = sizeof(struct options),
};
