import { randomOf } from './random.ts'

const { NEAP_TEST_SHARE, NEAP_TEST_SEED } = process.env

/** The share of the cases of heavy suites that a run tests: 0 to 1. `make whole` tests all. */
export const SHARE = Number(NEAP_TEST_SHARE ?? 1 / 5)
/** What the choice of cases follows from; `make test` draws one and prints it. */
export const SEED = Number(NEAP_TEST_SEED ?? 1)

/** Whether this run tests a case of a heavy suite. `name` is the case's own. */
export const isSampled = (name: string): boolean => randomOf(SEED, name).next() < SHARE
