// hdf5_ranks: ranks write one data set of one HDF5 file in parallel, and read what the others
// wrote. It ends with the line of the first wrong answer.
//
//     hdf5_ranks independent|collective PATH…    rank i opens the i-th path, or the last one
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { rows = 200, columns = 300 };

static int rank, ranks;

#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                          \
        }                                                                          \
    } while (0)

static hid_t opened_by(const char* path, int makes) {
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0);
    const hid_t file = makes ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access)
                             : H5Fopen(path, H5F_ACC_RDONLY, access);
    CHECK(file >= 0);
    H5Pclose(access);
    return file;
}

int main(int count, char** arguments) {
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(count > 2);
    const char* const path = arguments[rank + 2 < count ? rank + 2 : count - 1];
    const hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
    CHECK(H5Pset_dxpl_mpio(transfer, strcmp(arguments[1], "collective") == 0
                                         ? H5FD_MPIO_COLLECTIVE
                                         : H5FD_MPIO_INDEPENDENT) >= 0);
    const hsize_t size[2] = {(hsize_t)rows * ranks, columns}, part[2] = {rows, columns};
    const hsize_t chunk[2] = {50, 100};
    int* const numbers = malloc((size_t)rows * columns * sizeof(int));
    hid_t file = opened_by(path, 1);
    const hid_t space = H5Screate_simple(2, size, NULL), memory = H5Screate_simple(2, part, NULL);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_chunk(creation, 2, chunk) >= 0);
    hid_t set =
        H5Dcreate(file, "numbers", H5T_NATIVE_INT, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    CHECK(set >= 0);
    hsize_t start[2] = {(hsize_t)rank * rows, 0};
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL) >= 0);
    for (int i = 0; i < rows * columns; ++i) numbers[i] = rank * rows * columns + i;
    CHECK(H5Dwrite(set, H5T_NATIVE_INT, memory, space, transfer, numbers) >= 0);
    CHECK(H5Dclose(set) >= 0 && H5Fclose(file) >= 0);
    MPI_Barrier(MPI_COMM_WORLD);

    file = opened_by(path, 0);
    set = H5Dopen(file, "numbers", H5P_DEFAULT);
    CHECK(set >= 0);
    const int other = (rank + 1) % ranks;
    start[0] = (hsize_t)other * rows;
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL) >= 0);
    CHECK(H5Dread(set, H5T_NATIVE_INT, memory, space, transfer, numbers) >= 0);
    for (int i = 0; i < rows * columns; ++i) CHECK(numbers[i] == other * rows * columns + i);
    CHECK(H5Dclose(set) >= 0 && H5Fclose(file) >= 0);
    H5Sclose(space);
    H5Sclose(memory);
    H5Pclose(creation);
    H5Pclose(transfer);
    free(numbers);
    MPI_Finalize();
    return 0;
}
