/* queue.c: 1,000 reads of 4 KiB at random places of a file, 32 at a time, through a queue.
 *
 *     ./queue URI PATH
 */
#include <fcntl.h>
#include <ros2store/ros2store.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 32, BLOCK = 4096, TOTAL = 1000 };

static int fail(const char* what) {
    fprintf(stderr, "queue: %s: %s\n", what, ros2s_last_error());
    exit(1);
}

static ros2s_request read_at_random(ros2s_file* file, char* memory, unsigned slot, long blocks) {
    ros2s_request request = {0};
    request.opcode = ROS2S_OP_READ;
    request.file = file;
    request.address = memory + slot * BLOCK;
    request.bytes = BLOCK;
    request.offset = (uint64_t)(random() % blocks) * BLOCK;
    request.user_data = slot;
    return request;
}

int main(int count, char** arguments) {
    ros2s_fs* fs;
    ros2s_file* file;
    ros2s_queue* queue;
    ros2s_buffer* buffer;
    ros2s_completion completions[DEPTH];
    struct stat st;
    char* memory;
    int submitted = 0, completed = 0;
    if (count != 3) {
        fprintf(stderr, "usage: queue URI PATH\n");
        return 2;
    }
    if (ros2s_open(arguments[1], NULL, &fs, NULL, 0) < 0) fail("open");
    if (ros2s_file_open(fs, arguments[2], O_RDONLY, 0, &file) < 0) fail("open");
    if (ros2s_fstat(file, &st) < 0) fail("stat");
    if (st.st_size < BLOCK) {
        fprintf(stderr, "queue: %s is shorter than 4096 bytes\n", arguments[2]);
        return 1;
    }
    /* Aligned memory is used without a copy. Registered memory is mapped once. */
    memory = aligned_alloc(BLOCK, DEPTH * BLOCK);
    ros2s_memory described = {.struct_bytes = sizeof described,
                              .kind = ROS2S_MEMORY_HOST,
                              .address = memory,
                              .bytes = DEPTH * BLOCK};
    if (ros2s_buffer_register(fs, &described, &buffer) < 0) fail("register");
    if (ros2s_queue_create(fs, DEPTH, &queue) < 0) fail("queue");

    for (unsigned slot = 0; slot < DEPTH; ++slot, ++submitted) {
        ros2s_request request = read_at_random(file, memory, slot, st.st_size / BLOCK);
        if (ros2s_queue_submit(queue, &request, 1) != 1) fail("submit");
    }
    while (completed < TOTAL) {
        int got = ros2s_queue_reap(queue, completions, 1, DEPTH, -1);
        if (got < 0) fail("reap");
        for (int i = 0; i < got; ++i, ++completed) {
            if (completions[i].result < 0) {
                fprintf(stderr, "queue: a read failed: errno %d\n", (int)-completions[i].result);
                return 1;
            }
            if (submitted == TOTAL) continue;
            ros2s_request request = read_at_random(file, memory, (unsigned)completions[i].user_data,
                                                   st.st_size / BLOCK);
            if (ros2s_queue_submit(queue, &request, 1) != 1) fail("submit");
            ++submitted;
        }
    }
    printf("%d reads\n", completed);
    if (ros2s_queue_destroy(queue) < 0 || ros2s_buffer_unregister(buffer) < 0 ||
        ros2s_file_close(file) < 0 || ros2s_close(fs) < 0) {
        fail("close");
    }
    free(memory);
    return 0;
}
