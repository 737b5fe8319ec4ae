const RESET = 'SET SESSION AUTHORIZATION DEFAULT;RESET ROLE;RESET ALL'
const DISCARD_TEMP = 'DISCARD TEMP'
const DISCARD_ALL = 'DISCARD ALL'

/**
 * What a command leaves behind in its session, by the tag it completes with, and what clears that up (Postgres manual, DISCARD): the next
 * client of the server shall not find it. What a function does, such as taking an advisory lock, no tag tells.
 */
const CLEARED_BY: Readonly<Record<string, string>> = {
  SET: RESET,
  RESET,
  'CREATE TABLE': DISCARD_TEMP,
  'CREATE TABLE AS': DISCARD_TEMP,
  'CREATE SEQUENCE': DISCARD_TEMP,
  'CREATE VIEW': DISCARD_TEMP,
  PREPARE: DISCARD_ALL,
  LISTEN: DISCARD_ALL,
  LOAD: DISCARD_ALL,
  'DECLARE CURSOR': DISCARD_ALL,
}

/** The statement that clears up after a command and those before it; nothing where they left nothing behind. */
export function clearing(tag: string, before: string | undefined): string | undefined {
  const now = CLEARED_BY[tag]
  if (now === undefined || before === DISCARD_ALL || before === now) return before
  return before === undefined ? now : DISCARD_ALL
}
