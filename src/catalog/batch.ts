import type { Writable } from 'node:stream'
import type pg from 'pg'

const corked = new WeakSet<Writable>()

/**
 * Has the statements that are sent on a connection during this turn of the event loop leave in one write. Each write
 * is a system call here, and wakes the server.
 */
export function batchStatements(client: pg.ClientBase): void {
  const { stream } = (client as pg.Client).connection
  if (corked.has(stream)) return
  corked.add(stream)
  stream.cork()
  process.nextTick(() => {
    corked.delete(stream)
    stream.uncork()
  })
}
