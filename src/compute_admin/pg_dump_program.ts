import { readSync, writeSync } from 'node:fs'
import { pgDump } from '@electric-sql/pglite-tools/pg_dump'
import type { DumpReply, DumpRequest } from './bundled_pg_dump.ts'
import { createMessageReader } from './message_boundaries.ts'

/*
 * A process of its own that runs pg_dump as WebAssembly. Standard input and output are its connection to the server.
 * libpq blocks the process while it reads and writes them, so they are accessed synchronously. Request and reply go
 * over IPC.
 */

const SERVER_TO_HERE = 0
const HERE_TO_SERVER = 1

const chunk = Buffer.alloc(64 * 1024)

/** Messages of libpq that the server answers: startup, password, query, sync (Postgres manual, "Message Formats"). */
const isAnswered = (type: string) => ['startup', 'p', 'Q', 'S'].includes(type)
/**
 * The server waits for the client after ReadyForQuery and during authentication: 3 and 5 ask for passwords, 10 and 11
 * are SASL.
 */
const isTurn = (type: string, code: number) => type === 'Z' || (type === 'R' && [3, 5, 10, 11].includes(code))

/** The part of a PGlite that `pgDump` uses, over a connection to a real Postgres. */
function overConnection() {
  const requests = createMessageReader('startup')
  const replies = createMessageReader('typed')
  return {
    // pgDump restores settings of the session, which here ends with the process.
    query: async () => ({ rows: [{ search_path: '' }] }),
    exec: async () => [],
    execProtocolRawStream(bytes: Uint8Array, { onRawData }: { onRawData: (bytes: Uint8Array) => void }): void {
      for (let sent = 0; sent < bytes.length;) sent += writeSync(HERE_TO_SERVER, bytes, sent)
      let isOurTurn = true
      requests.read(bytes, (type) => (isOurTurn = !isAnswered(type)))
      // A message may continue in the next chunk.
      while (!isOurTurn || !replies.isBetween()) {
        const length = readSync(SERVER_TO_HERE, chunk)
        // After a fatal error the server closes the connection: libpq sees that at its next read.
        if (length === 0) return
        const received = Uint8Array.from(chunk.subarray(0, length))
        onRawData(received)
        replies.read(received, (type, code) => (isOurTurn = isTurn(type, code)))
      }
    },
  }
}

process.once('message', ({ connection, options }: DumpRequest) => {
  const pg = overConnection() as unknown as Parameters<typeof pgDump>[0]['pg']
  void pgDump({ pg, args: [...options, '--dbname', connection] })
    .then((file) => file.text())
    .then(
      (sql): DumpReply => ({ sql }),
      (error: unknown): DumpReply => ({ complaint: String(error) }),
    )
    .then((reply) => process.send?.(reply, () => process.exit()))
})
