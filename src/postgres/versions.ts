/** The major versions of Postgres that computes can have, where they are installed. */
export const PG_VERSIONS = [15, 16, 17, 18] as const

/** The version of a project that is created without one. */
export const DEFAULT_PG_VERSION = 18
