/** Sizes of computes, in CU. */

/** The memory of 1 CU, beside one CPU. */
export const MIB_PER_CU = 4096

export const SMALLEST_CU = 0.25
export const LARGEST_CU = 7

/** What the sizes of a machine's computes may sum up to, in CU: `overcommit` times what it has, in whole quarters. */
export const roomOf = (cpus: number, memoryBytes: number, overcommit: number): number =>
  Math.floor(4 * overcommit * Math.min(cpus, memoryBytes / (MIB_PER_CU * 2 ** 20))) / 4
