import type { Socket } from 'node:net'
import { withTimeout } from '../race.ts'

/** An error as of a lost connection: a copy that fails with it begins again. */
export const lostBackup = (message: string): Error => Object.assign(new Error(message), { code: 'ECONNRESET' })

/**
 * Reads a socket line by line. The returned function resolves to the next line. Errors: as of a lost connection, when
 * the socket has closed, or after so many milliseconds without a line.
 */
export function socketLines(socket: Socket): (ms?: number) => Promise<string> {
  let text = ''
  let isClosed = false
  let wake = (): void => undefined
  socket.setEncoding('utf8').on('data', (more: string) => {
    text += more
    wake()
  })
  socket.on('close', () => {
    isClosed = true
    wake()
  })
  return async (ms) => {
    for (;;) {
      const end = text.indexOf('\n')
      if (end >= 0) {
        const line = text.slice(0, end)
        text = text.slice(end + 1)
        return line
      }
      if (isClosed) throw lostBackup('the backup that this copy belongs to has ended')
      const more = new Promise<void>((resolve) => (wake = resolve))
      if (ms === undefined) await more
      else if ((await withTimeout(more, ms, 'late')) === 'late') throw lostBackup('the backup does not go on')
    }
  }
}
