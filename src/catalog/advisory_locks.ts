/** The keys of all advisory locks in the catalog: one place, so that no two locks share a key. */

/** Held while migrations are applied. */
export const MIGRATION_LOCK = 6_327_001
/** Held while a host registers. */
export const REGISTRATION_LOCK = 6_327_002
/** Held while secrets are rotated. */
export const ROTATION_LOCK = 6_327_003
/** Held while notices are renewed. */
export const NOTICES_LOCK = 6_327_004
/** First of the two keys of the lock that a live proxy holds; the second is its number. */
export const PROXY_LOCK_CLASS = 7301
/*
 * 7302 is the first key of the locks that order ends of a project's operations and records of what stands behind them
 * (migrations/0040_queues.sql); the second is a hash of the project's id.
 */
/** First of the two keys of the lock that a change of an email holds; the second is the email's hash. */
export const EMAIL_LOCK_CLASS = 7303
/** First of the two keys of the lock that a worker holds during a drill; the second is its host's hash. */
export const DRILL_LOCK_CLASS = 7304
