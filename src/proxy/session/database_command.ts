import { PARSE, QUERY } from '../wire/message_types.ts'
import { MESSAGE_HEAD } from '../wire/messages.ts'

/**
 * Leading white space and comments, then a command that Postgres refuses (55006) while other sessions use its database.
 */
const COMMAND =
  /^(?:\s|--[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/)*(?:drop\s+database\b|alter\s+database\b.*\b(?:rename|tablespace)\b|create\s+database\b.*\btemplate\b)/is

const MAX_EXAMINED_BYTES = 512

/** Minimum interval between calls of `onCommand`. Postgres waits ten times as long for other sessions. */
const MIN_INTERVAL_MS = 500

/**
 * Makes a function that examines each chunk from an endpoint's clients.
 * @param onCommand called when a client of the endpoint has sent a command that needs a database to itself
 */
export function watchDatabaseCommands(
  onCommand: (endpointId: string) => void,
): (endpointId: string) => (chunk: Buffer) => void {
  return (endpointId) => {
    let calledAt = -MIN_INTERVAL_MS
    let timer: NodeJS.Timeout | undefined

    function call(): void {
      timer = undefined
      calledAt = performance.now()
      onCommand(endpointId)
    }

    return (chunk) => {
      if (isDatabaseCommand(chunk)) timer ??= setTimeout(call, calledAt + MIN_INTERVAL_MS - performance.now()).unref()
    }
  }
}

/**
 * Whether a chunk from a client begins with such a command. Cheap for chunks that do not. A false positive is harmless.
 */
function isDatabaseCommand(chunk: Buffer): boolean {
  const type = chunk[0]
  if (type !== QUERY && type !== PARSE) return false
  const at = type === QUERY ? MESSAGE_HEAD : chunk.indexOf(0, MESSAGE_HEAD) + 1
  return mayBegin(chunk[at] ?? 0) && COMMAND.test(chunk.toString('latin1', at, at + MAX_EXAMINED_BYTES))
}

/** First byte of drop, alter, create or a comment, or white space. */
function mayBegin(byte: number): boolean {
  const lower = byte | 0x20
  return lower === 0x64 || lower === 0x61 || lower === 0x63 || byte === 0x2f || byte === 0x2d || byte <= 0x20
}
