import { constants } from 'node:crypto'
import { type FSWatcher, watch } from 'node:fs'
import { dirname } from 'node:path'
import type { Server } from 'node:tls'
import type { Logger } from 'pino'
import { messageOf } from '../errors.ts'
import { createEventLoop } from '../event_loop.ts'
import { type Pair, type PairFiles, readPair } from './operator.ts'

/** Interval of checks without a change event: some filesystems send none, nor do directories behind symbolic links. */
const EVERY_MS = 60_000
/** Certificate and key are replaced one after the other. */
const SETTLED_MS = 200

/** Returns the files as they should be now: renewed when due. */
export type CurrentCertificate = () => Promise<PairFiles>

/** Errors: UsageError (the files are unusable). */
export async function readCertificate(current: CurrentCertificate) {
  return secure(await readPair(await current()))
}

/** Renegotiation would let clients of TLS 1.2 demand one handshake after the other on one connection. */
const secure = (pair: Pair) =>
  ({ ...pair, minVersion: 'TLSv1.2', secureOptions: constants.SSL_OP_NO_RENEGOTIATION }) as const

/**
 * Makes servers show new clients the certificate in the files, shortly after a change, however they were replaced.
 * While the files are unusable, the certificate in use stays, and the log says why. Open connections continue. Returns
 * a function that stops this.
 * @param used the certificate that they show now
 */
export function followCertificate(
  servers: readonly Server[],
  current: CurrentCertificate,
  used: Pair,
  log: Logger,
  everyMs = EVERY_MS,
): () => void {
  let shown = used
  let complaint: string | undefined
  let settling: NodeJS.Timeout | undefined
  let watchers: FSWatcher[] = []
  let stopped = false

  const loop = createEventLoop({
    async look() {
      const files = await current()
      if (stopped) return everyMs
      // Before the files are read: a change meanwhile is seen.
      watchAnew(new Set([files.certFile, files.keyFile].map(dirname)))
      const found = secure(await readPair(files))
      complaint = undefined
      if (!found.cert.equals(shown.cert) || !found.key.equals(shown.key)) show(found, files)
      return everyMs
    },
    onError(error) {
      if (messageOf(error) === complaint) return
      complaint = messageOf(error)
      log.error({ err: error }, 'the certificate was rejected; the one in use stays')
    },
    retry: { firstMs: everyMs, maxMs: everyMs },
  })

  function show(found: ReturnType<typeof secure>, { certFile }: PairFiles): void {
    for (const server of servers) server.setSecureContext(found)
    shown = found
    log.info({ file: certFile }, 'new connections get the renewed certificate')
  }

  /** Directories, since a replaced file is another one; renewed each time, since a directory may be replaced too. */
  function watchAnew(directories: ReadonlySet<string>): void {
    unwatch()
    for (const directory of directories)
      try {
        const watcher = watch(directory, { persistent: false }, changed)
        watchers.push(watcher)
        watcher.on('error', () => watcher.close())
      } catch (error) {
        log.debug({ err: error }, 'a certificate is looked at each minute only')
      }
  }

  function unwatch(): void {
    for (const watcher of watchers) watcher.close()
    watchers = []
  }

  function changed(): void {
    clearTimeout(settling)
    settling = setTimeout(loop.wake, SETTLED_MS)
  }

  loop.wake()
  return () => {
    stopped = true
    clearTimeout(settling)
    unwatch()
    void loop.stop()
  }
}
