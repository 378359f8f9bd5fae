/* What happens before the jobs run: fio asks for the sizes of its files, decides how much of each
 * it wants, and has what is missing written. Each step opens the container and closes it again, so
 * that jobs which fio forks afterwards find it free. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "engine.h"

enum { layout_depth = 8, layout_block_bytes = 1 << 20 };

int ros2s_fio_setup(struct thread_data* td) {
    struct opened* opened = ros2s_fio_acquire(td);
    struct fio_file* file;
    unsigned int i;
    int failed = 0;

    if (opened == NULL) return 1;
    for_each_file(td, file, i) {
        struct stat status;
        const int result = ros2s_stat(opened->fs, file->file_name, &status);
        file->filetype = FIO_TYPE_FILE; /* whatever the machine has under that name */
        if (result == 0 && S_ISDIR(status.st_mode)) {
            failed = ros2s_fio_failed(td, -EISDIR, "is a directory in the container",
                                      file->file_name);
        } else if (result != 0 && result != -ENOENT) {
            failed = ros2s_fio_failed(td, result, "cannot look at", file->file_name);
        } else if (result == -ENOENT && !td_write(td) && !td_read(td)) {
            failed = ros2s_fio_failed(td, result, "cannot trim", file->file_name);
        }
        if (failed) break;
        file->real_file_size = result == 0 ? (uint64_t)status.st_size : 0;
        fio_file_set_size_known(file);
    }
    opened_release(opened);
    return failed;
}

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

int ros2s_fio_lay_out(struct thread_data* td, struct fio_file* file) {
    const uint64_t present = file->real_file_size;
    const uint64_t wanted = file->io_size + file->file_offset;
    /* As fio does for files of the machine: data for whoever reads it or overwrites it. */
    const int needs_data = td_read(td) || (td_write(td) && td->o.overwrite);
    struct opened* opened;
    ros2s_file* opened_file;
    int result;

    if (present >= wanted || file->io_size == -1ULL) return 0;
    file->real_file_size = wanted;
    if (!needs_data) return 0;
    if (read_only) {
        log_err("ros2s: %s is smaller than the job needs, and --readonly forbids to write it\n",
                file->file_name);
        td_verror(td, EROFS, "lay out");
        return 1;
    }
    opened = ros2s_fio_acquire(td);
    if (opened == NULL) return 1;
    if (output_format & FIO_OUTPUT_NORMAL)
        log_info("%s: Laying out %s in the container (%llu MiB)\n", td->o.name, file->file_name,
                 (unsigned long long)((wanted - present) >> 20));
    result = ros2s_file_open(opened->fs, file->file_name,
                             O_RDWR | (td->o.allow_create ? O_CREAT : 0), 0644, &opened_file);
    if (result == 0) {
        result = write_range(td, opened, opened_file, present, wanted);
        ros2s_file_close(opened_file);
    }
    opened_release(opened);
    if (result != 0) return ros2s_fio_failed(td, result, "cannot lay out", file->file_name);
    return 0;
}
