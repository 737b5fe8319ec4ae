/** Sizes of computes, in CU. */

/** The memory of 1 CU, beside one CPU. */
export const MIB_PER_CU = 4096

export const SMALLEST_CU = 0.25
export const LARGEST_CU = 7
