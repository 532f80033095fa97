/* SPDX-License-Identifier: Apache-2.0
 * Each rank passes messages to the next one and compares those of the rank before it, byte by byte. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned char expected(int rank, int size, int at) { return (unsigned char)(rank * 31 + size * 7 + at * 13); }

int main(int argc, char** argv) {
  int rank, ranks, wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int before = (rank + ranks - 1) % ranks, next = (rank + 1) % ranks, most = 1 << 20;
  unsigned char* out = malloc(most);
  unsigned char* in = malloc(most);
  for (int size = 1; size <= most; size *= 4) {
    for (int i = 0; i < size; ++i) out[i] = expected(rank, size, i);
    MPI_Sendrecv(out, size, MPI_BYTE, next, size, in, size, MPI_BYTE, before, size, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < size; ++i) wrong += in[i] != expected(before, size, i);
  }
  int all = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks, %d wrong bytes\n", ranks, all);
  MPI_Finalize();
  return all != 0;
}
