import { MESSAGE_HEAD } from './messages.ts'
import { PARSE, QUERY } from './message_types.ts'

/** Commands that Postgres refuses (55006) while others are connected to the database that they are about, behind white space and comments. */
const COMMAND =
  /^(?:\s|--[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*(?:drop\s+database\b|alter\s+database\b.*\b(?:rename|tablespace)\b|create\s+database\b.*\btemplate\b)/is

/** So much of a text is looked at. */
const LOOKED_AT = 512

/**
 * Whether what came of a client begins with such a command: a look that costs next to nothing where it begins with anything else. What is
 * taken for one that is none does no harm.
 */
export function isDatabaseCommand(chunk: Buffer): boolean {
  const type = chunk[0]
  if (type !== QUERY && type !== PARSE) return false
  const at = type === QUERY ? MESSAGE_HEAD : chunk.indexOf(0, MESSAGE_HEAD) + 1
  return mayBegin(chunk[at] ?? 0) && COMMAND.test(chunk.toString('latin1', at, at + LOOKED_AT))
}

/** D, A, C, the beginning of a comment, or white space. */
function mayBegin(byte: number): boolean {
  const lower = byte | 0x20
  return lower === 0x64 || lower === 0x61 || lower === 0x63 || byte === 0x2f || byte === 0x2d || byte <= 0x20
}
