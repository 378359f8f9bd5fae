// mpi_files: what ranks do with one file by MPI-IO. It ends with the line of the first wrong
// answer.
//
//     mpi_files CASE PATH…    rank i opens the i-th path, or the last one: all lead to one file
//
// Cases: independent, collective, atomic, shared.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { blocks = 64, block_bytes = 10000, turns = 20, records = 50 };

static int rank, ranks;

#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                          \
        }                                                                          \
    } while (0)
#define MPI(call) CHECK((call) == MPI_SUCCESS)

static char value_of(int block, int turn) { return (char)(block * 7 + turn * 13 + 1); }

// Block i is of rank i modulo `ranks`. What one rank has synchronised, the others read.
static void independent(MPI_File file) {
    char* const bytes = malloc(block_bytes);
    for (int turn = 0; turn < 3; ++turn) {
        for (int i = rank; i < blocks; i += ranks) {
            memset(bytes, value_of(i, turn), block_bytes);
            MPI(MPI_File_write_at(file, (MPI_Offset)i * block_bytes, bytes, block_bytes, MPI_BYTE,
                                  MPI_STATUS_IGNORE));
        }
        MPI(MPI_File_sync(file));
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        MPI(MPI_File_sync(file));
        for (int i = 0; i < blocks; ++i) {
            MPI_Status status;
            int count = 0;
            MPI(MPI_File_read_at(file, (MPI_Offset)i * block_bytes, bytes, block_bytes, MPI_BYTE,
                                 &status));
            MPI(MPI_Get_count(&status, MPI_BYTE, &count));
            CHECK(count == block_bytes);
            CHECK(bytes[0] == value_of(i, turn) && bytes[block_bytes - 1] == value_of(i, turn));
        }
        MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    free(bytes);
}

// Each rank writes every `ranks`-th integer, through a view of the file, in one collective call.
// Open MPI makes single durable writes of it.
static void collective(MPI_File file) {
    enum { each = 500 };
    MPI_Datatype one, strided;
    int* const numbers = malloc(each * sizeof(int));
    MPI(MPI_Type_contiguous(1, MPI_INT, &one));
    MPI(MPI_Type_create_resized(one, 0, (MPI_Aint)(ranks * sizeof(int)), &strided));
    MPI(MPI_Type_commit(&strided));
    MPI(MPI_File_set_view(file, (MPI_Offset)(rank * sizeof(int)), MPI_INT, strided, "native",
                          MPI_INFO_NULL));
    for (int i = 0; i < each; ++i) numbers[i] = i * ranks + rank;
    MPI(MPI_File_write_at_all(file, 0, numbers, each, MPI_INT, MPI_STATUS_IGNORE));
    MPI(MPI_File_sync(file));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_File_sync(file));
    memset(numbers, 0, each * sizeof(int));
    MPI(MPI_File_read_at_all(file, 0, numbers, each, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < each; ++i) CHECK(numbers[i] == i * ranks + rank);
    // All that was written, in its order.
    MPI(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI(MPI_File_read_at(file, 0, numbers, each, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < each; ++i) CHECK(numbers[i] == i);
    MPI(MPI_Type_free(&one));
    MPI(MPI_Type_free(&strided));
    free(numbers);
}

// All ranks write one range at the same time: readers see the bytes of one rank. No
// synchronisation.
static void atomic(MPI_File file) {
    char* const bytes = malloc(block_bytes);
    MPI(MPI_File_set_atomicity(file, 1));
    for (int turn = 0; turn < turns; ++turn) {
        memset(bytes, value_of(rank, turn), block_bytes);
        MPI(MPI_File_write_at(file, 100, bytes, block_bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        MPI(MPI_File_read_at(file, 100, bytes, block_bytes, MPI_BYTE, MPI_STATUS_IGNORE));
        int is_of_one = 0;
        for (int i = 0; i < ranks; ++i) is_of_one |= bytes[0] == value_of(i, turn);
        CHECK(is_of_one);
        for (int i = 0; i < block_bytes; ++i) CHECK(bytes[i] == bytes[0]);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    free(bytes);
}

// Each record of each rank is there once; ordered ones are in the order of the ranks.
static void shared(MPI_File file) {
    const int all = ranks * records;
    for (int i = 0; i < records; ++i) {
        const int number = rank * records + i;
        MPI(MPI_File_write_shared(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
    MPI(MPI_File_sync(file));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_File_write_ordered(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI(MPI_File_sync(file));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_File_sync(file));
    int* const numbers = malloc((size_t)(all + ranks) * sizeof(int));
    char* const seen = calloc((size_t)all, 1);
    MPI(MPI_File_read_at(file, 0, numbers, all + ranks, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < all; ++i) {
        CHECK(numbers[i] >= 0 && numbers[i] < all && !seen[numbers[i]]);
        seen[numbers[i]] = 1;
    }
    for (int i = 0; i < ranks; ++i) CHECK(numbers[all + i] == i);
    free(numbers);
    free(seen);
}

int main(int count, char** arguments) {
    MPI(MPI_Init(&count, &arguments));
    MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    CHECK(count > 2);
    const char* const path = arguments[rank + 2 < count ? rank + 2 : count - 1];
    const struct {
        const char* name;
        void (*run)(MPI_File);
    } cases[] = {{"independent", independent},
                 {"collective", collective},
                 {"atomic", atomic},
                 {"shared", shared}};
    MPI_File file;
    MPI(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    int is_known = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        if (strcmp(cases[i].name, arguments[1]) != 0) continue;
        is_known = 1;
        cases[i].run(file);
    }
    CHECK(is_known);
    MPI(MPI_File_close(&file));
    MPI(MPI_Finalize());
    return 0;
}
