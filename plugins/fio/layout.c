/* The steps before the jobs run: fio asks for the sizes of its files, decides how much of each it
 * wants, and has the missing data written.
 *
 * A process that had a pool open leaves its forked children unable to open one (the fork rule of
 * ros2store.h), and fio forks its jobs. So fio's first process never opens a pool: each step here
 * is done by a child of its own, which opens, does it, closes and ends. The results of a step
 * (sizes, the job's error) are in memory that fio shares with its children.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "engine.h"

enum { layout_depth = 8, layout_block_bytes = 1 << 20 };

typedef int (*step)(struct thread_data* td, struct opened* opened, struct fio_file* file);

static int in_container(struct thread_data* td, step step, struct fio_file* file) {
    struct opened* const opened = ros2s_fio_acquire(td);
    int failed = 1;
    if (opened != NULL) {
        failed = step(td, opened, file);
        opened_release(opened);
    }
    return failed;
}

static int in_child(struct thread_data* td, step step, struct fio_file* file) {
    pid_t child;
    int status = 0;

    /* With create_serialize=0 a job sets itself up, and already has its container open. */
    if (td->io_ops_data != NULL) return in_container(td, step, file);
    fflush(NULL); /* otherwise the child would print it again */
    child = fork();
    if (child == 0) {
        const int failed = in_container(td, step, file);
        fflush(NULL);
        _exit(failed);
    }
    if (child < 0) return ros2s_fio_failed(td, -errno, "cannot fork to set up", td->o.name);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    return ros2s_fio_failed(td, -EIO, "a crash of the process that set up", td->o.name);
}

static int look_at_files(struct thread_data* td, struct opened* opened, struct fio_file* none) {
    struct fio_file* file;
    unsigned int i;

    (void)none;
    for_each_file(td, file, i) {
        struct stat status;
        const int result = ros2s_stat(opened->fs, file->file_name, &status);
        file->filetype = FIO_TYPE_FILE; /* whatever the machine has under that name */
        if (result == 0 && S_ISDIR(status.st_mode))
            return ros2s_fio_failed(td, -EISDIR, "a directory of the container is named",
                                    file->file_name);
        if (result != 0 && result != -ENOENT)
            return ros2s_fio_failed(td, result, "cannot look at", file->file_name);
        if (result == -ENOENT && !td_write(td) && !td_read(td))
            return ros2s_fio_failed(td, result, "cannot trim", file->file_name);
        file->real_file_size = result == 0 ? (uint64_t)status.st_size : 0;
        fio_file_set_size_known(file);
    }
    return 0;
}

int ros2s_fio_setup(struct thread_data* td) { return in_child(td, look_at_files, NULL); }

/* Writes fio's data to [from, to), several writes at a time. 0 or a negative errno. */
static int write_range(struct thread_data* td, struct opened* opened, ros2s_file* file,
                       uint64_t from, uint64_t to) {
    ros2s_queue* queue = NULL;
    char* const memory = aligned_alloc(4096, (size_t)layout_depth * layout_block_bytes);
    unsigned int idle[layout_depth];
    unsigned int idle_count = layout_depth, i;
    int result = memory == NULL ? -ENOMEM : ros2s_queue_create(opened->fs, layout_depth, &queue);

    for (i = 0; i < layout_depth; i++) idle[i] = i;
    while (result == 0 && (from < to || idle_count < layout_depth)) {
        if (from < to && idle_count > 0 && !td->terminate) {
            const unsigned int slot = idle[--idle_count];
            char* const block = memory + (size_t)slot * layout_block_bytes;
            const uint64_t left = to - from;
            const uint64_t bytes = left < layout_block_bytes ? left : layout_block_bytes;
            const ros2s_request request = {.opcode = ROS2S_OP_WRITE,
                                           .file = file,
                                           .address = block,
                                           .bytes = bytes,
                                           .offset = from,
                                           .user_data = slot};
            int taken;
            fill_io_buffer(td, block, bytes, bytes);
            taken = ros2s_queue_submit(queue, &request, 1);
            if (taken != 1) result = taken < 0 ? taken : -EAGAIN;
            from += bytes;
        } else if (idle_count < layout_depth) {
            ros2s_completion done;
            const int got = ros2s_queue_reap(queue, &done, 1, 1, -1);
            if (got == 1) {
                idle[idle_count++] = (unsigned int)done.user_data;
                if (done.result < 0) result = (int)done.result;
            } else if (got < 0) {
                result = got;
            }
        } else {
            break; /* fio was told to stop */
        }
    }
    if (queue != NULL) ros2s_queue_destroy(queue); /* waits for what is under way */
    free(memory);
    return result;
}

/* Removes the written part of a file that does not fit into a full pool: other files need the
 * space. Returns the end of the sentence about it. */
static const char* give_back(struct opened* opened, const char* name, int created,
                             uint64_t present) {
    const int result =
        created ? ros2s_unlink(opened->fs, name) : ros2s_truncate(opened->fs, name, present);
    if (result != 0) return "; it stays as far as it was written. Remove it with: ros2store rm";
    return "; what was written of it is removed again. Choose a smaller --size, or give the pool "
           "more space: ros2store pool grow (in a Ceph cluster, a higher quota or more OSDs)";
}

static int lay_out(struct thread_data* td, struct opened* opened, struct fio_file* file) {
    const int flags = O_RDWR | (td->o.allow_create ? O_CREAT : 0);
    const uint64_t present = file->real_file_size;
    const uint64_t wanted = file->io_size + file->file_offset;
    struct stat status;
    const int created = ros2s_stat(opened->fs, file->file_name, &status) == -ENOENT;
    ros2s_file* opened_file;
    int result = ros2s_file_open(opened->fs, file->file_name, flags, 0644, &opened_file);

    if (output_format & FIO_OUTPUT_NORMAL)
        log_info("%s: Laying out %s in the container (%llu MiB)\n", td->o.name, file->file_name,
                 (unsigned long long)((wanted - present) >> 20));
    if (result != 0) return ros2s_fio_failed(td, result, "cannot lay out", file->file_name);
    result = write_range(td, opened, opened_file, present, wanted);
    ros2s_file_close(opened_file);
    if (result == 0) return 0;
    /* Not ros2s_last_error(): completions set no sentence, so it may be about an earlier call. */
    log_err("ros2s: cannot lay out %s: %s%s\n", file->file_name, strerror(-result),
            result == -ENOSPC ? give_back(opened, file->file_name, created, present) : "");
    td_verror(td, -result, "lay out");
    return 1;
}

int ros2s_fio_lay_out(struct thread_data* td, struct fio_file* file) {
    const uint64_t wanted = file->io_size + file->file_offset;
    /* As fio does for local files: data for jobs that read or overwrite it. */
    const int needs_data = td_read(td) || (td_write(td) && td->o.overwrite);
    int failed = 0;

    if (file->io_size == -1ULL || file->real_file_size >= wanted) return 0;
    if (needs_data && read_only) {
        log_err("ros2s: %s is smaller than the job needs, and --readonly forbids to write it\n",
                file->file_name);
        td_verror(td, EROFS, "lay out");
        return 1;
    }
    if (needs_data) failed = in_child(td, lay_out, file);
    file->real_file_size = wanted;
    return failed;
}
