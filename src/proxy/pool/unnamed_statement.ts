/*
 * A client's unnamed statement. A Parse, Close or Query that changes it makes a version, even for the same text:
 *
 *   pending ──the server answers──▶ current, and the version before it is released
 *      ├──the server fails at it──▶ current: no statement exists
 *      └──the server skips it──▶ dropped: the version before it is current again
 *
 * A later batch may have changed the statement again by then, so each version has its own state.
 */
import { encodeMessage } from '../wire/messages.ts'
import { CLOSE, OF_STATEMENT } from '../wire/message_types.ts'
import type { Expected } from './expected.ts'
import type { PoolServer } from './server_interface.ts'

export interface UnnamedVersion {
  /** False after a Close, a simple query, or a Parse that failed. */
  exists: boolean
  /** Prepares it on another server. Undefined when it does not exist or is too long to be kept. */
  parse: Buffer | undefined
  /** The version before, while this one is pending. */
  was?: UnnamedVersion | undefined
  isDropped?: boolean
}

export interface UnnamedStatement {
  latest: UnnamedVersion
  /** The version at the last `settleUnnamed`. */
  settled: UnnamedVersion
}

/** The name of the unnamed statement or portal in a message. */
export const UNNAMED = Buffer.of(0)
const CLOSE_UNNAMED = encodeMessage(CLOSE, Buffer.of(OF_STATEMENT), UNNAMED)

export function createUnnamed(): UnnamedStatement {
  const version: UnnamedVersion = { exists: false, parse: undefined }
  return { latest: version, settled: version }
}

/** The version according to the responses so far and the pending messages. */
export function currentUnnamed(unnamed: UnnamedStatement): UnnamedVersion {
  while (unnamed.latest.isDropped && unnamed.latest.was) unnamed.latest = unnamed.latest.was
  return unnamed.latest
}

/**
 * Makes a version, for a message that is about to be sent to a server.
 * @param parse prepares it on another server; undefined if it is too long to be kept
 */
export function changeUnnamed(
  unnamed: UnnamedStatement,
  kind: 'query' | 'parse' | 'close',
  server: PoolServer,
  parse?: Buffer,
): Expected {
  const version: UnnamedVersion = { exists: kind === 'parse', parse, was: currentUnnamed(unnamed) }
  unnamed.latest = version
  server.unnamed = version
  return {
    kind,
    onDone() {
      version.was = undefined
    },
    onDropped(failed) {
      if (failed) {
        version.exists = false
        version.parse = version.was = undefined
      } else version.isDropped = true
      if (server.unnamed === version) server.unnamed = undefined
    },
  }
}

/**
 * Returns the message that prepares the client's unnamed statement on a server that has another one, and expects its
 * response. It closes the server's instead if the client has none, or one that is too long to be kept. Returns
 * undefined if the server has the client's.
 */
export function prepareUnnamed(unnamed: UnnamedStatement, server: PoolServer): Buffer | undefined {
  const version = currentUnnamed(unnamed)
  if (server.unnamed === version) return undefined
  server.unnamed = version
  server.expect({
    kind: version.parse ? 'parse' : 'close',
    hidden: true,
    onDropped() {
      if (server.unnamed === version) server.unnamed = undefined
    },
  })
  return version.parse ?? CLOSE_UNNAMED
}

/** Makes the changes final: their messages will not be sent again. */
export function settleUnnamed(unnamed: UnnamedStatement): void {
  unnamed.settled = currentUnnamed(unnamed)
}

/** Undoes the changes since the last `settleUnnamed`. */
export function restartUnnamed(unnamed: UnnamedStatement): void {
  unnamed.latest = unnamed.settled
}
