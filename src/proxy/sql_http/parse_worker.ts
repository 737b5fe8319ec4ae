import type { IncomingHttpHeaders } from 'node:http'
import { parentPort } from 'node:worker_threads'
import type { Parsed } from './body_parser.ts'
import { Refusal } from './refusal.ts'
import { parseRequest } from './request.ts'

/* The worker thread of body_parser.ts. */

function parsed({ headers, body }: { headers: IncomingHttpHeaders; body: Uint8Array }): Parsed {
  try {
    return { request: parseRequest(headers, Buffer.from(body.buffer, body.byteOffset, body.byteLength)) }
  } catch (error) {
    if (error instanceof Refusal) return { refused: { status: error.status, message: error.message } }
    return { failed: (error as Error).message }
  }
}

parentPort?.on('message', (asked: { headers: IncomingHttpHeaders; body: Uint8Array }) => {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's, which has no origins
  parentPort?.postMessage(parsed(asked))
})
